"""MTA: the mode of an image's views and the inlierness of each, found together (Algorithm 2)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from meantime.cores import available_cores
from meantime.errors import MeantimeError
from meantime.meanshift import counted
from meantime.meanshift.arrays import (
    Array,
    array_namespace,
    checked,
    every,
    for_small_steps,
    is_numpy_under_torch,
    is_unit,
    machine_epsilon,
    namespace,
    number,
    to_floats,
    unit,
)
from meantime.meanshift.fast import compiled
from meantime.meanshift.head import Reading, TextHead
from meantime.meanshift.mode import check_share
from meantime.meanshift.relations import HeadLike, equal_share, numbers, relations
from meantime.meanshift.solver import Solution, Variant, solve, variant_named
from meantime.meanshift.threads import sharing, side_by_side

# Images are solved in chunks whose state takes about this much: many rows share the cost of each small step, and
# memory does not grow with the number of images.
CHUNK_BYTES = 48 * 2**20
# Fewer numbers than this in all the predictions are not worth starting threads for.
WORTH_THREADS = 2**18


@dataclass(frozen=True)
class MTAResult(Reading):
    """What :func:`mta` found, one entry for each leading axis of ``views``.

    With S settings side by side every field has a further first axis of length S.
    """

    mode: Array  # (…, d), unit length
    inlierness: Array  # (…, N), on the simplex
    logits: Array  # (…, K), of the mode as the reader sees it
    n_iter: Array  # (…), outer loops
    objective: Array  # (…), the final value of Eq. 1
    converged: Array  # (…) bool: the last outer loop changed nothing beyond the variant's tolerance
    trace: Array | None = None  # (L + 1, …) with trace=True: Eq. 1 at the start and after each outer loop
    path: Array | None = None  # (L + 1, …, d) with trace=True: the mode at those moments


def mta(
    views: Array,
    classes: Array | HeadLike,
    *,
    reader: Array | HeadLike | None = None,
    logit_scale: float = 100.0,
    lambda_: float | Sequence[float] = 4.0,
    lambda_y: float | Sequence[float] = 0.2,
    rho: float = 0.3,
    variant: str = "official",
    affinity: Literal["head", "vision"] = "head",
    trace: bool = False,
) -> MTAResult:
    """Find the mode of the views of each image, trusting each view as far as the others bear it out.

    Parameters
    ----------
    views : (…, N, d)
        Embeddings of N views of each image, view 0 the original. Any array library, any float, any
        length: they are normalised here, and solved in float32 or better.
    classes : (K, d), or a head
        Class embeddings; or a function from unit embeddings (…, d) to logits (…, K).
    reader
        What reads the mode, as ``classes``; by default the same.
    logit_scale
        tau, the encoder's temperature: 100 for CLIP. Used with class embeddings; a head has its own.
    lambda_, lambda_y
        Weights of the affinity and of the entropy (Eq. 1). Sequences of equal length are settings to solve
        side by side: distances, affinities and logits are computed once.
    rho
        Share of neighbours that sets each view's bandwidth.
    variant
        ``"official"`` (the released program), ``"paper"`` (Algorithm 2 as printed) or ``"exact"``.
    affinity
        ``"head"`` from predictions (Eq. 3), ``"vision"`` from the embeddings alone.
    trace
        Keep the objective and the mode after every outer loop.

    Examples
    --------
    >>> import numpy as np, meantime as mt
    >>> classes = np.eye(3)
    >>> views = np.array([[0.7, 0.3, 0.1], [0.9, 0.3, 0.1], [0.8, 0.3, 0.0], [0.0, 0.1, 0.9]])
    >>> r = mt.mta(views, classes, logit_scale=10)
    >>> int(r.labels), r.inlierness.round(2)
    (0, array([0.93, 0.05, 0.02, 0.  ]))
    """
    given = [views, classes] + ([] if reader is None else [reader])
    if all(map(is_numpy_under_torch, given)):
        # Small steps throughout, on each of which NumPy spends a third of PyTorch's time
        views, classes, *rest = (x.detach().numpy() for x in given)
        result = mta(
            views,
            classes,
            reader=rest[0] if rest else None,
            logit_scale=logit_scale,
            lambda_=lambda_,
            lambda_y=lambda_y,
            rho=rho,
            variant=variant,
            affinity=affinity,
            trace=trace,
        )
        return _in_library_of(given[0], result)
    form = variant_named(variant)
    check_share("rho", rho)
    if affinity not in ("head", "vision"):
        raise MeantimeError(f"affinity must be 'head' or 'vision', not {affinity!r}")
    settings = _settings(lambda_, lambda_y)
    views = checked("views", views, 2, "(…, N, d)")
    head = _as_head("classes", classes, views, logit_scale)
    read = head if reader is None else _as_head("reader", reader, views, logit_scale)
    *leading, n, d = views.shape
    flat = array_namespace(views).reshape(views, (-1, n, d))
    count = flat.shape[0]
    threads = _threads(flat, head, read)
    # Traces may differ in length from chunk to chunk, so a traced batch is solved whole.
    size = count if trace else equal_share(count, _chunk_size(n, d, len(settings[0]), read), threads)

    def solve_some(i: int) -> MTAResult:
        try:
            chunk = to_floats(flat[i : min(i + size, count), ...])
            chunk = chunk if is_unit(chunk) else unit("views", chunk)
        except MeantimeError:
            unit("views", to_floats(views))  # says the same, with the place in the caller's array
            raise
        return _solve_chunk(chunk, head, read, settings, rho, form, affinity, trace)

    with sharing(threads) as threads:
        parts = side_by_side(solve_some, range(0, count, size), threads)
    several = not (_is_number(lambda_) and _is_number(lambda_y))
    return _join(parts, tuple(leading), keep_settings=several)


def _solve_chunk(
    views: Array,
    head: HeadLike,
    reader: HeadLike,
    settings: tuple[list[float], list[float]],
    rho: float,
    variant: Variant,
    affinity: str,
    trace: bool,
) -> MTAResult:
    """Solve images of unit views (B, N, d); results lead with (S, B), a trace with (L + 1, S, B)."""
    xp = array_namespace(views)
    G, W, h2 = for_small_steps(*relations(views, head, rho, variant, affinity))
    small = array_namespace(G)
    lambda_, lambda_y = (small.asarray(x, dtype=G.dtype, device=G.device)[:, None] for x in settings)  # (S, 1)
    states: list[Solution] = []
    if variant.stop == "count" and small is np and not trace:
        solution = (compiled() or counted).solve_counted(G, W, h2, lambda_, lambda_y, variant)
    else:
        solution = solve(G, W, h2, lambda_, lambda_y, variant, visit=states.append if trace else None)

    def settings_first(x: Array) -> Array:  # (B, S, …) of the solver -> (S, B, …)
        return xp.permute_dims(x, (1, 0, *range(2, x.ndim)))

    def back(x: Array, dtype: Any) -> Array:  # to the caller's library
        return settings_first(xp.asarray(x, dtype=dtype, device=views.device, copy=True))

    def mode(state: Solution) -> Array:  # coefficients (B, S, N) -> unit modes (S, B, d)
        a = xp.asarray(state.mode.a, dtype=views.dtype, device=views.device, copy=True)
        m = settings_first(xp.matmul(a, views))
        norm2 = xp.vecdot(m, m)[..., None]
        if every(norm2 > machine_epsilon(m)):
            return m / xp.sqrt(norm2)
        # Views that cancel out leave no direction (`paper` does not hold the mode on the sphere): view 0 then
        return unit("mode", xp.where(norm2 <= machine_epsilon(m), views[None, :, 0, :], m))

    m = mode(solution)
    logits = reader(m)
    if not every(xp.isfinite(logits)):
        raise MeantimeError("the reader gave NaN or infinity as a logit of the mode: check what it computes")
    return MTAResult(
        mode=m,
        inlierness=back(small.exp(solution.log_y), views.dtype),
        logits=logits,
        n_iter=back(solution.n_iter, xp.int64),
        objective=back(solution.objective, views.dtype),
        converged=back(solution.settled, xp.bool),
        trace=xp.stack([back(s.objective, views.dtype) for s in states]) if trace else None,
        path=xp.stack([mode(s) for s in states]) if trace else None,
    )


def _join(parts: list[MTAResult], leading: tuple[int, ...], *, keep_settings: bool) -> MTAResult:
    """Concatenate chunks along their images and restore the caller's leading axes."""
    xp = array_namespace(parts[0].mode)

    def whole(name: str, before: int) -> Array | None:
        """``before`` axes stand before the images' axis."""
        pieces = [getattr(p, name) for p in parts]
        if pieces[0] is None:
            return None
        x = pieces[0] if len(pieces) == 1 else xp.concat(pieces, axis=before)
        front = x.shape[:before] if keep_settings else x.shape[: before - 1]
        return xp.reshape(x, (*front, *leading, *x.shape[before + 1 :]))

    results = ("mode", "inlierness", "logits", "n_iter", "objective", "converged")
    return MTAResult(**{name: whole(name, 1) for name in results}, trace=whole("trace", 2), path=whole("path", 2))


def _in_library_of(array: Array, result: MTAResult) -> MTAResult:
    """Return a result of NumPy's arrays as arrays of another library."""
    xp = array_namespace(array)
    return MTAResult(*(x if x is None else xp.asarray(x) for x in (getattr(result, f.name) for f in fields(result))))


def _settings(lambda_: Any, lambda_y: Any) -> tuple[list[float], list[float]]:
    """Return both as lists of one length, checked."""
    first = [number("lambda_", x) for x in ([lambda_] if _is_number(lambda_) else lambda_)]
    second = [number("lambda_y", x) for x in ([lambda_y] if _is_number(lambda_y) else lambda_y)]
    if min(len(first), len(second)) == 0 or (len(first) != len(second) and 1 not in (len(first), len(second))):
        raise MeantimeError(
            f"lambda_ and lambda_y must have the same number of settings, but they have {len(first)} and {len(second)}"
        )
    count = max(len(first), len(second))
    first, second = first * (count // len(first)), second * (count // len(second))
    for x in first:
        if not (x >= 0 and math.isfinite(x)):
            raise MeantimeError(f"lambda_ must be zero or positive and finite, but it is {x}")
    for x in second:
        if not x > 0:
            raise MeantimeError(f"lambda_y must be positive (infinity is allowed), but it is {x}")
    for weight, temperature in zip(first, second, strict=True):
        if not math.isfinite((1 + weight) / temperature):
            raise MeantimeError(f"lambda_y is {temperature}, too small for a float beside lambda_ {weight}")
    return first, second


def _is_number(x: Any) -> bool:
    """A Python or NumPy number, or an array of rank 0; else it is a sequence of settings."""
    return isinstance(x, str) or not hasattr(x, "__len__") or getattr(x, "ndim", None) == 0


def _as_head(name: str, classes: Array | HeadLike, views: Array, logit_scale: float) -> HeadLike:
    """Turn class embeddings into a head; a head passes."""
    if callable(classes):
        d = getattr(classes, "dim", views.shape[-1])
        if d != views.shape[-1]:
            raise MeantimeError(f"{name} reads embeddings of {d} dimensions, but views has shape {tuple(views.shape)}")
        return classes
    head = TextHead(classes, logit_scale, name=name)
    namespace(**{"views": views, name: classes if hasattr(classes, "shape") else head.classes})
    if head.dim != views.shape[-1]:
        raise MeantimeError(
            f"{name} must have shape (K, {views.shape[-1]}) to go with views {tuple(views.shape)}, "
            f"but its shape is {(head.n_classes, head.dim)}"
        )
    return head


def _threads(views: Array, head: HeadLike, reader: HeadLike) -> int:
    """How many threads share images (B, N, d).

    Another's head may not bear to be called from several; PyTorch and GPUs share their work out themselves.
    """
    ours = isinstance(views, np.ndarray) and all(getattr(h, "thread_safe", False) for h in (head, reader))
    return available_cores() if ours and views.shape[0] * numbers(views, head) >= WORTH_THREADS else 1


def _chunk_size(n: int, d: int, settings: int, reader: HeadLike) -> int:
    """How many images to solve at once: their views, N x N matrices, rows of state and what is read of them."""
    k = getattr(reader, "n_classes", 1000)
    floats = n * (2 * d + 10 * n) + settings * (24 * n + 2 * d + 2 * k)
    return max(1, CHUNK_BYTES // (4 * floats))
