"""A dataset into a store: an engine has the shards made, and each is committed as it comes."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from meantime.datasets import Dataset
from meantime.encoders import Encoder
from meantime.engines import Engine, Job, LocalEngine
from meantime.errors import MeantimeError
from meantime.labels import TEMPLATE
from meantime.store.manifest import Plan
from meantime.store.reader import Store, open_store
from meantime.store.texts import embed_texts
from meantime.store.writer import open_writer
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
    retry: bool = False,
    shard_size: int = 256,
    part: tuple[int, int] = (1, 1),
    batch: int | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Store:
    """Encode every view of every image of a dataset, once.

    Parameters
    ----------
    out
        A new or empty folder, or the URL of one; with ``resume`` also a store of the same dataset, encoder, views
        and seed.
    ensemble
        Also keep the embeddings of the 80 prompts, for the methods that read by them. May be added later, by
        ``resume``.
    retry
        With ``resume``: shards with images that could not be read are made once more.
    part
        ``(i, n)`` encodes every n-th shard, from the i-th; the parts are joined by `meantime store merge`.
    engine
        A :class:`~meantime.engines.RayEngine`; by default this process encodes.
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
        n_views=spec.total,
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
        pending = writer.pending(retry=retry)
        total = sum(stop - start for start, stop in map(plan.bounds, plan.shards()))
        done = total - sum(stop - start for start, stop in map(plan.bounds, pending))

        def heard(images: int) -> None:
            nonlocal done
            done += images
            if progress is not None:
                progress(done, total)

        job = Job(writer.folder, plan, spec, batch, threads)
        with closing((engine or LocalEngine()).run(encoder, job, dataset.samples, pending, heard)) as shards:
            for shard, staged in shards:
                writer.commit(shard, staged)
    return open_store(out)
