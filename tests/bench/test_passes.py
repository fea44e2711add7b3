"""One pass over a store gives what each method gives by itself."""

import numpy as np
import pytest

import meantime as mt
from meantime.bench.declare import Row
from meantime.bench.heads import Heads
from meantime.bench.passes import Job, Search, run_pass, twin_names
from meantime.registry import training_free
from meantime.store import Store

METHODS = list(training_free())


def jobs_for(store, names, n=6, subset=None):
    heads = Heads()
    return {name: Job(name, mt.methods()[name], n, heads.of(store, Row(name, name)), subset) for name in names}


def direct(store, name, n=6):
    """The method on all images at once, read and judged by plain code."""
    (batch,) = store.batches(1000, views=n)
    heads = {
        "text": mt.TextHead(store.texts.single, store.logit_scale),
        "ensemble": mt.TextHead(store.texts.ensemble, store.logit_scale),
    }
    return mt.methods()[name](batch.views, heads).logits, batch


@pytest.mark.parametrize("name", METHODS)
def test_predictions_are_the_methods_own(make_store, name):
    store = make_store()
    found = run_pass(store, jobs_for(store, METHODS))[0][name]
    logits, batch = direct(store, name)
    order = np.argsort(-logits, axis=-1, kind="stable")[:, :5]
    np.testing.assert_array_equal(found.best, order)
    np.testing.assert_array_equal(found.index, batch.index)
    assert found.keys == batch.keys
    p = np.exp(logits - logits.max(-1, keepdims=True))
    np.testing.assert_allclose(found.confidence, (p / p.sum(-1, keepdims=True)).max(-1), rtol=1e-4)
    names = np.arange(len(store.class_names))
    np.testing.assert_array_equal(found.hits, names[order[:, 0]] == names[batch.labels])
    np.testing.assert_array_equal(found.hits5, (names[order] == names[batch.labels][:, None]).any(axis=1))


@pytest.mark.parametrize(("dataset", "right"), [("mine", True), ("imagenet", False)])
def test_a_shared_name_is_right_in_ones_own_data_and_not_in_the_papers(make_store, dataset, right):
    store = make_store(dataset, images=70)
    p = run_pass(store, jobs_for(store, ["clip"]))[0]["clip"]
    twins = (p.labels == 2) | (p.labels == 3)
    other = twins & (p.best[:, 0] != p.labels) & np.isin(p.best[:, 0], [2, 3])
    assert other.any()
    assert (p.hits[other] == right).all()
    assert twin_names(store) == ([] if right else ["missile"])


def test_the_store_is_read_once_and_mta_solved_once_for_two_readers(make_store, monkeypatch):
    store = make_store()
    reads, solved = [], []
    batches = Store.batches
    monkeypatch.setattr(Store, "batches", lambda self, *a, **k: reads.append(1) or batches(self, *a, **k))
    method = mt.methods()["mta"]

    def counted(views, head, reader=None):
        solved.append(len(views))
        return method.aggregator(views, head, reader)

    jobs = jobs_for(store, METHODS)
    for name in ("mta", "mta+e"):
        base = jobs[name].method
        jobs[name] = Job(name, mt.Method(counted, "", base.head, base.reader), 6, jobs[name].heads)
    found = run_pass(store, jobs)[0]
    assert len(reads) == 1
    assert solved == [24]
    np.testing.assert_array_equal(found["mta+e"].best[:, 0], direct(store, "mta+e")[0].argmax(-1))


def test_logits_of_the_views_are_computed_once(make_store):
    class Counting(mt.TextHead):
        calls = 0

        def __call__(self, x):
            Counting.calls += x.ndim == 3
            return super().__call__(x)

    store = make_store()
    head = Counting(store.texts.single, 10.0)
    names = ["confidence", "confidence-mode", "zero"]
    run_pass(store, {n: Job(n, mt.methods()[n], 6, {"text": head}) for n in names})
    assert Counting.calls == 1


def test_fewer_views_and_a_subset_in_the_same_pass(make_store):
    store = make_store()
    chosen = np.array([3, 11, 20])
    jobs = {
        (n, s): next(iter(jobs_for(store, ["mta"], n, chosen if s else None).values()))
        for n in (1, 4, 6)
        for s in (False, True)
    }
    found = run_pass(store, jobs)[0]
    for (n, part), p in found.items():
        best = direct(store, "mta", n)[0].argmax(-1)
        np.testing.assert_array_equal(p.best[:, 0], best[chosen] if part else best)
    assert found[4, True].index.tolist() == [3, 11, 20]


@pytest.mark.parametrize("affinity", ["head", "vision"])
def test_a_search_gives_the_accuracy_of_each_setting(make_store, affinity):
    store = make_store()
    settings = ((4.0, 0.2), (0.0, 1.0), (1.0, float("inf")))
    head = mt.TextHead(store.texts.single, 10.0)
    found = run_pass(store, {}, {"s": Search(settings, affinity, 6, head)})[1]["s"]
    (batch,) = store.batches(100)
    names = np.arange(len(store.class_names))
    for (lambda_, lambda_y), accuracy in zip(settings, found, strict=True):
        r = mt.mta(batch.views, head, lambda_=lambda_, lambda_y=lambda_y, affinity=affinity)
        assert accuracy == pytest.approx(100 * np.mean(names[r.labels] == names[batch.labels]))
