"""The objective (Eq. 1) and the two updates that lower it (Eqs. 6 and 8).

Vectors over the views lie along the last axis. An affinity is symmetric, so ``y @ W`` serves one row of
inlierness (N,) as well as the rows (…, S, N) of S settings that are solved side by side. Inlierness is
passed as its logarithm: a score too small for a float still takes its part in a comparison.
"""

from meantime.meanshift.arrays import Array, array_namespace, log_softmax, softmax


def objective(kernel: Array, W: Array, log_y: Array, lambda_: Array | float, lambda_y: Array | float) -> Array:
    """Return L(m, y) (Eq. 1), with ``kernel`` = K(f_p - m).

    An infinite ``lambda_y`` holds y uniform and its entropy constant: that term is then left out.
    """
    xp = array_namespace(kernel)
    y = xp.exp(log_y)
    lambda_y = xp.asarray(lambda_y, dtype=y.dtype)
    lambda_y = xp.where(xp.isinf(lambda_y), xp.zeros_like(lambda_y), lambda_y)
    # sum_p y_p K_p + lambda/2 sum_pq w_pq y_p y_q + lambda_y H(y), in one sum over the views
    return -xp.vecdot(y, kernel + lambda_ / 2 * (y @ W) - lambda_y * log_y)


def inlierness_step(kernel: Array, W: Array, log_y: Array, lambda_: Array | float, lambda_y: Array | float) -> Array:
    """Return ln y^(n+1) (Eq. 6): the minimum over the simplex of the bound that is tight at y^(n)."""
    return log_softmax(inlierness_logits(kernel, W, array_namespace(kernel).exp(log_y), lambda_, lambda_y))


def inlierness_logits(kernel: Array, W: Array, y: Array, lambda_: Array | float, lambda_y: Array | float) -> Array:
    """Return what y^(n+1) is the softmax of (Eq. 6)."""
    return (kernel + lambda_ * (y @ W)) / lambda_y


def mode_step(log_y: Array, d2: Array, h2: Array, *, stationary: bool = False) -> Array:
    """Return the weights, y_p K_p over their sum, with which m^(l+1) averages the views (Eqs. 7-8).

    ``stationary`` adds the factor 1/h_p^2 that the derivative of Eq. 1 has when each view has a bandwidth
    of its own; Eq. 8 leaves it out. Weights are normalised in the log domain: a mode many bandwidths away
    from every view still gives weights, not 0/0.
    """
    xp = array_namespace(d2)
    log_weights = log_y - d2 / h2
    return softmax(log_weights - xp.log(h2) if stationary else log_weights)
