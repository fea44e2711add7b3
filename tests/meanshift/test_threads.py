"""Images shared among threads: the same answers, and the process's settings as they were."""

import multiprocessing
import os
import sys
import threading

import numpy as np
import pytest
import reference
import torch
from authors_mta import solve_one
from threadpoolctl import ThreadpoolController

from meantime import mta
from meantime.meanshift.threads import in_turn, on_one_core, sharing, side_by_side


def products():
    """How many cores NumPy's products take; SciPy and PyTorch bring libraries of their own."""
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return [lib.num_threads for lib in found if "numpy" in lib.filepath]


def test_the_library_of_products_is_seen():
    assert products()


@pytest.fixture
def cores(monkeypatch):
    return lambda count: monkeypatch.setenv("OMP_NUM_THREADS", str(count))


def test_a_batch_gives_the_same_on_any_number_of_threads(cores, monkeypatch):
    module = sys.modules["meantime.meanshift.mta"]  # by its name one gets the function
    monkeypatch.setattr(module, "WORTH_THREADS", 0)
    monkeypatch.setattr("meantime.meanshift.relations.CACHE_BYTES", 4 * 16 * 40 * 2)  # two images at a time
    rng = np.random.default_rng(0)
    views, classes = rng.standard_normal((13, 16, 12)), rng.standard_normal((40, 12))
    cores(1)
    expected = mta(views, classes)
    names, solve = set(), module._solve_chunk
    monkeypatch.setattr(module, "_solve_chunk", lambda *a: (names.add(threading.current_thread().name), solve(*a))[1])
    for count in (2, 3, 50):
        names.clear()
        cores(count)
        got = mta(views, classes)
        assert names
        assert threading.main_thread().name not in names
        np.testing.assert_allclose(got.logits, expected.logits, rtol=1e-6)
        np.testing.assert_allclose(got.inlierness, expected.inlierness, atol=1e-9)


def test_parts_come_back_in_order_from_several_threads():
    both = threading.Barrier(2, timeout=10)

    def work(i):
        if i < 2:
            both.wait()  # passes only if two parts are in work at once
        return i * i

    with sharing(3) as threads:
        assert side_by_side(work, range(7), threads) == [i * i for i in range(7)]


def test_an_error_in_a_thread_is_raised():
    with pytest.raises(ZeroDivisionError), sharing(2) as threads:
        side_by_side(lambda i: 1 / i, range(3), threads)


def test_products_take_one_core_inside_and_all_again_outside():
    before = products()
    with sharing(3) as threads:
        assert threads == 3
        assert products() == [1] * len(before)
    assert products() == before
    with sharing(1) as threads:
        assert threads == 1
        assert products() == before


def test_of_callers_that_overlap_one_shares_and_the_setting_is_as_it_was():
    before, inside, leave = products(), threading.Event(), threading.Event()

    def slow():
        with sharing(2):
            inside.set()
            assert leave.wait(10)

    first = threading.Thread(target=slow)
    first.start()
    assert inside.wait(10)
    with sharing(2) as threads:  # begins while the first is at work, and ends after it
        assert threads == 1
        leave.set()
        first.join()
    assert products() == before
    with sharing(2) as threads:
        assert threads == 2
    assert products() == before


def test_callers_that_overlap_take_a_core_each():
    before = products()
    with sharing(1):
        assert products() == before
        with sharing(1) as threads:  # as a thread of the same process would
            assert threads == 1
            assert products() == [1] * len(before)
    assert products() == before


def test_on_one_core_nobody_shares():
    before = products()
    with on_one_core():
        assert products() == [1] * len(before)
        with sharing(4) as threads:
            assert threads == 1
    assert products() == before


def test_an_error_inside_leaves_the_setting_as_it_was():
    before = products()
    with pytest.raises(ZeroDivisionError), sharing(2):
        _ = 1 / 0
    assert products() == before


def test_the_baseline_of_the_benchmark_answers_as_the_official_variant():
    for seed in range(5):
        views, classes = reference.problem(seed, n=20)
        views, classes = (torch.nn.functional.normalize(torch.tensor(x), dim=-1) for x in (views, classes))
        got = solve_one(views, classes, 10.0)[0]
        torch.testing.assert_close(got, mta(views, classes, logit_scale=10.0).logits, atol=1e-4, rtol=0)


def test_whoever_keeps_to_one_core_keeps_to_it_also_when_another_leaves():
    before, inside, leave = products(), threading.Event(), threading.Event()

    def another():
        with on_one_core():
            inside.set()
            assert leave.wait(10)

    first = threading.Thread(target=another)
    first.start()
    assert inside.wait(10)
    with on_one_core():
        leave.set()
        first.join()
        assert products() == [1] * len(before)
        with sharing(4) as threads:
            assert threads == 1
    assert products() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_is_forked_while_others_solve_solves_too():
    rng = np.random.default_rng(0)
    views, classes = rng.standard_normal((16, 12)), rng.standard_normal((40, 12))
    expected, before = mta(views, classes).logits, products()
    answers = multiprocessing.get_context("fork").SimpleQueue()

    def child():
        answers.put((mta(views, classes).logits, products()))

    with on_one_core(), in_turn(1):  # held by this process at the moment of the fork
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(30)
        ended = process.exitcode == 0
        process.kill()
    assert ended
    got, cores_there = answers.get()
    np.testing.assert_allclose(got, expected)
    assert cores_there == before


@pytest.mark.parametrize("role", ["classes", "reader"])
def test_a_callers_own_head_is_called_by_the_callers_thread(role, monkeypatch):
    monkeypatch.setattr(sys.modules["meantime.meanshift.mta"], "WORTH_THREADS", 0)
    rng = np.random.default_rng(0)
    views, classes = rng.standard_normal((13, 16, 12)), rng.standard_normal((40, 12))
    seen = set()

    def head(x):
        seen.add(threading.current_thread())
        return 10 * x @ classes.T

    mta(views, **{"classes": classes, role: head})
    assert seen == {threading.current_thread()}
