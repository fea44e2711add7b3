"""Distances, bandwidths and kernel: the density of the views, all from one Gram matrix G = F F'."""

from meantime.meanshift.arrays import Array, array_namespace, every, machine_epsilon

# h_p^2 never falls below this, so that coinciding views keep a kernel instead of 0/0.
BANDWIDTH_FLOOR = 1e-12
# Below this h_p^2 is of views that all but coincide: beside it what floats round off counts.
CLOSE = 1e-6


def gram(views: Array) -> Array:
    """Return G = F F', (…, N, N), of views F (…, N, d)."""
    xp = array_namespace(views)
    return xp.matmul(views, xp.matrix_transpose(views))


def of_unit_views(G: Array, h2: Array) -> Array:
    """Return the Gram matrices (B, N, N) with views at exactly unit length, for images of which some coincide.

    float32 rounds a length off by 6e-8, which is far beside bandwidths (B, N) as small as theirs.
    """
    if every(h2 >= CLOSE):
        return G
    xp = array_namespace(G)
    scale = 1 / xp.sqrt(xp.linalg.diagonal(G))
    coincide = xp.any(h2 < CLOSE, axis=-1)[:, None, None]
    return xp.where(coincide, G * (scale[..., :, None] * scale[..., None, :]), G)


def squared_distances(G: Array) -> Array:
    """Return ||f_p - f_q||^2 = G_pp - 2 G_pq + G_qq, (…, N, N), of a Gram matrix (…, N, N)."""
    xp = array_namespace(G)
    g = xp.linalg.diagonal(G)
    scale = g[..., :, None] + g[..., None, :]
    return without_rounding(scale - 2 * G, scale)


def without_rounding(d2: Array, scale: Array | float) -> Array:
    """Set to zero what is smaller than the rounding of the sum ``scale`` that it was subtracted from.

    Two views that coincide then have distance zero on every machine, not a random 1e-16.
    """
    xp = array_namespace(d2)
    tiny = 8 * machine_epsilon(d2)
    return xp.where(d2 > tiny * scale, d2, 0.0)


def neighbours(n: int, rho: float) -> int:
    """Return how many neighbours a bandwidth looks at: k = max(1, int(rho (N - 1)))."""
    return max(1, int(rho * (n - 1)))


def bandwidth(d2: Array, rho: float = 0.3, *, divisor: float | None = None) -> Array:
    """Return h_p^2, (…, N): the mean squared distance to the nearest share ``rho`` of the other views.

    ``divisor`` replaces k, the number of neighbours summed. The paper writes rho (N - 1), which is not
    an integer; the released program divides by k.
    """
    xp = array_namespace(d2)
    n = d2.shape[-1]
    if n == 1:
        return xp.full_like(d2[..., 0], BANDWIDTH_FLOOR)
    k = neighbours(n, rho)
    # The first of each sorted row is the view itself (or one that coincides with it: zero all the same).
    nearest = xp.sort(d2, axis=-1)[..., 1 : k + 1]
    h2 = xp.sum(nearest, axis=-1) / (k if divisor is None else divisor)
    return xp.maximum(h2, xp.full_like(h2, BANDWIDTH_FLOOR))


def gaussian_kernel(d2: Array, h2: Array) -> Array:
    """Return K(f_p - m) = exp(-||f_p - m||^2 / h_p^2)."""
    return array_namespace(d2).exp(-d2 / h2)
