"""ZERO (Farina et al., 2024): confident views vote at temperature zero. There is no mode."""

from meantime.aggregators.base import Aggregate, by_confidence, kept_count, select, uniform_over
from meantime.heads.ensemble import log_of_share
from meantime.meanshift.arrays import Array, array_namespace, softmax
from meantime.meanshift.head import Head


def zero(views: Array, head: Head, reader: Head | None = None, *, share: float = 0.3) -> Aggregate:
    """Let the most confident ``share`` of the views vote.

    A tie goes to the first excluded view, in order of confidence, whose class is among the tied. The
    votes are the reading, so a separate reader votes too: it replaces the head.
    """
    xp = array_namespace(views)
    n = views.shape[-2]
    logits = (reader or head)(views)  # (…, N, K)
    order = by_confidence(logits)
    keep = kept_count(n, share)
    names = xp.arange(logits.shape[-1], device=views.device)
    ballots = xp.astype(xp.argmax(select(logits, order), axis=-1)[..., None] == names, views.dtype)  # (…, N, K)
    votes = xp.sum(ballots[..., :keep, :], axis=-2)  # (…, K)
    tied = votes == xp.max(votes, axis=-1, keepdims=True)
    # The excluded views in their order, then the kept ones: some view always decides.
    deciding = xp.concat([ballots[..., keep:, :], ballots[..., :keep, :]], axis=-2)
    decides = xp.any((deciding > 0) & tied[..., None, :], axis=-1)  # (…, N)
    decider = xp.argmax(xp.astype(decides, xp.int32), axis=-1)[..., None]
    winner = select(deciding, decider)[..., 0, :]
    # Less than one vote, more than nothing: the winner of a tie, and an order among classes without a vote
    support = xp.mean(softmax(logits), axis=-2)
    share_of_votes = (votes + 0.01 * winner * xp.astype(tied, votes.dtype) + 0.001 * support) / keep
    return Aggregate(log_of_share(share_of_votes), uniform_over(order[..., :keep], n, views.dtype), None)
