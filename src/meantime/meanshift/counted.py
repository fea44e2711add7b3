"""The `official` loops of :mod:`~meantime.meanshift.solver` in NumPy, with as few calls as they can do with.

They end after a count of steps, so nothing is watched but which rows have stopped. A step on the views of a few images
costs what calling NumPy costs, so each call that is spared counts: two thirds of the solver's time on a batch, a third
of it on one image, whose arrays have no axes in front. Tests hold it to the solver's result.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.meanshift.arrays import log_softmax, machine_epsilon
from meantime.meanshift.solver import Mode, Solution, Variant
from meantime.meanshift.steps import objective

Rows = NDArray[Any]  # (B, S, N): B images, S settings, N views; or (N,)


def solve_counted(G: Rows, W: Rows, h2: Rows, lambda_: Rows, lambda_y: Rows, variant: Variant) -> Solution:
    """Run Algorithm 2 on B images (G, W (B, N, N), h2 (B, N)) under S settings (lambda_, lambda_y (S, 1))."""
    if len(G) == len(lambda_) == 1:
        mode, log_y, *rest = _solve(G[0], W[0], h2[0], lambda_[0, 0], lambda_y[0, 0], variant, ())
        return Solution(Mode(*(x[None, None] for x in mode)), log_y[None, None], *(np.full((1, 1), x) for x in rest))
    return _solve(G, W, h2[:, None, :], lambda_, lambda_y, variant, (len(G), len(lambda_)))


def _solve(
    G: Rows, W: Rows, h2: Rows, lambda_: Rows, lambda_y: Rows, variant: Variant, front: tuple[int, ...]
) -> Solution:
    n, epsilon, small = G.shape[-1], machine_epsilon(G), variant.tolerance**2
    diagonal = np.diagonal(G, axis1=-2, axis2=-1)
    diagonal = diagonal[:, None, :] if front else diagonal
    first = G[..., :1, :] if front else G[0]
    # Distances in bandwidths, D = ||f_p - m||^2 / h_p^2 = near - slope (G a)_p, where near is (f_p'f_p + m'm) / h_p^2.
    # Taking the rounding off, then cutting at zero, sets coinciding views to distance zero
    inverse = (1 - 8 * epsilon) / h2
    near, slope = (diagonal + 1) * inverse, 2 / h2
    ratio, weight = lambda_ / lambda_y, 1 / lambda_y
    # Affinities are at most 1, so Eq. 6 takes the exponential of at most this: where that is safe, there is no need
    # to look for the largest
    safe = bool(np.all((1 + lambda_) * weight < 600))
    a, Ga, y = np.zeros((*front, n)), np.broadcast_to(first, (*front, n)), np.full((*front, n), 1 / n)
    a[..., 0] = 1
    z = np.zeros_like(y)  # what y is the softmax of
    # View 0 itself, where the mode starts, has unit length but for its own rounding, and bandwidths may be smaller
    D = np.maximum((diagonal + first[..., :1]) * inverse - slope * Ga, 0.0)
    # Of one row there is one truth, and asking an array for all of them takes ten times as long
    every, some = (_every, _some) if front else (bool, bool)
    for _ in range(variant.outer):
        before = y, a, Ga
        kernel = np.exp(-D) * weight
        running = None  # every row: no mask is kept until the first has stopped
        for _ in range(variant.inner):  # Eq. 6
            new_z = y @ W
            new_z *= ratio
            new_z += kernel
            new = np.exp(new_z if safe else new_z - _largest(new_z))
            new /= _total(new)
            change = new - y
            moved = np.vecdot(change, change) >= small
            y, z = (new, new_z) if running is None else (_where(running, new, y), _where(running, new_z, z))
            if every(moved):
                continue
            running = moved if running is None else running & moved
            if not some(running):
                break
        running = None
        for _ in range(variant.inner):  # Eq. 8, on the sphere
            w = z - D
            w -= _largest(w)
            np.exp(w, out=w)
            Gw = w @ G
            norm2 = np.vecdot(w, Gw)[..., None]
            # Views that cancel out (to the rounding of weights that sum to total) have no direction: the mode stays
            if some(norm2 <= epsilon * n**2) and some(lost := norm2 <= epsilon * _total(w) ** 2):
                w, Gw, norm2 = np.where(lost, a, w), np.where(lost, Ga, Gw), np.where(lost, 1.0, norm2)
            shrink = 1 / np.sqrt(norm2)
            w *= shrink
            Gw *= shrink
            moved = np.vecdot(w - a, Gw - Ga) >= small
            a, Ga = (w, Gw) if running is None else (_where(running, w, a), _where(running, Gw, Ga))
            D = near - slope * Ga
            np.maximum(D, 0.0, out=D)
            if every(moved):
                continue
            running = moved if running is None else running & moved
            if not some(running):
                break
    old_y, old_a, old_Ga = before
    change = y - old_y
    settled = (np.vecdot(change, change) < small) & (np.vecdot(a - old_a, Ga - old_Ga) < small)
    log_y = log_softmax(z)
    value = objective(np.exp(-D), W, log_y, lambda_, lambda_y)
    return Solution(Mode(a, Ga, D * h2), log_y, value, settled, np.full(front, variant.outer))


def _where(running: NDArray[np.bool_], new: Rows, old: Rows) -> Rows:
    return np.where(running[..., None], new, old)


def _every(x: Rows) -> bool:
    return bool(np.logical_and.reduce(x, axis=None))


def _some(x: Rows) -> bool:
    return bool(np.logical_or.reduce(x, axis=None))


def _largest(x: Rows) -> Rows:
    largest: Rows = np.maximum.reduce(x, axis=-1, keepdims=True)
    return largest


def _total(x: Rows) -> Rows:
    total: Rows = np.add.reduce(x, axis=-1, keepdims=True)
    return total
