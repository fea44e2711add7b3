"""The stores that a run may use, found by what their manifests say: dataset, encoder, views and seed."""

import re
from collections.abc import Iterable
from pathlib import Path

from meantime.bench.declare import BACKBONES, Views
from meantime.errors import MeantimeError
from meantime.store import Store, open_store
from meantime.store.manifest import NAME, Plan
from meantime.store.reader import unlabelled

# How the paper's backbones are written by open_clip, transformers, and people; a name that says more means another.
_PATTERNS = {
    "RN50": r"(rn|resnet-?)50",
    "RN101": r"(rn|resnet-?)101",
    "ViT-B-32": r"vit-b(ase)?-(patch)?32",
    "ViT-B-16": r"vit-b(ase)?-(patch)?16",
    "ViT-L-14": r"vit-l(arge)?-(patch)?14",
}


class Shelf:
    """Stores of test images."""

    def __init__(self, stores: Iterable[Store]) -> None:
        self.stores = [store for store in stores if store.plan.split == "test"]

    @classmethod
    def at(cls, folders: Iterable[str | Path], *, to_fill: bool = False) -> "Shelf":
        """The stores in some folders: each is a store, or holds stores; where it is yet ``to_fill``, maybe none."""
        found: dict[Path, Store] = {}
        for folder in map(Path, folders):
            if not folder.is_dir() and not to_fill:
                raise MeantimeError(f"there is no folder {str(folder)!r} with stores; make one with `meantime encode`")
            inside = [folder] if (folder / NAME).is_file() else sorted(m.parent for m in folder.rglob(NAME))
            if not inside and not to_fill:
                raise MeantimeError(f"{str(folder)!r} is no store and holds none; make one with `meantime encode`")
            stores = {path.resolve(): open_store(path) for path in inside}
            if stores and not any(store.plan.labelled for store in stores.values()):
                raise MeantimeError(unlabelled(inside[0]))
            found |= stores
        return cls(found.values())

    @property
    def datasets(self) -> list[str]:
        """The names of the datasets that are there."""
        return list(dict.fromkeys(store.name for store in self.stores))

    @property
    def encoders(self) -> list[str]:
        """The names of the encoders that are there."""
        return list(dict.fromkeys(store.plan.encoder_name for store in self.stores))

    def find(
        self,
        dataset: str,
        encoder: str,
        views: Views,
        seeds: Iterable[int],
        *,
        n_views: int = 1,
        images: int | None = None,
    ) -> dict[int, Store]:
        """The stores of a dataset by seed.

        Of several that fit, a complete one goes first, then the one with more images (as far as more than ``images``
        are not asked for), then one with ``n_views``: part of a dataset must not stand for the whole.
        """
        fitting = [
            store
            for store in self.stores
            if store.name == dataset and made_by(store.plan, encoder) and kind_of(store.plan) == views
        ]

        def rank(store: Store) -> tuple[bool, int, bool, int, int]:
            enough = len(store) if images is None else min(len(store), images)
            return store.complete, enough, store.n_views >= n_views, len(store), store.n_views

        fitting.sort(key=rank)
        found = {store.seed: store for store in fitting}
        return {seed: found[seed] for seed in seeds if seed in found}


def kind_of(plan: Plan) -> Views:
    """Which views a store holds, by the identity of its view specification."""
    if re.search(r"-\d+\+", plan.views):  # crops and a folder of made pictures
        return "diffusion"
    return "augmix" if plan.views.startswith("augmix") else "crop"


def made_by(plan: Plan, encoder: str) -> bool:
    """Whether a store's encoder is the one that is asked for, by its name, its identity or as a backbone."""
    if encoder in (plan.encoder_name, plan.encoder):
        return True
    return encoder in BACKBONES and backbone_of(plan.encoder_name) == encoder


def backbone_of(encoder_name: str) -> str | None:
    """Which of the paper's five backbones a name means; only OpenAI's weights are the paper's."""
    on_hub = encoder_name.startswith("hf:")
    name, _, tag = encoder_name.removeprefix("hf:").partition(":")
    if tag not in ("", "openai") or (on_hub and not name.startswith("openai/clip-")):
        return None
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())
    start, end = "(openai-)?(clip-)?", "(-quickgelu)?"  # QuickGELU is what OpenAI's weights were trained with
    return next((key for key, pattern in _PATTERNS.items() if re.fullmatch(start + pattern + end, plain)), None)
