"""Encoders that transformers loads: CLIP, SigLIP and SigLIP 2, by name, from a directory or already loaded."""

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from meantime.encoders.catalogue import KINDS
from meantime.encoders.torch_towers import Ints, Padding, Texts, TorchEncoder
from meantime.errors import MeantimeError
from meantime.extras import optional
from meantime.preprocess import Preprocess

FILTERS = {2: "bilinear", 3: "bicubic"}  # Pillow's numbers
# Of a configuration, what does not change embeddings.
_IRRELEVANT = {"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version"}


def load(name: str, *, device: str = "auto", precision: str = "fp32", threads: int | None = None) -> TorchEncoder:
    """The encoder of a hub name or a local directory."""
    transformers = optional("transformers", f"the encoder 'hf:{name}'", "transformers")
    optional("torch", f"the encoder 'hf:{name}'", "transformers")
    here = Path(name).is_dir()
    if not here and (Path(name).is_absolute() or name.startswith(".")):
        raise MeantimeError(f"there is no directory {name!r}; expected one that transformers' save_pretrained wrote")
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        _check_kind(config.model_type, name)
        # AutoModel and not the class that the configuration names: half of a SigLIP can be saved alone.
        model, report = transformers.AutoModel.from_pretrained(name, output_loading_info=True)
        image_processor = transformers.AutoImageProcessor.from_pretrained(name)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    except MeantimeError:
        raise
    except Exception as error:  # what a missing, torn or foreign file raises has no common base
        raise MeantimeError(_why(name, here, error)) from error
    # transformers fills what a checkpoint lacks with random numbers and only mentions it in a log.
    lacking = [key for key in report["missing_keys"] if not key.endswith("position_ids")]
    if lacking:
        raise MeantimeError(
            f"the checkpoint {name!r} is broken: it lacks {len(lacking)} weights, {sorted(lacking)[0]} among them; "
            "download or save it again"
        )
    return wrap(
        model, image_processor, tokenizer, name=f"hf:{name}", device=device, precision=precision, threads=threads
    )


def wrap(
    model: Any,
    image_processor: Any,
    tokenizer: Any,
    *,
    name: str | None = None,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
) -> TorchEncoder:
    """The encoder of objects that are loaded already; a processor may stand for the last two together."""
    config = model.config
    name = name or f"transformers:{getattr(config, 'name_or_path', '') or type(model).__name__}"
    tokenizer = tokenizer or getattr(image_processor, "tokenizer", None)
    image_processor = getattr(image_processor, "image_processor", image_processor)
    _check_kind(config.model_type, name)
    if tokenizer is None or not hasattr(image_processor, "image_mean"):
        raise MeantimeError(
            f"{name!r} needs an image processor and a tokenizer; "
            f"{type(image_processor).__name__} and {type(tokenizer).__name__} given"
        )
    sigmoid = config.model_type != "clip"
    preprocess = _preprocess(image_processor, config, name)
    _compare(config, tokenizer, name)
    return TorchEncoder(
        model,
        name=name,
        description=f"{KINDS[config.model_type]} by transformers",
        image_tower=_patched(model, preprocess.size) if config.model_type == "siglip2" else _images(model),
        text_tower=lambda ids, mask: pooled(model.get_text_features(input_ids=ids, attention_mask=mask)),
        texts=_texts(tokenizer, config),
        preprocess=preprocess,
        logit_scale=math.exp(float(model.logit_scale.detach())),
        logit_bias=float(model.logit_bias.detach()) if sigmoid else None,
        facts=json.dumps([_facts(config.text_config), _facts(config.vision_config)], sort_keys=True, default=str),
        device=device,
        precision=precision,
        threads=threads,
    )


def pooled(features: Any) -> Any:
    """The embeddings: transformers 4 gives them bare, 5 in an object."""
    return getattr(features, "pooler_output", features)


def _images(model: Any) -> Any:
    return lambda pixels: pooled(model.get_image_features(pixel_values=pixels))


def _patched(model: Any, size: int) -> Any:
    """SigLIP 2 of variable shape wants patches in rows, (n, L, p · p · 3); a view is a square of them."""
    torch = optional("torch", "SigLIP 2", "transformers")
    p = model.config.vision_config.patch_size
    side = size // p

    def tower(pixels: Any) -> Any:
        n = pixels.shape[0]
        rows = pixels.reshape(n, 3, side, p, side, p).permute(0, 2, 4, 3, 5, 1).reshape(n, side * side, p * p * 3)
        shapes = torch.full((n, 2), side, device=pixels.device)
        mask = torch.ones((n, side * side), dtype=torch.int32, device=pixels.device)
        return pooled(model.get_image_features(pixel_values=rows, pixel_attention_mask=mask, spatial_shapes=shapes))

    return tower


def _texts(tokenizer: Any, config: Any) -> Texts:
    """CLIP reads texts as long as they are, SigLIP always its full context."""
    context = int(config.text_config.max_position_embeddings)
    padding: Padding = "longest" if config.model_type == "clip" else "max_length"
    # Under CLIP's causal attention no text sees its padding. Whether SigLIP hides it, the tokenizer says.
    masked = config.model_type != "clip" and "attention_mask" in tokenizer.model_input_names

    def tokenize(texts: list[str]) -> tuple[Ints, Ints | None]:
        out = tokenizer(
            texts,
            padding=padding,
            truncation=True,
            max_length=context,
            return_tensors="np",
            return_attention_mask=masked,
        )
        ids = np.asarray(out["input_ids"], np.int64)
        return ids, np.asarray(out["attention_mask"], np.int64) if masked else None

    def to_json() -> str:
        backend: Any = getattr(tokenizer, "backend_tokenizer", None)
        if not hasattr(backend, "to_str"):
            raise MeantimeError(f"the tokenizer {type(tokenizer).__name__} has no fast form that could be exported")
        if tokenizer.padding_side != "right":
            raise MeantimeError(f"the tokenizer pads on the {tokenizer.padding_side}; only the right can be exported")
        return str(backend.to_str())

    return Texts(tokenize, context, padding, int(tokenizer.pad_token_id or 0), to_json)


def _preprocess(processor: Any, config: Any, name: str) -> Preprocess:
    """Geometry and normalisation as the image processor has them."""
    expected = int(getattr(config.vision_config, "image_size", 0) or 0)
    if config.model_type == "siglip2":
        # Made for any shape of so many patches; the views are square.
        size = resize = math.isqrt(int(processor.max_num_patches)) * int(config.vision_config.patch_size)
        squash = True
    else:
        size, resize, squash = _geometry(processor, name)
        if expected and size != expected:
            warnings.warn(
                f"{name!r}: the image processor makes pictures of {size} pixels, but the model was made for "
                f"{expected}; the model's number is used",
                stacklevel=3,
            )
            resize, size = round(resize * expected / size), expected
    resample = int(getattr(processor, "resample", 3) or 3)
    if resample not in FILTERS:
        warnings.warn(f"{name!r}: Pillow's filter {resample} is replaced by the bicubic one", stacklevel=3)
    return Preprocess(
        size=size,
        resize=resize,
        interpolation="bilinear" if FILTERS.get(resample) == "bilinear" else "bicubic",
        mean=tuple(processor.image_mean),
        std=tuple(processor.image_std),
        squash=squash,
    )


def _geometry(processor: Any, name: str) -> tuple[int, int, bool]:
    """Size, resize, squash."""

    def part(sizes: Any, key: str) -> int:
        value = sizes.get(key) if isinstance(sizes, dict) else getattr(sizes, key, None)
        return int(value or 0)

    resized = processor.size
    crop = processor.crop_size if getattr(processor, "do_center_crop", False) else None
    short, height, width = (part(resized, key) for key in ("shortest_edge", "height", "width"))
    size = part(crop, "height") if crop is not None else height
    other = part(crop, "width") if crop is not None else width
    if not size or size != other or (not short and height != width):
        raise MeantimeError(f"{name!r} wants pictures of size {resized}, crop {crop}; only squares are supported")
    return size, short or height, not short


def _compare(config: Any, tokenizer: Any, name: str) -> None:
    """Warn where the parts of a model, or its name, contradict each other."""
    activations = {config.text_config.hidden_act, config.vision_config.hidden_act}
    if "openai/clip-" in name and activations != {"quick_gelu"}:
        warnings.warn(
            f"{name!r}: OpenAI trained with quick_gelu, but the configuration says {', '.join(sorted(activations))}; "
            "embeddings will be off",
            stacklevel=3,
        )
    if len(tokenizer) > config.text_config.vocab_size:
        warnings.warn(
            f"{name!r}: the tokenizer knows {len(tokenizer)} tokens, the model only "
            f"{config.text_config.vocab_size}; they do not belong together",
            stacklevel=3,
        )


def _facts(config: Any) -> dict[str, Any]:
    return {key: value for key, value in config.to_dict().items() if key not in _IRRELEVANT}


def _check_kind(kind: str, name: str) -> None:
    if kind not in KINDS:
        raise MeantimeError(f"{name!r} is a model of type {kind!r}; expected one of {', '.join(KINDS)}")


def _why(name: str, here: bool, error: Exception) -> str:
    """One sentence for what can go wrong in loading."""
    text = " ".join(str(error).split())
    if here:
        files = ", ".join(sorted(path.name for path in Path(name).iterdir())[:8]) or "nothing"
        return f"the directory {name!r} (with {files}) cannot be loaded as a CLIP or SigLIP model: {text[:300]}"
    if "is not a valid model identifier" in text or "RepositoryNotFound" in type(error).__name__:
        return f"the hub knows no model {name!r} (or it is private), and there is no such directory: check the name"
    if isinstance(error, OSError) and "connect" in text.lower():
        return f"the hub cannot be reached for {name!r} and it is not in the cache: go online, or give a directory"
    return f"the model {name!r} cannot be loaded: {text[:300]}"
