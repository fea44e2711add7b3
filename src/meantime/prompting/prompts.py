"""A context of continuous tokens -> class embeddings; prompts go through the tower in pieces, so memory is bounded."""

import os
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from meantime.errors import MeantimeError
from meantime.labels import fill
from meantime.prompting.towers import Tower

# On a CPU, larger pieces cost more in page faults than they gain.
CPU_PIECE, GPU_PIECE = 64, 1024
# What the activations of a graph may take of the memory, before they are recomputed instead.
SHARE = 0.25


class Prompter:
    """Prompts ``context name ending`` for K names, whose context can be any M tokens.

    ``prompter(context (…, M, width))`` gives the class embeddings (…, K, d) as the encoder does, not normalised.
    """

    def __init__(
        self,
        tower: Tower,
        names: Sequence[str],
        encoder_identity: str,
        *,
        context: str = "a photo of a",
        ending: str = ".",
        chunk: int | None = None,
    ) -> None:
        if isinstance(names, str) or not names:
            raise MeantimeError(f"names must be a list of at least one class name, but {names!r} was given")
        if chunk is not None and chunk < 1:
            raise MeantimeError(f"chunk counts prompts and must be at least 1, but it is {chunk}")
        self.tower, self.encoder_identity = tower, encoder_identity
        self.names = tuple(names)
        self.chunk = chunk
        words = tower.tokenize(context)[tower.start : -1]
        if not words:
            raise MeantimeError(f"the context {context!r} has no words: there is nothing to learn from")
        rows = [tower.tokenize(fill(f"{context} {{}}{ending}", name)) for name in self.names]
        middle = tower.start + len(words)
        for name, ids in zip(self.names, rows, strict=True):
            if ids[tower.start : middle] != words:
                raise MeantimeError(
                    f"the tokenizer does not keep the context {context!r} apart from the name {name!r}: "
                    "end the context with a whole word"
                )
        self._before = [*rows[0][: tower.start]]
        self._after = [ids[middle:] for ids in rows]  # of each name: its tokens, the ending's and the end's
        self._filler = words[0]
        with torch.no_grad():
            self.initial: Tensor = tower.embed(torch.tensor(words, device=tower.device)).to(self.dtype)
            self.width = int(self.initial.shape[-1])
            self.dim = int(self._run(self.initial[None], [0]).shape[-1])
        self.graph_bytes = cache(self._measure)  # of one prompt, for a context of m tokens

    @property
    def device(self) -> torch.device:
        """Where the tower runs."""
        return self.tower.device

    @property
    def dtype(self) -> torch.dtype:
        """Of contexts and class embeddings: float32 at least, also where the tower runs in half precision."""
        return torch.promote_types(self.tower.dtype, torch.float32)

    @property
    def piece(self) -> int:
        """How many prompts run through the tower at a time."""
        return self.chunk or (CPU_PIECE if self.device.type == "cpu" else GPU_PIECE)

    def random(self, m: int, seed: int) -> Tensor:
        """A context of m tokens from N(0, 0.02), as CoOp begins without words."""
        if m < 1:
            raise MeantimeError(f"a context has at least one token, but m is {m}")
        generator = torch.Generator().manual_seed(seed)
        return (0.02 * torch.randn(m, self.width, generator=generator)).to(self.device, self.dtype)

    def check(self, values: Any) -> Tensor:
        """The context, a tensor or an array, where the tower runs, if it fits the tower."""
        context = torch.as_tensor(values).to(self.device, self.dtype)
        if context.ndim < 2 or context.shape[-1] != self.width or 0 in context.shape:
            raise MeantimeError(
                f"a context for this encoder has shape (…, M, {self.width}), but its shape is {tuple(context.shape)}: "
                "was it learned for another encoder?"
            )
        if self.tower.start + context.shape[-2] + 2 > self.tower.context_length:
            raise MeantimeError(
                f"a context of {context.shape[-2]} tokens leaves no room for a name: "
                f"the encoder reads {self.tower.context_length} tokens"
            )
        return context

    def __call__(self, context: Any) -> Tensor:
        """Class embeddings (…, K, d), differentiable; activations are recomputed where they would fill the memory."""
        context = self.check(context)
        *leading, m, _ = context.shape
        flat = context.reshape(-1, m, self.width)
        again = torch.is_grad_enabled() and context.requires_grad and self._is_large(flat.shape[0], m)
        columns, order = [], []
        for piece in self._pieces():
            few = max(1, self.piece // len(piece))
            parts = [flat[i : i + few] for i in range(0, len(flat), few)]
            rows = [
                checkpoint(self._run, part, piece, use_reentrant=False, preserve_rng_state=False)
                if again
                else self._run(part, piece)
                for part in parts
            ]
            columns.append(torch.cat(rows))
            order += piece
        back = torch.tensor(order, device=self.device).argsort()
        return torch.cat(columns, 1)[:, back].reshape(*leading, len(order), self.dim)

    def pull(self, context: Tensor, gradients: Tensor) -> Tensor:
        """Gradients (B, K, d) at the class embeddings of one context (M, width) -> (B, M, width) at the context.

        All B share the forward, of which one piece is alive at a time: J' g_b, summed over the pieces.
        """
        context = self.check(context).detach().requires_grad_()
        total = torch.zeros(len(gradients), *context.shape, device=self.device, dtype=self.dtype)
        for piece in self._pieces():
            with torch.enable_grad():
                out = self._run(context[None], piece)[0]
            few = max(1, self.piece // len(piece))
            for i in range(0, len(gradients), few):
                part = gradients[i : i + few, piece]
                (rows,) = torch.autograd.grad(out, context, part, retain_graph=True, is_grads_batched=True)
                total[i : i + few] += rows
        return total

    def _pieces(self) -> Iterator[list[int]]:
        """The classes, neighbours in length together, so that little of a piece is padding."""
        order = sorted(range(len(self.names)), key=lambda k: len(self._after[k]))
        for i in range(0, len(order), self.piece):
            yield order[i : i + self.piece]

    def _run(self, contexts: Tensor, classes: Sequence[int]) -> Tensor:
        """Contexts (b, M, width) before each of k names -> (b, k, d)."""
        tower, (b, m, width), k = self.tower, contexts.shape, len(classes)
        room = tower.context_length - len(self._before) - m
        after = [ids if len(ids) <= room else [*ids[: room - 1], ids[-1]] for ids in (self._after[c] for c in classes)]
        rows = [[*self._before, *[self._filler] * m, *ids] for ids in after]
        length = tower.context_length if tower.full else max(map(len, rows))
        ids = torch.tensor([row + [tower.pad_id] * (length - len(row)) for row in rows], device=self.device)
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows], device=self.device)
        with torch.no_grad():
            fixed = tower.embed(ids)  # (k, L, width)
        start, stop = len(self._before), len(self._before) + m
        tokens = torch.cat(
            [
                fixed[:, :start].expand(b, k, start, width),
                contexts.to(fixed.dtype)[:, None].expand(b, k, m, width),
                fixed[:, stop:].expand(b, k, length - stop, width),
            ],
            2,
        )
        out = tower.run(ids.repeat(b, 1), mask.repeat(b, 1), tokens.flatten(0, 1))
        return out.to(self.dtype).reshape(b, k, -1)

    def _is_large(self, contexts: int, m: int) -> bool:
        """Whether the graph of all prompts should not be kept at once."""
        prompts = contexts * len(self.names)
        if self.chunk is not None:
            return prompts > self.chunk
        return prompts * self.graph_bytes(m) > SHARE * _memory(self.device)

    def _measure(self, m: int) -> int:
        """Bytes of activations that the graph of one prompt, the longest, keeps."""
        longest = max(range(len(self.names)), key=lambda k: len(self._after[k]))
        sizes = []
        for count in (1, 2):  # weights are kept too, but only once: the difference is without them
            kept: dict[int, int] = {}

            def note(x: Tensor, kept: dict[int, int] = kept) -> Tensor:
                storage = x.untyped_storage()
                kept[storage.data_ptr()] = storage.nbytes()
                return x

            context = torch.zeros(count, m, self.width, device=self.device, dtype=self.dtype, requires_grad=True)
            with torch.enable_grad(), saved_tensors_hooks(note, lambda x: x):
                out = self._run(context, [longest])
            del out  # until here its graph kept every address apart
            sizes.append(sum(kept.values()))
        return sizes[1] - sizes[0]


def _memory(device: torch.device) -> float:
    """Bytes: of a graphics card what is free, else what the machine has."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError):  # a system that does not tell
        return 8.0 * 2**30
