"""What the views of an image are to one another: Gram matrices, affinities, bandwidths. All that costs is here."""

from collections.abc import Callable

from meantime.errors import MeantimeError
from meantime.meanshift.affinity import text_affinity, vision_affinity, without_diagonal
from meantime.meanshift.arrays import Array, array_namespace, every, to_widest
from meantime.meanshift.density import bandwidth, gram, of_unit_views, squared_distances
from meantime.meanshift.solver import Variant

HeadLike = Callable[[Array], Array]  # a Head, or any function from unit embeddings (…, d) -> logits (…, K)

# Predictions are the largest arrays. They are made for a few images at a time and stay in the processor's caches.
CACHE_BYTES = 4 * 2**20


def relations(views: Array, head: HeadLike, rho: float, variant: Variant, affinity: str) -> tuple[Array, ...]:
    """Return Gram matrices, affinities (B, N, N) and bandwidths (B, N) of unit views (B, N, d), some at a time."""
    xp = array_namespace(views)
    count, n, _ = views.shape
    divisor = rho * (n - 1) if variant.real_divisor else None
    few = equal_share(count, max(1, CACHE_BYTES // (4 * numbers(views, head))))

    def some(i: int) -> tuple[Array, Array, Array]:
        part = views[i : min(i + few, count), ...]
        G = gram(to_widest(part))
        W = vision_affinity(G) if affinity == "vision" else to_widest(text_affinity(head(part)))
        if not every(xp.isfinite(xp.linalg.diagonal(W))):  # which a view's own logits spoil
            raise MeantimeError("the head gave NaN or infinity as a logit of a view: check what it computes")
        h2 = bandwidth(squared_distances(G), rho, divisor=divisor)
        return of_unit_views(G, h2), W if variant.diagonal else without_diagonal(W), h2

    found = [some(i) for i in range(0, count, few)]
    return found[0] if len(found) == 1 else tuple(xp.concat(parts) for parts in zip(*found, strict=True))


def numbers(views: Array, head: HeadLike) -> int:
    """How many numbers the views (B, N, d) of one image are, or the predictions from them."""
    _, n, d = views.shape
    return int(n * max(d, getattr(head, "n_classes", 1000)))


def equal_share(count: int, most: int, threads: int = 1) -> int:
    """How many of ``count`` images to take at a time, at most so many, so that all threads end together."""
    return -(-count // (threads * -(-count // (threads * most))))
