"""Classes that a client sends once and then names: in memory only, forgotten when others need the room.

They are found by a hash of all that they are, so nobody can put others in their place.
"""

import hashlib
import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass

from meantime.serve.arrays import Floats
from meantime.serve.errors import ApiError
from meantime.serve.writing import to_json


@dataclass(frozen=True)
class Classes:
    """Unit embeddings (K, d), and what they are called if that was told."""

    rows: Floats
    names: tuple[str, ...] | None

    @property
    def id(self) -> str:
        """A hash that nobody guesses who does not have them."""
        about = to_json([self.rows.shape, self.names])
        return hashlib.sha256(about + b"\0" + self.rows.tobytes()).hexdigest()

    @property
    def bytes(self) -> int:
        """What they take of the memory."""
        return self.rows.nbytes + sum(map(sys.getsizeof, self.names or ()))


class Kept:
    """The classes used last, up to a number and a number of bytes. Any thread may ask."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.bytes = 0
        self._entries: OrderedDict[str, Classes] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def keep(self, classes: Classes) -> str:
        """Return the id under which they are found, until so many others have been kept or used."""
        if classes.bytes > self.most_bytes:
            raise ApiError(413, f"these classes take {classes.bytes} bytes; at most {self.most_bytes} are kept")
        key = classes.id
        with self._lock:
            if key not in self._entries:
                self._entries[key] = classes
                self.bytes += classes.bytes
            self._entries.move_to_end(key)
            while len(self._entries) > self.most or self.bytes > self.most_bytes:
                self.bytes -= self._entries.popitem(last=False)[1].bytes
        return key

    def find(self, key: str) -> Classes:
        """Return the classes, and count this as a use."""
        with self._lock:
            if key not in self._entries:
                raise ApiError(404, "no classes are kept under this id: send them to POST /v1/classes")
            self._entries.move_to_end(key)
            return self._entries[key]
