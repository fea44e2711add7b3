import json

import numpy as np
import pytest

from meantime.bench import Bench, Shelf
from meantime.store import import_arrays, open_store

NAMES = ("cat", "dog", "missile", "missile", "owl", "fox", "elk")


def some_arrays(seed=0, images=24, n=6, dim=8, ensemble=True, templates=0):
    """Views around their class, some of them astray; two classes share a name."""
    rng = np.random.default_rng(5)  # the same images whatever the seed of the views
    texts = rng.normal(size=(len(NAMES), dim))
    labels = np.arange(images) % len(NAMES)
    centres = texts[labels] + rng.normal(scale=0.9, size=(images, dim))
    views = centres[:, None] + np.random.default_rng(seed).normal(scale=1.1, size=(images, n, dim))
    views[:, 0] = centres
    arrays = {"views": views, "labels": labels, "names": np.array(NAMES), "text_single": texts}
    if ensemble:
        arrays["text_ensemble"] = texts + 0.4 * rng.normal(size=texts.shape)
    if templates:
        arrays["text_templates"] = texts + 0.8 * rng.normal(size=(templates, *texts.shape))
    return arrays


@pytest.fixture
def make_store(tmp_path):
    """Make a store of generated embeddings in tmp_path/stores."""

    def make(dataset="imagenet", seed=0, encoder="ViT-B-16:openai", logit_scale=10.0, **options):
        arrays = some_arrays(seed, **options)
        images, n, _ = arrays["views"].shape
        folder = tmp_path / "stores" / f"{dataset}-{encoder}-{seed}-{images}x{n}".replace("/", "-")
        np.savez(tmp_path / "x.npz", **arrays)
        return import_arrays(
            tmp_path / "x.npz", folder, name=dataset, encoder=encoder, seed=seed, logit_scale=logit_scale, shard_size=10
        )

    return make


@pytest.fixture
def changed():
    """A store whose manifest says something else."""

    def change(store, shards=None, **plan):
        manifest = json.loads((store.path / "manifest.json").read_text())
        manifest["plan"] |= plan
        manifest["shards"] = manifest["shards"][:shards]
        (store.path / "manifest.json").write_text(json.dumps(manifest))
        return open_store(store.path)

    return change


@pytest.fixture
def bench(tmp_path):
    """A bench on some stores, with the few views that they have."""

    def make(stores, **options):
        return Bench(Shelf(stores), tmp_path / "out", **{"n_views": 6} | options)

    return make
