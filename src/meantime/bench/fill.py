"""Stores that are missing, made from the images: every seed of every dataset that the tables ask for."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from meantime.bench.declare import BACKBONES, TableSpec, Views
from meantime.bench.shelf import Shelf, backbone_of
from meantime.datasets import Dataset, check_dataset, list_datasets, load_dataset
from meantime.encoders import Encoder, load_encoder
from meantime.errors import MeantimeError
from meantime.store import Store
from meantime.store.encode import encode_dataset
from meantime.views import ViewSpec


@dataclass
class Filler:
    """Encodes what a shelf lacks into a folder; what cannot be encoded is a reason for the cells that need it."""

    shelf: Shelf
    data: Path  # holds the datasets, each in its folder
    folder: Path  # takes the new stores
    seeds: int = 3
    unchecked: bool = False  # encode although a dataset has not its published size
    load: Callable[[str], Encoder] = load_encoder
    progress: Callable[[str, int, int], None] | None = None
    loaded: dict[str, Encoder] = field(default_factory=dict)

    def fill(self, specs: Iterable[TableSpec], model: str, n_views: int | None = None) -> list[str]:
        """Encode for tables; return why some datasets could not be."""
        wanted: dict[tuple[str, str, Views], int] = {}
        for spec in specs:
            for column in spec.columns():
                for kind in {row.views for row in spec.rows} - {"diffusion"}:
                    if kind == "augmix" and find_spec("torch") is None:  # only TPT takes them
                        continue
                    for dataset in column.datasets:
                        key = (dataset, column.backbone or model, kind)
                        n = column.n_views or n_views or spec.n_views
                        wanted[key] = max(wanted.get(key, 0), n)
        problems: list[str] = []
        for (dataset, encoder, kind), n in wanted.items():
            try:
                self._encode(dataset, encoder, kind, n)
            except MeantimeError as error:
                problems.append(f"{dataset} with {encoder}: {error}")
        return problems

    def own(self, model: str, n_views: int = 64, class_names: tuple[str, ...] | None = None) -> str:
        """Encode the data itself as one dataset and return its name."""
        dataset = load_dataset(str(self.data), class_names=class_names)
        for seed in self._missing(dataset.name, model, "crop", n_views):
            self._store(dataset, model, "crop", n_views, seed)
        return dataset.name

    def _encode(self, name: str, model: str, kind: Views, n: int) -> None:
        missing = self._missing(name, model, kind, n)
        if not missing:
            return
        if name in list_datasets() and not self.unchecked:
            report = check_dataset(name, self.data, "test")
            if not report.ok:
                raise MeantimeError("; ".join(report.problems))
        dataset = load_dataset(name, self.data)
        for seed in missing:
            self._store(dataset, model, kind, n, seed)

    def _missing(self, dataset: str, model: str, kind: Views, n: int) -> list[int]:
        there = self.shelf.find(dataset, model, kind, range(self.seeds), n_views=n)
        return [s for s in range(self.seeds) if s not in there or there[s].n_views < n or not there[s].complete]

    def _store(self, dataset: Dataset, model: str, kind: Views, n: int, seed: int) -> Store:
        if model in BACKBONES and backbone_of(f"{model}:openai") == model:
            model = f"{model}:openai"
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", f"{dataset.name}-{model}-{kind}{n}-seed{seed}")
        if model not in self.loaded:
            self.loaded[model] = self.load(model)
        store = encode_dataset(
            dataset,
            self.folder / slug,
            self.loaded[model],
            ViewSpec(n=n, augment="augmix" if kind == "augmix" else "crop"),
            seed=seed,
            prompt=dataset.prompt,
            ensemble=True,
            resume=True,
            progress=None if self.progress is None else lambda done, total: self.progress(slug, done, total),  # type: ignore[misc]
        )
        self.shelf.stores.append(store)
        return store
