"""The extra `fast`: compiled or not, the answers are the same; and without Numba nothing is missing."""

import os
import subprocess
import sys

import numpy as np
import pytest

from meantime import MeantimeError, mta
from meantime.meanshift.compiled import exponentials
from meantime.meanshift.fast import compiled


@pytest.fixture
def without(monkeypatch):
    """Forget what is compiled, in both places that ask for it."""

    def forget():
        for name in ("mta", "affinity"):
            monkeypatch.setattr(sys.modules[f"meantime.meanshift.{name}"], "compiled", lambda: None)

    return forget


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 1e-9)])
def test_answers_are_those_of_numpy(without, dtype, tolerance):
    rng = np.random.default_rng(0)
    base, classes = rng.standard_normal((40, 1, 32)), rng.standard_normal((300, 32)).astype(dtype)
    views = (base + rng.standard_normal((40, 16, 32))).astype(
        dtype
    )  # 640 rows of logits: one after the other in memory
    assert compiled() is not None
    fast = mta(views, classes, logit_scale=30)
    without()
    plain = mta(views, classes, logit_scale=30)
    np.testing.assert_array_equal(fast.labels, plain.labels)
    for field in ("mode", "inlierness", "logits", "objective"):
        np.testing.assert_allclose(getattr(fast, field), getattr(plain, field), rtol=tolerance, atol=tolerance)


def test_exponentials_are_as_exact_as_float32():
    x = np.concatenate([-np.linspace(0, 86, 500_000), -np.geomspace(1e-30, 1, 1000)]).astype(np.float32)
    e, whole = exponentials(x[None], np.zeros((1, 1), np.float32))
    exact = np.exp(x.astype(float))
    assert np.abs(e[0] / exact - 1).max() < 3e-7
    assert e[0, 0] == 1
    np.testing.assert_allclose(whole[0, 0], exact.sum(), rtol=1e-5)


def test_exponentials_of_far_less_than_the_largest_vanish():
    e, whole = exponentials(np.array([[5, -np.inf, -1e30, 5]], np.float32), np.array([[5]], np.float32))
    assert (e[0, 1:3] < 1e-37).all()
    assert whole[0, 0] == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_logit_that_is_no_number_is_still_found(bad):
    def head(x):
        logits = np.ones((*x.shape[:-1], 7), np.float32)
        logits[..., 1, 3] = bad
        return logits

    with pytest.raises(MeantimeError, match="the head gave NaN or infinity"):
        mta(np.random.default_rng(0).standard_normal((9, 8, 5)).astype(np.float32), head)


@pytest.mark.parametrize("error", ["ImportError('Numba needs another NumPy')", "RuntimeError('no locator available')"])
def test_without_numba_numpy_does_it(error):
    code = f"""
import builtins
real = builtins.__import__
def no_numba(name, *rest):
    if name == "numba":
        raise {error}
    return real(name, *rest)
builtins.__import__ = no_numba
import numpy as np, meantime as mt
from meantime.meanshift.fast import compiled
rng = np.random.default_rng(0)
print(compiled(), mt.mta(rng.standard_normal((3, 8, 5)), np.eye(5)).labels.shape)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["None", "(3,)"], run.stderr


CHILD = """
import os, signal, sys, threading, time
import numpy as np, meantime as mt
views, classes = np.random.default_rng(0).standard_normal((2, 8, 5)), np.eye(5)
if {solve_first}:
    mt.mta(views, classes)
thread = threading.Thread(target=lambda: mt.mta(views, classes))
thread.start()
time.sleep(0.1)
if os.fork() == 0:
    signal.alarm(60)
    mt.mta(views[0], classes)
    os._exit(0)
thread.join()
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("solve_first", [False, True])
def test_a_process_that_is_forked_while_it_is_loaded_can_solve(solve_first):
    run = subprocess.run([sys.executable, "-c", CHILD.format(solve_first=solve_first)], capture_output=True, text=True)
    assert run.stdout.strip() == "0", run.stderr


def test_what_is_damaged_on_disk_is_done_by_numpy(tmp_path):
    code = (
        "import numpy as np, meantime as mt; from meantime.meanshift.fast import compiled;"
        "print(mt.mta(np.ones((4, 3)), np.eye(3)).inlierness.sum().round(6), compiled() is None)"
    )
    answers = []
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(run.stdout.split())
        for file in tmp_path.rglob("*.nbc"):
            file.write_bytes(file.read_bytes()[:20])
    assert answers == [["1.0", "False"], ["1.0", "True"]]


def test_numba_is_not_loaded_before_it_is_needed():
    code = "import sys, meantime; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
