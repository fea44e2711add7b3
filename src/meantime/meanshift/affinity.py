"""Affinities w_pq between views: from what they predict (Algorithm 3), or from what they look like."""

import numpy as np

from meantime.meanshift.arrays import Array, array_namespace


def text_affinity(logits: Array) -> Array:
    """Return w_pq = s_p' s_q (Eqs. 2-3), (…, N, N), where s_p is the softmax of the view's logits (…, N, K)."""
    xp = array_namespace(logits)
    z = logits - xp.max(logits, axis=-1, keepdims=True)
    e = np.exp(z, out=z) if isinstance(z, np.ndarray) else xp.exp(z)  # in place: the largest array, still in the cache
    z = xp.sum(e, axis=-1)
    # Dividing the N x N product by z_p z_q spares a pass over the N x K predictions.
    return xp.matmul(e, xp.matrix_transpose(e)) / (z[..., :, None] * z[..., None, :])


def vision_affinity(G: Array) -> Array:
    """Return w_pq = f_p' f_q (Section 6): the Gram matrix itself, of unit views."""
    return G


def without_diagonal(W: Array) -> Array:
    """Return W with w_pp = 0, as in Algorithm 3. It is then no longer positive semi-definite."""
    xp = array_namespace(W)
    eye = xp.eye(W.shape[-1], dtype=xp.bool)
    eye = xp.asarray(eye, device=W.device)
    return xp.where(eye, xp.zeros_like(W), W)
