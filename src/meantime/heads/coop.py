"""CoOp (Zhou et al. 2022): one context of M tokens before every class name, learned from a few labelled images.

What is trained is the context alone. Features of images do not depend on it, so they come from a store. In use, a
learned prompt is nothing but its class embeddings.
"""

import math
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from meantime.errors import MeantimeError
from meantime.extras import optional
from meantime.heads.saved import PromptHead

if TYPE_CHECKING:
    from meantime.prompting.prompts import Prompter

torch = optional("torch", "a learned prompt", "torch")

Tensor = Any
Features = Callable[[int, int], Any]  # (epoch, seed) -> (n, d) of unit length: for each image a fresh training view
Gradient = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # context, logits, labels, features -> (M, width)
Progress = Callable[[int, int], None]  # epochs done, of how many

WARM_UP = 1e-5  # learning rate of the first epoch


def train(
    prompter: "Prompter",
    features: Features | Any,
    labels: Sequence[int] | Any,
    *,
    logit_scale: float,
    m: int = 4,
    init: Literal["words", "random"] = "words",
    epochs: int,
    batch: int = 32,
    lr: float = 0.002,
    momentum: float = 0.9,
    weight_decay: float = 5e-4,
    seed: int = 0,
    progress: Progress | None = None,
    gradient: Gradient | None = None,
) -> Tensor:
    """Return the context (M, width) after the last step.

    Parameters
    ----------
    features
        ``features(epoch, seed)`` gives a training view of each of the n images, (n, d) of unit length; an array
        (n, d) is the same view in every epoch.
    labels
        (n,) numbers of classes.
    m, init
        Tokens, and where they begin: the ``"words"`` of the prompter's context, or ``"random"``, N(0, 0.02).
    gradient
        Of the loss at the context; None is that of the cross-entropy.
    """
    start = _start(prompter, m, init, seed)
    target = _labels(labels, len(prompter.names)).to(prompter.device)
    context = start.clone().requires_grad_()
    optimizer = torch.optim.SGD([context], lr=lr, momentum=momentum, weight_decay=weight_decay)
    generator = torch.Generator().manual_seed(seed)
    size = min(batch, len(target))
    for epoch in range(epochs):
        optimizer.param_groups[0]["lr"] = learning_rate(epoch, epochs, lr)
        x = _features(features, epoch, seed, len(target), prompter)
        order = torch.randperm(len(target), generator=generator)
        # As in the released program, what does not fill a batch waits for another epoch.
        for rows in order[: len(order) // size * size].split(size):
            classes = torch.nn.functional.normalize(prompter(context), dim=-1)
            logits = logit_scale * x[rows] @ classes.T
            context.grad = (gradient or cross_entropy_gradient)(context, logits, target[rows], x[rows])
            optimizer.step()
        if progress is not None:
            progress(epoch + 1, epochs)
    return context.detach()


def learning_rate(epoch: int, epochs: int, lr: float) -> float:
    """One epoch of warm-up, then a cosine from the full rate down; as released, the warm-up does not shorten it."""
    return WARM_UP if epoch == 0 else 0.5 * lr * (1 + math.cos(math.pi * (epoch - 1) / epochs))


def cross_entropy_gradient(context: Tensor, logits: Tensor, labels: Tensor, x: Tensor) -> Tensor:
    """The gradient of CoOp's loss at the context."""
    return torch.autograd.grad(torch.nn.functional.cross_entropy(logits, labels), context)[0]


def prompt_head(prompter: "Prompter", context: Any, logit_scale: float) -> PromptHead:
    """Return the head of a learned context: its class embeddings, computed once, in NumPy."""
    with torch.no_grad():
        context = prompter.check(context)
        return PromptHead(context.cpu().numpy(), prompter(context).cpu().numpy(), logit_scale)


def read_context(file: str | Path) -> Tensor:
    """Return the context (M, width) of a prompt file as CoOp writes it: a tensor ``ctx`` under ``state_dict``.

    Such files hold pickled optimisers and schedulers too. Nothing of them is built and no code of a file runs: of all
    that a file may name, only tensors come to life.
    """
    try:
        value = torch.load(file, map_location="cpu", weights_only=False, pickle_module=_TENSORS_ONLY)
    except OSError as error:
        raise MeantimeError(f"the prompt file {str(file)!r} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # a foreign file can fail anywhere in the reading
        raise MeantimeError(f"{str(file)!r} is not a file of PyTorch ({str(error)[:100]})") from error
    state = value.get("state_dict", value) if isinstance(value, dict) else {}
    found = [x for key, x in state.items() if str(key).rpartition(".")[2] == "ctx" and isinstance(x, torch.Tensor)]
    if not found:
        raise MeantimeError(f"{str(file)!r} holds no tensor 'ctx'; expected one under 'state_dict', as CoOp saves it")
    context = found[0].detach().float()
    if context.ndim != 2:
        raise MeantimeError(
            f"the context in {str(file)!r} has the shape {tuple(context.shape)}; expected (M, width), one for all "
            "classes: contexts of each class apart are not supported"
        )
    return context


def _start(prompter: "Prompter", m: int, init: str, seed: int) -> Tensor:
    if init == "random":
        return prompter.random(m, seed)
    if init != "words":
        raise MeantimeError(f"init must be 'words' or 'random', not {init!r}")
    if m != len(prompter.initial):
        raise MeantimeError(
            f"the words of the context are {len(prompter.initial)} tokens, not m = {m}: "
            "begin with init='random', or with a context of so many tokens"
        )
    return prompter.initial


def _labels(labels: Any, count: int) -> Tensor:
    target = torch.as_tensor(np.asarray(labels))
    if target.ndim != 1 or not len(target) or target.is_floating_point():
        raise MeantimeError(f"labels must be n whole numbers, but they have shape {tuple(target.shape)}")
    if target.min() < 0 or target.max() >= count:
        raise MeantimeError(f"labels must lie in 0..{count - 1}, but there are {target.min()} to {target.max()}")
    return target.long()


def _features(features: Any, epoch: int, seed: int, count: int, prompter: "Prompter") -> Tensor:
    x = torch.as_tensor(features(epoch, seed) if callable(features) else features)
    if x.shape != (count, prompter.dim):
        raise MeantimeError(
            f"features of shape {tuple(x.shape)} given for {count} labels; expected {(count, prompter.dim)}"
        )
    return x.to(prompter.device, prompter.dtype)


class _Inert:
    """Takes the place of whatever a file names that is no tensor."""

    def __new__(cls, *args: Any, **options: Any) -> "_Inert":
        return super().__new__(cls)

    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __setstate__(self, state: Any) -> None: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def append(self, value: Any) -> None:
        """Take a list's item."""

    def extend(self, values: Any) -> None:
        """Take a list's items."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = (module == "collections" and name == "OrderedDict") or (
            module == "torch._utils" and name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter")
        )
        storage = module in ("torch", "torch.storage") and name.endswith("Storage")
        return super().find_class(module, name) if known or storage else _Inert


_TENSORS_ONLY = SimpleNamespace(
    __name__="tensors_only",
    Unpickler=_Unpickler,
    UnpicklingError=pickle.UnpicklingError,
    load=lambda file, **options: _Unpickler(file, **options).load(),
)
