"""Embeddings that an API has answered, on disk as soon as they arrive.

An answer may have cost money and a run may die half-way, so that, unlike the cache of texts, a place that
cannot be written is an error. The file may be deleted at any time.
"""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import numpy as np

from meantime.encoders.base import Floats
from meantime.encoders.cache import cache_file
from meantime.errors import MeantimeError

TABLE = (
    "CREATE TABLE IF NOT EXISTS vectors "
    "(encoder TEXT, payload BLOB, embedding BLOB, PRIMARY KEY (encoder, payload)) WITHOUT ROWID"
)
WAIT = 30.0  # seconds for another process that is writing


class VectorCache:
    """The embeddings of one encoder by the hash of what was embedded. Any thread may ask."""

    def __init__(self, identity: str, dim: int) -> None:
        self.identity = identity
        self.dim = dim
        self.path = cache_file().with_name("api.sqlite")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._open()) as db, db:
                db.execute("PRAGMA journal_mode=WAL")
                db.execute(TABLE)
        except (OSError, sqlite3.Error) as error:
            raise _unusable(self.path, error) from error

    def __reduce__(self) -> tuple[type["VectorCache"], tuple[str, int]]:
        return VectorCache, (self.identity, self.dim)  # another machine has a place of its own

    def read(self, keys: Iterable[bytes]) -> dict[bytes, Floats]:
        """What is known of these keys."""
        found: dict[bytes, Floats] = {}
        query = "SELECT embedding FROM vectors WHERE encoder = ? AND payload = ?"
        try:
            with closing(self._open()) as db:
                for key in keys:
                    row = db.execute(query, (self.identity, key)).fetchone()
                    if row is None or len(row[0]) != 4 * self.dim:
                        continue
                    vector = np.frombuffer(row[0], "<f4").astype(np.float32)
                    if vector.any():  # zeros, which were once let in, are asked for again
                        found[key] = vector
        except sqlite3.Error as error:
            raise _unusable(self.path, error) from error
        return found

    def write(self, rows: dict[bytes, Floats]) -> None:
        """Add them, all or none."""
        records = [(self.identity, key, row.astype("<f4").tobytes()) for key, row in rows.items()]
        try:
            with closing(self._open()) as db, db:
                db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", records)
        except sqlite3.Error as error:
            raise _unusable(self.path, error) from error

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=WAIT)


def _unusable(path: Path, error: Exception) -> MeantimeError:
    return MeantimeError(
        f"the cache of API answers at {str(path)!r} cannot be used: {error}. Delete it if it is damaged, let "
        "MEANTIME_CACHE name a directory that can be written, or go without by cache=False"
    )
