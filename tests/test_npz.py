"""Arrays in files: read in parts as NumPy reads them whole, and errors that name the array."""

import numpy as np
import pytest

from meantime import MeantimeError
from meantime.npz import Arrays

X = np.random.default_rng(0).normal(size=(7, 3, 5)).astype(np.float32)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "array", [X, np.asfortranarray(X), X.astype(">f8"), X[:0]], ids=["C", "F", "big-endian", "none"]
)
def test_rows_in_parts_are_the_array(tmp_path, save, array):
    save(tmp_path / "x.npz", x=array)
    np.save(tmp_path / "x.npy", array)
    for file, name in (("x.npz", "x"), ("x.npy", "")):
        with Arrays(tmp_path / file) as arrays:
            rows = arrays.rows(name)
            assert (rows.shape, len(rows)) == (array.shape, len(array))
            np.testing.assert_array_equal(np.concatenate([rows.take(3) for _ in range(3)]), array)


def test_texts_and_numbers(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.array(["Käse", "b"]), b=np.array([b"K\xc3\xa4se"]), c=np.array([7, 8]), d=50)
    with Arrays(tmp_path / "x.npz") as arrays:
        assert [arrays.texts(name) for name in "abc"] == [("Käse", "b"), ("Käse",), ("7", "8")]
        assert (arrays.number("d"), arrays.number("none")) == (50.0, None)
        with pytest.raises(MeantimeError, match=r"'c' in .*expected one number"):
            arrays.number("c")


def test_what_cannot_be_read_is_one_sentence(tmp_path):
    np.savez(tmp_path / "x.npz", x=X, names=np.array(["a", None], object))
    with Arrays(tmp_path / "x.npz") as arrays, pytest.raises(MeantimeError, match=r"'names' in .* Python objects.*str"):
        arrays.read("names")
    np.save(tmp_path / "x.npy", X)
    data = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(data[:-10])
    with Arrays(tmp_path / "cut.npy") as arrays, pytest.raises(MeantimeError, match="truncated"):
        arrays.read("")
    (tmp_path / "head.npy").write_bytes(data[:20])
    with Arrays(tmp_path / "head.npy") as arrays, pytest.raises(MeantimeError, match="cannot be read"):
        arrays.rows("")
    broken = bytearray((tmp_path / "x.npz").read_bytes())
    broken[200] ^= 255
    (tmp_path / "y.npz").write_bytes(broken)
    with Arrays(tmp_path / "y.npz") as arrays, pytest.raises(MeantimeError, match=r"'x' in .* damaged"):
        arrays.read("x")
    (tmp_path / "z.npz").write_bytes(b"PK\x03\x04")
    (tmp_path / "t.npy").write_text("text")
    for name, message in (("z.npz", "cannot be read"), ("t.npy", "neither"), ("none.npy", "No such file")):
        with pytest.raises(MeantimeError, match=message):
            Arrays(tmp_path / name)
