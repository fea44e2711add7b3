"""The worker that every engine runs."""

import numpy as np
import pytest
from toy import ToyEncoder

from meantime import MeantimeError, ViewSpec
from meantime.cli.engine import choose_engine
from meantime.datasets import load_dataset
from meantime.encoders import TorchEncoder, load_encoder
from meantime.engines import Job, LocalEngine, RayEngine, Worker, tally
from meantime.engines.cluster import share
from meantime.engines.ray_engine import _loader
from meantime.engines.worker import of_shard
from meantime.store import open_store, verify_store


def test_shards_in_any_order_are_those_of_a_run(encode, photos, tmp_path):
    """And they become part of a store only when its writer commits them."""
    store = encode("store")
    samples = load_dataset(str(photos)).samples
    (tmp_path / "other").mkdir()
    worker = Worker(ToyEncoder, Job(tmp_path / "other", store.plan, ViewSpec(n=5), batch=5))
    images = []
    for number in (3, 1):
        shard, staged = worker(number, of_shard(samples, store.plan, number), images.append)
        again, elsewhere = worker(number, of_shard(samples, store.plan, number))
        assert shard == again == store.manifest.shards[number]
        assert staged.part != elsewhere.part
        assert not (tmp_path / "other" / shard.file).exists()
        assert (tmp_path / "other" / staged.part).read_bytes() == (store.path / shard.file).read_bytes()
    assert sum(images) == 6


def test_an_encoder_that_is_not_the_one_asked_for_is_refused(encode):
    plan = encode("store").plan
    other = ToyEncoder()
    other.identity = "toy-2"
    with pytest.raises(MeantimeError, match=r"'toy' is toy-2 here.*made by toy-1"):
        _ = Worker(lambda: other, Job(None, plan, ViewSpec(n=5))).encoder


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_embeddings_without_a_direction_end_the_run_and_are_not_stored(encode, tmp_path, value):
    class Overflowing(ToyEncoder):
        def encode_images(self, pixels):
            embeddings = super().encode_images(pixels)
            if len(self.batches) == 5:  # in the second shard
                embeddings[0] = value
            return embeddings

    with (
        np.errstate(all="ignore"),
        pytest.raises(MeantimeError, match=r"'toy' gives embeddings of 'green/0 .*zero or not finite"),
    ):
        encode("store", Overflowing())
    verify_store(open_store(tmp_path / "store"))
    assert len(open_store(tmp_path / "store")) == 3


def test_an_encoder_is_loaded_again_by_its_name():
    embedded = load_encoder("embedded")
    again = _loader(embedded)(threads=1)
    assert again is not embedded
    assert again.identity == embedded.identity
    assert again.threads == 1
    own = ToyEncoder()
    assert _loader(own)(threads=1) is own
    for name in ("open_clip:CLIP", "transformers:CLIPModel"):  # as `load_encoder(model, …)` names them
        wrapped = object.__new__(TorchEncoder)
        wrapped.name = name
        with pytest.raises(MeantimeError, match=rf"cannot load '{name}'.*RayEngine\(load="):
            _loader(wrapped)


def test_progress_is_told_now_and_then_and_in_the_end_exactly(monkeypatch):
    told, clock = [], iter([0.0, 0.1, 0.2, 0.9, 0.9, 1.0, 1.1])

    class FakeTally:
        class add:  # noqa: N801
            remote = staticmethod(lambda *news: told.append(news))

    monkeypatch.setattr(tally.time, "monotonic", lambda: next(clock))
    reporter = tally.Reporter(FakeTally, 7)
    for _ in range(4):
        reporter(1)
    reporter.tell()
    assert told == [(7, 3), (7, 1)]
    counts = tally.Tally()
    assert (counts.begin(7), counts.begin(8)) == (1, 1)
    for news in told:
        counts.add(*news)
    counts.add(8, 5)
    assert counts.total() == 9
    assert counts.begin(8) == 2  # its worker died: those images are to be done again
    assert counts.total() == 4


class FakeRay:
    def __init__(self, *machines):
        self.machines = machines

    def nodes(self):
        return [{"Alive": True, "Resources": machine} for machine in self.machines] + [
            {"Alive": False, "Resources": {"CPU": 99.0, "GPU": 9.0}}
        ]


@pytest.mark.parametrize(
    ("machines", "workers", "gpu", "expected"),
    [
        ([{"CPU": 2.0}], None, False, (1, 2.0, 0)),
        ([{"CPU": 2.0}], 2, False, (2, 1.0, 0)),
        ([{"CPU": 2.0}], 8, False, (8, 0.25, 0)),
        ([{"CPU": 16.0}, {"CPU": 16.0}], None, False, (8, 4.0, 0)),
        ([{"CPU": 16.0}, {"CPU": 4.0}], 1, False, (1, 4.0, 0)),  # no more than any machine has
        ([{"CPU": 16.0, "GPU": 2.0}, {"CPU": 8.0}], None, None, (2, 8.0, 1)),
        ([{"CPU": 16.0, "GPU": 2.0}], None, False, (4, 4.0, 0)),
        ([{"CPU": 8.0}], 4, True, (4, 2.0, 1)),  # the GPUs will come when they are asked for
        ([{"memory": 1.0}], None, False, (1, 0.01, 0)),  # a head that does no work itself
    ],
)
def test_a_cluster_is_shared_among_the_workers(machines, workers, gpu, expected):
    assert share(FakeRay(*machines), workers, gpu) == expected


def test_gpus_that_will_never_come_are_not_waited_for():
    with pytest.raises(MeantimeError, match="this machine has none; leave --device out"):
        share(FakeRay({"CPU": 8.0}), None, True, own=True)
    assert share(FakeRay({"CPU": 8.0, "GPU": 1.0}), None, True, own=True) == (1, 8.0, 1)


def test_an_engine_is_chosen_by_name():
    calls = []

    def load(**options):
        calls.append(options)
        return ToyEncoder()

    assert isinstance(choose_engine("local", load, "cuda", None, None)[1], LocalEngine)
    _, engine = choose_engine("ray", load, "cuda", "auto", 3)
    assert (engine.address, engine.workers, engine.gpu) == ("auto", 3, True)
    engine.load(threads=2)
    # The driver has no GPU here, but must have the encoder of the workers and not an export that stands in for it.
    assert calls == [{"device": "cuda"}, {"device": "cpu"}, {"device": "cuda", "threads": 2}]
    assert isinstance(engine, RayEngine)
    assert choose_engine("ray", load, "auto", None, None)[1].gpu is None
    choose_engine("ray", load, "cpu", None, None)
    assert calls[-2:] == [{"device": "auto"}, {"device": "cpu"}]
    with pytest.raises(MeantimeError, match="expected local or ray"):
        choose_engine("spark", load, "auto", None, None)
    with pytest.raises(MeantimeError, match="belong to --engine ray"):
        choose_engine("local", load, "auto", "auto", None)
