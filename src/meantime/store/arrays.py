"""Embeddings that something else made, in an .npz file, become a store."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.errors import MeantimeError
from meantime.labels import TEMPLATE
from meantime.npz import Arrays, check_floats
from meantime.store.manifest import UNLABELLED, Plan
from meantime.store.reader import Store, open_store
from meantime.store.shards import Row
from meantime.store.texts import Texts, unit
from meantime.store.writer import open_writer

REQUIRED = ("views", "names", "text_single")
LOGIT_SCALE = 100.0  # where none is known: that of most models of CLIP's kind
ROUNDING = 2e-3  # float16 vectors whose length is this near to 1 are kept to the bit


def import_arrays(
    source: str | Path,
    out: str | Path,
    *,
    name: str | None = None,
    encoder: str | None = None,
    logit_scale: float | None = None,
    seed: int = 0,
    prompt: str = TEMPLATE,
    shard_size: int = 256,
) -> Store:
    """Make a store of the arrays in an ``.npz``.

    Needed: ``views`` (M, N, d), ``names`` (K,), ``text_single`` (K, d). Welcome: ``labels`` (M,) in 0..K-1, without
    which nothing can be measured on the store, ``text_ensemble`` (K, d), ``text_templates`` (P, K, d), ``boxes``
    (M, N, 4), or 5 with the flip last, ``keys`` (M,), the names of the images, and ``logit_scale``. Views and texts
    are brought to unit length.

    ``name`` is the dataset's (the file's by default). ``encoder`` says what made the embeddings; by default the
    class embeddings identify it. ``logit_scale`` is the file's by default, else 100.
    """
    source = Path(source)
    with Arrays(source) as arrays:
        _check_there(arrays)
        names = arrays.texts("names")
        views = arrays.read("views")
        check_floats(f"'views' in {str(source)!r}", views.dtype)
        if views.ndim != 3 or 0 in views.shape:
            raise MeantimeError(f"'views' in {str(source)!r} has the shape {views.shape}; expected (M, N, d)")
        count, n, dim = views.shape
        labels = _labels(arrays.read("labels"), count, names) if "labels" in arrays else np.full(count, -1)
        boxes, flips = _boxes(arrays.read("boxes") if "boxes" in arrays else None, count, n)
        keys = arrays.texts("keys") if "keys" in arrays else tuple(f"{i:06d}" for i in range(count))
        _expect("keys", (len(keys),), (count,))
        texts = class_texts(arrays, "text_single")
        _expect("text_single", texts.single.shape, (len(names), dim))
        given = arrays.number("logit_scale") if logit_scale is None else logit_scale
        labelled = "labels" in arrays
    _check_views(views, keys)
    plan = Plan(
        dataset=name or source.stem,
        split="test" if labelled else UNLABELLED,
        fingerprint=_hash(*names, *keys, labels.tobytes(), *(row.tobytes() for row in views[:, 0])),
        images=count,
        classes=names,
        encoder=encoder or f"imported-{_hash(texts.single.tobytes())[:16]}",
        encoder_name=encoder or "imported",
        dim=dim,
        logit_scale=LOGIT_SCALE if given is None else float(given),
        views="imported",
        n_views=n,
        seed=seed,
        prompt=prompt,
        shard_size=shard_size,
    )
    with open_writer(out, plan, otherwise="delete it first") as writer:
        writer.add_texts(texts)
        for number in writer.pending():
            start, stop = plan.bounds(number)
            units, norms = _unit_views(views[start:stop])
            writer.add_shard(
                number,
                [
                    Row(i, keys[i], int(labels[i]), units[i - start], norms[i - start], boxes[i], flips[i])
                    for i in range(start, stop)
                ],
            )
    return open_store(out)


def class_texts(arrays: Arrays, single: str) -> Texts:
    """Read class embeddings, unit length: of the base prompt, by the array's name, and of others where they are."""
    base = _unit(arrays, single, 2)
    k, dim = base.shape
    ensemble = _unit(arrays, "text_ensemble", 2) if "text_ensemble" in arrays else None
    grid = _unit(arrays, "text_templates", 3) if "text_templates" in arrays else None
    if grid is not None:
        _expect("text_templates", grid.shape, (len(grid), k, dim))
        ensemble = unit(grid.mean(axis=0)) if ensemble is None else ensemble
    if ensemble is not None:
        _expect("text_ensemble", ensemble.shape, (k, dim))
    return Texts(base, ensemble, None if grid is None else grid.astype(np.float16))


def _unit(arrays: Arrays, name: str, rank: int) -> NDArray[np.float32]:
    rows = arrays.rows(name)
    check_floats(rows.name, rows.dtype)
    if len(rows.shape) != rank or 0 in rows.shape:
        layout = "(K, d)" if rank == 2 else "(P, K, d)"
        raise MeantimeError(f"{rows.name} has the shape {rows.shape}; expected {layout}, a row for each class")
    return unit(rows.read(), rows.name)


def _check_there(arrays: Arrays) -> None:
    if "" in arrays:
        raise MeantimeError(
            f"{str(arrays.path)!r} is a single array; expected an .npz, as of np.savez('x.npz', views=…, names=…, "
            "text_single=…). For answers no store is needed: meantime predict"
        )
    missing = [name for name in REQUIRED if name not in arrays]
    if missing:
        raise MeantimeError(f"{str(arrays.path)!r} has no array {', '.join(missing)}; it has {', '.join(arrays.names)}")


def _expect(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if tuple(shape) != expected:
        raise MeantimeError(f"{name!r} has the shape {tuple(shape)}; expected {expected}")


def _labels(labels: NDArray[Any], count: int, names: Sequence[str]) -> NDArray[np.int64]:
    _expect("labels", labels.shape, (count,))
    if labels.dtype.kind not in "iu":
        raise MeantimeError(f"'labels' is {labels.dtype}; expected integers in 0..{len(names) - 1}")
    wrong = np.flatnonzero((labels < 0) | (labels >= len(names)))
    if wrong.size:
        raise MeantimeError(
            f"image {wrong[0]} has the label {labels[wrong[0]]}, but there are {len(names)} names "
            f"(0 to {len(names) - 1}); {wrong.size} labels are wrong"
        )
    return labels.astype(np.int64)


def _boxes(boxes: NDArray[Any] | None, count: int, n: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    if boxes is None:  # unknown: the whole image
        return np.tile(np.array([0, 0, 1, 1], np.float32), (count, n, 1)), np.zeros((count, n), np.bool_)
    _expect("boxes", boxes.shape, (count, n, 5 if boxes.shape[-1] == 5 else 4))
    flips = boxes[..., 4] > 0.5 if boxes.shape[-1] == 5 else np.zeros((count, n), np.bool_)
    return boxes[..., :4].astype(np.float32), flips


def _check_views(views: NDArray[Any], keys: Sequence[str]) -> None:
    """Refuse a view without a direction, image by image: all at once would be another copy of the array."""
    for i, own in enumerate(views):
        norms = np.linalg.norm(own.astype(np.float32), axis=-1)
        wrong = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
        if wrong.size:
            raise MeantimeError(
                f"view {wrong[0]} of image {i} ({keys[i]!r}) is zero or not finite, so it has no direction; "
                "leave the image out, or embed it again"
            )


def _unit_views(views: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float32]]:
    wide = views.astype(np.float32)
    norms = np.linalg.norm(wide, axis=-1)
    if views.dtype == np.float16 and np.all(np.abs(norms - 1) < ROUNDING):
        return views, norms
    return unit(wide), norms


def _hash(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
