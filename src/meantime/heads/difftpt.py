"""DiffTPT (Feng et al. 2023): TPT on views that diffusion has made, of which the unfaithful are left out first.

Of the other views, the 80 % whose logits point most where view 0's do stay; of these and view 0, the 30 % most
confident count, in four steps.
"""

from typing import TYPE_CHECKING, Any

from meantime.aggregators.base import by_confidence, kept_count
from meantime.extras import optional
from meantime.heads.tpt import TPTHead
from meantime.meanshift.mode import check_share

if TYPE_CHECKING:
    from meantime.prompting.prompts import Prompter

torch = optional("torch", "DiffTPT", "torch")


class DiffTPTHead(TPTHead):
    """A head whose prompt is tuned on the faithful and confident views of each image."""

    def __init__(
        self,
        prompter: "Prompter",
        logit_scale: float = 100.0,
        *,
        context: Any = None,
        steps: int = 4,
        lr: float = 5e-3,
        faithful: float = 0.8,
        keep: float = 0.3,
    ) -> None:
        super().__init__(prompter, logit_scale, context=context, steps=steps, lr=lr, keep=keep)
        check_share("faithful", faithful)
        self.faithful = faithful

    def kept(self, logits: Any) -> Any:
        """Return the views (B, k) that count, of first logits (B, N, K); they stay the same in later steps."""
        if logits.shape[-2] == 1:
            return super().kept(logits)
        cosines = torch.nn.functional.cosine_similarity(logits[:, :1], logits[:, 1:], dim=-1)
        near = cosines.argsort(dim=-1, descending=True, stable=True)[:, : kept_count(cosines.shape[-1], self.faithful)]
        near = torch.cat([torch.zeros_like(near[:, :1]), near + 1], -1)
        confident = by_confidence(logits.gather(1, near[..., None].expand(-1, -1, logits.shape[-1])))
        return near.gather(1, confident[:, : kept_count(near.shape[-1], self.keep)])
