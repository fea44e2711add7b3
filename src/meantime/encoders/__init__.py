"""Encoders by name: ``load_encoder("embedded")``, ``load_encoder("onnx:DIR")``."""

import difflib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from meantime.encoders.base import Encoder
from meantime.encoders.cache import cached_texts
from meantime.encoders.onnx import OnnxEncoder
from meantime.errors import MeantimeError

__all__ = ["Encoder", "EncoderInfo", "OnnxEncoder", "cached_texts", "list_encoders", "load_encoder"]

EMBEDDED = Path(__file__).parent / "embedded"


def _embedded(rest: str, threads: int | None) -> Encoder:
    if rest:
        raise MeantimeError(f"the embedded encoder takes no argument; {rest!r} given after 'embedded:'")
    return OnnxEncoder(EMBEDDED, name="embedded", threads=threads)


def _onnx(rest: str, threads: int | None) -> Encoder:
    if not rest:
        raise MeantimeError("'onnx:' needs a directory, as in 'onnx:DIR'")
    return OnnxEncoder(rest, threads=threads)


# What stands before the first colon of a name -> (what the user writes, its loader).
LOADERS: dict[str, tuple[str, Callable[[str, int | None], Encoder]]] = {
    "embedded": ("embedded", _embedded),
    "onnx": ("onnx:DIR", _onnx),
}


def load_encoder(name: str | Encoder = "embedded", *, threads: int | None = None) -> Encoder:
    """The encoder of that name; an encoder object is returned as it is.

    ``threads`` is the number of CPU threads; None lets the runtime choose.
    """
    if not isinstance(name, str):
        if hasattr(name, "encode_images") and hasattr(name, "encode_texts"):
            return name
        raise MeantimeError(
            f"an object of type {type(name).__name__} given; expected the name of an encoder, or an object "
            "with encode_images and encode_texts"
        )
    prefix, _, rest = name.partition(":")
    if prefix in LOADERS:
        return LOADERS[prefix][1](rest, threads)
    known = ", ".join(usage for usage, _ in LOADERS.values())
    near = difflib.get_close_matches(prefix, LOADERS, n=1)
    hint = f" Did you mean {LOADERS[near[0]][0]!r}?" if near else ""
    raise MeantimeError(f"unknown encoder {name!r}; known: {known}.{hint}")


@dataclass(frozen=True)
class EncoderInfo:
    """One line of the list of encoders; what depends on the user's own files is None."""

    name: str
    description: str
    size_mb: float | None
    dim: int | None
    installed: bool


def list_encoders() -> list[EncoderInfo]:
    """What ``load_encoder`` knows."""
    config = json.loads((EMBEDDED / "config.json").read_text(encoding="utf-8"))
    size = sum(path.stat().st_size for path in EMBEDDED.iterdir() if path.is_file()) / 1e6
    return [
        EncoderInfo("embedded", config["description"], round(size, 1), config["dim"], True),
        EncoderInfo("onnx:DIR", "A directory written by `meantime export`", None, None, True),
    ]
