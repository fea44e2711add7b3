"""A dataset into a store: the images of each shard through the one pipeline, the shard to disk, the next shard.

Batches of the encoder never cross shards, so a shard's bytes do not depend on where a run was interrupted.
"""

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from meantime import pipeline
from meantime.datasets import Dataset, Sample
from meantime.encoders import Encoder
from meantime.errors import MeantimeError
from meantime.images import ImageSource
from meantime.labels import TEMPLATE
from meantime.store.manifest import Plan
from meantime.store.reader import Store, open_store
from meantime.store.shards import Row
from meantime.store.texts import embed_texts
from meantime.store.writer import StoreWriter, open_writer
from meantime.views import ViewSpec


def encode_dataset(
    dataset: Dataset,
    out: str | Path,
    encoder: Encoder,
    spec: ViewSpec | None = None,
    *,
    seed: int = 0,
    prompt: str = TEMPLATE,
    ensemble: bool = False,
    resume: bool = False,
    shard_size: int = 256,
    part: tuple[int, int] = (1, 1),
    batch: int = pipeline.BATCH,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Store:
    """Encode every view of every image of a dataset, once.

    Parameters
    ----------
    out
        A new or empty folder; with ``resume`` also a store of the same dataset, encoder, views and seed.
    ensemble
        Also keep the embeddings of the 80 prompts, for the methods that read by them. May be added later, by
        ``resume``.
    part
        ``(i, n)`` encodes every n-th shard, from the i-th; the parts are joined by `meantime store merge`.
    progress
        ``progress(done, total)`` hears of every image, those done before included.
    """
    spec = spec or ViewSpec()
    plan = Plan(
        dataset=dataset.name,
        split=dataset.split,
        fingerprint=dataset.fingerprint,
        images=len(dataset.samples),
        classes=dataset.class_names,
        encoder=encoder.identity,
        encoder_name=encoder.name,
        dim=encoder.dim,
        logit_scale=float(encoder.logit_scale),
        views=spec.identity,
        n_views=spec.n,
        seed=seed,
        prompt=prompt,
        shard_size=shard_size,
        part=part[0],
        parts=part[1],
    )
    if not plan.images:
        raise MeantimeError(f"the dataset {dataset.name!r} has no images in its split {dataset.split!r}")
    with open_writer(out, plan, resume=resume) as writer:
        there = writer.manifest.texts
        if "single" not in there or (ensemble and not {"ensemble", "templates"} <= there.keys()):
            writer.add_texts(embed_texts(encoder, plan.classes, prompt, ensemble=ensemble))
        total = sum(stop - start for start, stop in map(plan.bounds, plan.shards()))
        done = total - sum(stop - start for start, stop in map(plan.bounds, writer.pending()))
        for number in writer.pending():
            for _ in _encode_shard(writer, number, dataset, encoder, spec, batch, threads):
                done += 1
                if progress is not None:
                    progress(done, total)
    return open_store(out)


def _encode_shard(
    writer: StoreWriter,
    number: int,
    dataset: Dataset,
    encoder: Encoder,
    spec: ViewSpec,
    batch: int,
    threads: int | None,
) -> Iterator[None]:
    """Encode and write one shard; yields once for each image."""
    start, stop = writer.plan.bounds(number)
    flying: deque[Sample] = deque()  # read ahead by the pipeline, which answers in order

    def sources() -> Iterator[ImageSource]:
        for index in range(start, stop):
            sample = dataset.samples[index]
            flying.append(sample)
            yield sample.source

    rows: list[Row] = []
    errors: list[dict[str, Any]] = []
    encoded = pipeline.encode(sources(), encoder, spec, seed=writer.plan.seed, batch=batch, threads=threads)
    for index, e in enumerate(encoded, start):
        sample = flying.popleft()
        if e.embeddings is None or e.views is None or e.norms is None:
            errors.append({"index": index, "key": sample.key, "error": str(e.error)})
        else:
            digest = "" if e.views.digest is None else f"{e.views.digest:032x}"
            # Rounded at once: a shard in memory then takes half.
            views = e.embeddings.astype("float16")
            row = Row(index, sample.key, sample.label, views, e.norms, e.views.boxes, e.views.flips, digest)
            rows.append(row)
        yield
    writer.add_shard(number, rows, errors)
