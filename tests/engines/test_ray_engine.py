"""The same run on Ray: the same bytes, and nothing lost whoever dies."""

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import ray
import toy
from ray import cloudpickle
from shared import PHOTOS, needs
from toy import ToyEncoder

from meantime import Classifier, MeantimeError, ViewSpec
from meantime.cli import main
from meantime.datasets.base import Samples
from meantime.encoders import load_encoder
from meantime.engines import Job, LocalEngine, RayEngine, pool
from meantime.engines.images import encode_images
from meantime.engines.tally import Tally
from meantime.images import find_images
from meantime.store import open_store, verify_store, writer

# The workers cannot import the tests, so what they need of them is sent.
cloudpickle.register_pickle_by_value(toy)
cloudpickle.register_pickle_by_value(sys.modules[__name__])

QUIET = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}


def content(folder):
    return {p.name: p.read_bytes() for p in Path(folder).iterdir() if p.name != ".lock"}


def test_without_an_address_a_cluster_begins_and_ends(encode, tmp_path):
    """First of all tests, since the others share a cluster of their own."""
    assert not ray.is_initialized()
    heard = []
    encode("ray", engine=RayEngine(workers=2), progress=lambda *counts: heard.append(counts))
    assert not ray.is_initialized()
    encode("local")
    assert content(tmp_path / "ray") == content(tmp_path / "local")
    assert heard[-1] == (12, 12)
    assert heard == sorted(set(heard))


@pytest.fixture(scope="module")
def cluster():
    """One small cluster for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init("local", num_cpus=2, object_store_memory=100 << 20, **QUIET)
        yield
        ray.shutdown()


class Waiting(ToyEncoder):
    """Its fifth image is never done, until somebody was killed."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def encode_images(self, pixels):
        with (self.folder / "calls").open("a") as calls:
            calls.write(f"{os.getpid()}\n")
        if (self.folder / "calls").read_text().count("\n") >= 5 and not (self.folder / "killed").exists():
            (self.folder / str(os.getpid())).with_suffix(".victim").touch()
            time.sleep(300)
        return super().encode_images(pixels)


def test_a_worker_that_is_killed_is_replaced_and_every_image_is_there_once(cluster, encode, tmp_path):
    encode("local")
    victims = []

    def kill():
        deadline = time.monotonic() + 280
        while not victims and time.monotonic() < deadline:
            victims.extend(int(path.stem) for path in tmp_path.glob("*.victim"))
            time.sleep(0.05)
        (tmp_path / "killed").touch()
        os.kill(victims[0], signal.SIGKILL)

    killer = Thread(target=kill)
    killer.start()
    store = encode("ray", Waiting(tmp_path), engine=RayEngine(workers=1))
    killer.join()
    pids = (tmp_path / "calls").read_text().split()
    assert str(victims[0]) in pids
    assert len(set(pids)) == 2  # another process went on
    verify_store(store)
    index = [i for batch in store.batches(4) for i in batch.index.tolist()] + [e["index"] for e in store.errors]
    assert Counter(index) == Counter(range(12))
    assert content(tmp_path / "ray") == content(tmp_path / "local")


def test_a_driver_that_is_killed_goes_on_from_the_finished_shards(cluster, encode, photos, tmp_path):
    encode("whole")
    script = textwrap.dedent(
        f"""
        import time, sys
        sys.path.insert(0, {str(Path(toy.__file__).parent)!r})
        import toy
        from ray import cloudpickle
        from meantime import ViewSpec
        from meantime.datasets import load_dataset
        from meantime.engines import RayEngine
        from meantime.store.encode import encode_dataset

        cloudpickle.register_pickle_by_value(toy)

        class Slow(toy.ToyEncoder):
            def encode_images(self, pixels):
                time.sleep(0.3)
                return super().encode_images(pixels)

        encode_dataset(load_dataset({str(photos)!r}), {str(tmp_path / "killed")!r}, Slow(), ViewSpec(n=5),
                       shard_size=3, batch=5, engine=RayEngine(workers=1))
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    manifest = tmp_path / "killed" / "manifest.json"
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if manifest.exists() and len(json.loads(manifest.read_text())["shards"]) == 2:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    half = open_store(tmp_path / "killed")
    finished = {shard.file: (half.path / shard.file).stat().st_ino for shard in half.manifest.shards}
    assert 2 <= len(finished) < 4
    store = encode("killed", resume=True, engine=RayEngine(workers=2))
    assert {file: (store.path / file).stat().st_ino for file in finished} == finished
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def test_a_driver_outside_the_cluster_has_the_pool_run_inside(cluster, encode, tmp_path, monkeypatch):
    """What a connection by ray:// does, without the packages that it needs."""
    monkeypatch.setattr(pool, "through_client", lambda ray: True)
    encode("local")
    encode("outside", engine=RayEngine(workers=2))
    assert content(tmp_path / "outside") == content(tmp_path / "local")


class FullDisk(ToyEncoder):
    """Where it encodes, the third shard finds no room; or something else happens."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def encode_images(self, pixels):
        if len(self.batches) == 6:
            if not isinstance(self.error, OSError):
                raise self.error

            def full(path, *arguments):
                path.write_bytes(b"half a shard")
                raise self.error

            writer.write_shard = full
        return super().encode_images(pixels)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), r"shard \d failed on .*No space left on device.*--resume"),
        (RuntimeError("device lost"), r"shard \d failed on .*RuntimeError: device lost"),
    ],
)
def test_a_full_disk_or_a_broken_worker_is_one_error_and_what_was_finished_stays(
    cluster, encode, tmp_path, error, message
):
    encode("whole")
    with pytest.raises(MeantimeError, match=message):
        encode("full", FullDisk(error), engine=RayEngine(workers=1))
    half = open_store(tmp_path / "full")
    verify_store(half)
    assert 1 <= len(half.manifest.shards) < 4
    assert not list((tmp_path / "full").glob("*.part"))
    encode("full", resume=True)
    assert content(tmp_path / "full") == content(tmp_path / "whole")


def test_a_worker_says_what_it_cannot_do(cluster, encode, tmp_path):
    store = encode("store")
    shard = {"shard": [pickle.dumps((0, Samples(["a.png"], [0], ["a.png"])))]}

    def answer(job, encoder=None, begun=0):
        tally = ray.remote(num_cpus=0)(Tally).remote()
        ray.get([tally.begin.remote(0) for _ in range(begun)])
        actor = pool.Actor(lambda: encoder or ToyEncoder(), job, tally, str(tmp_path))
        return pickle.loads(actor(shard)["answer"][0])

    job = Job(store.path, store.plan, ViewSpec(n=5))
    assert "every machine sees it" in answer(Job(tmp_path / "nowhere", store.plan, ViewSpec(n=5)))
    assert "6 workers died of it" in answer(job, begun=6)
    other = ToyEncoder()
    other.identity = "toy-2"
    assert "is toy-2 here, but this run is made by toy-1" in answer(job, other)
    assert "must hold images 0 to 2" in answer(job)


def test_what_is_asked_of_ray_is_checked(encode, monkeypatch):
    with pytest.raises(MeantimeError, match="0 workers"):
        RayEngine(workers=0)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda *_, **__: (_ for _ in ()).throw(ConnectionError("nobody there")))
    with pytest.raises(MeantimeError, match=r"no Ray cluster.*'auto'.*nobody there.*ray start"):
        encode("store", engine=RayEngine("auto"))
    with pytest.raises(MeantimeError, match=r"no Ray cluster.*'ray://127.0.0.1:9'.*refused"):
        encode("store", resume=True, engine=RayEngine("ray://127.0.0.1:9"))


@needs(PHOTOS)
def test_real_photos_have_the_same_answers_as_on_one_machine(cluster, tmp_path):
    sources = list(find_images(PHOTOS))[:8]
    encoder = load_encoder("embedded")
    classifier = Classifier(["dog", "cat", "bird", "car", "fruit", "ship", "flower", "tool"], encoder, views=8)

    def run(name, engine):
        answers = list(classifier.answers(encode_images(sources, tmp_path / name, classifier, engine, shard_size=3)))
        return next(open_store(tmp_path / name / "part-00001").batches(8, extras=True)), answers

    local, expected = run("local", LocalEngine())
    for workers in (1, 2):
        batch, answers = run(f"ray{workers}", RayEngine(workers=workers))
        assert batch.keys == local.keys
        assert batch.pixels == local.pixels
        assert np.array_equal(batch.boxes, local.boxes)
        lengths = np.linalg.norm(local.views, axis=-1) * np.linalg.norm(batch.views, axis=-1)
        assert ((local.views * batch.views).sum(-1) / lengths).min() > 0.99999
        for one, other in zip(expected, answers, strict=True):
            top = one.top(2)
            assert one.label == other.label or top[0][1] - top[1][1] < 1e-4
            assert one.score == pytest.approx(other.score, abs=1e-3)


def test_classify_on_ray_answers_as_without_it(cluster, photos, tmp_path, monkeypatch, capsys):
    """By the command line, with the embedded encoder; the store that is kept serves other names."""

    def run(*options):
        monkeypatch.setattr("sys.argv", ["meantime", "classify", str(photos), "--views", "4", *map(str, options)])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code, capsys.readouterr().err

    names = ("--labels", "a red wall,a green meadow,the blue sky")
    run(*names, "--out", tmp_path / "local.json")
    run(*names, "--out", tmp_path / "ray.json", "--engine", "ray", "--workers", 2, "--store", tmp_path / "store")
    local, distributed = (json.loads((tmp_path / name).read_text()) for name in ("local.json", "ray.json"))
    assert [row["path"] for row in local] == [row["path"] for row in distributed]
    for one, other in zip(local, distributed, strict=True):
        assert one.get("error") == other.get("error")
        assert one["label"] == other["label"]
        assert one["score"] == (one["score"] and pytest.approx(other["score"], abs=1e-3))
    assert sum("error" in row for row in distributed) == 1

    files = content(tmp_path / "store" / "part-00001")
    run("--labels", "cat,dog", "--store", tmp_path / "store", "--out", tmp_path / "other.json")
    assert content(tmp_path / "store" / "part-00001") == files
    assert not (tmp_path / "store" / "part-00002").exists()
    assert {row["label"] for row in json.loads((tmp_path / "other.json").read_text())} <= {"cat", "dog", None}
