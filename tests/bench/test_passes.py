"""One pass over a store gives what each method gives by itself."""

import numpy as np
import pytest
import torch
from tiny_prompts import tiny_prompter

import meantime as mt
from meantime import MeantimeError
from meantime.aggregators import Aggregate
from meantime.bench.declare import Row
from meantime.bench.heads import Heads
from meantime.bench.own import rows
from meantime.bench.passes import Job, Remembering, Search, run_pass, twin_names
from meantime.heads.tpt import TPTHead
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


def test_a_head_tuned_on_each_image_is_asked_image_by_image(make_store):
    """Also where there are as many images as views, so that one could be taken for the other."""
    store = make_store(images=24, n=24, dim=16)
    head = TPTHead(tiny_prompter(dtype=torch.float32), 10.0)
    method = mt.Method(mt.methods()["mta"].aggregator, "", "tpt", "tpt")
    found = run_pass(store, {"mta@tpt": Job("mta@tpt", method, 24, {"tpt": head})})[0]["mta@tpt"]
    (batch,) = store.batches(100, views=24)
    for i, views in enumerate(batch.views):
        expected = method(views, {"tpt": head}).logits
        np.testing.assert_array_equal(found.best[i], np.argsort(-expected, kind="stable")[:5])


def test_mta_is_given_the_logits_that_are_there(make_store):
    (batch,) = make_store().batches(100)
    calls = []

    def head(x):
        calls.append(x.shape)
        return 10 * x @ np.eye(x.shape[-1])

    head.adapt = lambda views: head
    head.n_classes = batch.views.shape[-1]
    remembering = Remembering(head, batch.views)
    logits = remembering(batch.views)
    for part in (batch.views[3:9], batch.views[:1], batch.views.reshape(batch.views.shape)):
        assert np.shares_memory(remembering(part), logits)
    np.testing.assert_array_equal(remembering(batch.views[3:9]), logits[3:9])
    assert len(calls) == 1
    for other in (batch.views.copy(), batch.views[:, :3], batch.views[:, 0], batch.views[::2]):
        np.testing.assert_allclose(remembering(other), 10 * other)
    assert len(calls) == 5


def test_a_store_of_which_nothing_was_asked(make_store, bench):
    (measured,) = rows(bench([make_store("mine", ensemble=False)]), only=["clip+e"])
    assert not measured.predictions


def _returning(make):
    def aggregator(views, head, reader=None):
        return make(views, (reader or head)(views[:, 0]))

    return aggregator


def _broken(views, head, reader=None):
    raise KeyError("centre")


@pytest.mark.parametrize(
    ("aggregator", "message"),
    [
        (_broken, "'mine' failed: KeyError: 'centre'"),
        (_returning(lambda x, y: y), "'mine' failed: its aggregator returned ndarray; expected Aggregate"),
        (
            _returning(lambda x, y: Aggregate(y[:, :3], x[..., 0], None)),
            r"logits of shape \(24, 3\); expected \(24, 7\)",
        ),
        (_returning(lambda x, y: Aggregate(y, x[..., 0], x)), r"mode of shape \(24, 6, 8\); expected \(24, 8\)"),
        (_returning(lambda x, y: Aggregate(y * np.nan, x[..., 0], None)), "'mine' failed: .* not numbers"),
    ],
)
def test_a_method_that_fails_is_named(make_store, aggregator, message):
    store = make_store()
    jobs = jobs_for(store, ["clip"])
    jobs["mine"] = Job("mine", mt.Method(aggregator, "mine"), 6, jobs["clip"].heads)
    with pytest.raises(MeantimeError, match=message) as raised:
        run_pass(store, jobs)
    assert raised.value.__cause__ is not None


def test_images_left_out_are_left_out_of_everything(make_store):
    store = make_store()
    head = mt.TextHead(store.texts.single, 10.0)
    jobs = jobs_for(store, ["mta"]) | {"part": next(iter(jobs_for(store, ["mta"], subset=np.array([2, 3])).values()))}
    searches = {"s": Search(((4.0, 0.2),), "head", 6, head)}
    found, accuracy = run_pass(store, jobs, searches, without=np.array([0, 3, 20]))
    assert found["mta"].index.tolist() == [i for i in range(24) if i not in (0, 3, 20)]
    assert found["part"].index.tolist() == [2]
    assert accuracy["s"][0] == pytest.approx(100 * found["mta"].hits.mean())
    with pytest.raises(MeantimeError, match="no image of 'imagenet' is left"):
        run_pass(store, jobs, without=np.arange(24))
