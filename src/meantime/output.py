"""Predictions to a file as they come: JSON, CSV or Parquet. The file appears whole, or not at all."""

import csv
import io
import json
import os
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


class _Json:
    """A list of objects, one a line: valid JSON, and easy to look through."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.before = b"[\n"

    def add(self, prediction: dict[str, Any]) -> None:
        # File names need not be valid Unicode: such a byte becomes a JSON escape, which Python reads as that name
        self.file.write(self.before + json.dumps(prediction, ensure_ascii=False).encode(errors="backslashreplace"))
        self.before = b",\n"

    def end(self) -> None:
        self.file.write((b"[" if self.before == b"[\n" else b"") + b"\n]\n")


class _Csv:
    def __init__(self, file: IO[bytes]) -> None:
        self.text = io.TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="", write_through=True)
        self.writer = csv.writer(self.text)
        self.writer.writerow(["path", "label", "score", "scores", "abstained", "error"])

    def add(self, prediction: dict[str, Any]) -> None:
        scores = json.dumps(prediction["scores"], ensure_ascii=False)
        rest = [int(prediction.get("abstained", False)), prediction.get("error", "")]
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
            ]
        )
        self.writer = pq.ParquetWriter(file, self.schema)
        self.rows: list[dict[str, Any]] = []

    def add(self, prediction: dict[str, Any]) -> None:
        path = prediction["path"]
        text = path and path.encode(errors="backslashreplace").decode()
        self.rows.append({"abstained": False, "error": None, **prediction, "path": text})
        if len(self.rows) == self.GROUP:
            self._flush()

    def _flush(self) -> None:
        self.writer.write_table(pa.Table.from_pylist(self.rows, schema=self.schema))
        self.rows.clear()

    def end(self) -> None:
        self._flush()
        self.writer.close()


FORMATS: dict[str, type[_Json] | type[_Csv] | type[_Parquet]] = {
    ".json": _Json,
    ".csv": _Csv,
    ".parquet": _Parquet,
}


class Output:
    """A file of predictions; what was added is kept also when the run is interrupted.

    A run that fails before its first prediction leaves a file that was there as it is.
    """

    def __init__(self, path: Path, top: int) -> None:
        if path.suffix not in FORMATS:
            raise MeantimeError(f"cannot write {str(path)!r}: its name must end in one of {', '.join(FORMATS)}")
        self.path, self.top = path, top
        self.part = path.with_name(path.name + ".part")
        self.added = 0

    def __enter__(self) -> Self:
        try:
            self.file = self.part.open("wb")
        except OSError as error:
            raise MeantimeError(f"cannot write {str(self.path)!r}: {error.strerror}") from error
        try:
            self.format: Format = FORMATS[self.path.suffix](self.file)
        except MeantimeError:  # a format whose package is not installed
            self.file.close()
            self.part.unlink()
            raise
        return self

    def add(self, prediction: Prediction) -> None:
        """Write one prediction."""
        try:
            self.format.add(prediction.to_dict(self.top))
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
            os.replace(self.part, self.path)
        else:
            self.part.unlink()
