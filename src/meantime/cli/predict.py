"""`meantime predict`: embeddings and class embeddings in; a table and a file out. No image, no model."""

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from meantime.answers import answers
from meantime.cli import options as o
from meantime.cli.progress import progress
from meantime.cli.shown import Shown, say
from meantime.embeddings import Classes, Embeddings, open_embeddings, read_classes
from meantime.errors import MeantimeError
from meantime.heads import HeadName, TextHead
from meantime.labels import as_labels
from meantime.output import Output
from meantime.prediction import Prediction, failure
from meantime.registry import Method, method_named, training_free
from meantime.store import Texts
from meantime.store.arrays import LOGIT_SCALE

TOGETHER = 2**22  # numbers (views x classes, or dimensions) that are solved together: 16 MB of each array of them


def predict(
    embeddings: Annotated[str, typer.Argument(help="views.npy, .npz or .parquet, or a store")],
    classes: Annotated[
        str | None, typer.Option(help="Class embeddings: texts.npz or .npy; by default those in EMBEDDINGS")
    ] = None,
    labels: Annotated[
        str | None, typer.Option("--labels", help="Names of the classes, in their order: cat,dog | names.txt")
    ] = None,
    logit_scale: Annotated[
        float | None, typer.Option(help="tau of the model; by default as in the files, else 100")
    ] = None,
    method: o.MethodOption = "mta",
    top: Annotated[int, typer.Option(min=1, help="Names for each image in the output")] = 5,
    abstain: Annotated[float, typer.Option(help="No answer where the best probability is below this")] = 0.0,
    out: Annotated[Path | None, typer.Option(help="Write all results: x.json, x.jsonl, x.csv or x.parquet")] = None,
) -> None:
    """Classify images by their embeddings, which something else has made."""
    source = open_embeddings(embeddings)
    given = source.classes if classes is None else read_classes(classes)
    if given.texts is None:
        raise MeantimeError(
            f"{embeddings!r} has no class embeddings: give --classes texts.npz, or .npy of shape (K, d), made by the "
            "text tower of the same model"
        )
    names = _names(given, len(given.texts.single), labels)
    chosen = method_named(method)
    heads = _heads(given.texts, method, chosen, _scale(logit_scale, given, source))
    shown = Shown(top, plain=method != "clip")
    file: Output | None = None
    try:
        with ExitStack() as stack:
            file = stack.enter_context(Output(out, top)) if out else None
            tell = stack.enter_context(progress("predicting"))
            for done, p in enumerate(_predictions(source, chosen, heads, names, abstain), 1):
                if done == 1 and p.n_views == 1 and method != "clip":
                    say("one view of each image: mta is then plain zero-shot; embed several crops of each for more")
                shown.add(p)
                if file is not None:
                    file.add(p)
                elif shown.closed:  # nobody is left to hear of the others
                    return
                tell(done, source.images)
    except KeyboardInterrupt:  # here, where the file has been closed
        shown.end()
        say(f"stopped after {shown.told.total()} images")
        if file is not None and file.written:
            print(f"wrote {file.written} (incomplete)", file=sys.stderr)
        raise typer.Exit(130) from None
    shown.end()
    print(shown.summary + (f"; {shown.hidden} more are not shown" if shown.hidden else ""), file=sys.stderr)
    if out:
        print(f"wrote {out}", file=sys.stderr)
    if not shown.answered:
        raise typer.Exit(1)


def _names(classes: Classes, k: int, labels: str | None) -> tuple[str, ...]:
    """Return the names of the classes: those that were typed, else those beside the embeddings."""
    if labels is None and classes.names is None:
        raise MeantimeError(f"the {k} classes have no names: give --labels names.txt, or an array `names` beside them")
    names = as_labels(labels if labels is not None else list(classes.names or ())).names
    if len(names) != k:
        raise MeantimeError(f"{len(names)} labels were given for {k} class embeddings; each needs one, in their order")
    return names


def _scale(typed: float | None, classes: Classes, source: Embeddings) -> float:
    """Return the logit scale: as typed, as the classes' file has it, as the embeddings' has it, else 100."""
    known = [x for x in (typed, classes.logit_scale, source.classes.logit_scale) if x is not None]
    if not known:
        say(
            f"no logit scale was given: {LOGIT_SCALE:g} is used, as of most models of CLIP's kind; scores and "
            "inlierness depend on it (--logit-scale)"
        )
        return LOGIT_SCALE
    if math.isclose(known[0], math.log(LOGIT_SCALE), rel_tol=1e-3):
        say(f"the logit scale is {known[0]:g}, the logarithm of 100: models keep it so, but exp of it is meant here")
    return known[0]


def _heads(texts: Texts, name: str, method: Method, scale: float) -> Mapping[HeadName, TextHead]:
    """Return the heads that texts alone give; refuse a method that needs others."""
    heads: dict[HeadName, TextHead] = {"text": TextHead(texts.single, scale)}
    if texts.ensemble is not None:
        heads["ensemble"] = TextHead(texts.ensemble, scale)
    if not method.heads <= heads.keys():
        possible = ", ".join(other for other, m in training_free().items() if m.heads <= heads.keys())
        why = "an array text_ensemble beside the class embeddings" if method.training_free else "more than embeddings"
        raise MeantimeError(f"the method {name!r} needs {why}; with what there is: {possible}")
    return heads


def _predictions(
    source: Embeddings, method: Method, heads: Mapping[HeadName, TextHead], names: tuple[str, ...], abstain: float
) -> Iterator[Prediction]:
    """Yield an answer for each image, in order, and last the images that were unreadable before they came here."""
    text = heads["text"]
    done = 0
    for keys, views in source.batches(text.dim, TOGETHER // max(text.n_classes, text.dim)):
        wide = views.astype(np.float32)
        norms = np.linalg.norm(wide, axis=-1, keepdims=True)
        wrong = ~(np.isfinite(norms) & (norms > 0))[..., 0]  # (b, N)
        good = ~wrong.any(axis=-1)
        found = iter(answers(wide[good] / norms[good], method, heads) if good.any() else [])
        n = views.shape[1]
        for i, key in enumerate(keys):
            if not good[i]:
                view = int(wrong[i].argmax())
                reason = f"view {view} of image {done + i} ({key!r}) is zero or not finite, so it has no direction"
                yield failure(key, names, reason)
                continue
            answer = next(found)
            yield Prediction(
                path=key,
                names=names,
                probabilities=answer.probabilities,
                plain=answer.plain,
                inlierness=answer.weights,
                boxes=np.tile(np.array([0, 0, 1, 1], np.float32), (n, 1)),  # unknown: the whole image
                flips=np.zeros(n, np.bool_),
                embedding=answer.mode,
                threshold=abstain,
                settled=answer.settled,
            )
        done += len(keys)
    for key, error in source.unreadable:
        yield failure(key, names, error)
