"""The heads of a list of names: texts encoded each once, learned heads read from disk, tuned ones made ready."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from meantime.encoders import Encoder, cached_texts
from meantime.errors import MeantimeError
from meantime.heads.ensemble import ensemble_head
from meantime.heads.saved import KINDS, PromptHead, head_info, heads_folder, is_head, load_head, saved_heads
from meantime.labels import Labels, fill, templates80
from meantime.meanshift.head import Head, TextHead

# "text", "ensemble"; a learned one by its kind ("coop") or folder; "tpt", "difftpt", and "tpt@" a learned prompt
HeadName: TypeAlias = str
TUNED = ("tpt", "difftpt")


def make_heads(encoder: Encoder, labels: Labels, wanted: Collection[HeadName]) -> Mapping[HeadName, Head]:
    """Return the heads of these names that methods ask for; texts come from the cache where it has them."""
    heads: dict[HeadName, Head] = {}
    for name in sorted(wanted):
        if name == "text":
            heads[name] = _text(encoder, labels)
        elif name == "ensemble":
            prompts = [fill(template, label) for template in templates80() for label in labels.names]
            grid = cached_texts(encoder, prompts).reshape(len(templates80()), len(labels.names), encoder.dim)
            heads[name] = ensemble_head(grid, encoder.logit_scale)
        elif name.partition("@")[0] in TUNED:
            heads[name] = tuned_head(name, encoder, labels)
        else:
            heads[name] = learned_head(name, encoder, labels)
    return heads


def _text(encoder: Encoder, labels: Labels) -> TextHead:
    texts = cached_texts(encoder, [p for prompts in labels.prompts for p in prompts])
    texts = texts / np.linalg.norm(texts, axis=-1, keepdims=True)
    ends = np.cumsum([len(prompts) for prompts in labels.prompts])
    return TextHead(np.stack([part.mean(axis=0) for part in np.split(texts, ends[:-1])]), encoder.logit_scale)


def learned_head(name: str, encoder: Encoder, labels: Labels) -> Head:
    """Return a saved head, by its folder or by its kind."""
    place = head_place(name, encoder, labels)
    return load_head(place, encoder_identity=encoder.identity, classes=labels.names)


def photos_used(names: Collection[HeadName], encoder: Encoder, labels: Labels, dataset: str) -> set[str]:
    """Return the keys of the photos of a dataset that saved heads among these were fitted on: no test may have them."""
    learned = {name.partition("@")[2] or name if name.partition("@")[0] in TUNED else name for name in names}
    infos = [head_info(head_place(name, encoder, labels)) for name in learned - {"text", "ensemble", *TUNED}]
    fitted = [info for info in infos if (info.drawn_from or info.dataset) == dataset]
    return {key for info in fitted for keys in info.draw.values() for key in keys}


def head_place(name: str, encoder: Encoder, labels: Labels) -> Path:
    """Return the folder of a saved head: the name itself, or the only one of its kind in :func:`heads_folder`."""
    if is_head(name):
        return Path(name)
    if name not in KINDS:
        raise MeantimeError(f"there is no head {name!r}: expected {', '.join(KINDS)} or the folder of a saved head")
    places = saved_heads(heads_folder()) if heads_folder().is_dir() else {}
    asked = {label.replace("_", " ") for label in labels.names}
    fits = {
        path: info
        for path, info in places.items()
        if info.kind == name
        and info.encoder == encoder.identity
        and asked <= {label.replace("_", " ") for label in info.classes}
    }
    if not fits:
        raise MeantimeError(
            f"{str(heads_folder())!r} holds no {name} head for the encoder {encoder.name!r} and these "
            f"{len(labels.names)} classes: make one with `meantime fit {name} …`, or give a head's folder, as in "
            "mta@DIR (MEANTIME_HEADS names another place to look in)"
        )
    if len(fits) > 1:
        found = "; ".join(f"{path} ({info.title})" for path, info in list(fits.items())[:4])
        raise MeantimeError(f"{len(fits)} heads fit {name!r}: {found}. Say which by its folder, as in mta@DIR")
    return next(iter(fits))


def tuned_head(name: str, encoder: Encoder, labels: Labels) -> Head:
    """Return the head that is tuned on each image, from "a photo of a" or, by ``tpt@…``, from a learned prompt."""
    system, _, start = name.partition("@")
    from meantime.prompting import prompter

    context = None
    if start:
        learned = learned_head(start, encoder, labels)
        if not isinstance(learned, PromptHead):
            raise MeantimeError(f"{system} tunes a prompt, and {start!r} has none: expected coop or prograd")
        context = learned.context
    prompts = prompter(encoder, labels.names)
    if system == "tpt":
        from meantime.heads.tpt import TPTHead

        return TPTHead(prompts, encoder.logit_scale, context=context)
    from meantime.heads.difftpt import DiffTPTHead

    return DiffTPTHead(prompts, encoder.logit_scale, context=context)
