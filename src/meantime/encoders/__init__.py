"""Encoders by the names that people know, or from objects that are loaded already.

load_encoder("embedded")                          # in the package: offline, small
load_encoder("onnx:DIR")                          # what `meantime export` wrote
load_encoder("hf:openai/clip-vit-base-patch16")   # transformers: a hub name or a directory
load_encoder("ViT-B-16", pretrained="openai")     # open_clip; "ViT-B-16:openai" is the same
load_encoder("http://localhost:8000")             # an embeddings API: `meantime serve`, or another
load_encoder(model, preprocess, tokenizer)        # objects of open_clip or transformers
"""

import difflib
import inspect
import json
from pathlib import Path
from typing import Any

from meantime.encoders import catalogue, huggingface, open_clip
from meantime.encoders.base import Encoder
from meantime.encoders.cache import cached_texts
from meantime.encoders.catalogue import EncoderInfo
from meantime.encoders.exported import export_folder, stand_in
from meantime.encoders.onnx import OnnxEncoder
from meantime.encoders.torch_towers import TorchEncoder, check_precision
from meantime.errors import MeantimeError, MissingExtraError

__all__ = [
    "Encoder",
    "EncoderInfo",
    "OnnxEncoder",
    "TorchEncoder",
    "cached_texts",
    "export_folder",
    "list_encoders",
    "load_encoder",
]

EMBEDDED = Path(__file__).parent / "embedded"
MEMBERS = ("name", "identity", "dim", "logit_scale", "preprocess", "encode_images", "encode_texts")  # of Encoder
USAGES = ("embedded", "onnx:DIR", "hf:NAME", "NAME:TAG of open_clip", "http://HOST:PORT", "a directory")


def load_encoder(
    model: Any = "embedded",
    preprocess: Any = None,
    tokenizer: Any = None,
    *,
    pretrained: str | None = None,
    device: str = "auto",
    precision: str | None = None,
    threads: int | None = None,
    **api: Any,
) -> Encoder:
    """The encoder of that name, or of a model that is loaded already; an encoder is returned as it is.

    Parameters
    ----------
    model, preprocess, tokenizer
        A name, as above; or a model of open_clip with its transforms and tokenizer; or a model of transformers
        with its processor (which may hold the tokenizer too).
    pretrained
        Of an open_clip name: its tag, or the file of a checkpoint.
    device
        ``"auto"`` (cuda or mps if there is one, else cpu; there ONNX Runtime, if `meantime export` has kept the
        model), ``"cpu"`` (always PyTorch), ``"cuda"``, ``"mps"``. Of a loaded model, ``"auto"`` leaves it where it is.
    precision
        ``"fp32"``; ``"fp16"`` or ``"bf16"``, to which the weights are cast; ``"amp"``, PyTorch's autocast over weights
        of float32. None is fp32, of a loaded model its own.
    threads
        CPU threads; None lets the runtime choose.
    api
        Of an http address: what :class:`~meantime.encoders.http.HttpEncoder` takes: ``dim``, ``size``, …
    """
    if isinstance(model, str) and model.startswith(("http://", "https://")):
        if device != "auto" or precision not in (None, "fp32"):
            raise MeantimeError("an API chooses its own device and precision; leave both out")
        from meantime.encoders.http import HttpEncoder  # urllib3 is a fifth of the time of `import meantime`

        known = list(inspect.signature(HttpEncoder).parameters)[1:]
        if unknown := sorted(api.keys() - set(known)):
            raise MeantimeError(
                f"an encoder at an http address knows no {', '.join(unknown)}; known: {', '.join(known)}"
            )
        return HttpEncoder(model, **api)
    if api:
        raise MeantimeError(f"{', '.join(api)} given; only an encoder at an http address takes this")
    if precision is not None:
        check_precision(precision)
    if threads is not None and threads < 1:
        raise MeantimeError(f"threads is {threads}; expected at least 1, or None for as many as the runtime chooses")
    if not isinstance(model, str | Path):
        _only_open_clip(type(model).__name__, pretrained)
        if hasattr(model, "encode_images") and hasattr(model, "encode_texts"):
            return _complete(model)
        return _wrap(model, preprocess, tokenizer, None if device == "auto" else device, precision, threads)
    name = str(model)
    prefix, _, rest = name.partition(":")
    if prefix == "embedded" and rest:
        raise MeantimeError(f"the embedded encoder takes no argument; {rest!r} given after 'embedded:'")
    if prefix in ("onnx", "hf") and not rest:
        raise MeantimeError(f"{name!r} needs a directory{'' if prefix == 'onnx' else ' or a name'} after the colon")
    local = Path(name)
    if prefix in ("embedded", "onnx") or (local / "image.onnx").is_file():
        _refuse(name, device, precision)
        _only_open_clip(name, pretrained)
        if prefix == "embedded":
            return OnnxEncoder(EMBEDDED, name="embedded", threads=threads)
        return OnnxEncoder(rest if prefix == "onnx" else local, threads=threads)
    by_transformers = prefix == "hf" or (local.is_dir() and pretrained is None)
    if by_transformers:
        _only_open_clip(name, pretrained)
    if device == "auto" and precision in (None, "fp32"):
        exported = stand_in(name if pretrained is None else f"{name}:{pretrained}", threads)
        if exported is not None:
            return exported
    if by_transformers:
        which = rest if prefix == "hf" else name
        return huggingface.load(which, device=device, precision=precision or "fp32", threads=threads)
    if prefix not in open_clip.SCHEMES:
        name, pretrained = (prefix, pretrained or rest or None)
    try:
        return open_clip.load(name, pretrained, device=device, precision=precision or "fp32", threads=threads)
    except MissingExtraError:
        if _is_known_elsewhere(name):
            raise
        raise MeantimeError(_unknown(str(model))) from None
    except MeantimeError as error:
        # open_clip's own list is long; a slip in one of our names is told first.
        if str(error).startswith("unknown encoder") and difflib.get_close_matches(name, ("embedded",)):
            raise MeantimeError(_unknown(str(model))) from None
        raise


def list_encoders() -> list[EncoderInfo]:
    """What ``load_encoder`` knows: installed, cached and to be downloaded."""
    config = json.loads((EMBEDDED / "config.json").read_text(encoding="utf-8"))
    size = sum(path.stat().st_size for path in EMBEDDED.iterdir() if path.is_file()) / 1e6
    return [
        EncoderInfo("embedded", config["description"], round(size, 1), config["dim"]),
        EncoderInfo("onnx:DIR", "A directory written by `meantime export`", None, None),
        *catalogue.downloadable(),
    ]


def _wrap(
    model: Any, preprocess: Any, tokenizer: Any, device: str | None, precision: str | None, threads: int | None
) -> Encoder:
    options: dict[str, Any] = {"device": device, "precision": precision, "threads": threads}
    if hasattr(model, "get_image_features") and hasattr(model, "config"):
        return huggingface.wrap(model, preprocess, tokenizer, **options)
    if hasattr(model, "encode_image") and hasattr(model, "encode_text"):
        return open_clip.wrap(model, preprocess, tokenizer, **options)
    raise MeantimeError(
        f"an object of type {type(model).__name__} given; expected the name of an encoder, an object with "
        "encode_images and encode_texts, or a model of open_clip or transformers with its preprocess and tokenizer"
    )


def _complete(encoder: Any) -> Encoder:
    """The object itself if it has all that an encoder needs. Looked up without asking: a dim may run the model."""
    there = inspect.getattr_static
    missing = [name for name in MEMBERS if there(encoder, name, None) is None and not hasattr(encoder, name)]
    if missing:
        raise MeantimeError(
            f"an object of type {type(encoder).__name__} lacks {', '.join(missing)}; "
            f"an encoder has {', '.join(MEMBERS)}"
        )
    return encoder  # type: ignore[no-any-return]


def _only_open_clip(name: str, pretrained: str | None) -> None:
    if pretrained is not None:
        raise MeantimeError(f"pretrained={pretrained!r} given for {name!r}; only names of open_clip take it")


def _refuse(name: str, device: str, precision: str | None) -> None:
    if device not in ("auto", "cpu") or precision not in (None, "fp32"):
        raise MeantimeError(f"{name!r} runs on the CPU in fp32; device {device!r} and precision {precision!r} given")


def _is_known_elsewhere(name: str) -> bool:
    """Whether it is, or looks like, a name of open_clip: there, architectures begin so."""
    known = {entry[0].partition(":")[0] for entry in catalogue.OPEN_CLIP}
    starts = (
        "RN",
        "ViT",
        "convnext",
        "coca",
        "EVA",
        "roberta",
        "xlm",
        "nllb",
        "MobileCLIP",
        "PE-",
        "hf-hub",
        "local-dir",
    )
    return name in known or name.startswith(starts)


def _unknown(name: str) -> str:
    names = ["embedded", *(entry[0] for entry in (*catalogue.OPEN_CLIP, *catalogue.TRANSFORMERS))]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown encoder {name!r}; known: {', '.join(USAGES)}.{hint}"
