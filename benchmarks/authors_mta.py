"""The baseline of the solver's benchmark: one image at a time, with the structure of the released program.

As there, the scale is applied to the logits, each side of the affinity has a division by a temperature (of 1) and a
softmax of its own, and distances to the mode are recomputed in d dimensions at every step; at most 5 inner steps, 5
outer loops. A test holds it to the variant `official`.
"""

import torch

LAMBDA, LAMBDA_Y, RHO, TEMPERATURE, STEPS, SMALL = 4.0, 0.2, 0.3, 1, 5, 1e-6


def solve_one(views: torch.Tensor, classes: torch.Tensor, logit_scale: float = 100.0) -> torch.Tensor:
    """Return the logits (1, K) of the mode of unit views (N, d) under unit classes (K, d)."""
    n = views.shape[0]
    logits = views @ classes.T * logit_scale
    nearest = torch.cdist(views, views).sort(dim=1).values[:, 1 : int(RHO * (n - 1)) + 1]
    width = torch.sqrt(0.5 * (nearest**2).mean(dim=1))
    affinity = (logits / TEMPERATURE).softmax(dim=1) @ (logits / TEMPERATURE).softmax(dim=1).T

    def kernel(mode: torch.Tensor) -> torch.Tensor:
        return torch.exp(-((views - mode).norm(dim=-1) ** 2) / (2 * width**2))

    mode, inlierness = views[0], torch.ones(n) / n
    for _ in range(STEPS):
        density = kernel(mode)
        for _ in range(STEPS):
            before = inlierness
            trusted = (affinity * inlierness.unsqueeze(0)).sum(dim=1)
            inlierness = (1 / LAMBDA_Y * (density + LAMBDA * trusted)).softmax(dim=-1)
            if (before - inlierness).norm() < SMALL:
                break
        for _ in range(STEPS):
            before = mode
            weights = kernel(mode) * inlierness
            mode = (weights.unsqueeze(1) * views).sum(dim=0) / weights.sum()
            mode = mode / mode.norm()
            if (before - mode).norm() < SMALL:
                break
    return mode.unsqueeze(0) @ classes.T * logit_scale
