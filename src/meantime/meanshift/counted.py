"""The `official` loops of :mod:`~meantime.meanshift.solver` in NumPy, with as few calls as they can do with.

They end after a count of steps, so nothing is watched but which rows have stopped. A step on the views of a few images
costs what calling NumPy costs, so each call that is spared counts: two thirds of the solver's time on a batch, a third
of it on one image, whose arrays have no axes in front. Tests hold it to the solver's result; they part only where views
lie within a millionth of each other, since the rounding is taken off every distance here and off small ones there.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meantime.meanshift.arrays import largest, log_softmax, machine_epsilon, total
from meantime.meanshift.density import CLOSE
from meantime.meanshift.solver import Mode, Solution, Variant
from meantime.meanshift.steps import objective
from meantime.meanshift.threads import in_turn

Rows = NDArray[Any]  # (B, S, N): B images, S settings, N views; or (N,)


def solve_counted(G: Rows, W: Rows, h2: Rows, lambda_: Rows, lambda_y: Rows, variant: Variant) -> Solution:
    """Run Algorithm 2 on B images (G, W (B, N, N), h2 (B, N)) under S settings (lambda_, lambda_y (S, 1))."""
    with in_turn(h2.size * len(lambda_)):
        if len(G) > 1 or len(lambda_) > 1:
            return _solve(G, W, h2[:, None, :], lambda_, lambda_y, variant, (len(G), len(lambda_)))
        mode, log_y, *rest = _solve(G[0], W[0], h2[0], lambda_[0, 0], lambda_y[0, 0], variant, ())
        return Solution(Mode(*(x[None, None] for x in mode)), log_y[None, None], *(np.full((1, 1), x) for x in rest))


def _solve(
    G: Rows, W: Rows, h2: Rows, lambda_: Rows, lambda_y: Rows, variant: Variant, front: tuple[int, ...]
) -> Solution:
    n, epsilon, small = G.shape[-1], machine_epsilon(G), variant.tolerance**2
    diagonal = np.diagonal(G, axis1=-2, axis2=-1)
    diagonal = diagonal[:, None, :] if front else diagonal
    first = G[..., :1, :] if front else G[0]
    # ln K(f_p - m) = -||f_p - m||^2 / h_p^2 = slope (G a)_p - near, where near is (f_p'f_p + m'm) / h_p^2.
    # Taking the rounding off, then cutting at zero, sets coinciding views to distance zero
    inverse = (1 - 8 * epsilon) / h2
    near, slope = (diagonal + 1) * inverse, 2 / h2
    close = bool(np.minimum.reduce(h2, axis=None) < CLOSE)
    weight = 1 / lambda_y
    ratio, affinity = (lambda_ * weight, W) if front else (None, lambda_ * weight * W)
    # Affinities are at most 1, so Eq. 6 takes the exponential of at most this: where that is safe, there is no need
    # to look for the largest
    safe = bool(np.all((1 + lambda_) * weight < 600))
    a, Ga, y = np.zeros((*front, n)), np.broadcast_to(first, (*front, n)), np.full((*front, n), 1 / n)
    a[..., 0] = 1
    z = np.zeros_like(y)  # what y is the softmax of
    # View 0 itself, where the mode starts, has unit length but for its own rounding, and bandwidths may be smaller
    length2 = first[..., 0]
    log_K = np.minimum(slope * Ga - (diagonal + first[..., :1]) * inverse, 0.0)
    kernel = np.exp(log_K)
    # Of one image's rows everything is a number, for which there are quicker ways
    times, dot, column, every, some = _MANY if front else _ONE
    ones = np.ones(n)  # a product with them is quicker than a sum
    for _ in range(variant.outer):
        before = y, a, Ga
        pull = kernel * weight
        running = None  # every row: no mask is kept until the first has stopped
        for _ in range(variant.inner):  # Eq. 6
            new_z = times(y, affinity)
            if ratio is not None:
                new_z *= ratio
            new_z += pull
            new = np.exp(new_z if safe else new_z - largest(new_z))
            new *= 1 / column(dot(new, ones))
            change = new - y
            moved = dot(change, change) >= small
            y, z = (new, new_z) if running is None else (_where(running, new, y), _where(running, new_z, z))
            if every(moved):
                continue
            running = moved if running is None else running & moved
            if not some(running):
                break
        running = None
        for _ in range(variant.inner):  # Eq. 8, on the sphere
            w = kernel * y
            Gw = times(w, G)
            norm2 = column(dot(w, Gw))
            if some(norm2 <= epsilon):  # of weights whose sum is 1 at most
                w, Gw, norm2 = _weights(z + log_K, G, a, Ga)
            shrink = norm2**-0.5
            w *= shrink
            Gw *= shrink
            # ||m' - m||^2, whose rounding of 1e-16 is small beside the tolerance squared
            moved = 1 + length2 - 2 * dot(w, Ga) >= small
            a, Ga = (w, Gw) if running is None else (_where(running, w, a), _where(running, Gw, Ga))
            length2 = 1.0
            log_K = slope * Ga
            log_K -= near
            if close:
                np.minimum(log_K, 0.0, out=log_K)
            kernel = np.exp(log_K)
            if every(moved):
                continue
            running = moved if running is None else running & moved
            if not some(running):
                break
    old_y, old_a, old_Ga = before
    change = y - old_y
    settled = (np.vecdot(change, change) < small) & (np.vecdot(a - old_a, Ga - old_Ga) < small)
    log_y = log_softmax(z)
    value = objective(kernel, W, log_y, lambda_, lambda_y)
    return Solution(Mode(a, Ga, -log_K * h2), log_y, value, settled, np.full(front, variant.outer))


def _weights(log_w: Rows, G: Rows, a: Rows, Ga: Rows) -> tuple[Rows, Rows, Rows]:
    """Return weights w, G w and w'Gw from the logarithms of y_p K_p, for a mode many bandwidths away from the views.

    Views that cancel out, to the rounding of weights that sum to their total, have no direction: the mode stays.
    """
    w = np.exp(log_w - largest(log_w))
    Gw = w @ G
    norm2 = np.vecdot(w, Gw)[..., None]
    lost = norm2 <= machine_epsilon(G) * total(w) ** 2
    return np.where(lost, a, w), np.where(lost, Ga, Gw), np.where(lost, 1.0, norm2)


def _where(running: NDArray[np.bool_], new: Rows, old: Rows) -> Rows:
    return np.where(running[..., None], new, old)


def _column(x: Rows) -> Rows:
    return x[..., None]


def _every(x: Rows) -> bool:
    return bool(np.logical_and.reduce(x, axis=None))


def _some(x: Rows) -> bool:
    return bool(np.logical_or.reduce(x, axis=None))


def _itself(x: Any) -> Any:
    return x


_MANY: tuple[Callable[..., Any], ...] = (np.matmul, np.vecdot, _column, _every, _some)
_ONE: tuple[Callable[..., Any], ...] = (np.ndarray.dot, np.ndarray.dot, _itself, bool, bool)
