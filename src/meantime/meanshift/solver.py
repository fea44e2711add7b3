"""Block coordinate descent on Eq. 1 (Algorithm 2), for many images and settings at once.

The mode is always a combination m = sum_p a_p f_p of the views, so after one Gram matrix G no step needs
the d-dimensional embeddings: ||f_p - m||^2 = G_pp - 2 (G a)_p + a'Ga. State is kept as rows (B, S, N) of
B images and S settings; G and W are (B, N, N), bandwidths (B, 1, N), lambda and lambda_y (S, 1).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from meantime.errors import MeantimeError
from meantime.meanshift.arrays import Array, array_namespace, every, log_and_softmax, machine_epsilon
from meantime.meanshift.density import gaussian_kernel, without_rounding
from meantime.meanshift.iterate import iterate
from meantime.meanshift.steps import inlierness_logits, mode_step, objective


@dataclass(frozen=True)
class Variant:
    """How one published or exact form of MTA differs from the others."""

    diagonal: bool  # w_pp kept; Algorithm 3 sets it to zero
    sphere: bool  # the mode is renormalised to unit length after each of its steps
    stationary: bool  # weight 1/h_p^2 in the mode step: the true stationary point of Eq. 1
    real_divisor: bool  # h_p^2 divides by rho (N - 1) instead of by the number of neighbours
    stop: Literal["change", "objective", "count"]  # what ends the outer loop ("count": the inner by change)
    inner: int  # most steps of an inner loop
    outer: int  # most outer loops
    tolerance: float


VARIANTS = {
    # The released program, from which the published numbers most likely come.
    "official": Variant(True, True, False, False, "count", 5, 5, 1e-6),
    # The paper's Algorithms 2 and 3 to the letter.
    "paper": Variant(False, False, False, True, "change", 10_000, 1_000, 1e-6),
    # A true descent on Eq. 1 until it stops falling.
    "exact": Variant(True, True, True, False, "objective", 10_000, 1_000, 1e-9),
}


def variant_named(name: str) -> Variant:
    """Return the variant of that name."""
    if name not in VARIANTS:
        raise MeantimeError(f"variant must be one of {', '.join(map(repr, VARIANTS))}, not {name!r}")
    return VARIANTS[name]


class Mode(NamedTuple):
    """Where the mode is: its coefficients in the views, and what follows from them. Each (B, S, N)."""

    a: Array
    Ga: Array
    d2: Array  # ||f_p - m||^2


class Solution(NamedTuple):
    """Mode and inlierness of B images under S settings after some outer loops."""

    mode: Mode
    log_y: Array  # (B, S, N)
    objective: Array  # (B, S)
    settled: Array  # (B, S) bool: the last loop changed nothing beyond the tolerance
    n_iter: Array  # (B, S) outer loops


def mode_at(diagonal: Array, a: Array, Ga: Array, norm2: Array | float | None = None) -> Mode:
    """Return the mode with coefficients ``a``, given also G a, the diagonal of G and, if known, ||m||^2."""
    if norm2 is None:
        norm2 = array_namespace(a).vecdot(a, Ga)[..., None]
    scale = diagonal + norm2  # f_p'f_p + m'm, then minus 2 f_p'm
    return Mode(a, Ga, without_rounding(scale - 2 * Ga, scale))


def diagonal_of(G: Array) -> Array:
    """Return ||f_p||^2 as rows (B, 1, N)."""
    return array_namespace(G).linalg.diagonal(G)[:, None, :]


def first_view(G: Array, settings: int) -> Mode:
    """Return the mode at view 0, where Algorithm 2 starts."""
    xp = array_namespace(G)
    shape = (G.shape[0], settings, G.shape[-1])
    a = xp.astype(xp.arange(G.shape[-1], device=G.device) == 0, G.dtype)
    return mode_at(diagonal_of(G), xp.broadcast_to(a, shape), xp.broadcast_to(G[:, :1, :], shape))


def seek_mode(
    G: Array,
    h2: Array,
    log_y: Array,
    mode: Mode,
    *,
    sphere: bool,
    tolerance: float,
    limit: int,
    stationary: bool = False,
    rest: Array | None = None,
    visit: Callable[[Mode], None] | None = None,
) -> tuple[Mode, Array, Array]:
    """Repeat the mode step (Eq. 8) with fixed y; return the mode, the steps taken and which rows converged.

    A row ends when ||m^(l+1) - m^l|| < tolerance; or, given ``rest`` (what of Eq. 1 does not depend on the
    mode, (B, S)), when the relative fall of Eq. 1 is below it. ``visit`` sees every step's mode.
    """
    xp = array_namespace(G)
    by_objective = rest is not None

    def value(mode: Mode, fixed: tuple[Array, ...]) -> Array:
        return fixed[3] - xp.sum(xp.exp(fixed[2] - mode.d2 / fixed[1]), axis=-1)

    def step(fixed: tuple[Array, ...], old: Mode, n: int) -> tuple[Mode, Array]:
        G, h2, log_y, _, diagonal = fixed
        a = mode_step(log_y, old.d2, h2, stationary=stationary)
        Ga = a @ G
        if sphere:
            a, Ga = _onto_sphere(a, Ga, old)
        new = mode_at(diagonal, a, Ga, 1.0 if sphere else None)
        if by_objective:
            before = value(old, fixed)
            return new, before - value(new, fixed) > tolerance * xp.abs(before)
        return new, _moved2(new, old) >= tolerance**2

    return iterate(step, (G, h2, log_y, log_y if rest is None else rest, diagonal_of(G)), mode, limit, visit)


def _onto_sphere(a: Array, Ga: Array, old: Mode) -> tuple[Array, Array]:
    """Scale the mode to unit length; views that cancel out have no direction, and the mode stays."""
    xp = array_namespace(a)
    norm2 = xp.vecdot(a, Ga)[..., None]
    cancelled = norm2 <= machine_epsilon(a)
    if not every(~cancelled):
        a, Ga = xp.where(cancelled, old.a, a), xp.where(cancelled, old.Ga, Ga)
        norm2 = xp.where(cancelled, xp.ones_like(norm2), norm2)
    norm = xp.sqrt(norm2)
    return a / norm, Ga / norm


def seek_inlierness(
    kernel: Array, W: Array, log_y: Array, lambda_: Array, lambda_y: Array, variant: Variant, tolerance: float
) -> Array:
    """Repeat the inlierness step (Eq. 6) with a fixed mode; return ln y.

    With a zero diagonal W is not positive semi-definite and y may alternate for ever between two states.
    Once it does (two steps change it by less than the tolerance) it is taken at once to the state in which
    the last allowed step would leave it.
    """
    xp = array_namespace(kernel)

    def step(fixed: tuple[Array, ...], old: tuple[Array, ...], n: int) -> tuple[tuple[Array, ...], Array]:
        (kernel, W), (log_y, y, before) = fixed, old
        new_log_y, new = log_and_softmax(inlierness_logits(kernel, W, y, lambda_, lambda_y))
        if variant.stop == "objective":
            value = objective(kernel, W, log_y, lambda_, lambda_y)
            fall = value - objective(kernel, W, new_log_y, lambda_, lambda_y)
            return (new_log_y, new, y), fall > tolerance * xp.abs(value)
        moved = _norm2(new - y) >= tolerance**2
        if not variant.diagonal and n > 1:
            alternates = moved & (_norm2(new - before) < tolerance**2)
            if (variant.inner - n) % 2 == 1:  # an odd number of steps from here ends at the other state
                new_log_y = xp.where(alternates[..., None], log_y, new_log_y)
                new = xp.where(alternates[..., None], y, new)
            moved = moved & ~alternates
        return (new_log_y, new, y), moved

    y = xp.exp(log_y)
    (log_y, _, _), _, _ = iterate(step, (kernel, W), (log_y, y, y), variant.inner)
    return log_y


def solve(
    G: Array,
    W: Array,
    h2: Array,
    lambda_: Array,
    lambda_y: Array,
    variant: Variant,
    visit: Callable[[Solution], None] | None = None,
) -> Solution:
    """Run Algorithm 2 on B images (G, W (B, N, N), h2 (B, N)) under S settings (lambda_, lambda_y (S, 1)).

    ``visit`` sees the start and the state after every outer loop; rows that have stopped repeat their last.
    """
    xp = array_namespace(G)
    # 1e-9 is below what float32, the widest float of some devices, can tell apart
    tolerance = max(variant.tolerance, 8 * machine_epsilon(G))
    by_objective = variant.stop == "objective"

    def value(mode: Mode, log_y: Array, W: Array, h2: Array) -> Array:
        return objective(gaussian_kernel(mode.d2, h2), W, log_y, lambda_, lambda_y)

    def loop(fixed: tuple[Array, ...], old: tuple[Array, ...], n: int) -> tuple[tuple[Array, ...], Array]:
        """One pass: y to the end of its loop, then m to the end of its own."""
        G, W, h2 = fixed
        old_mode, old_log_y, old_value = Mode(*old[:3]), old[3], old[4]
        kernel = gaussian_kernel(old_mode.d2, h2)
        log_y = seek_inlierness(kernel, W, old_log_y, lambda_, lambda_y, variant, tolerance)
        mode, _, _ = seek_mode(
            G,
            h2,
            log_y,
            old_mode,
            sphere=variant.sphere,
            stationary=variant.stationary,
            tolerance=tolerance,
            limit=variant.inner,
            rest=objective(xp.zeros_like(kernel), W, log_y, lambda_, lambda_y) if by_objective else None,
        )
        if variant.stop == "count" and n < variant.outer and visit is None:
            # The released program never looks at its progress: spare that until its last loop.
            return (*mode, log_y, old_value, old[5]), ~old[5]
        new_value = value(mode, log_y, W, h2)
        if by_objective:
            settled = old_value - new_value <= tolerance * xp.abs(old_value)
        else:
            still = _norm2(xp.exp(log_y) - xp.exp(old_log_y)) < tolerance**2
            settled = still & (_moved2(mode, old_mode) < tolerance**2)
        moved = xp.ones_like(settled) if variant.stop == "count" else ~settled
        return (*mode, log_y, new_value, settled), moved

    h2 = h2[:, None, :]
    mode = first_view(G, lambda_.shape[0])
    log_y = xp.full_like(mode.d2, -math.log(G.shape[-1]))
    begin = value(mode, log_y, W, h2)
    state = (*mode, log_y, begin, xp.zeros(begin.shape, dtype=xp.bool, device=G.device))

    def solution(state: tuple[Array, ...], n_iter: Array) -> Solution:
        log_y, value, settled = state[3:]
        return Solution(Mode(*state[:3]), log_y, value, settled, n_iter)

    steps = xp.zeros(begin.shape, dtype=xp.int64, device=G.device)
    see = None
    if visit is not None:
        visit(solution(state, steps))
        see = lambda state: visit(solution(state, steps))  # noqa: E731
    state, steps, _ = iterate(loop, (G, W, h2), state, variant.outer, see)
    return solution(state, steps)


def _norm2(x: Array) -> Array:
    return array_namespace(x).vecdot(x, x)


def _moved2(new: Mode, old: Mode) -> Array:
    """||m' - m||^2 from small differences, so that nothing cancels."""
    return array_namespace(new.a).vecdot(new.a - old.a, new.Ga - old.Ga)
