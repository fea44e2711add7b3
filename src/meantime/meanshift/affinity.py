"""Affinities w_pq between views: from what they predict (Algorithm 3), or from what they look like."""

import numpy as np

from meantime.meanshift.arrays import Array, array_namespace, largest
from meantime.meanshift.fast import compiled


def text_affinity(logits: Array) -> Array:
    """Return w_pq = s_p' s_q (Eqs. 2-3), (…, N, N), where s_p is the softmax of the view's logits (…, N, K)."""
    xp = array_namespace(logits)
    e, z = _exponentials(logits)
    # Dividing the N x N product by z_p z_q spares a pass over the N x K predictions.
    return xp.matmul(e, xp.matrix_transpose(e)) / (z * xp.matrix_transpose(z))


def _exponentials(logits: Array) -> tuple[Array, Array]:
    """Return e^(l - max l), (…, N, K), and their sums (…, N, 1)."""
    xp, top = array_namespace(logits), largest(logits)
    if not isinstance(logits, np.ndarray):
        e = xp.exp(logits - top)
        return e, xp.sum(e, axis=-1, keepdims=True)
    if logits.dtype == np.float32 and logits.flags.carray and (fast := compiled()):
        e, z = fast.exponentials(logits, top)
        return e, z
    e = logits - top
    np.exp(e, out=e)  # in place: the largest array, still in the cache
    return e, e @ np.ones((e.shape[-1], 1), e.dtype)  # a product with ones is faster than a sum


def vision_affinity(G: Array) -> Array:
    """Return w_pq = f_p' f_q (Section 6): the Gram matrix itself, of unit views."""
    return G


def without_diagonal(W: Array) -> Array:
    """Return W with w_pp = 0, as in Algorithm 3. It is then no longer positive semi-definite."""
    xp = array_namespace(W)
    eye = xp.eye(W.shape[-1], dtype=xp.bool)
    eye = xp.asarray(eye, device=W.device)
    return xp.where(eye, xp.zeros_like(W), W)
