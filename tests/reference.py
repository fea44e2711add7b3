"""A slow, obvious MTA in float64, from the paper and not from the library: what tests compare with.

One image at a time; plain loops over views p and q and over steps; embeddings in d dimensions throughout.
"""

import math
from types import SimpleNamespace

import numpy as np

FLOOR = 1e-12  # of h_p^2


def problem(seed, n=8, d=5, k=4, noise=0.5):
    """Random views (n, d) around one class, the last quarter of them around another; and classes (k, d)."""
    rng = np.random.default_rng(seed)
    classes = rng.normal(size=(k, d))
    centre = np.where(np.arange(n)[:, None] < max(1, 3 * n // 4), classes[0], classes[-1])
    return centre + noise * rng.normal(size=(n, d)), classes


def unit(x):
    """Scale a vector, or each row, to unit length."""
    x = np.asarray(x, dtype=np.float64)
    return x / math.sqrt(x @ x) if x.ndim == 1 else np.array([unit(row) for row in x])


def distance2(a, b):
    return float((a - b) @ (a - b))


def softmax(scores):
    return [math.exp(s) for s in log_softmax(scores)]


def log_softmax(scores):
    top = max(scores)
    log_sum = math.log(sum(math.exp(s - top) for s in scores))
    return [s - top - log_sum for s in scores]


# The parts of Algorithms 1-3


def bandwidths(f, rho=0.3, printed=False):
    """h_p^2: squared distances to the k nearest others over k, or, as printed, over rho (N - 1)."""
    n = len(f)
    k = max(1, int(rho * (n - 1)))
    h2 = []
    for p in range(n):
        others = sorted(distance2(f[p], f[q]) for q in range(n) if q != p)
        h2.append(max(FLOOR, sum(others[:k]) / (rho * (n - 1) if printed else k)) if others else FLOOR)
    return h2


def kernel(x, m, h2):
    return math.exp(-distance2(x, m) / h2)


def predictions(f, classes, tau):
    """s_p (Eq. 2)."""
    return [softmax([tau * float(x @ t) for t in classes]) for x in f]


def text_affinity(f, classes, tau, diagonal=True):
    """w_pq = s_p's_q (Eq. 3); without the diagonal in Algorithm 3."""
    s, n = predictions(f, classes, tau), len(f)
    W = np.zeros((n, n))
    for p in range(n):
        for q in range(n):
            if p != q or diagonal:
                W[p, q] = sum(a * b for a, b in zip(s[p], s[q], strict=True))
    return W


def vision_affinity(f, diagonal=True):
    n = len(f)
    return np.array([[float(f[p] @ f[q]) if p != q or diagonal else 0.0 for q in range(n)] for p in range(n)])


def objective(f, h2, W, m, log_y, lambda_, lambda_y):
    """Eq. 1; with an infinite lambda_y the entropy is constant and left out."""
    n, y = len(f), [math.exp(v) for v in log_y]
    density = sum(y[p] * kernel(f[p], m, h2[p]) for p in range(n))
    agreement = sum(y[p] * float(W[p] @ np.array(y)) for p in range(n))
    entropy = -sum(y[p] * log_y[p] for p in range(n))
    return -density - lambda_ / 2 * agreement - (0 if math.isinf(lambda_y) else lambda_y * entropy)


def inlierness_step(f, h2, W, m, log_y, lambda_, lambda_y):
    """Eq. 6, in logarithms."""
    y = np.exp(log_y)
    scores = [(kernel(f[p], m, h2[p]) + lambda_ * float(W[p] @ y)) / lambda_y for p in range(len(f))]
    return log_softmax(scores)


def mode_step(f, h2, m, log_y, sphere, stationary=False):
    """Eq. 8; ``stationary`` with the factor 1/h_p^2; ``sphere`` renormalised, unless the views cancel out."""
    log_weights = [log_y[p] - distance2(f[p], m) / h2[p] for p in range(len(f))]
    if stationary:
        log_weights = [w - math.log(h) for w, h in zip(log_weights, h2, strict=True)]
    new = np.zeros_like(m)
    for p, weight in enumerate(softmax(log_weights)):
        new = new + weight * f[p]
    if not sphere:
        return new
    return m.copy() if new @ new < 1e-15 else unit(new)


# Algorithms 1 and 2


def mean_shift(points, start=None, *, rho=0.3, h2=None, normalize=True, tolerance=1e-6, max_iter=10_000):
    """Algorithm 1; returns every mode on the way, the start first."""
    f = unit(points) if normalize else np.asarray(points, dtype=np.float64)
    m = f[0] if start is None else unit(start) if normalize else np.asarray(start, dtype=np.float64)
    h2 = bandwidths(f, rho) if h2 is None else [h2] * len(f)
    path = [m]
    while len(path) <= max_iter:
        path.append(mode_step(f, h2, path[-1], [0.0] * len(f), normalize))
        if math.sqrt(distance2(path[-1], path[-2])) < tolerance:
            break
    return path


def mta(
    views,
    classes,
    *,
    reader=None,
    logit_scale=100.0,
    lambda_=4.0,
    lambda_y=0.2,
    rho=0.3,
    variant="official",
    affinity="head",
    inner=10_000,
    outer=1_000,
):
    """Algorithm 2 in its three variants; ``inner`` and ``outer`` cap the loops of ``paper`` and ``exact``."""
    if variant == "official":
        inner, outer = 5, 5
    f, t = unit(views), unit(classes)
    n, diagonal = len(f), variant != "paper"
    W = text_affinity(f, t, logit_scale, diagonal) if affinity == "head" else vision_affinity(f, diagonal)
    h2 = bandwidths(f, rho, printed=variant == "paper")

    def value(m, log_y):
        return objective(f, h2, W, m, log_y, lambda_, lambda_y)

    def ended(old, new, old_value, new_value):
        if variant == "exact":
            return old_value - new_value <= 1e-9 * abs(old_value)
        return math.sqrt(distance2(old, new)) < 1e-6

    m, log_y = f[0], [-math.log(n)] * n
    trace, path, capped, converged = [value(m, log_y)], [m], False, False
    for _ in range(outer):
        old_m, old_log_y = m, log_y
        for step in range(1, inner + 1):
            before, log_y = log_y, inlierness_step(f, h2, W, m, log_y, lambda_, lambda_y)
            if ended(np.exp(before), np.exp(log_y), value(m, before), value(m, log_y)):
                break
            capped = capped or step == inner
        for step in range(1, inner + 1):
            before, m = m, mode_step(f, h2, m, log_y, variant != "paper", variant == "exact")
            if ended(before, m, value(before, log_y), value(m, log_y)):
                break
            capped = capped or step == inner
        trace.append(value(m, log_y))
        path.append(m)
        if variant == "exact":
            converged = trace[-2] - trace[-1] <= 1e-9 * abs(trace[-2])
        else:
            y_moved = math.sqrt(distance2(np.exp(log_y), np.exp(old_log_y)))
            converged = y_moved < 1e-6 and math.sqrt(distance2(m, old_m)) < 1e-6
        if converged and variant != "official":
            break
    mode = unit(m)
    return SimpleNamespace(
        mode=mode,
        inlierness=np.exp(log_y),
        logits=logit_scale * (t if reader is None else unit(reader)) @ mode,
        n_iter=len(trace) - 1,
        objective=trace[-1],
        converged=converged,
        trace=np.array(trace),
        path=unit(path),
        capped=capped,  # an inner loop ran to its cap: y alternates, or is slow
    )


# Two simpler ways to use the views


def by_confidence(f, t, tau):
    """Views in order of the entropy of their prediction, lowest first."""
    entropies = [-sum(v * math.log(v) for v in s if v > 0) for s in predictions(f, t, tau)]
    return sorted(range(len(f)), key=lambda p: entropies[p])


def confidence(views, classes, *, logit_scale=100.0, share=0.1):
    """The unit mean of the most confident share of the views."""
    f, t = unit(views), unit(classes)
    kept = by_confidence(f, t, logit_scale)[: max(1, int(share * len(f)))]
    return unit(sum(f[p] for p in kept))


def zero(views, classes, *, logit_scale=100.0, share=0.3):
    """The class with most votes among the most confident share; an excluded view breaks a tie."""
    f, t = unit(views), unit(classes)
    order = by_confidence(f, t, logit_scale)
    keep = max(1, int(share * len(f)))
    choice = [int(np.argmax(t @ x)) for x in f]
    votes = [sum(choice[p] == c for p in order[:keep]) for c in range(len(t))]
    tied = [c for c in range(len(t)) if votes[c] == max(votes)]
    if len(tied) == 1:
        return tied[0]
    return next(choice[p] for p in [*order[keep:], *order[:keep]] if choice[p] in tied)
