"""The heads that rows need: from a store's own texts, from a saved training, or tuned on each image's views."""

import shlex
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from meantime.bench.declare import Row
from meantime.datasets import list_datasets
from meantime.encoders import Encoder, load_encoder
from meantime.errors import MeantimeError
from meantime.extras import optional
from meantime.heads.ensemble import ProbabilityMean, Vote
from meantime.heads.named import TUNED
from meantime.heads.saved import (
    KINDS,
    PROMPTS,
    HeadInfo,
    PromptHead,
    head_info,
    heads_for,
    is_head,
    load_head,
    saved_heads,
)
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
        self.data: dict[str, Path] = {}  # where datasets lie, as far as it is known: for commands that are suggested
        self._made: dict[tuple[Any, ...], Head] = {}
        self._encoders: dict[tuple[str, int], Encoder | None] = {}  # by name and the way of `LOADED`
        self._found: dict[tuple[Any, ...], HeadInfo] = {}  # the saved head that was taken
        self._prompts: dict[str, list[TextHead]] = {}

    def of(self, store: Store, row: Row) -> dict[str, Head]:
        """Every head that a row needs on a store."""
        return {name: self._head(name, store, row) for name in sorted(row.resolve().heads)}

    def remarks(self, store: Store, row: Row) -> list[str]:
        """What must be said of the heads that were found for a row: what is not as asked."""
        said = []
        for info in self._taken(store, row):
            if info.seed != store.seed:
                said.append(f"{info.title}: one training for all seeds")
            if info.shots is None:
                said.append(f"{info.title}: of how many shots is not known")
        return said

    def photos(self, store: Store, row: Row) -> set[str]:
        """Keys of the photos of a store's dataset that the heads of a row were fitted on.

        A head of a training split has seen none of the test, whatever its photos are called.
        """
        from_here = [
            info
            for info in self._taken(store, row)
            if (info.drawn_from or info.dataset) == store.name and info.settings.get("split") != "train"
        ]
        return {key for info in from_here for keys in info.draw.values() for key in keys}

    def _taken(self, store: Store, row: Row) -> list[HeadInfo]:
        places = [_place(_learned_part(name), store, row) for name in sorted(row.resolve().heads)]
        return [self._found[place] for place in dict.fromkeys(places) if place in self._found]

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
                    f"the store {str(store.path)!r} of {store.name}, seed {store.seed}, lacks the 80 prompts: run its "
                    "`meantime encode` again with --resume --ensemble"
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
            raise UnavailableError(
                f"the store {str(store.path)!r} of {store.name}, seed {store.seed}, has not the 80 prompts one by one"
            )
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
        """A saved head: the one in a folder, or that of its kind for what a row asks."""
        if kind in KINDS:
            path, info = self._find(kind, store, row)
        elif is_head(kind):
            path, info = Path(kind), head_info(kind)
        else:
            raise UnavailableError(
                f"there is no head {kind!r} here: expected text, ensemble, {', '.join((*TUNED, *KINDS))}, or the "
                "folder of a saved head"
            )
        self._found[_place(kind, store, row)] = info
        return load_head(path, encoder_identity=store.plan.encoder, classes=store.class_names)

    def _find(self, kind: str, store: Store, row: Row) -> tuple[Path, HeadInfo]:
        dataset = row.trained_on or store.name
        tokens = row.tokens if kind in PROMPTS else None
        name = store.plan.encoder_name
        needs = f"needs a fitted head: {self._command(kind, dataset, name, store.seed, row)}"
        if self.folder is None:
            raise UnavailableError(f"{needs}, then --heads DIR")
        if not self.folder.is_dir():
            raise UnavailableError(f"{needs}; there is no folder {str(self.folder)!r}")
        near = heads_for(self._saved, kind, dataset=dataset, encoder=store.plan.encoder)
        every = heads_for(near, kind, shots=row.shots, m=tokens)
        # The training of the same seed, one whose seed is not known, or the only one that there is
        fits = heads_for(every, kind, seed=store.seed) or (every if len(every) == 1 else {})
        if not fits:
            there = f"no {kind} of {dataset} for {name}"
            if near:
                there = "only " + "; ".join([info.title for info in near.values()][:4]) + "; …" * (len(near) > 4)
            raise UnavailableError(f"{needs}; {str(self.folder)!r} has {there}")
        if len(fits) > 1 and row.shots is None:
            found = "; ".join(f"{path} ({info.title})" for path, info in list(fits.items())[:4])
            raise UnavailableError(f"{len(fits)} heads fit {kind!r}: {found}. Say which by its folder, as in mta@DIR")
        return next(iter(fits.items()))

    def missing(self, kind: str, dataset: str, model: str, seed: int, row: Row) -> str | None:
        """The command that makes the head of a row for a seed; None where it lies there, by what its file says."""
        tokens = row.tokens if kind in PROMPTS else None
        of = {"dataset": dataset, "encoder_name": model, "shots": row.shots, "m": tokens, "seed": seed}
        there = self.folder is not None and self.folder.is_dir() and heads_for(self._saved, kind, **of)
        return None if there else self._command(kind, dataset, model, seed, row)

    def _command(self, kind: str, dataset: str, model: str, seed: int, row: Row) -> str:
        """The `meantime fit` that makes a head; a store does not know where its photos lie."""
        known = dataset in list_datasets()
        what = dataset if known else shlex.quote(str(self.data.get(dataset, "FOLDER")))
        root = f" --root {shlex.quote(str(self.data.get(dataset, 'DATA')))}" if known else ""
        shots = "" if row.shots is None else f" --shots {row.shots}"
        tokens = f" --m {row.tokens}" if row.tokens and kind in PROMPTS else ""
        return f"meantime fit {kind} {what}{shots}{tokens} --model {shlex.quote(model)} --seed {seed}{root}"

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


def _learned_part(name: str) -> str:
    """What is learned in a head: of one that is tuned on each image, what it starts from."""
    kind, _, base = name.partition("@")
    return base if kind in TUNED else name


def _place(name: str, store: Store, row: Row) -> tuple[Any, ...]:
    return (name, store.path, row.trained_on, row.shots, row.tokens)
