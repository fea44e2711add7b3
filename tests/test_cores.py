import os

import pytest

from meantime import cores


@pytest.fixture(autouse=True)
def eight(monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(cores, "QUOTA", tmp_path / "cpu.max")


@pytest.mark.parametrize(("quota", "expected"), [(None, 8), ("max 100000", 8), ("150000 100000", 2), ("50 100", 1)])
def test_a_quota_is_kept(quota, expected):
    if quota is not None:
        cores.QUOTA.write_text(quota + "\n")
    assert cores.available_cores() == expected


@pytest.mark.parametrize(("asked", "expected"), [("3", 3), ("2,4", 2), ("0", 8), ("many", 8)])
def test_omp_num_threads_is_heard(asked, expected, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert cores.available_cores() == expected


def test_where_there_is_no_affinity_the_machine_counts(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert cores.available_cores() == 6
