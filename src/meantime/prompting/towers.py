"""The text tower of an encoder, opened between its token embeddings and the rest.

The libraries' own forward functions run, whatever their version: in a copy of the model, which shares its weights,
the layer that looks up tokens is replaced by one that hands out the tokens it was given.
"""

import copy
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from meantime.encoders import Encoder, OnnxEncoder, TorchEncoder, export_folder, load_encoder
from meantime.errors import MeantimeError
from meantime.prompting.minilm import MiniLM


@dataclass(frozen=True)
class Tower:
    """A text tower that takes token embeddings."""

    tokenize: Callable[[str], list[int]]  # as the encoder reads a text: special tokens in, padding out, cut to fit
    embed: Callable[[Tensor], Tensor]  # ids (…,) -> (…, width)
    run: Callable[[Tensor, Tensor, Tensor], Tensor]  # ids, mask (n, L), tokens (n, L, width) -> (n, d)
    start: int  # special tokens before the first word
    context_length: int
    full: bool  # it reads its whole context, padding included
    pad_id: int
    device: torch.device
    dtype: torch.dtype


def tower_of(encoder: Encoder) -> Tower:
    """The tower of an encoder that PyTorch can run."""
    if isinstance(encoder, OnnxEncoder):
        if _stands_in(encoder):  # an export has no tower to open, but the model that was asked for has
            return tower_of(load_encoder(encoder.name, device="cpu"))
        return _embedded(encoder)
    model = getattr(encoder, "model", None)
    if isinstance(encoder, TorchEncoder):
        if hasattr(model, "get_text_features"):
            return _transformers(encoder)
        if hasattr(model, "encode_text"):
            return _open_clip(encoder)
    raise MeantimeError(
        f"the encoder {encoder.name!r} has no text tower that PyTorch can differentiate, so its prompt cannot be "
        "learned; there is one in the embedded encoder and in those of transformers (hf:NAME) and open_clip"
    )


def _stands_in(encoder: OnnxEncoder) -> bool:
    """Whether it is the kept export of a model, loaded in its place by its name."""
    try:
        return encoder.directory == export_folder(encoder.name)
    except MeantimeError:  # a directory of one's own
        return False


def frozen(module: nn.Module) -> nn.Module:
    """A copy that shares the weights and lets no gradient into them; the user's own model stays as it is."""
    shared: dict[int, Any] = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in module.parameters()}
    shared |= {id(buffer): buffer for buffer in module.buffers()}
    return copy.deepcopy(module, shared)


class Given(nn.Module):
    """Stands where tokens are looked up and hands out those it was given, to each thread its own."""

    def __init__(self) -> None:
        super().__init__()
        self.here = threading.local()

    def forward(self, ids: Tensor) -> Tensor:
        """The tokens, whatever the ids."""
        tokens: Tensor = self.here.tokens
        return tokens

    @contextmanager
    def giving(self, tokens: Tensor) -> Iterator[None]:
        """Hand these out, and do not hold on to their graph afterwards."""
        self.here.tokens = tokens
        try:
            yield
        finally:
            del self.here.tokens


def _embedded(encoder: OnnxEncoder) -> Tower:
    model = MiniLM(encoder.directory / "text.onnx")
    tokenizer = Tokenizer.from_file(str(encoder.directory / "tokenizer.json"))
    tokenizer.no_padding()
    context = json.loads((encoder.directory / "config.json").read_text(encoding="utf-8"))["text"]["context_length"]
    tokenizer.enable_truncation(context)
    return Tower(
        tokenize=lambda text: list(tokenizer.encode(text).ids),
        embed=model.embed,
        run=model,
        start=1,
        context_length=context,
        full=False,
        pad_id=0,
        device=torch.device("cpu"),
        dtype=torch.float32,
    )


def _transformers(encoder: TorchEncoder) -> Tower:
    """CLIP reads a text as long as it is, since it looks only backwards; SigLIP reads its full context."""
    from meantime.encoders.huggingface import pooled

    model: Any = frozen(encoder.model)
    place = model.text_model.embeddings
    table, given = place.token_embedding, Given()
    place.token_embedding = given
    _, masked = encoder.texts.tokenize(["a"])

    def run(ids: Tensor, mask: Tensor, tokens: Tensor) -> Tensor:
        seen = None if masked is None else mask
        with given.giving(tokens):
            out: Tensor = pooled(model.get_text_features(input_ids=ids, attention_mask=seen))
        return out

    return _tower(encoder, table, run, full=encoder.texts.padding == "max_length")


def _open_clip(encoder: TorchEncoder) -> Tower:
    """Models of open_clip, with their text tower inside or apart, and of OpenAI's package."""
    from meantime.encoders.open_clip import text_tower

    model: Any = frozen(encoder.model)
    text = getattr(model, "text", model)
    given = Given()
    if hasattr(text, "token_embedding"):
        table, text.token_embedding = text.token_embedding, given
    else:  # a text model of transformers within open_clip
        table = text.transformer.get_input_embeddings()
        text.transformer.set_input_embeddings(given)
    read, short = text_tower(model)

    def run(ids: Tensor, mask: Tensor, tokens: Tensor) -> Tensor:
        with given.giving(tokens):
            out: Tensor = read(ids)
        return out

    return _tower(encoder, table, run, full=not short)


def _tower(encoder: TorchEncoder, table: Any, run: Callable[[Tensor, Tensor, Tensor], Tensor], *, full: bool) -> Tower:
    def row(text: str) -> list[int]:
        ids, _ = encoder.texts.tokenize([text])
        return [int(i) for i in ids[0]]

    # Of an empty text only the special tokens are left: those before the words, and the one that ends them.
    empty, word = row(""), row("a")
    start = next((i for i, pair in enumerate(zip(empty, word, strict=False)) if pair[0] != pair[1]), None)
    if start is None:
        raise MeantimeError(f"the tokenizer of {encoder.name!r} gives the same for a word and for none")
    end = empty[start]

    def tokenize(text: str) -> list[int]:
        ids = row(text)
        return ids[: ids.index(end, start) + 1] if end in ids[start:] else ids

    return Tower(
        tokenize=tokenize,
        embed=table,
        run=run,
        start=start,
        context_length=encoder.texts.context_length,
        full=full,
        pad_id=encoder.texts.pad_id,
        device=encoder.device,
        dtype=encoder.dtype,
    )
