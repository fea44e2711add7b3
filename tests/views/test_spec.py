import numpy as np
import pytest

from meantime.errors import MeantimeError
from meantime.views import ViewSpec


def test_defaults_are_the_papers():
    spec = ViewSpec()
    assert (spec.n, spec.augment, spec.scale, spec.ratio) == (64, "crop", (0.08, 1.0), (3 / 4, 4 / 3))


def test_identity_tells_apart_what_changes_a_views_pixels():
    specs = [
        ViewSpec(),
        ViewSpec(augment="augmix"),
        ViewSpec(exact=True),
        ViewSpec(scale=(0.5, 1)),
        ViewSpec(ratio=(1, 1)),
    ]
    assert len({spec.identity for spec in specs}) == 5
    assert ViewSpec(n=16).identity == ViewSpec(n=64).identity  # a prefix of the same views


@pytest.mark.parametrize(
    "arguments",
    [
        {"n": 0},
        {"n": 2.0},
        {"n": True},
        {"augment": "cutout"},
        {"scale": (0, 1)},
        {"scale": (0.5, 1.1)},
        {"scale": (0.9, 0.5)},
        {"scale": (0.9,)},
        {"ratio": (2, 1)},
        {"ratio": (1, float("inf"))},
        {"ratio": (float("nan"), 1)},
    ],
)
def test_impossible_specs(arguments):
    with pytest.raises(MeantimeError, match="expected"):
        ViewSpec(**arguments)


def test_numpys_integers_are_numbers_of_views():
    spec = ViewSpec(n=np.int64(4), files="made", n_files=np.int32(2))
    assert (spec.total, type(spec.n), type(spec.n_files)) == (6, int, int)
    assert spec == ViewSpec(n=4, files="made", n_files=2)
