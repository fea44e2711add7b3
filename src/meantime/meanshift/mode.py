"""Plain MeanShift: climb from a starting point to the nearest mode of a density (Algorithm 1)."""

from dataclasses import dataclass

from meantime.errors import MeantimeError
from meantime.meanshift.arrays import Array, as_floats, every, namespace, number, to_widest, unit
from meantime.meanshift.density import bandwidth, gram, squared_distances
from meantime.meanshift.solver import Mode, diagonal_of, mode_at, seek_mode


@dataclass(frozen=True)
class MeanShiftResult:
    """What :func:`mean_shift` found, one entry for each leading axis of its input."""

    mode: Array  # (…, d)
    n_iter: Array  # (…)
    converged: Array  # (…) bool: the last step moved the mode by less than the tolerance
    path: Array | None = None  # (L + 1, …, d) with trace=True: the start and the mode after each step


def mean_shift(
    points: Array,
    start: Array | None = None,
    *,
    rho: float = 0.3,
    h2: float | None = None,
    normalize: bool = True,
    tolerance: float = 1e-6,
    max_iter: int = 10_000,
    trace: bool = False,
) -> MeanShiftResult:
    """Follow Algorithm 1 from ``start`` to a mode of the density of ``points``.

    Parameters
    ----------
    points : (…, N, d)
        Embeddings.
    start : (…, d), optional
        Where to begin; the first point by default.
    rho, h2
        Share of neighbours that sets each point's bandwidth, or one fixed squared bandwidth for all.
    normalize
        Work on the unit sphere: points, start and every step. False is Algorithm 1 as printed.
    trace
        Keep every step in ``path``.

    Examples
    --------
    >>> import numpy as np, meantime as mt
    >>> points = np.array([[1.0, 0.0], [0.98, 0.2], [0.0, 1.0]])
    >>> mt.mean_shift(points, h2=0.1).mode.round(2)
    array([0.99, 0.1 ])
    """
    check_share("rho", rho)
    if h2 is not None and not h2 > 0:
        raise MeantimeError(f"h2 (the squared bandwidth) must be positive, not {h2}")
    if not tolerance >= 0:
        raise MeantimeError(f"tolerance must be zero or positive, not {tolerance}")
    if max_iter < 1:
        raise MeantimeError(f"max_iter must be at least 1, not {max_iter}")
    points = as_floats("points", points, 2, "(…, N, d)")
    start = points[..., 0, :] if start is None else as_floats("start", start, 1, "(…, d)")
    xp = namespace(points=points, start=start)
    expected = (*points.shape[:-2], points.shape[-1])
    if tuple(start.shape) != expected:
        raise MeantimeError(
            f"start must have shape {expected} to go with points {tuple(points.shape)}, not {tuple(start.shape)}"
        )
    dtype = points.dtype
    if normalize:
        points, start = unit("points", points), unit("start", start)
    for name, x in (("points", points), ("start", start)):
        if not every(xp.isfinite(x)):
            raise MeantimeError(f"{name} {tuple(x.shape)} holds NaN or infinity")
    *leading, n, d = points.shape
    # The start joins as a row that the density does not count (ln y = -inf): all modes lie in one span.
    joined = to_widest(xp.concat([xp.astype(start, dtype)[..., None, :], points], axis=-2))
    joined = xp.reshape(joined, (-1, n + 1, d))
    G = gram(joined)
    if h2 is None:
        widths = bandwidth(squared_distances(G[:, 1:, 1:]), rho)
    else:
        widths = xp.full((G.shape[0], n), float(h2), dtype=G.dtype, device=G.device)
    widths = xp.concat([xp.ones_like(widths[:, :1]), widths], axis=-1)[:, None, :]
    at_start = xp.arange(n + 1, device=G.device) == 0
    a = xp.broadcast_to(xp.astype(at_start, G.dtype), (G.shape[0], 1, n + 1))
    log_y = xp.where(at_start, xp.asarray(-xp.inf, dtype=G.dtype), xp.asarray(0.0, dtype=G.dtype))
    path = [a]

    def keep(mode: Mode) -> None:
        path.append(mode.a)

    mode, steps, converged = seek_mode(
        G,
        widths,
        xp.broadcast_to(log_y, a.shape),
        mode_at(diagonal_of(G), a, G[:, :1, :]),
        sphere=normalize,
        tolerance=tolerance,
        limit=max_iter,
        visit=keep if trace else None,
    )

    def place(coefficients: Array) -> Array:  # (B, 1, N + 1) -> (…, d)
        return xp.astype(xp.reshape(xp.matmul(coefficients, joined), (*leading, d)), dtype)

    return MeanShiftResult(
        mode=place(mode.a),
        n_iter=xp.reshape(steps, tuple(leading)),
        converged=xp.reshape(converged, tuple(leading)),
        path=xp.stack([place(a) for a in path]) if trace else None,
    )


def check_share(name: str, share: float) -> None:
    """Raise unless ``share`` lies in (0, 1]."""
    if not 0 < number(name, share) <= 1:
        raise MeantimeError(f"{name} is a share of the views and must lie in (0, 1], but it is {share}")
