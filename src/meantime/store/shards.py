"""Rows of a shard to Parquet and back: fixed-size lists, and row groups small enough to stream.

Fields are never null: Arrow then reads the lists about three times as fast. Every page has a checksum that is
compared as it is read, so that damaged bytes are an error and never a wrong number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.errors import MeantimeError
from meantime.parquet import pa, pq
from meantime.remote import RemotePath

GROUP = 32  # rows of a row group: 2 MB for 64 views of 512 dimensions


@dataclass(frozen=True)
class Row:
    """One image: its identity, its label, and its N views."""

    index: int  # in the dataset
    key: str  # the path relative to the dataset, or what else names the image
    label: int
    views: NDArray[np.floating[Any]]  # (N, d), unit length
    norms: NDArray[np.float32]  # (N,), lengths before they became 1
    boxes: NDArray[np.float32]  # (N, 4) left, top, right, bottom in 0..1
    flips: NDArray[np.bool_]  # (N,)
    pixels: str = ""  # hash of the decoded pixels, where it is known


def schema(n_views: int, dim: int) -> Any:
    """The columns of a shard."""
    return pa.schema(
        [
            pa.field("index", pa.int64(), nullable=False),
            pa.field("key", pa.string(), nullable=False),
            pa.field("pixels", pa.string(), nullable=False),
            pa.field("label", pa.int32(), nullable=False),
            pa.field("views", fixed_list(pa.float16(), n_views * dim), nullable=False),
            pa.field("norms", fixed_list(pa.float32(), n_views), nullable=False),
            pa.field("boxes", fixed_list(pa.float32(), n_views * 4), nullable=False),
            pa.field("flips", fixed_list(pa.bool_(), n_views), nullable=False),
        ]
    )


def fixed_list(item: Any, length: int) -> Any:
    """The type of a list of that many items, none of them null."""
    return pa.list_(pa.field("item", item, nullable=False), length)


def list_column(values: NDArray[Any], kind: Any) -> Any:
    """(rows, …) as a column of fixed-size lists."""
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1), kind.value_type), type=kind)


def write_table(table: Any, path: Path, group: int = GROUP) -> None:
    """Write a table as every file of a store is written; embeddings do not compress."""
    with path.open("wb") as file:  # of a path with a colon pyarrow would make a URL
        pq.write_table(
            table,
            file,
            row_group_size=group,
            compression="none",
            use_dictionary=False,
            write_statistics=False,
            write_page_checksum=True,
        )


def write_shard(path: Path, rows: Sequence[Row], n_views: int, dim: int) -> None:
    """Write the rows of a shard; there may be none, if no image could be read."""
    for row in rows:
        if row.views.shape != (n_views, dim):
            raise MeantimeError(
                f"image {row.key!r} has views of shape {row.views.shape}; this store holds ({n_views}, {dim})"
            )
    kinds = schema(n_views, dim)

    def stacked(name: str, dtype: Any) -> Any:
        width = kinds.field(name).type.list_size
        values = np.array([getattr(row, name) for row in rows], dtype).reshape(len(rows), width)
        return list_column(values, kinds.field(name).type)

    columns = [
        pa.array([row.index for row in rows], pa.int64()),
        pa.array([row.key for row in rows], pa.string()),
        pa.array([row.pixels for row in rows], pa.string()),
        pa.array([row.label for row in rows], pa.int32()),
        stacked("views", np.float16),
        stacked("norms", np.float32),
        stacked("boxes", np.float32),
        stacked("flips", np.bool_),
    ]
    write_table(pa.table(columns, schema=kinds), path)


def read_groups(path: Path, columns: Sequence[str], groups: Sequence[int] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the row groups of a file, all or those of the given numbers, one in memory at a time.

    Columns are arrays (rows,) or (rows, length), and lists of texts.
    """
    try:
        source = path.open("rb") if isinstance(path, RemotePath) else path
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups) if groups is None else groups:
                table = file.read_row_group(group, columns=list(columns))
                yield {name: _values(table.column(name)) for name in columns}
    except (pa.ArrowException, OSError) as error:
        raise MeantimeError(
            f"{str(path)!r} cannot be read, it is truncated or damaged ({' '.join(str(error).split())}); "
            "copy it again, or delete it and run `meantime encode --resume`"
        ) from error


def _values(column: Any) -> Any:
    if pa.types.is_string(column.type):
        return column.to_pylist()
    column = column.combine_chunks()
    if not pa.types.is_fixed_size_list(column.type):
        return column.to_numpy(zero_copy_only=False)
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
