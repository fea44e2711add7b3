"""Text embeddings in a store, so that every head of every table is made without the encoder.

One file for the base prompt and, where asked for, one for the mean of the 80 prompts and one that holds them one
by one, for reductions other than the mean. None is ever written twice, so they can be added to a full store.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.encoders import Encoder, cached_texts
from meantime.errors import MeantimeError
from meantime.labels import fill, templates80
from meantime.parquet import pa
from meantime.store.files import write_whole
from meantime.store.manifest import StoredFile
from meantime.store.shards import fixed_list, list_column, read_groups, write_table

Floats = NDArray[np.float32]
Halves = NDArray[np.float16]
KINDS = ("single", "ensemble", "templates")


@dataclass(frozen=True)
class Texts:
    """Class embeddings, unit length."""

    single: Floats  # (K, d) of the base prompt
    ensemble: Floats | None = None  # (K, d), mean of the 80 prompts
    templates: Halves | None = None  # (P, K, d), each prompt of the 80


def unit(x: NDArray[Any], name: str | None = None) -> Floats:
    """Rows of length 1, in float32; of an array with a name, an error tells which row is wrong."""
    x = np.asarray(x, np.float32)
    norms = np.linalg.norm(x, axis=-1, keepdims=True)
    wrong = np.argwhere(~(np.isfinite(norms) & (norms > 0))[..., 0])
    if wrong.size:
        which = "an embedding" if name is None else f"row {', '.join(map(str, wrong[0]))} of {name}"
        raise MeantimeError(f"{which} is zero or not finite, so it has no direction; check the encoder")
    return np.asarray(x / norms, np.float32)


def embed_texts(encoder: Encoder, names: Sequence[str], prompt: str, *, ensemble: bool) -> Texts:
    """Encode the prompts of the classes; those seen before come from the cache."""
    single = unit(cached_texts(encoder, [fill(prompt, name) for name in names]))
    if not ensemble:
        return Texts(single)
    rows = [unit(cached_texts(encoder, [fill(template, name) for name in names])) for template in templates80()]
    grid = np.stack(rows)  # (P, K, d)
    return Texts(single, unit(grid.mean(axis=0)), grid.astype(np.float16))


def write_texts(folder: Path, texts: Texts, there: Collection[str] = ()) -> dict[str, StoredFile]:
    """Write those kinds of embeddings that are not there yet, each file in one stroke."""
    n, dim = texts.single.shape
    written: dict[str, StoredFile] = {}
    for kind in KINDS:
        embeddings: NDArray[Any] | None = getattr(texts, kind)
        if embeddings is None or kind in there:
            continue
        if embeddings.shape[-2:] != (n, dim):
            raise MeantimeError(f"text_{kind} has the shape {embeddings.shape}; expected (…, {n}, {dim})")
        path = folder / f"text-{kind}.parquet"
        table = _table(embeddings.reshape(-1, n, dim))
        whole = write_whole(path, lambda part, table=table: write_table(table, part, group=4096))  # type: ignore[misc]
        written[kind] = StoredFile(path.name, whole.bytes, whole.sha256)
    return written


def _table(embeddings: NDArray[Any]) -> Any:
    """Rows of (P, K, d): the template, the class, the embedding."""
    templates, n, dim = embeddings.shape
    columns = {
        "template": pa.array(np.repeat(np.arange(templates, dtype=np.int32), n)),
        "label": pa.array(np.tile(np.arange(n, dtype=np.int32), templates)),
        "embedding": list_column(embeddings, fixed_list(pa.from_numpy_dtype(embeddings.dtype), dim)),
    }
    fields = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def read_texts(path: Path, n_classes: int) -> NDArray[Any]:
    """(P, K, d) of one file; P is 1 except for the templates."""
    rows = np.concatenate([group["embedding"] for group in read_groups(path, ["embedding"])])
    return rows.reshape(-1, n_classes, rows.shape[-1])
