"""What a method said of each image of a store, and its Parquet file: a row for each image, seed and method."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.errors import MeantimeError
from meantime.parquet import pa, pq


@dataclass(frozen=True)
class Predictions:
    """One method on the M images of one store, in the store's order."""

    dataset: str
    encoder: str
    seed: int
    method: str
    index: NDArray[np.int64]  # (M,) in the dataset
    keys: tuple[str, ...]
    labels: NDArray[np.int64]  # (M,)
    best: NDArray[np.int32]  # (M, 5): the best classes, best first; fewer where there are fewer
    confidence: NDArray[np.float32]  # (M,): probability of the best
    hits: NDArray[np.bool_]  # (M,): the best is right
    hits5: NDArray[np.bool_]  # (M,): the right one is among the best

    def __len__(self) -> int:
        return len(self.index)


def plain_names(names: Iterable[str]) -> NDArray[np.str_]:
    """Names as they are compared."""
    return np.array([name.replace("_", " ") for name in names])


def _schema() -> Any:
    def words() -> Any:
        return pa.dictionary(pa.int32(), pa.string())

    return pa.schema(
        [
            ("dataset", words()),
            ("encoder", words()),
            ("seed", pa.int32()),
            ("method", words()),
            ("index", pa.int64()),
            ("key", pa.string()),
            ("label", pa.int32()),
            ("prediction", pa.int32()),
            ("top5", pa.list_(pa.int32())),
            ("confidence", pa.float32()),
            ("correct", pa.bool_()),
            ("correct5", pa.bool_()),
        ]
    )


class PredictionFile:
    """A Parquet file that takes the predictions of one method after another."""

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, _schema())
        self.rows = 0

    def add(self, p: Predictions) -> None:
        """Write one method's predictions on one store."""
        n = len(p)
        self.rows += n

        def same(text: str) -> Any:
            return pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), [text])

        columns = [
            same(p.dataset),
            same(p.encoder),
            pa.array(np.full(n, p.seed, np.int32)),
            same(p.method),
            pa.array(p.index),
            pa.array(p.keys, pa.string()),
            pa.array(p.labels.astype(np.int32)),
            pa.array(p.best[:, 0]),
            pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * p.best.shape[1], p.best.reshape(-1)),
            pa.array(p.confidence),
            pa.array(p.hits),
            pa.array(p.hits5),
        ]
        self._writer.write_table(pa.table(columns, schema=_schema()))

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


@contextmanager
def prediction_file(path: Path) -> Iterator[PredictionFile]:
    """Open a file for predictions; it takes its name when it is whole. Without any there is no file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    file = PredictionFile(part)
    try:
        yield file
    except BaseException:
        file.close()
        part.unlink(missing_ok=True)
        raise
    file.close()
    if file.rows:
        part.replace(path)
        return
    for nothing in (part, path):  # what an earlier run predicted is not of this one
        nothing.unlink(missing_ok=True)


def method_in(path: Path, name: str) -> str:
    """What a file calls a method: by its name, or by that and what else differed in the run, as "mta (8 views)"."""
    known = _methods(path)
    fits = [method for method in known if method.startswith(f"{name} (")]
    if name in known or not fits:
        return name
    if len(fits) > 1:
        raise MeantimeError(f"{str(path)!r} has several of {name!r}: say which of {', '.join(map(repr, fits))}")
    return fits[0]


def _methods(path: Path) -> list[str]:
    return sorted(set(_read(path, ["method"])["method"].to_pylist()))


def read_hits(path: Path, method: str) -> dict[tuple[str, str], dict[int, dict[str, bool]]]:
    """Of one method: (dataset, encoder) -> seed -> key of the image -> whether it was right."""
    columns = ["dataset", "encoder", "seed", "key", "correct"]
    table = _read(path, columns, filters=[("method", "=", method)])
    if not len(table):
        raise MeantimeError(f"{str(path)!r} has no predictions of {method!r}; it has {', '.join(_methods(path))}")
    found: dict[tuple[str, str], dict[int, dict[str, bool]]] = {}
    for dataset, encoder, seed, key, correct in zip(*(table[name].to_pylist() for name in columns), strict=True):
        found.setdefault((dataset, encoder), {}).setdefault(seed, {})[key] = correct
    return found


def _read(path: Path, columns: list[str], **options: Any) -> Any:
    if not path.is_file():
        raise MeantimeError(
            f"there are no predictions in {str(path)!r}: run a table first, as in `meantime bench rows`"
        )
    try:
        return pq.read_table(path, columns=columns, **options)
    except pa.ArrowException as error:
        raise MeantimeError(
            f"{str(path)!r} cannot be read as predictions ({error}): give the .parquet that a table has written"
        ) from error
