"""Predictions to a file as they come: JSON, JSON lines, CSV or Parquet.

The file appears once it is whole; what an interrupted run has got never takes the place of another file.
"""

import csv
import io
import json
import os
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self

from meantime.errors import MeantimeError
from meantime.parquet import pa, pq
from meantime.prediction import Prediction


class Format(Protocol):
    """Writes predictions, one by one, to a file that is open."""

    def add(self, prediction: dict[str, Any]) -> None:
        """Write one prediction, as `Prediction.to_dict` gives it."""

    def end(self) -> None:
        """Write what comes last."""


def _json(prediction: dict[str, Any]) -> bytes:
    """One line. File names need not be Unicode: such a byte becomes an escape, which Python reads as that name."""
    return json.dumps(prediction, ensure_ascii=False).encode(errors="backslashreplace")


class _Json:
    """A list of objects, one a line: valid JSON, and easy to look through."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.before = b"[\n"

    def add(self, prediction: dict[str, Any]) -> None:
        self.file.write(self.before + _json(prediction))
        self.before = b",\n"

    def end(self) -> None:
        self.file.write((b"[" if self.before == b"[\n" else b"") + b"\n]\n")


class _JsonLines:
    """An object a line: whatever is there of it can be read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file

    def add(self, prediction: dict[str, Any]) -> None:
        self.file.write(_json(prediction) + b"\n")

    def end(self) -> None:
        pass


_REST = ("error", "plain_label", "n_views")  # columns that not every prediction has


class _Csv:
    def __init__(self, file: IO[bytes]) -> None:
        self.text = io.TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="", write_through=True)
        self.writer = csv.writer(self.text)
        self.writer.writerow(["path", "label", "score", "scores", "abstained", "error", "plain_label", "n_views"])

    def add(self, prediction: dict[str, Any]) -> None:
        scores = json.dumps(prediction["scores"], ensure_ascii=False)
        rest = [int(prediction.get("abstained", False)), *(prediction.get(name, "") for name in _REST)]
        self.writer.writerow([prediction["path"], prediction["label"], prediction["score"], scores, *rest])

    def end(self) -> None:
        self.text.detach()


class _Parquet:
    GROUP = 4096  # rows kept in memory

    def __init__(self, file: IO[bytes]) -> None:
        score = pa.struct([("label", pa.string()), ("score", pa.float32())])
        self.schema = pa.schema(
            [
                ("path", pa.string()),
                ("label", pa.string()),
                ("score", pa.float32()),
                ("scores", pa.list_(score)),
                ("abstained", pa.bool_()),
                ("error", pa.string()),
                ("plain_label", pa.string()),
                ("n_views", pa.int32()),
            ]
        )
        self.writer = pq.ParquetWriter(file, self.schema)
        self.rows: list[dict[str, Any]] = []

    def add(self, prediction: dict[str, Any]) -> None:
        path = prediction["path"]
        text = path and path.encode(errors="backslashreplace").decode()
        self.rows.append({"abstained": False, **dict.fromkeys(_REST), **prediction, "path": text})
        if len(self.rows) == self.GROUP:
            self._flush()

    def _flush(self) -> None:
        self.writer.write_table(pa.Table.from_pylist(self.rows, schema=self.schema))
        self.rows.clear()

    def end(self) -> None:
        self._flush()
        self.writer.close()


FORMATS: dict[str, type[_Json] | type[_JsonLines] | type[_Csv] | type[_Parquet]] = {
    ".json": _Json,
    ".jsonl": _JsonLines,
    ".csv": _Csv,
    ".parquet": _Parquet,
}


def unused(path: Path) -> Path:
    """The path, or one with a number that is not taken: x.json, x-2.json, x-3.json."""
    names = (path.with_stem(f"{path.stem}-{i}") for i in count(2))
    return path if not path.exists() else next(name for name in names if not name.exists())


def beside(path: Path) -> Path:
    """Where incomplete results go: to the path itself, or, if something is there, beside it."""
    return path if not path.exists() else unused(path.with_stem(f"{path.stem}-incomplete"))


class Output:
    """A file of predictions; what was added is kept also when the run is interrupted.

    ``written`` is where it lies in the end: an interrupted run leaves a file that was there as it is and writes another
    beside it, and one that fails before its first prediction writes none. Each prediction is in the part file as soon
    as it is added (of Parquet 4096 together), for a process that is killed.
    """

    def __init__(self, path: Path, top: int) -> None:
        if path.suffix.lower() not in FORMATS:
            raise MeantimeError(f"cannot write {str(path)!r}: its name must end in one of {', '.join(FORMATS)}")
        if path.is_dir():
            raise MeantimeError(f"cannot write {str(path)!r}: it is a folder; give the name of a file")
        self.path, self.top = path, top
        self.part = unused(path.with_name(path.name + ".part"))
        self.added = 0
        self.written: Path | None = None

    def __enter__(self) -> Self:
        try:
            self.file = self.part.open("wb")
        except OSError as error:
            raise MeantimeError(f"cannot write {str(self.path)!r}: {error.strerror}") from error
        try:
            self.format: Format = FORMATS[self.path.suffix.lower()](self.file)
        except MeantimeError:  # a format whose package is not installed
            self.file.close()
            self.part.unlink()
            raise
        return self

    def add(self, prediction: Prediction) -> None:
        """Write one prediction."""
        try:
            self.format.add(prediction.to_dict(self.top))
            self.file.flush()
        except OSError as error:  # a full disk, mostly
            raise MeantimeError(f"cannot write {str(self.part)!r}: {error.strerror}") from error
        self.added += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.format.end()
            self.file.close()
        except OSError as cause:  # what could be written stays in the part file
            raise MeantimeError(f"cannot write {str(self.part)!r}: {cause.strerror}") from cause
        if kind is None or self.added:
            self.written = self.path if kind is None else beside(self.path)
            os.replace(self.part, self.written)
        else:
            self.part.unlink()
