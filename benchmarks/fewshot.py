"""Few-shot methods with and without MTA on one's own photos: python benchmarks/fewshot.py PHOTOS --store STORE.

STORE is `meantime encode PHOTOS --ensemble --out STORE`. Classes with enough photos (shots to train, half as many to
validate, as many to test) are learned and measured among themselves. Then among all names: prompts are carried to
them, caches stand beside the texts of all, and the photos of the other classes show what a learned head does to classes
that it never saw. Photos that a head was trained or validated on are never tested.
"""

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from meantime.datasets import Dataset, load_dataset
from meantime.datasets.base import Samples
from meantime.encoders import load_encoder
from meantime.fit import fit_head, import_prompt
from meantime.heads import Head, head_info, make_heads
from meantime.heads.saved import CACHES, KINDS, is_head
from meantime.labels import as_labels
from meantime.registry import method_named
from meantime.store import open_store

PAIRS = (
    ("clip", "mta"),
    ("clip+e", "mta+e"),
    *((kind, f"mta@{kind}") for kind in KINDS),
    ("clip", "tpt"),
    ("coop", "tpt@coop"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("photos", help="a labelled folder, or a folder with labels.csv")
    parser.add_argument("--store", required=True, help="what `meantime encode PHOTOS --ensemble` wrote")
    parser.add_argument(
        "--work", default="fewshot", help="for training views and heads, which a second run finds again"
    )
    parser.add_argument("--names", default=None, help="all candidate names, as for --labels; by default the photos'")
    parser.add_argument("--shots", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--without-tpt", action="store_true", help="TPT runs the text tower for every photo")
    options = parser.parse_args()
    Run(options).report()


class Run:
    """One measurement: the same test views for every method, another draw of training photos for each seed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.o = options
        self.work = Path(options.work)
        self.encoder = load_encoder(options.model)
        self.store = open_store(options.store)
        self.every = load_dataset(options.photos)
        enough = 2 * options.shots + max(1, min(options.shots, 4) // 2)
        counts = Counter(self.every.samples.labels)
        self.seen = [label for label in range(len(self.every.class_names)) if counts[label] >= enough]
        self.names = [self.every.class_names[label] for label in self.seen]
        batches = list(self.store.batches())
        self.views = dict(zip((k for b in batches for k in b.keys), (v for b in batches for v in b.views), strict=True))
        s = self.every.samples
        rows = [i for i, label in enumerate(s.labels) if label in self.seen]
        numbers = {label: i for i, label in enumerate(self.seen)}
        some = Samples([s.sources[i] for i in rows], [numbers[s.labels[i]] for i in rows], [s.keys[i] for i in rows])
        self.learned = Dataset(self.every.name, tuple(self.names), some)
        self.all_names = list(self.every.class_names) if options.names is None else list(as_labels(options.names).names)
        everywhere = [self.all_names.index(self.names[label]) for label in some.labels]
        self.among_all = replace(
            self.learned, class_names=tuple(self.all_names), samples=replace(some, labels=everywhere)
        )
        # The store has the 80 prompts of the photos' own names; of others one prompt each is enough work.
        self.weights = "ensemble" if options.names is None else "text"
        self.hits: dict[tuple[str, str], list[np.ndarray]] = {}  # (setting, method) -> of each seed

    def report(self) -> None:
        """Fit and measure seed by seed, and show the tables after each."""
        for seed in range(self.o.seeds):
            draw = self.fit(seed)
            used = {key for keys in draw.values() for key in keys}
            test = [
                (k, self.every.class_names[i]) for _, i, k in self.every.samples if i in self.seen and k not in used
            ]
            rest = [(k, self.every.class_names[i]) for _, i, k in self.every.samples if i not in self.seen]
            self.measure("learned", self.names, test, seed)
            self.measure("all names, photos of learned classes", self.all_names, test, seed)
            self.measure("all names, photos of other classes", self.all_names, rest, seed)
        self.show()

    def fit(self, seed: int) -> dict[str, list[str]]:
        """Fit every kind on one draw, for the learned classes and for all names."""
        for kind in KINDS:
            self.fit_one(kind, self.learned, seed, self.place(kind, seed))
            among_all = self.place(f"{kind}-all", seed)
            if kind in CACHES:
                self.fit_one(kind, self.among_all, seed, among_all, weights=self.weights)
            elif not is_head(among_all):
                where = {"encoder": self.encoder, "dataset": self.every.name}
                import_prompt(self.place(kind, seed), self.all_names, among_all, **where)
        return head_info(self.place("coop", seed)).draw

    def fit_one(self, kind: str, dataset: Dataset, seed: int, place: Path, **options: str) -> None:
        """Fit a head, if an earlier run has not."""
        if not is_head(place):
            fit_head(
                kind,
                dataset,
                encoder=self.encoder,
                shots=self.o.shots,
                seed=seed,
                partial=True,
                store=self.work / "views",
                out=place,
                progress=lambda what, done, total: self.tell(f"seed {seed}, {kind}: {what}", done, total),
                **options,
            )

    def place(self, kind: str, seed: int) -> Path:
        """The folder of a head."""
        return self.work / "heads" / f"{kind}-{self.o.shots}shots-seed{seed}"

    def tell(self, what: str, done: int, total: int) -> None:
        """Say how far a fit is."""
        if done == total or done % 10 == 0:
            print(f"{what} {done} of {total}", flush=True)

    def heads(self, names: list[str], seed: int) -> dict[str, Head]:
        """Every head for a list of candidate names; TPT only among the learned classes, for its cost."""
        learned = names == self.names
        places = {kind: str(self.place(kind if learned else f"{kind}-all", seed)) for kind in KINDS}
        wanted = {"text": "text"} | places
        if learned or self.weights == "ensemble":
            wanted["ensemble"] = "ensemble"
        if learned and not self.o.without_tpt:
            wanted |= {"tpt": "tpt", "tpt@coop": f"tpt@{places['coop']}"}
        made = make_heads(self.encoder, as_labels(names), set(wanted.values()))
        return {name: made[head] for name, head in wanted.items()}

    def measure(self, setting: str, names: list[str], photos: list[tuple[str, str]], seed: int) -> None:
        """Note which photos each method has right."""
        heads = self.heads(names, seed)
        views = np.stack([self.views[key] for key, _ in photos])
        truth = np.array([name for _, name in photos])
        for name in dict.fromkeys(method for pair in PAIRS for method in pair):
            method = method_named(name)
            if method.heads <= heads.keys():
                parts = [method(views[i : i + 16], heads).logits for i in range(0, len(views), 16)]
                # Names, not numbers, decide: ImageNet has two pairs of classes with one name.
                hits = np.array(names)[np.concatenate(parts).argmax(axis=-1)] == truth
                self.hits.setdefault((f"{setting}: {len(names)} names, {len(photos)} photos", name), []).append(hits)

    def show(self) -> None:
        """Print a table for each setting."""
        console = Console(width=140)
        for setting in dict.fromkeys(setting for setting, _ in self.hits):
            of = {name: hits for (where, name), hits in self.hits.items() if where == setting}
            title = f"{setting}, {self.o.shots} shots, {self.o.seeds} seeds"
            table = Table(title=title, title_justify="left", box=None)
            for column in ("", "top-1", "on top of it", "top-1", "gain", "photos won", "lost"):
                table.add_column(column, justify="left" if column in ("", "on top of it") else "right")
            for below, above in PAIRS:
                if above not in of:
                    continue
                a, b = of[below], of[above]
                gains = [100 * (y.mean() - x.mean()) for x, y in zip(a, b, strict=True)]
                won, lost = (sum(int((x & ~y).sum()) for x, y in zip(p, q, strict=True)) for p, q in ((b, a), (a, b)))
                table.add_row(
                    below,
                    _cell(a),
                    above,
                    _cell(b),
                    f"{np.mean(gains):+.2f} ± {np.std(gains):.2f}",
                    str(won),
                    str(lost),
                )
            console.print(table)
            console.print()


def _cell(hits: list[np.ndarray]) -> str:
    values = [100 * x.mean() for x in hits]
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}"


if __name__ == "__main__":
    main()
