"""Embeddings of every kind of file come back as they were saved, a batch at a time."""

import tracemalloc

import numpy as np
import pytest

from meantime import MeantimeError
from meantime.embeddings import open_embeddings, read_classes
from meantime.parquet import pa, pq
from meantime.store import import_arrays

M, N, D = 7, 4, 6
VIEWS = np.random.default_rng(0).normal(size=(M, N, D)).astype(np.float32)
KEYS = tuple(f"photo {i}.jpg" for i in range(M))
UNIT = VIEWS / np.linalg.norm(VIEWS, axis=-1, keepdims=True)


def lists(rows, kind=None):
    return pa.array([None if row is None else list(map(float, row)) for row in rows], kind or pa.list_(pa.float32()))


def save_table(file, **columns):
    pq.write_table(pa.table(columns), file, row_group_size=5)
    return file


def save(kind, folder):
    path = folder / f"x.{kind.split()[0]}"
    if kind == "npy":
        np.save(path, VIEWS)
    elif kind == "npz":
        np.savez(path, views=VIEWS, keys=np.array(KEYS))
    elif kind == "parquet of images":
        save_table(path, path=list(KEYS), label=[1] * M, x=lists(VIEWS.reshape(M, -1)))
    elif kind == "parquet of fixed lists":
        save_table(path, views=lists(VIEWS.reshape(M, -1), pa.list_(pa.float64(), N * D)))
    elif kind == "parquet of views":
        save_table(path, key=[k for k in KEYS for _ in range(N)], x=lists(VIEWS.reshape(-1, D)))
    else:
        texts = {"names": np.array(["a", "b"]), "text_single": VIEWS[0, :2]}
        np.savez(folder / "s.npz", views=UNIT, keys=np.array(KEYS), **texts)
        import_arrays(folder / "s.npz", path)
    return path


def read(path, views=10):
    batches = list(open_embeddings(path).batches(D, views))
    return tuple(key for batch in batches for key in batch.keys), np.concatenate([b.views for b in batches])


@pytest.mark.parametrize(
    "kind", ["npy", "npz", "parquet of images", "parquet of fixed lists", "parquet of views", "store"]
)
@pytest.mark.parametrize("views", [1, 10, 1000])
def test_all_images_come_in_order(tmp_path, kind, views):
    keys, found = read(save(kind, tmp_path), views)
    named = kind not in ("npy", "parquet of fixed lists")
    assert keys == (KEYS if named else tuple(f"{i:06d}" for i in range(M)))
    np.testing.assert_allclose(found, UNIT if kind == "store" else VIEWS, atol=1e-3 if kind == "store" else 0)


def test_one_view_of_each_image(tmp_path):
    np.save(tmp_path / "x.npy", VIEWS[:, 0])
    np.testing.assert_array_equal(read(tmp_path / "x.npy")[1], VIEWS[:, :1])


def test_a_row_without_an_embedding_has_no_numbers(tmp_path):
    rows = [*VIEWS[:2, 0], None, VIEWS[3, 0]]
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float32(), D)):
        _, found = read(save_table(tmp_path / "x.parquet", x=lists(rows, kind)))
        assert np.isnan(found[2]).all()
        np.testing.assert_array_equal(found[3, 0], VIEWS[3, 0])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [1.0, 2.0]}, "no column of lists of floats.*Its columns: x"),
        ({"x": [[1.0]], "y": [[1.0]]}, "2 columns of lists of floats; expected one, or one called views or embedding"),
        ({"x": [[1.0] * 7]}, "7 dimensions, the classes 6"),
        ({"x": [[1.0] * 6, [1.0] * 12]}, "row 1 .* has 12 numbers, but rows before it 6"),
        ({"x": [[1.0] * 6] * 3, "id": [1, 1, 2]}, "image '2' has 1 views, but '1' has 2.*sort the table by 'id'"),
        ({"x": [[1.0] * 6] * 4, "key": list("abab")}, "rows of image 'a' do not stand together; sort the table"),
        ({"x": [[1.0] * 6] * 2, "key": ["a", None]}, "row 1 .* has no 'key'"),
    ],
)
def test_tables_that_do_not_fit(tmp_path, columns, message):
    with pytest.raises(MeantimeError, match=message):
        read(save_table(tmp_path / "x.parquet", **columns))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (VIEWS[0, 0], r"shape \(6,\); expected \(M, N, d\)"),
        (VIEWS[:0], "shape"),
        (VIEWS.astype(np.int8), "holds int8; expected floating-point"),
        (VIEWS[..., :5], "5 dimensions, the classes 6"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, array, message):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(MeantimeError, match=message):
        read(tmp_path / "x.npy")


def test_files_that_are_none(tmp_path):
    np.savez(tmp_path / "x.npz", images=VIEWS)
    np.savez(tmp_path / "k.npz", views=VIEWS, keys=np.array(KEYS[1:]))
    (tmp_path / "x.parquet").write_bytes(b"no")
    (tmp_path / "folder").mkdir()
    for name, message in (
        ("x.npz", "no array 'views'; it has images"),
        ("k.npz", r"'keys' in .*shape \(6,\); expected \(7,\)"),
        ("x.parquet", "cannot be read as Parquet"),
        ("folder", "not a store"),
        ("none.npy", "there are no embeddings"),
    ):
        with pytest.raises(MeantimeError, match=message):
            open_embeddings(tmp_path / name)


def test_classes_and_what_stands_beside_them(tmp_path):
    texts = VIEWS[0, :3]
    np.save(tmp_path / "x.npy", texts)
    plain = read_classes(tmp_path / "x.npy")
    np.testing.assert_allclose(plain.texts.single, UNIT[0, :3], atol=1e-6)
    assert (plain.names, plain.logit_scale, plain.texts.ensemble) == (None, None, None)
    np.savez(tmp_path / "x.npz", classes=texts, names=list("abc"), text_ensemble=texts, logit_scale=np.float32(50))
    full = read_classes(tmp_path / "x.npz")
    assert (full.names, full.logit_scale, full.texts.ensemble.shape) == (("a", "b", "c"), 50.0, (3, D))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"texts": VIEWS[0]}, "no array text_single or classes.*it has texts"),
        ({"classes": VIEWS}, r"'classes' in .*expected \(K, d\)"),
        ({"classes": VIEWS[0] * [[1], [np.nan], [1], [1]]}, "row 1 of 'classes' in .*zero or not finite"),
        ({"classes": VIEWS[0], "names": list("abc")}, "3 names for 4 class embeddings"),
        ({"classes": VIEWS[0], "text_ensemble": VIEWS[0, :2]}, "'text_ensemble' has the shape"),
    ],
)
def test_classes_that_do_not_fit(tmp_path, arrays, message):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(MeantimeError, match=message):
        read_classes(tmp_path / "x.npz")


def peak(path, dim):
    arrow, before = [0], pa.total_allocated_bytes()
    tracemalloc.start()
    for _ in open_embeddings(path).batches(dim, 256):
        arrow.append(pa.total_allocated_bytes() - before)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found + max(arrow)


@pytest.mark.parametrize("kind", ["npy", "npz", "npz compressed", "parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path, kind):
    peaks = []
    for images in (64, 256, 2560):  # the first for imports and caches
        views = np.random.default_rng(0).normal(size=(images, 16, 64)).astype(np.float32)
        path = tmp_path / f"{images}.{kind.split()[0]}"
        if kind == "npy":
            np.save(path, views)
        elif kind == "parquet":
            numbers = pa.FixedSizeListArray.from_arrays(views.reshape(-1), 64)
            pq.write_table(pa.table({"key": np.repeat(np.arange(images), 16), "x": numbers}), path)
        else:
            keys = np.array([f"{i:08d}" for i in range(images)])
            (np.savez if kind == "npz" else np.savez_compressed)(path, views=views, keys=keys)
        peaks.append(peak(path, 64))
    assert peaks[2] - peaks[1] < 0.25 * (2560 - 256) * 16 * 64 * 4
