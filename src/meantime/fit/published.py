"""Prompts that others have trained: CoOp's checkpoint files, and saved heads carried to other classes."""

from collections.abc import Sequence
from pathlib import Path

from meantime.encoders import Encoder, load_encoder
from meantime.errors import MeantimeError
from meantime.fit.train import Fitted
from meantime.heads.saved import PROMPTS, HeadInfo, PromptHead, head_info, is_head, load_head, save_head
from meantime.prompting import prompter


def import_prompt(
    source: str | Path,
    names: Sequence[str],
    out: str | Path,
    *,
    encoder: str | Encoder,
    dataset: str,
    kind: str | None = None,
    shots: int | None = None,
    seed: int | None = None,
) -> Fitted:
    """Make a saved head for these classes of a published prompt file, or of the prompt of another saved head.

    What a file does not tell, ``kind`` (CoOp by default), ``shots`` and ``seed`` say; a saved head knows it.
    """
    from meantime.heads import coop

    if kind not in (None, *PROMPTS):
        raise MeantimeError(f"a prompt can be that of {' or '.join(PROMPTS)}; {kind!r} was asked for")
    encoder = load_encoder(encoder)
    origin, draw, drawn_from = Path(source).name, {}, None
    if is_head(source):
        old = head_info(source)
        if old.kind not in PROMPTS:
            raise MeantimeError(f"{str(source)!r} is a {old.kind} head; only a prompt can be carried to other classes")
        if kind not in (None, old.kind):
            raise MeantimeError(f"{str(source)!r} is a {old.kind} head; {kind!r} was asked for")
        kind, origin, draw, drawn_from = old.kind, old.title, old.draw, old.drawn_from or old.dataset
        shots, seed = old.shots, old.seed
        learned = load_head(source, encoder_identity=encoder.identity)
        assert isinstance(learned, PromptHead)
        context = learned.context
    else:
        context = coop.read_context(source)
    prompts = prompter(encoder, [name.replace("_", " ") for name in names])
    head = coop.prompt_head(prompts, context, encoder.logit_scale)
    info = HeadInfo(
        kind or "coop",
        dataset,
        tuple(names),
        encoder.identity,
        encoder.name,
        shots,
        seed,
        int(context.shape[0]),
        {"prompt from": origin},
        draw,
        drawn_from,
    )
    return Fitted(head, info, save_head(out, head, info), (f"the prompt of {origin}",))
