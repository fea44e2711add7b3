"""Embeddings that something else made, in an .npz file, become a store."""

import hashlib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.errors import MeantimeError
from meantime.labels import TEMPLATE
from meantime.store.manifest import Plan
from meantime.store.reader import Store, open_store
from meantime.store.shards import Row
from meantime.store.texts import Texts, unit
from meantime.store.writer import open_writer

REQUIRED = ("views", "labels", "names", "text_single")
OPTIONAL = ("text_ensemble", "text_templates", "boxes", "keys")
ROUNDING = 2e-3  # float16 vectors whose length is this near to 1 are kept to the bit


def import_arrays(
    source: str | Path,
    out: str | Path,
    *,
    name: str | None = None,
    encoder: str | None = None,
    logit_scale: float = 100.0,
    seed: int = 0,
    prompt: str = TEMPLATE,
    shard_size: int = 256,
) -> Store:
    """Make a store of the arrays in an ``.npz``.

    Needed: ``views`` (M, N, d), ``labels`` (M,) in 0..K-1, ``names`` (K,), ``text_single`` (K, d). Welcome:
    ``text_ensemble`` (K, d), ``text_templates`` (P, K, d), ``boxes`` (M, N, 4), or 5 with the flip last, and
    ``keys`` (M,), the names of the images. Views and texts are brought to unit length.

    ``name`` is the dataset's (the file's by default). ``encoder`` says what made the embeddings; by default the
    class embeddings identify it.
    """
    source = Path(source)
    arrays = _read(source)
    views = arrays["views"]
    if views.ndim != 3 or 0 in views.shape or views.dtype.kind != "f":
        raise MeantimeError(f"'views' in {str(source)!r} is {views.dtype} of shape {views.shape}; expected (M, N, d)")
    count, n, dim = views.shape
    names = tuple(str(item) for item in arrays["names"])
    labels = _labels(arrays["labels"], count, names)
    boxes, flips = _boxes(arrays.get("boxes"), count, n)
    keys = [str(key) for key in arrays.get("keys", [f"{i:06d}" for i in range(count)])]
    _expect("keys", (len(keys),), (count,))
    _expect("text_single", arrays["text_single"].shape, (len(names), dim))
    texts = _texts(arrays, len(names), dim)
    _check_views(views, keys)
    plan = Plan(
        dataset=name or source.stem,
        split="test",
        fingerprint=_hash(*names, *keys, labels.tobytes(), *(row.tobytes() for row in views[:, 0])),
        images=count,
        classes=names,
        encoder=encoder or f"imported-{_hash(texts.single.tobytes())[:16]}",
        encoder_name=encoder or "imported",
        dim=dim,
        logit_scale=float(logit_scale),
        views="imported",
        n_views=n,
        seed=seed,
        prompt=prompt,
        shard_size=shard_size,
    )
    with open_writer(out, plan) as writer:
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


def _read(source: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(source, allow_pickle=False) as file:
            missing = [name for name in REQUIRED if name not in file]
            if missing:
                raise MeantimeError(f"{str(source)!r} has no array {', '.join(missing)}; it has {', '.join(file)}")
            return {key: file[key] for key in (*REQUIRED, *OPTIONAL) if key in file}
    except MeantimeError:
        raise
    except (OSError, ValueError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise MeantimeError(f"{str(source)!r} cannot be read as an .npz file of plain arrays ({error})") from error


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


def _texts(arrays: dict[str, NDArray[Any]], k: int, dim: int) -> Texts:
    ensemble, grid = arrays.get("text_ensemble"), arrays.get("text_templates")
    if grid is not None:
        _expect("text_templates", grid.shape, (len(grid), k, dim))
        grid = unit(grid)
        ensemble = grid.mean(axis=0) if ensemble is None else ensemble
    if ensemble is not None:
        _expect("text_ensemble", ensemble.shape, (k, dim))
    return Texts(
        unit(arrays["text_single"]),
        None if ensemble is None else unit(ensemble),
        None if grid is None else grid.astype(np.float16),
    )


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
