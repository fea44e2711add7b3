"""The baseline for TPT in `runtime.py`: the structure of the released program, written plainly.

For every image: its views, a forward and a backward of the text tower over all classes, one AdamW step on the four
context tokens, a second forward of the texts and of view 0. Classes go through the tower in chunks whose activations
are computed again for the backward (1000 at once would take tens of GB).
"""

import time

import torch
from authors_pipeline import BATCH, crops, encode_images, tokens
from PIL import Image
from torch.utils.checkpoint import checkpoint

from meantime.bench.backbones import make
from meantime.bench.isolated import forget_peak
from meantime.bench.systems import Task, Timing

CONTEXT = 4  # the tokens of "a photo of a", after the start
NOTE = f"classes in chunks of {BATCH}, each run again for the backward"


def tpt(task: Task) -> Timing:
    """Seconds an image of TPT in the authors' structure."""
    timing, encoder = Timing(note=NOTE), make(task.backbone)
    share = 1 / len(task.images)
    ids = tokens(encoder, [f"a photo of a {name}." for name in task.names])
    size = encoder.preprocess.size
    with torch.inference_mode():
        encoder.image_tower(torch.zeros(BATCH, 3, size, size))
    encoder.model.requires_grad_(False)
    forget_peak()
    start = time.perf_counter()
    for path in task.images:
        image = timing.stage("decode", lambda path=path: Image.open(path).convert("RGB"), share)
        pixels = timing.stage("crop", lambda image=image: crops(image, task, encoder), share)
        with torch.no_grad():
            views = timing.stage("encode", lambda pixels=pixels: encode_images(encoder, pixels), share)
        context = timing.stage("text", lambda views=views: tuned(encoder, ids, views), share)
        with torch.no_grad():
            classes = timing.stage("text", lambda context=context: prompted(encoder, ids, context), share)
            again = timing.stage("encode", lambda pixels=pixels: encode_images(encoder, pixels[:1]), share)
            timing.stage("solve", lambda v=again, c=classes: encoder.logit_scale * v @ c.T, share)
    timing.seconds = share * (time.perf_counter() - start)
    return timing


def tuned(encoder, ids: torch.Tensor, views: torch.Tensor) -> torch.Tensor:
    """The context after one step down the entropy of the confident views' mean prediction."""
    embedding = token_embedding(encoder)
    context = torch.nn.Parameter(embedding(ids[0, 1 : 1 + CONTEXT]).detach().clone())
    optimizer = torch.optim.AdamW([context], lr=5e-3)
    logits = encoder.logit_scale * views @ prompted(encoder, ids, context).T
    log_p = logits.log_softmax(-1)
    entropy = -(log_p.exp() * log_p).sum(-1)
    kept = log_p[entropy.argsort()[: int(0.1 * len(views))]]
    mean = kept.logsumexp(0) - torch.tensor(float(len(kept))).log()
    loss = -(mean.exp() * mean).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return context.detach()


def prompted(encoder, ids: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
    """Unit class embeddings (K, d) of prompts whose words before the name are the context."""

    def run(part: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        def put(module, arguments, embedded: torch.Tensor) -> torch.Tensor:
            before, after = embedded[:, :1], embedded[:, 1 + CONTEXT :]
            return torch.cat([before, context.expand(len(embedded), -1, -1), after], dim=1)

        hook = token_embedding(encoder).register_forward_hook(put)
        try:
            return encoder.text_tower(part, None)
        finally:
            hook.remove()

    parts = [ids[i : i + BATCH] for i in range(0, len(ids), BATCH)]
    rows = [checkpoint(run, part, context, use_reentrant=False) for part in parts]
    return torch.nn.functional.normalize(torch.cat(rows), dim=-1)


def token_embedding(encoder) -> torch.nn.Embedding:
    """Of transformers' CLIP, or of open_clip's."""
    model = encoder.model
    return model.text_model.embeddings.token_embedding if hasattr(model, "text_model") else model.token_embedding
