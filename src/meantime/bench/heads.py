"""The heads that rows need: from a store's own texts, from a saved training, or tuned on each image's views."""

import shlex
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from meantime.bench.declare import Row
from meantime.encoders import Encoder, load_encoder
from meantime.errors import MeantimeError
from meantime.extras import optional
from meantime.heads.ensemble import ProbabilityMean, Vote
from meantime.heads.named import TUNED
from meantime.heads.saved import PROMPTS, HeadInfo, PromptHead, heads_for, load_head, saved_heads
from meantime.meanshift.head import Head, TextHead
from meantime.store import Store

# What else than the mean of their embeddings 80 prompts can be reduced to
REDUCTIONS: dict[str, Callable[[list[TextHead]], Head]] = {
    "ensemble-vote": Vote,
    "ensemble-probability": ProbabilityMean,
}
# How the encoder of a store may have been loaded: its identity tells one precision, and an export, from another
LOADED: tuple[dict[str, str], ...] = ({}, {"device": "cpu"}, {"precision": "fp16"}, {"precision": "bf16"})


class UnavailableError(MeantimeError):
    """A cell has to stay empty; the message says why and what would fill it."""


class Heads:
    """Makes heads and keeps them: stores of one dataset share their texts, rows share their heads."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder  # of saved heads
        self._made: dict[tuple[Any, ...], Head] = {}
        self._encoders: dict[tuple[str, int], Encoder | None] = {}  # by name and the way of `LOADED`
        self._remarks: dict[tuple[Any, ...], list[str]] = {}
        self._prompts: dict[str, list[TextHead]] = {}

    def of(self, store: Store, row: Row) -> dict[str, Head]:
        """Every head that a row needs on a store."""
        return {name: self._head(name, store, row) for name in sorted(row.resolve().heads)}

    def remarks(self, store: Store, row: Row) -> list[str]:
        """What must be said of the heads that were found for a row: what is not as asked."""
        kinds = {name.rpartition("@")[2] for name in row.resolve().heads}
        return [said for kind in sorted(kinds) for said in self._remarks.get(_place(kind, store, row), [])]

    @cached_property
    def _saved(self) -> dict[Path, HeadInfo]:
        return saved_heads(self.folder) if self.folder is not None else {}

    def _head(self, name: str, store: Store, row: Row) -> Head:
        if name in ("text", "ensemble", *REDUCTIONS):
            key: tuple[Any, ...] = (name, store.path)
        else:
            key = _place(name, store, row)
        if key not in self._made:
            try:
                self._made[key] = self._make(name, store, row)
            except UnavailableError:
                raise
            except (MeantimeError, ImportError) as error:
                raise UnavailableError(str(error)) from error
        return self._made[key]

    def _make(self, name: str, store: Store, row: Row) -> Head:
        if name == "text":
            return TextHead(store.texts.single, store.logit_scale)
        if name == "ensemble":
            if store.texts.ensemble is None:
                raise UnavailableError(
                    f"the store of {store.name} lacks the 80 prompts: run its `meantime encode` again with "
                    "--resume --ensemble"
                )
            return TextHead(store.texts.ensemble, store.logit_scale)
        if name in REDUCTIONS:
            return REDUCTIONS[name](self._templates(store))
        kind, _, base = name.partition("@")
        if kind in TUNED:
            return self._tuned(kind, base, store, row)
        return self._learned(name, store, row)

    def _templates(self, store: Store) -> list[TextHead]:
        """A head for each of the 80 prompts, shared by all stores with the same texts: these are the largest."""
        if "templates" not in store.manifest.texts:
            raise UnavailableError(f"the store of {store.name} has not the 80 prompts one by one")
        key = store.manifest.texts["templates"].sha256
        if key not in self._prompts:
            self._prompts[key] = [TextHead(classes, store.logit_scale) for classes in store.templates()]
        return self._prompts[key]

    def _tuned(self, kind: str, base: str, store: Store, row: Row) -> Head:
        context = None
        if base:
            learned = self._learned(base, store, row)
            if not isinstance(learned, PromptHead):
                raise UnavailableError(f"{kind} tunes a prompt, and {base} has none")
            context = learned.context
        optional("torch", kind, "torch")
        from meantime.heads.difftpt import DiffTPTHead
        from meantime.heads.tpt import TPTHead
        from meantime.prompting import prompter

        prompts = prompter(self._encoder(store), store.class_names)
        head: Head = (TPTHead if kind == "tpt" else DiffTPTHead)(prompts, store.logit_scale, context=context)
        return head

    def _learned(self, kind: str, store: Store, row: Row) -> Head:
        dataset = row.trained_on or store.name
        tokens = row.tokens if kind in PROMPTS else None
        name = store.plan.encoder_name
        needs = (
            f"needs a fitted head: meantime fit {kind} {dataset} --shots {row.shots}"
            + (f" --m {tokens}" if tokens else "")
            + f" --model {shlex.quote(name)} --seed {store.seed}"
        )
        if self.folder is None:
            raise UnavailableError(f"{needs}, then --heads DIR")
        if not self.folder.is_dir():
            raise UnavailableError(f"{needs}; there is no folder {str(self.folder)!r}")
        of = {"dataset": dataset, "encoder": store.plan.encoder, "shots": row.shots, "m": tokens}
        every = heads_for(self._saved, kind, **of)
        # The training of the same seed, one whose seed is not known, or the only one that there is
        fits = heads_for(every, kind, seed=store.seed) or (every if len(every) == 1 else {})
        if not fits:
            seeds = ", ".join(str(info.seed) for info in every.values())
            others = f" and seed {store.seed}, but for seeds {seeds}" if every else ""
            raise UnavailableError(f"{needs}; {str(self.folder)!r} has none for {name}{others}")
        path, info = next(iter(fits.items()))
        self._remarks[_place(kind, store, row)] = [
            *([f"{info.title}: one training for all seeds"] if info.seed != store.seed else []),
            *([f"{info.title}: of how many shots is not known"] if info.shots is None else []),
        ]
        return load_head(path, encoder_identity=store.plan.encoder, classes=store.class_names)

    def _encoder(self, store: Store) -> Encoder:
        """The encoder that made a store, loaded again by its name; its identity must be the same."""
        name, identity = store.plan.encoder_name, store.plan.encoder
        found = []
        for way in range(len(LOADED)):
            encoder = self._loaded(name, way)
            if encoder is not None and encoder.identity == identity:
                return encoder
            found += [encoder.identity] if encoder is not None else []
        raise UnavailableError(
            f"the store of {store.name} was made by {identity}, but {name} is {', '.join(dict.fromkeys(found))}: "
            "encode it again with this encoder"
        )

    def _loaded(self, name: str, way: int) -> Encoder | None:
        if (name, way) not in self._encoders:
            try:
                self._encoders[name, way] = load_encoder(name, **LOADED[way])  # type: ignore[arg-type]
            except MeantimeError:
                if way == 0:
                    raise
                self._encoders[name, way] = None  # it has no such device or precision
        return self._encoders[name, way]


def _place(name: str, store: Store, row: Row) -> tuple[Any, ...]:
    return (name, store.path, row.trained_on, row.shots, row.tokens)
