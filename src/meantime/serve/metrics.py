"""Counters in Prometheus' text form: a few lines, so no library."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Requests by address and status, and how long they took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()

    def count(self, method: str, path: str, status: int, seconds: float) -> None:
        """Add one request; ``path`` is the address as declared, so that their number is bounded."""
        with self._lock:
            self._requests[method, path, status] += 1
            self._seconds[path] += seconds  # type: ignore[assignment]
            buckets = self._buckets.setdefault(path, [0] * (len(BUCKETS) + 1))
            buckets[bisect_left(BUCKETS, seconds)] += 1

    def text(self, gauges: Mapping[str, tuple[str, str, float]]) -> str:
        """Return all of them, and ``gauges``: name -> (type, help, value)."""
        lines = ["# HELP meantime_requests_total Requests answered.", "# TYPE meantime_requests_total counter"]
        with self._lock:
            for (method, path, status), count in sorted(self._requests.items()):
                labels = f'method="{method}",path="{path}",status="{status}"'
                lines.append(f"meantime_requests_total{{{labels}}} {count}")
            lines += [
                "# HELP meantime_request_seconds From the headers to the answer.",
                "# TYPE meantime_request_seconds histogram",
            ]
            for path, buckets in sorted(self._buckets.items()):
                total = 0
                for edge, count in zip((*BUCKETS, "+Inf"), buckets, strict=True):
                    total += count
                    lines.append(f'meantime_request_seconds_bucket{{path="{path}",le="{edge}"}} {total}')
                lines.append(f'meantime_request_seconds_sum{{path="{path}"}} {self._seconds[path]:.6f}')
                lines.append(f'meantime_request_seconds_count{{path="{path}"}} {total}')
        for name, (kind, help_, value) in gauges.items():
            lines += [f"# HELP {name} {help_}", f"# TYPE {name} {kind}", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"
