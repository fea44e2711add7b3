"""Names of methods: combinations on the fly, and what is wrong with those that are none."""

import pytest

from meantime import MeantimeError, aggregators, methods
from meantime.registry import method_named, training_free


def test_the_papers_combinations_are_listed_with_what_they_need():
    listed = methods()
    assert {"tpt", "difftpt", "coop", "prograd", "tip-adapter", "tip-adapter-f", "tpt@coop"} <= set(listed)
    assert {"mta@coop", "mta@prograd", "mta@tip-adapter", "mta@tip-adapter-f"} <= set(listed)
    assert listed["mta@coop"].needs == "meantime fit coop"
    assert listed["tpt@coop"].needs == "meantime fit coop, the extra torch"
    assert listed["mta+e"].needs == ""
    assert all("@" not in name and name not in ("tpt", "coop") for name in training_free())
    assert len(training_free()) == 13


@pytest.mark.parametrize(
    ("name", "aggregator", "head"),
    [
        ("mta@coop", aggregators.mta, "coop"),
        ("zero@tip-adapter-f", aggregators.zero, "tip-adapter-f"),
        ("mean@tpt", aggregators.mean, "tpt"),
        ("mta@tpt@coop", aggregators.mta, "tpt@coop"),
        ("difftpt@prograd", aggregators.first, "difftpt@prograd"),
        ("clip@coop", aggregators.first, "coop"),
    ],
)
def test_any_training_free_method_on_any_learned_head(name, aggregator, head):
    method = method_named(name)
    assert (method.aggregator, method.head, method.reader) == (aggregator, head, head)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mta@coup", "no learned head 'coup'.*Did you mean 'coop'"),
        ("mtb@coop", "'mtb' cannot stand on top.*Did you mean 'mta'"),
        ("mta+e@coop", r"'mta\+e' cannot stand on top"),
        ("tpt@tip-adapter", "no learned head 'tip-adapter': expected coop, prograd"),
        ("mta@tpt@nothing", "no learned head 'nothing'"),
        ("mta@", "no learned head ''"),
        ("mtaa", "Did you mean 'mta'"),
        ("mta@/no/such/folder", "a folder that `meantime fit` wrote"),
    ],
)
def test_names_that_are_none(name, message):
    with pytest.raises(MeantimeError, match=message):
        method_named(name)
