"""How many cores there are to use, which is not always how many the machine has."""

import os
from pathlib import Path

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # "200000 100000": two cores' worth of time, as containers are given it


def available_cores() -> int:
    """Return the cores of this process: fewer than the machine's where OMP_NUM_THREADS, affinity or a quota says so."""
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if asked.isdecimal() and int(asked):  # whoever divides a machine among processes sets it
        return int(asked)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        time, period = QUOTA.read_text().split()
        cores = min(cores, -(-int(time) // int(period)))
    except (OSError, ValueError):  # no such file, or "max"
        pass
    return max(1, cores)
