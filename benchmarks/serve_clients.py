"""A service in a process of its own, and many clients at once."""

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import urllib3


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Process:
    """`meantime serve`, as a user starts it."""

    def __init__(self, port=None, *arguments, **environment):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-c", "from meantime.cli import main; main()", "serve", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, "--log-level", "warning", *arguments],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_until_ready(self, seconds=120):
        """Return this, once it can answer."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, self.process.stdout.read()
            try:
                if urllib3.request("GET", f"{self.url}/readyz", retries=False, timeout=5).status == 200:
                    return self
            except urllib3.exceptions.HTTPError:
                pass
            time.sleep(0.02)
        raise AssertionError("the service did not become ready")

    def memory(self):
        """Resident bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def gauge(self, name):
        """Return one number of its metrics."""
        lines = urllib3.request("GET", f"{self.url}/metrics").data.decode().splitlines()
        return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])

    def stop(self, how=signal.SIGTERM):
        """Return the exit status and what was printed."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(90), self.process.stdout.read()


@contextmanager
def started(*arguments, **environment):
    service = Process(None, *arguments, **environment)
    try:
        yield service.wait_until_ready()
    finally:
        service.stop(signal.SIGKILL)


@dataclass
class Load:
    """What many clients saw."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter = field(default_factory=Counter)
    answers: list = field(default_factory=list)
    elapsed: float = 0.0

    def quantile(self, share):
        """Return the seconds below which that share of the answers came."""
        return (
            statistics.quantiles(self.seconds, n=100)[round(100 * share) - 1]
            if len(self.seconds) > 1
            else self.seconds[0]
        )


def run_clients(url, requests, clients, stop=None):
    """Send each of (path, headers, body) once, from so many clients with a connection each, or until ``stop``."""
    load, lock, pending = Load(), threading.Lock(), list(enumerate(requests))[::-1]
    pool = urllib3.PoolManager(maxsize=clients, retries=False, timeout=120)

    def client():
        while not (stop is not None and stop.is_set()):
            with lock:
                if not pending:
                    return
                index, (path, headers, body) = pending.pop()
            began = time.perf_counter()
            try:
                answer = pool.request("POST", url + path, headers=headers, body=body)
                status, data = answer.status, answer.data
            except urllib3.exceptions.HTTPError as error:
                status, data = type(error).__name__, None
            with lock:
                load.seconds.append(time.perf_counter() - began)
                load.statuses[status] += 1
                load.answers.append((index, status, json.loads(data) if data and status == 200 else data))

    began = time.perf_counter()
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    load.elapsed = time.perf_counter() - began
    pool.clear()
    return load
