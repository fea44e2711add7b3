"""Timing side by side: every contender takes its turn in each round, and only ratios are reported."""

import time
from collections.abc import Callable, Mapping
from random import Random
from statistics import median

PAUSE = 0.2


def race(contenders: Mapping[str, Callable[[], object]], rounds: int = 7, repeat: int = 1) -> dict[str, float]:
    """Return the median seconds of each contender; a first, untimed round warms all of them up.

    Threads of the contender before, which libraries leave spinning for a while, are given time to fall asleep: they
    slowed down the baselines most. And each round has an order of its own, since processors tire.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    order = Random(0)
    for turn in range(rounds + 1):
        for name, run in order.sample(list(contenders.items()), len(contenders)):
            time.sleep(PAUSE)
            run()
            start = time.perf_counter()
            for _ in range(repeat):
                run()
            if turn:
                seconds[name].append((time.perf_counter() - start) / repeat)
    return {name: median(times) for name, times in seconds.items()}
