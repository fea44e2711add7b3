"""Few photos in, a head out: drawn, encoded once, fitted with the published settings, saved."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meantime.datasets import Dataset
from meantime.encoders import Encoder, load_encoder
from meantime.errors import MeantimeError
from meantime.fit.draw import Draw, kept_draw
from meantime.fit.features import FreshViews, Progress, training_views
from meantime.fit.pools import Pools, find_pools
from meantime.heads.named import make_heads
from meantime.heads.saved import KINDS, PROMPTS, HeadInfo, LearnedHead, PromptHead, heads_folder, save_head
from meantime.heads.tip_adapter import SCALE, SCALES, TipAdapterHead, search, train_keys
from meantime.labels import as_labels
from meantime.prompting import prompter
from meantime.views import ViewSpec

PASSES, EPOCHS_F = 10, 20  # of Tip-Adapter's keys; of Tip-Adapter-F, each with a crop of its own
GENTLE = ("flowers102", "dtd", "eurosat")  # where ProGrad takes lambda 0.8 from 8 shots on


@dataclass(frozen=True)
class Fitted:
    """A fitted head, what it is for, where it was saved, and what the user should know."""

    head: LearnedHead
    info: HeadInfo
    path: Path
    notes: tuple[str, ...] = ()


@dataclass
class _Fit:
    """One fit on its way."""

    encoder: Encoder
    draw: Draw
    store: Path
    views: int
    fresh: bool
    progress: Callable[[str, int, int], None] | None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [name.replace("_", " ") for name in self.draw.pools.train.class_names]

    def hearing(self, what: str) -> Progress | None:
        return None if self.progress is None else lambda done, total: self.progress(what, done, total)  # type: ignore[misc]

    def features(self, spec: ViewSpec, numbers: tuple[int, ...], dataset: Dataset) -> Any:
        """Views of drawn photos. Crops do not depend on the draw's seed, so draws share what is encoded."""
        return training_views(dataset, numbers, self.encoder, spec, self.store, progress=self.hearing("encoding"))


def fit_head(
    kind: str,
    dataset: str | Path | Dataset,
    *,
    root: str | Path | None = None,
    labels: str | list[str] | None = None,
    encoder: str | Encoder = "embedded",
    shots: int = 16,
    seed: int = 0,
    m: int = 4,
    epochs: int | None = None,
    weights: str = "ensemble",
    views: int = 64,
    fresh: bool = False,
    partial: bool = False,
    store: str | Path | None = None,
    out: str | Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Fitted:
    """Fit a head on a few photos of each class and save it, for ``Classifier(…, method="mta@DIR")``.

    Parameters
    ----------
    kind
        ``"coop"``, ``"prograd"``, ``"tip-adapter"`` or ``"tip-adapter-f"``.
    dataset, root, labels
        As for :func:`meantime.datasets.load_dataset`: a name and where it lies, or one's own labelled photos.
    shots, seed
        Photos of each class, and which; the same seed draws the same photos for every kind.
    m, epochs
        Tokens of a prompt (4 begin as "a photo of a", other numbers at random); epochs if not the published ones.
    weights
        The text weights of Tip-Adapter: ``"ensemble"`` (80 prompts) or ``"text"`` (one).
    views, fresh
        Views of each photo that a prompt is trained on, encoded once; or ``fresh`` crops in every epoch.
    partial
        Let classes without any photo be: their texts alone speak for them.
    store, out
        Where encoded training views are kept and found again; where the head is saved.
    """
    if kind not in KINDS:
        raise MeantimeError(f"there is no head {kind!r} to fit; there are {', '.join(KINDS)}")
    if epochs is not None and epochs < 1:
        raise MeantimeError(f"{epochs} epochs were asked for; expected at least 1, or None for the published number")
    if isinstance(dataset, Dataset):
        whole = Dataset(dataset.name, dataset.class_names, dataset.samples, "train", dataset.prompt)
        pools = Pools(whole, whole, whole=True)
    else:
        names = None if labels is None else as_labels(labels).names
        pools = find_pools(str(dataset), root, class_names=names)
    encoder = load_encoder(encoder)
    folder = Path(store) if store is not None else heads_folder() / "views"
    data = pools.train
    drawn = f"{data.name}-{data.fingerprint[:8]}-{shots}shots-seed{seed}.json"
    draw = kept_draw(folder / "draws" / drawn, pools, shots, seed, partial=partial)
    fit = _Fit(encoder, draw, folder, views, fresh, progress)
    if kind in PROMPTS:
        head: LearnedHead = _prompt(fit, kind, m, epochs or default_epochs(data.name, shots))
    else:
        head = _cache(fit, kind, weights)
    tokens = m if kind in PROMPTS else None
    info = HeadInfo(
        kind,
        data.name,
        data.class_names,
        encoder.identity,
        encoder.name,
        shots,
        seed,
        tokens,
        fit.settings if pools.whole else fit.settings | {"split": data.split},
        draw.keys(),
    )
    place = Path(out) if out is not None else heads_folder() / _slug(info)
    return Fitted(head, info, save_head(place, head, info), (pools.told, *draw.notes))


def default_epochs(dataset: str, shots: int) -> int:
    """CoOp's: 50 for one shot and for ImageNet, 100 for up to 4, 200 for more."""
    if shots == 1 or dataset == "imagenet":
        return 50
    return 100 if shots <= 4 else 200


def _prompt(fit: _Fit, kind: str, m: int, epochs: int) -> PromptHead:
    from meantime.heads import coop, prograd

    spec = ViewSpec(n=fit.views, resample="bicubic")
    data, draw = fit.draw.pools.train, fit.draw
    if fit.views < 2:
        raise MeantimeError(f"{fit.views} views of a photo leave no crop to train on; expected at least 2")
    if fit.fresh:
        features: Any = FreshViews(data, draw.train, fit.encoder, spec, draw.seed)
    else:
        features = fit.features(spec, draw.train, data)
    prompts = prompter(fit.encoder, fit.names)
    init = "words" if m == len(prompts.initial) else "random"
    options: dict[str, Any] = {"logit_scale": fit.encoder.logit_scale, "m": m, "init": init, "epochs": epochs}
    if kind == "prograd":
        options["lambda_"] = 0.8 if data.name in GENTLE and draw.shots >= 8 else 1.0
    train = prograd.train if kind == "prograd" else coop.train
    context = train(prompts, features, draw.labels, seed=draw.seed, progress=fit.hearing("training"), **options)
    fit.settings |= {k: v for k, v in options.items() if k not in ("logit_scale", "m")}
    fit.settings |= {"views": "fresh" if fit.fresh else fit.views, "crops": spec.identity}
    return coop.prompt_head(prompts, context, fit.encoder.logit_scale)


def _cache(fit: _Fit, kind: str, weights: str) -> TipAdapterHead:
    if weights not in ("ensemble", "text"):
        raise MeantimeError(f"the text weights are {weights!r}; expected 'ensemble' or 'text'")
    if fit.fresh:
        raise MeantimeError(f"{kind} averages crops that are encoded once: fresh crops are for coop and prograd")
    data, draw = fit.draw.pools.train, fit.draw
    spec = ViewSpec(n=1 + PASSES + EPOCHS_F, scale=(0.5, 1.0), resample="bicubic")
    features = fit.features(spec, draw.train, data)
    checks = fit.features(ViewSpec(n=1, scale=spec.scale, resample="bicubic"), draw.val, draw.pools.val)
    text = make_heads(fit.encoder, as_labels(fit.names, data.prompt), {weights})[weights]
    scale = SCALES.get(data.name, SCALE)

    def searched(head: TipAdapterHead, name: str) -> TipAdapterHead:
        found = search(head, checks.originals, draw.val_labels, scale)
        fit.settings[name] = {"alpha": found.alpha, "beta": found.beta, "validation accuracy": found.accuracy}
        fit.settings["validation accuracy, zero-shot"] = found.zero_shot
        return TipAdapterHead(head.keys, head.labels, head.classes, head.logit_scale, found.alpha, found.beta)

    classes = text.classes  # type: ignore[attr-defined]
    fit.settings |= {"weights": weights, "passes": PASSES, "crops": spec.identity, "grid up to (beta, alpha)": scale}
    head = searched(TipAdapterHead(features.keys(PASSES), draw.labels, classes, fit.encoder.logit_scale), "search")
    if kind == "tip-adapter":
        return head
    fit.settings["epochs"] = EPOCHS_F
    fresh = features.in_turn(1 + PASSES)
    trained = train_keys(head, fresh, draw.labels, seed=draw.seed, epochs=EPOCHS_F, progress=fit.hearing("training"))
    return searched(trained, "search after training")


def _slug(info: HeadInfo) -> str:
    tokens = f"-m{info.m}" if info.m else ""
    shots = "" if info.shots is None else f"-{info.shots}shots-seed{info.seed}"
    return re.sub(r"[^A-Za-z0-9.]+", "-", f"{info.kind}{tokens}-{info.dataset}-{info.encoder_name}{shots}")
