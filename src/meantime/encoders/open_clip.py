"""Encoders that open_clip loads: by name and tag, with a checkpoint of one's own, or already loaded."""

import difflib
import json
import math
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np

from meantime.encoders.torch_towers import Ints, Texts, TorchEncoder
from meantime.errors import MeantimeError
from meantime.extras import optional
from meantime.preprocess import Preprocess

SCHEMES = ("hf-hub", "local-dir")  # open_clip's own: such a name brings its weights along
# What open_clip's tokenizer splits a text into, once its special tokens are taken out.
_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def load(
    name: str,
    pretrained: str | None,
    *,
    device: str = "auto",
    precision: str = "fp32",
    threads: int | None = None,
) -> TorchEncoder:
    """The encoder of an open_clip name with a tag or the file of a checkpoint."""
    shown = name if pretrained is None else f"{name}:{pretrained}"
    open_clip = optional("open_clip", f"the encoder {shown!r}", "open-clip")
    if name.partition(":")[0] not in SCHEMES:
        _check_names(open_clip, name, pretrained)
    quick = False
    if pretrained:
        quick = bool(open_clip.get_pretrained_cfg(name, pretrained).get("quick_gelu")) or is_torchscript(pretrained)
    try:
        # It would warn of weights that were trained with QuickGELU and load them without it all the same.
        model = open_clip.create_model(
            name, pretrained=pretrained, force_quick_gelu=quick, require_pretrained=True, device="cpu"
        )
        tokenizer = open_clip.get_tokenizer(name)
    except Exception as error:  # a torn file, a foreign one and a missing network share no base
        raise MeantimeError(_why(shown, pretrained, error)) from error
    preprocess = open_clip.image_transform(
        model.visual.image_size, is_train=False, **_transform_options(open_clip.get_model_preprocess_cfg(model))
    )
    return wrap(
        model, preprocess, tokenizer, name=shown, device=device, precision=precision, threads=threads, quick=quick
    )


def wrap(
    model: Any,
    preprocess: Any,
    tokenizer: Any,
    *,
    name: str | None = None,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    quick: bool = False,
) -> TorchEncoder:
    """The encoder of objects that are loaded already, by open_clip or by OpenAI's own package."""
    name = name or f"open_clip:{type(model).__name__}"
    if not callable(tokenizer):
        raise MeantimeError(f"{name!r} needs the model's tokenizer; {type(tokenizer).__name__} given")
    pixels = _preprocess(preprocess, name)
    _compare(model, pixels, tokenizer, name)
    bias = getattr(model, "logit_bias", None)
    read, short = text_tower(model)
    return TorchEncoder(
        model,
        name=name,
        description=f"{type(model).__name__} by open_clip" + (", QuickGELU" if quick else ""),
        image_tower=model.encode_image,
        text_tower=lambda ids, mask: read(ids),
        texts=_texts(model, tokenizer, short=short),
        preprocess=pixels,
        logit_scale=math.exp(float(model.logit_scale.detach())),
        logit_bias=None if bias is None else float(bias.detach()),
        facts=f"{model} {_heads(model)}",
        device=device,
        precision=precision,
        threads=threads,
    )


def text_tower(model: Any) -> tuple[Callable[[Any], Any], bool]:
    """Return what turns token ids (n, L) into embeddings, and whether L may be as short as the texts are.

    open_clip reads its full context, 77 tokens of which a name fills ten. Where no token sees those that follow it, the
    padding can be left out: positions and mask are cut to the length for the time of the call.
    """
    torch = optional("torch", "open_clip", "open-clip")
    text = getattr(model, "text", model)
    pool = getattr(text, "pool_type", getattr(text, "text_pool_type", "argmax"))
    causal = "attn_mask" in dict(text.named_buffers(recurse=False))
    if not causal or pool not in ("argmax", "eos") or getattr(text, "cls_emb", None) is not None:
        return model.encode_text, False

    class Reader(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any) -> Any:
            return self.model.encode_text(ids)

    reader, one_at_a_time = Reader(), Lock()
    place = "model." if text is model else "model.text."

    def read(ids: Any) -> Any:
        length = ids.shape[1]
        cut = {
            f"{place}positional_embedding": text.positional_embedding[:length],
            f"{place}attn_mask": text.attn_mask[:length, :length],
        }
        with one_at_a_time:
            return torch.func.functional_call(reader, cut, (ids,))

    return read, True


def is_torchscript(path: str) -> bool:
    """Whether a file holds a program beside the weights: so OpenAI publish theirs, trained with QuickGELU."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any("/code/" in name for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def _check_names(open_clip: Any, name: str, pretrained: str | None) -> None:
    """One sentence for a name or tag that does not exist, with the nearest that do."""
    models = open_clip.list_models()
    if name not in models:
        near = difflib.get_close_matches(name, models, n=3, cutoff=0.4)
        hint = f"; near to it are {', '.join(near)}" if near else ""
        raise MeantimeError(f"unknown encoder {name!r}: open_clip lists {len(models)} names, but not this{hint}")
    tags = open_clip.list_pretrained_tags_by_model(name)
    if pretrained is None:
        raise MeantimeError(
            f"{name!r} needs weights, as in {name}:{tags[0] if tags else 'FILE'}; "
            + (f"there are {', '.join(tags)}, or the file of a checkpoint" if tags else "open_clip has none for it")
        )
    if not Path(pretrained).is_file() and not open_clip.is_pretrained_cfg(name, pretrained):
        near = difflib.get_close_matches(pretrained, tags, n=3, cutoff=0.4) or tags
        raise MeantimeError(
            f"{pretrained!r} is neither a tag of {name!r} nor a file; its tags are {', '.join(near) or 'none'}"
        )


def _transform_options(config: dict[str, Any]) -> dict[str, Any]:
    keys = ("mean", "std", "interpolation", "resize_mode", "fill_color")
    return {key: config[key] for key in keys if key in config}


def _preprocess(transforms: Any, name: str) -> Preprocess:
    """Read geometry and normalisation off a torchvision composition."""
    steps = {type(step).__name__: step for step in getattr(transforms, "transforms", [])}
    if "Resize" not in steps or "Normalize" not in steps or {"ResizeKeepRatio", "RandomResizedCrop"} & steps.keys():
        raise MeantimeError(
            f"{name!r}: its preprocessing ({', '.join(steps) or type(transforms).__name__}) is not that of inference "
            "on squares; expected Resize, CenterCrop and Normalize, as create_model_and_transforms gives last"
        )
    resized = steps["Resize"].size
    sides = [resized] if isinstance(resized, int) else list(resized)
    crop = steps["CenterCrop"].size if "CenterCrop" in steps else sides
    crops = {crop} if isinstance(crop, int) else set(crop)
    if len(crops) != 1 or len(set(sides)) != 1:
        raise MeantimeError(f"{name!r} wants pictures of {resized}, cut to {crop}; only squares are supported")
    mode = getattr(steps["Resize"].interpolation, "value", "bicubic")
    filter_: Literal["bicubic", "bilinear"] = "bilinear" if mode == "bilinear" else "bicubic"
    if mode != filter_:
        warnings.warn(f"{name!r}: the filter {mode!r} is replaced by the bicubic one", stacklevel=3)
    mean, std = (tuple(float(x) for x in values) for values in (steps["Normalize"].mean, steps["Normalize"].std))
    return Preprocess(crops.pop(), sides[0], filter_, mean, std, squash=len(sides) == 2)  # type: ignore[arg-type]


def _compare(model: Any, pixels: Preprocess, tokenizer: Any, name: str) -> None:
    """Warn where the parts of a model contradict each other."""
    made_for = getattr(model.visual, "image_size", None) or getattr(model.visual, "input_resolution", None)
    made_for = made_for[0] if isinstance(made_for, tuple | list) else made_for
    if made_for is not None and made_for != pixels.size:
        warnings.warn(
            f"{name!r}: the preprocessing makes pictures of {pixels.size} pixels, "
            f"but the model was made for {made_for}",
            stacklevel=3,
        )
    theirs, ours = getattr(tokenizer, "context_length", None), getattr(model, "context_length", None)
    if theirs and ours and theirs != ours:
        warnings.warn(
            f"{name!r}: the tokenizer gives {theirs} tokens, but the model reads {ours}; the model's number is used",
            stacklevel=3,
        )


def _texts(model: Any, tokenizer: Any, *, short: bool) -> Texts:
    context = int(getattr(model, "context_length", None) or getattr(tokenizer, "context_length", None) or 77)
    inner: Any = getattr(tokenizer, "tokenizer", None)  # of transformers, in open_clip's HFTokenizer
    pad_id = int(getattr(inner, "pad_token_id", 0) or 0)

    def tokenize(texts: list[str]) -> tuple[Ints, Ints | None]:
        ids = np.asarray(tokenizer(texts, context_length=context), np.int64)
        longest = int(np.flatnonzero((ids != pad_id).any(axis=0))[-1]) + 1
        return ids[:, :longest] if short else ids, None

    def to_json() -> str:
        if hasattr(inner, "backend_tokenizer"):
            return str(inner.backend_tokenizer.to_str())
        if hasattr(tokenizer, "bpe_ranks"):
            return _bpe_json(tokenizer)
        raise MeantimeError(f"the tokenizer {type(tokenizer).__name__} has no fast form that could be exported")

    return Texts(tokenize, context, "longest" if short else "max_length", pad_id, to_json)


def _bpe_json(tokenizer: Any) -> str:
    """CLIP's byte pair encoding as a file of the `tokenizers` package."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    start, end = (tokenizer.decoder[i] for i in (tokenizer.sot_token_id, tokenizer.eot_token_id))
    fast = Tokenizer(models.BPE(tokenizer.encoder, list(tokenizer.bpe_ranks), end_of_word_suffix="</w>", unk_token=end))
    fast.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    fast.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    fast.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}", special_tokens=[(start, tokenizer.sot_token_id), (end, tokenizer.eot_token_id)]
    )
    return str(fast.to_str())


def _heads(model: Any) -> str:
    """Numbers of attention heads: weights do not show them."""
    return json.dumps([m.num_heads for m in model.modules() if hasattr(m, "num_heads")])


def _why(shown: str, pretrained: str | None, error: Exception) -> str:
    text = " ".join(str(error).split())
    if pretrained is not None and Path(pretrained).is_file():
        name = shown.partition(":")[0]
        return f"the checkpoint {pretrained!r} is broken or of another model than {name!r}: {text[:200]}"
    signs = ("connect", "download", "resolve", "offline", "unreachable", "HF Hub")
    if any(sign.lower() in text.lower() for sign in signs):
        return f"the weights of {shown!r} cannot be downloaded and are not in the cache: go online, or give a file"
    return f"the encoder {shown!r} cannot be loaded: {text[:300]}"
