import numpy as np
import pytest

from meantime import MeantimeError, TextHead, ensemble_head
from meantime.meanshift import softmax

RNG = np.random.default_rng(0)
PROMPTS = RNG.standard_normal((7, 4, 6))  # P, K, d
X = RNG.standard_normal((3, 5, 6))
X /= np.linalg.norm(X, axis=-1, keepdims=True)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def test_embedding_reduction_is_the_renormalised_mean_of_unit_embeddings():
    mean = unit(unit(PROMPTS).mean(axis=0))
    np.testing.assert_allclose(ensemble_head(PROMPTS, 10.0)(X), 10 * X @ mean.T, atol=1e-12)


def test_probability_reduction_is_the_mean_of_softmaxes():
    expected = np.mean([softmax(10 * X @ unit(p).T) for p in PROMPTS], axis=0)
    np.testing.assert_allclose(softmax(ensemble_head(PROMPTS, 10.0, "probability")(X)), expected, atol=1e-12)


def test_vote_reduction_counts_the_best_class_of_each_prompt():
    probabilities = softmax(ensemble_head(PROMPTS, 10.0, "vote")(X))
    for i, j in np.ndindex(3, 5):
        votes = [int(np.argmax(unit(p) @ X[i, j])) for p in PROMPTS]
        np.testing.assert_allclose(probabilities[i, j], np.bincount(votes, minlength=4) / 7, atol=1e-12)


@pytest.mark.parametrize("reduction", ["embedding", "probability", "vote"])
def test_one_prompt_predicts_what_the_text_head_predicts(reduction):
    head = ensemble_head(PROMPTS[:1], 10.0, reduction)
    assert head.n_classes == 4
    assert head.adapt(X) is head
    np.testing.assert_array_equal(head(X).argmax(-1), TextHead(PROMPTS[0], 10.0)(X).argmax(-1))


def test_unknown_reduction_and_wrong_rank_are_named():
    with pytest.raises(MeantimeError, match="'median'"):
        ensemble_head(PROMPTS, reduction="median")
    with pytest.raises(MeantimeError, match=r"\(P, K, d\).*\(4, 6\)"):
        ensemble_head(PROMPTS[0])
