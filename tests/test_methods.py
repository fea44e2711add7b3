import numpy as np
import pytest

from meantime import MeantimeError, Method, TextHead, add_method, methods
from meantime.aggregators import Aggregate
from meantime.registry import _METHODS, method_named


def test_every_training_free_name_of_the_design_is_there():
    names = "clip clip+e mean meanshift confidence confidence-mode mta mta-exact mta+e mta-vision zero zero+e"
    assert set(names.split()) <= set(methods())


def test_a_method_of_ones_own_is_a_few_lines(monkeypatch):
    monkeypatch.setattr("meantime.registry._METHODS", dict(_METHODS))

    def median(views, head, reader=None):
        m = np.median(views, axis=-2)
        m /= np.linalg.norm(m, axis=-1, keepdims=True)
        weights = np.full(views.shape[:-1], 1 / views.shape[-2])
        return Aggregate((reader or head)(m), weights, m)

    add_method("median", Method(median, "median of the views"))
    views = np.random.default_rng(0).standard_normal((2, 9, 4))
    answer = method_named("median")(views, {"text": TextHead(np.eye(4))})
    assert answer.logits.shape == (2, 4)
    with pytest.raises(MeantimeError, match="'median' already"):
        add_method("median", Method(median, "again"))


def test_unknown_method_lists_those_there_are():
    with pytest.raises(MeantimeError, match=r"'mtaa'.*mta\+e"):
        method_named("mtaa")


def test_the_list_is_a_copy():
    methods().clear()
    assert "mta" in methods()
