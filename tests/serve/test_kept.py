"""Classes kept in memory: found by what they are, bounded in number and bytes, the longest unused go first."""

import numpy as np
import pytest

from meantime.serve.errors import ApiError
from meantime.serve.kept import Classes, Kept


def classes(value, k=4, names=None):
    return Classes(np.full((k, 8), value, np.float32), names)


def there(kept, key):
    try:
        return kept.find(key) is not None
    except ApiError:
        return False


def test_the_same_classes_are_kept_once_and_others_apart():
    kept = Kept(9, 10**6)
    key = kept.keep(classes(1))
    assert kept.keep(classes(1)) == key
    assert (len(kept), kept.bytes) == (1, 4 * 8 * 4)
    others = [
        classes(2),
        classes(1, k=5),
        classes(1, names=("a", "b", "c", "d")),
        classes(1, names=("a,b", "c", "d", "")),
    ]
    assert len({kept.keep(other) for other in others} | {key}) == len(kept) == 5
    np.testing.assert_array_equal(kept.find(key).rows, classes(1).rows)


def test_the_longest_unused_go_when_there_are_too_many():
    kept = Kept(3, 10**6)
    first, second, third = (kept.keep(classes(i)) for i in range(3))
    kept.find(first)
    fourth = kept.keep(classes(3))
    assert [there(kept, key) for key in (first, second, third, fourth)] == [True, False, True, True]


def test_the_longest_unused_go_when_they_are_too_large():
    size = classes(0).bytes
    kept = Kept(99, 3 * size)
    first, second, _ = (kept.keep(classes(i)) for i in range(3))
    kept.keep(classes(7, k=8))  # takes the room of two
    assert not there(kept, first)
    assert not there(kept, second)
    assert kept.bytes == 3 * size
    named = classes(8, names=("x" * 1000, "", "", ""))
    with pytest.raises(ApiError) as refused:
        kept.keep(named)  # names are counted too
    assert refused.value.status == 413
    assert kept.bytes == 3 * size
