"""Prompts of continuous tokens for the text tower of any encoder that PyTorch can run.

What CoOp, ProGrad, TPT and DiffTPT learn is not words but the token embeddings that stand before a class name.
:func:`prompter` turns such a context into class embeddings, for every tower in the same way.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from meantime.encoders import Encoder
from meantime.extras import optional

if TYPE_CHECKING:
    from meantime.prompting.prompts import Prompter

__all__ = ["prompter"]


def prompter(
    encoder: Encoder,
    names: Sequence[str],
    *,
    context: str = "a photo of a",
    ending: str = ".",
    chunk: int | None = None,
) -> "Prompter":
    """Return what maps a context of tokens to the embeddings of these classes, differentiably.

    A prompt is ``context name ending``, and ``prompter.initial`` holds the tokens of the context's words. ``chunk``
    prompts run through the tower at a time; None chooses by the device and the memory that is free.
    """
    optional("torch", "a learned prompt", "torch")
    from meantime.prompting.prompts import Prompter
    from meantime.prompting.towers import tower_of

    return Prompter(tower_of(encoder), names, encoder.identity, context=context, ending=ending, chunk=chunk)
