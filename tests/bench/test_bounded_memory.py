"""A pass needs memory for its batch, not for its store."""

import tracemalloc

import numpy as np

import meantime as mt
from meantime.bench.passes import Job, run_pass
from meantime.parquet import pa
from meantime.store import import_arrays


def peak_of_a_pass(tmp_path, images):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "x.npz",
        views=rng.normal(size=(images, 16, 64)).astype(np.float16),
        labels=np.zeros(images, int),
        names=np.array(["a", "b"]),
        text_single=rng.normal(size=(2, 64)),
    )
    store = import_arrays(tmp_path / "x.npz", tmp_path / f"s{images}", shard_size=64)
    arrow = []
    job = Job("mean", mt.methods()["mean"], 16, {"text": mt.TextHead(store.texts.single)})
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    run_pass(store, {"mean": job}, progress=lambda _: arrow.append(pa.total_allocated_bytes() - before))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(arrow) == -(-images // 64)
    return peak, max(arrow)


def test_memory_does_not_grow_with_the_store(tmp_path):
    peak_of_a_pass(tmp_path, 64)  # imports and caches
    (small, small_arrow), (large, large_arrow) = (peak_of_a_pass(tmp_path, n) for n in (256, 2560))
    per_image = 16 * 64 * 2
    assert large - small < 0.25 * (2560 - 256) * per_image
    assert large_arrow - small_arrow < 0.25 * (2560 - 256) * per_image
