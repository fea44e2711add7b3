"""ProGrad (Zhu et al. 2023): CoOp that never unlearns what the encoder knows.

Where the gradient of the few labels opposes that of staying near the zero-shot prediction, the part that opposes is
taken out.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from meantime.errors import MeantimeError
from meantime.extras import optional
from meantime.heads import coop

if TYPE_CHECKING:
    from meantime.prompting.prompts import Prompter

torch = optional("torch", "a learned prompt", "torch")

Tensor = Any


def train(
    prompter: "Prompter",
    features: coop.Features | Any,
    labels: Sequence[int] | Any,
    *,
    logit_scale: float,
    lambda_: float = 1.0,
    **settings: Any,
) -> Tensor:
    """Return the context (M, width) after the last step; settings are CoOp's, the teacher is the initial prompt."""
    if not 0 <= lambda_ <= 1:
        raise MeantimeError(f"lambda_ says how much of what opposes is taken out, 0..1, but it is {lambda_}")
    with torch.no_grad():
        teacher = logit_scale * torch.nn.functional.normalize(prompter(prompter.initial), dim=-1)

    def gradient(context: Tensor, logits: Tensor, labels: Tensor, x: Tensor) -> Tensor:
        nll = -logits.log_softmax(-1)
        known = ((x @ teacher.T).softmax(-1) * nll).sum(-1).mean()  # the KL divergence, but for a constant
        (g_b,) = torch.autograd.grad(known, context, retain_graph=True)
        return project(coop.cross_entropy_gradient(context, logits, labels, x), g_b, lambda_)

    return coop.train(prompter, features, labels, logit_scale=logit_scale, gradient=gradient, **settings)


def project(g_a: Tensor, g_b: Tensor, lambda_: float = 1.0) -> Tensor:
    """Return g_a without lambda times its part against g_b; g_a itself where the two agree."""
    unit = torch.nn.functional.normalize(g_b.flatten(), dim=0).reshape(g_b.shape)
    against = (g_a * unit).sum()
    return g_a - lambda_ * against * unit if against < 0 else g_a
