"""The `official` loops of :mod:`~meantime.meanshift.counted` image by image, compiled by Numba (the extra `fast`).

One image's matrices stay in the processor's nearest cache, no step costs a call, and threads do not wait for Python's
lock. Tests hold it to the solver's result. The first solve on a machine takes some seconds, in which it is compiled;
the result is kept on disk.
"""

import math
from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from meantime.meanshift.arrays import machine_epsilon
from meantime.meanshift.solver import VARIANTS, Mode, Solution, Variant

Rows = NDArray[np.float64]
Floats = NDArray[np.float32]

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile for arrays, once on each machine. Sums may be taken in any order; NaN and infinity are as they are."""
    return _compiled(function, {"reassoc", "contract", "nsz", "arcp"})


def compiled_in_order(function: Function) -> Function:
    """The same, to the letter: where what is rounded off counts."""
    return _compiled(function, {"contract"})


def _compiled(function: Function, freedom: set[str]) -> Function:
    return cast(Function, njit(cache=True, nogil=True, error_model="numpy", fastmath=freedom)(function))


def try_out() -> None:
    """Compile all, or load it from disk, so that whatever fails fails here."""
    one, matrix = np.ones((1, 1)), np.ones((1, 1, 1))
    solve_counted(matrix, matrix, one, one, one, VARIANTS["official"])
    exponentials(np.ones((1, 1, 1), np.float32), np.ones((1, 1, 1), np.float32))


def solve_counted(G: Rows, W: Rows, h2: Rows, lambda_: Rows, lambda_y: Rows, variant: Variant) -> Solution:
    """Run Algorithm 2 on B images (G, W (B, N, N), h2 (B, N)) under S settings (lambda_, lambda_y (S, 1))."""
    images, settings, n = len(G), len(lambda_), G.shape[-1]
    a, Ga, log_K, log_y = (np.empty((images, settings, n)) for _ in range(4))
    value, settled = np.empty((images, settings)), np.empty((images, settings), dtype=np.bool_)
    limits = variant.inner, variant.outer, variant.tolerance**2, machine_epsilon(G)
    _solve(G, W, h2, lambda_[:, 0], lambda_y[:, 0], limits, a, Ga, log_K, log_y, value, settled)
    n_iter = np.full((images, settings), variant.outer)
    return Solution(Mode(a, Ga, -log_K * h2[:, None, :]), log_y, value, settled, n_iter)


def exponentials(logits: Floats, top: Floats) -> tuple[Floats, Floats]:
    """Return e^(l - top) of rows of logits (…, K), where top (…, 1) is the row's largest; and their sums (…, 1)."""
    e, sums = np.empty_like(logits), np.empty_like(top)
    _exponentials(logits.reshape(-1, logits.shape[-1]), top.reshape(-1), e.reshape(-1, e.shape[-1]), sums.reshape(-1))
    return e, sums


@compiled
def _exponentials(logits: Floats, top: Floats, e: Floats, sums: Floats) -> None:
    for i in range(len(logits)):
        whole = np.float32(0)
        for k in range(logits.shape[1]):
            e[i, k] = _exp32(logits[i, k] - top[i])
            whole += e[i, k]
        sums[i] = whole


@compiled
def _solve(
    G: Rows,
    W: Rows,
    h2: Rows,
    lambda_: Rows,
    lambda_y: Rows,
    limits: tuple[int, int, float, float],
    a: Rows,
    Ga: Rows,
    log_K: Rows,
    log_y: Rows,
    value: Rows,
    settled: NDArray[np.bool_],
) -> None:
    for b in range(len(G)):
        for s in range(len(lambda_)):
            found = a[b, s], Ga[b, s], log_K[b, s], log_y[b, s]
            value[b, s], settled[b, s] = _image(G[b], W[b], h2[b], lambda_[s], lambda_y[s], limits, *found)


@compiled
def _image(
    G: Rows,
    W: Rows,
    h2: Rows,
    lambda_: float,
    lambda_y: float,
    limits: tuple[int, int, float, float],
    a: Rows,
    Ga: Rows,
    log_K: Rows,
    log_y: Rows,
) -> tuple[float, bool]:
    """Fill in the mode (a, G a), ln K and ln y; return the objective, and whether the last loop changed nothing."""
    inner, outer, small, epsilon = limits
    n = len(h2)
    near, slope = np.empty(n), np.empty(n)
    y, z, Wy = np.empty(n), np.empty(n), np.empty(n)
    w, Gw = np.empty(n), np.empty(n)
    for p in range(n):
        # ln K(f_p - m) = -||f_p - m||^2 / h_p^2 = slope (G a)_p - near, without the rounding of the subtraction
        inverse = (1 - 8 * epsilon) / h2[p]
        near[p], slope[p] = (G[p, p] + 1) * inverse, 2 / h2[p]
        a[p], Ga[p], y[p] = 0.0, G[0, p], 1 / n
        # View 0 itself, where the mode starts, has unit length but for its own rounding
        log_K[p] = min(slope[p] * Ga[p] - (G[p, p] + G[0, 0]) * inverse, 0.0)
    a[0] = 1.0
    K = np.exp(log_K)
    for _ in range(outer):
        old_y, old_a, old_Ga = y.copy(), a.copy(), Ga.copy()
        for _ in range(inner):  # Eq. 6
            _times(W, y, Wy)
            top = -np.inf
            for p in range(n):
                z[p] = (K[p] + lambda_ * Wy[p]) / lambda_y
                top = max(top, z[p])
            whole = 0.0
            for p in range(n):
                w[p] = _exp(z[p] - top)
                whole += w[p]
            moved = 0.0
            for p in range(n):
                moved += (w[p] / whole - y[p]) ** 2
                y[p] = w[p] / whole
            if moved < small:
                break
        for _ in range(inner):  # Eq. 8, on the sphere
            for p in range(n):
                w[p] = K[p] * y[p]
            norm2 = _times(G, w, Gw)
            if norm2 <= epsilon:  # a mode many bandwidths away from the views: only logarithms hold such weights
                top, whole = np.max(z + log_K), 0.0
                for p in range(n):
                    w[p] = _exp(z[p] + log_K[p] - top)
                    whole += w[p]
                norm2 = _times(G, w, Gw)
                if norm2 <= epsilon * whole**2:  # views that cancel out have no direction: the mode stays
                    w[:], Gw[:], norm2 = a, Ga, 1.0
            shrink = 1 / math.sqrt(norm2)
            moved = 0.0
            for p in range(n):
                moved += (shrink * w[p] - a[p]) * (shrink * Gw[p] - Ga[p])
                a[p], Ga[p] = shrink * w[p], shrink * Gw[p]
                log_K[p] = min(slope[p] * Ga[p] - near[p], 0.0)
                K[p] = _exp(log_K[p])
            if moved < small:
                break
    entropy_weight = 0.0 if math.isinf(lambda_y) else lambda_y
    _times(W, y, Wy)
    z -= np.max(z)  # in the array, so that nothing is rounded off a large number
    log_sum = math.log(np.sum(np.exp(z)))
    value = moved_y = moved_m = 0.0
    for p in range(n):
        log_y[p] = z[p] - log_sum
        value -= y[p] * (K[p] + lambda_ / 2 * Wy[p] - entropy_weight * log_y[p])
        moved_y += (y[p] - old_y[p]) ** 2
        moved_m += (a[p] - old_a[p]) * (Ga[p] - old_Ga[p])
    return value, moved_y < small and moved_m < small


@compiled
def _times(M: Rows, x: Rows, out: Rows) -> float:
    """Set ``out`` to M x and return x'M x, for a symmetric M."""
    whole = 0.0
    for p in range(len(x)):
        row = 0.0
        for q in range(len(x)):
            row += M[p, q] * x[q]
        out[p] = row
        whole += row * x[p]
    return whole


# e^x = 2^n e^r, where n ln 2 is what is nearest to x and of the rest r a few powers are enough. The library's own take
# one number at a time; these become wide instructions. For x <= 0; NaN stays NaN.


@compiled_in_order
def _exp(x: float) -> float:
    x = -700.0 if x < -700.0 else x
    n = np.int32(x * (1 / math.log(2)) - 0.5)
    r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10  # ln 2 in two parts
    p = 1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r / 479001600))
    p = 1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * (1 / 40320 + r * p)))
    p = 1 + r * (1 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * p))))
    return p * np.int64((np.int64(n) + 1023) << 52).view(np.float64)  # 2^n by its bits


@compiled_in_order
def _exp32(x: np.float32) -> np.float32:
    F, I = np.float32, np.int32  # noqa: E741
    x = F(-87) if x < F(-87) else x
    n = I(x * F(1 / math.log(2)) - F(0.5))
    r = (x - F(n) * F(0.693145752)) - F(n) * F(1.42860677e-06)
    p = F(1 / 24) + r * (F(1 / 120) + r * F(1 / 720))
    p = F(1) + r * (F(1) + r * (F(1 / 2) + r * (F(1 / 6) + r * p)))
    return p * I((n + I(127)) << I(23)).view(F)
