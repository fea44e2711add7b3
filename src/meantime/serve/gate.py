"""Who gets in: so many requests and so many bytes at once; the next is told when to come again."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from meantime.serve.errors import overloaded


class Gate:
    """Counts requests from their first byte to their answer. Lives on the event loop, so it needs no lock."""

    def __init__(self, most: int, most_bytes: int, wait: Callable[[], float]) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.inside = 0
        self.bytes = 0
        self._wait = wait  # seconds until what is queued now is done

    @contextmanager
    def enter(self) -> Iterator["Ticket"]:
        """Let a request in, or refuse it."""
        if self.inside >= self.most:
            raise self.refusal()
        self.inside += 1
        ticket = Ticket(self)
        try:
            yield ticket
        finally:
            self.inside -= 1
            self.bytes -= ticket.bytes

    def refusal(self) -> Exception:
        """Return the error of a full house."""
        return overloaded(min(60, max(1, math.ceil(self._wait()))))


class Ticket:
    """What one request holds."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.bytes = 0

    def hold(self, count: int) -> None:
        """Account for bytes that were received."""
        if self.gate.bytes + count > self.gate.most_bytes:
            raise self.gate.refusal()
        self.bytes += count
        self.gate.bytes += count
