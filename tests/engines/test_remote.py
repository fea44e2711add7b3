"""Object stores, by fsspec's file system in memory and by file:// URLs: read from, written to, and told apart."""

import io
import os
import pickle
import tarfile
import uuid
from pathlib import Path

import pytest
from toy import ToyEncoder

from meantime import Classifier, ImageError, MeantimeError, ViewSpec, remote
from meantime.datasets import check_dataset, load_dataset
from meantime.datasets.webdataset import from_tars
from meantime.images import find_images, load_image
from meantime.remote import RemotePath, as_path, is_url
from meantime.store import merge_stores, open_store, verify_store
from meantime.store.encode import encode_dataset
from meantime.store.manifest import load_manifest


@pytest.fixture(params=["memory", "file"])
def bucket(request, photos, tmp_path):
    """The photos in an object store."""
    base = as_path(f"memory://{uuid.uuid4().hex}" if request.param == "memory" else (tmp_path / "bucket").as_uri())
    for path in sorted(photos.rglob("*.png")):
        target = base / "photos" / path.relative_to(photos).as_posix()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.put(path)
    return base


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    source = Path(os.environ["MEANTIME_CACHE"]).parent / uuid.uuid4().hex
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.put(source)


def test_it_is_like_a_path(bucket):
    path = bucket / "photos" / "red" / "0 schön 最.png"
    assert (path.name, path.stem, path.suffix) == ("0 schön 最.png", "0 schön 最", ".png")
    assert path.parent / path.name == path == pickle.loads(pickle.dumps(path)) == as_path(str(path))
    assert path.exists()
    assert not path.parent.is_file()
    assert path.parent.is_dir()
    assert not (bucket / "photos" / "pink").exists()
    assert path.stat().st_size == len(path.read_bytes())
    assert sorted(p.name for p in path.parent.glob("0*")) == [path.name]
    assert len(list(bucket.walk_files())) == 12
    with pytest.raises(FileNotFoundError):
        (bucket / "nothing").stat()
    with pytest.raises(FileNotFoundError):
        (bucket / "nothing").unlink()
    (bucket / "nothing").unlink(missing_ok=True)
    with pytest.raises(MeantimeError, match="to be read"):
        path.open("w")


def test_urls_and_paths_are_told_apart():
    assert is_url("s3://bucket/x.jpg")
    assert not is_url("a folder/x.jpg")
    assert not is_url(Path("s3://bucket/x.jpg"))  # pathlib has removed a slash: it is too late
    assert isinstance(as_path("s3://bucket/x.jpg"), RemotePath)
    assert as_path("x.jpg") == Path("x.jpg")
    with pytest.raises(MeantimeError, match=r"nosuch://x.*not known"):
        as_path("nosuch://x/y.jpg").exists()


def test_images_by_url_have_the_pixels_of_the_file(bucket, photos):
    found = list(find_images(str(bucket / "photos")))
    assert [os.fspath(path) for path in found] == [
        str(bucket / "photos" / path.relative_to(photos).as_posix()) for path in find_images(photos)
    ]
    name = "red/1 schön 最.png"
    assert (load_image(str(bucket / "photos" / name)) == load_image(photos / name)).all()
    with pytest.raises(ImageError, match="does not exist"):
        load_image(str(bucket / "photos" / "red" / "nobody.png"))
    with pytest.raises(ImageError, match=r"green/2.*not an image"):
        load_image(bucket / "photos" / "green" / "2 schön 最.png")
    classify = Classifier(["red", "green", "blue"], ToyEncoder(), views=3)
    assert classify(str(bucket / "photos" / name)).label == "red"


def test_a_store_that_does_not_answer_ends_a_run_instead_of_losing_images(bucket, monkeypatch):
    def fail(self):
        raise OSError("connection reset")

    monkeypatch.setattr(RemotePath, "read_bytes", fail)
    classify = Classifier(["red", "green"], ToyEncoder(), views=3)
    with pytest.raises(MeantimeError, match=r"cannot be fetched.*connection reset"):
        classify([str(bucket / "photos" / "red" / "1 schön 最.png")])


def test_an_object_store_that_refuses_is_told_in_one_sentence(bucket, tmp_path, monkeypatch):
    """Whoever asks: the store, the dataset, its check, the tar and the file system itself."""
    store = str(bucket / "store")
    encode_dataset(load_dataset(str(bucket / "photos")), store, ToyEncoder(), ViewSpec(n=2))
    put(bucket / "x.tar", b"")
    row = f"{bucket / 'photos' / 'red' / '0 schön 最.png'},red\n"
    (tmp_path / "x.csv").write_text("file,name\n" + row)

    class Refusing:
        def __getattr__(self, name):
            raise OSError("AWS Error ACCESS_DENIED\nduring HeadObject operation")

    def nobody(*_):
        raise OSError("AWS Error ACCESS_DENIED during GetBucketRegion")

    place = bucket.__class__._place
    asked = (
        lambda: open_store(store),
        lambda: load_dataset(str(bucket / "photos")),
        lambda: check_dataset(str(tmp_path / "x.csv")),
        lambda: from_tars(bucket / "x.tar"),
        lambda: load_manifest(bucket / "store"),
        lambda: (bucket / "x.tar").unlink(),
        lambda: list(bucket.iterdir()),
    )
    for broken in (
        lambda patch: patch.setattr(RemotePath, "_place", lambda self: (Refusing(), place(self)[1])),
        lambda patch: patch.setattr(remote, "_filesystem", nobody),
    ):
        with monkeypatch.context() as patch:
            broken(patch)
            for ask in asked:
                with pytest.raises(MeantimeError, match=r"cannot be reached \(AWS Error ACCESS_DENIED during.*rights"):
                    ask()


def test_a_dataset_in_a_bucket_becomes_the_same_shards_in_a_bucket(bucket, photos, encode, tmp_path):
    """Folders, a table with URLs and a tar are read from the bucket; the store is written to it and gone on with."""
    local = encode("local")
    names = sorted(path.name for path in local.path.glob("*.parquet"))

    def same(data, out, **options):
        store = encode_dataset(
            data, str(bucket / out), ToyEncoder(), ViewSpec(n=5), shard_size=3, batch=5, resume=True, **options
        )
        verify_store(open_store(str(bucket / out)))
        assert sorted(p.name for p in (bucket / out).iterdir()) == ["manifest.json", *names]
        assert len(store) == 11
        return store

    data = load_dataset(str(bucket / "photos"))
    assert data.fingerprint == load_dataset(str(photos)).fingerprint
    same(data, "out")
    for name in names:
        assert (bucket / "out" / name).read_bytes() == (local.path / name).read_bytes()
    merged = merge_stores(str(bucket / "merged"), [str(bucket / "out")])
    assert (merged.path / names[0]).read_bytes() == (local.path / names[0]).read_bytes()
    (bucket / "out" / names[1]).unlink()
    same(data, "out")  # what is missing is made again
    assert (bucket / "out" / names[1]).read_bytes() == (local.path / names[1]).read_bytes()

    rows = "".join(f"{path},{path.parent.name}\n" for path in (bucket / "photos").walk_files())
    put(bucket / "table.csv", "file,name\n" + rows)
    (tmp_path / "here.csv").write_text("file,name\n" + rows)
    tables = [load_dataset(str(place)) for place in (bucket / "table.csv", tmp_path / "here.csv")]
    assert tables[0].samples.keys == tables[1].samples.keys
    pixels = [p for batch in local.batches(20, extras=True) for p in batch.pixels]
    assert [p for batch in same(tables[1], "table").batches(20, extras=True) for p in batch.pixels] == pixels

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for i, path in enumerate(sorted((photos).rglob("*.png"))):
            for ending, content in ((".png", path.read_bytes()), (".cls", path.parent.name.encode())):
                member = tarfile.TarInfo(f"{i:03d}{ending}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    put(bucket / "photos.tar", packed.getvalue())
    tar = load_dataset(str(bucket / "photos.tar"))
    assert isinstance(pickle.loads(pickle.dumps(tar.samples.sources[2:4]))[1], bytes)
    assert len(pickle.dumps(tar.samples.sources[2:4])) < 1000  # places, not pictures
    assert [p for batch in same(tar, "tar").batches(20, extras=True) for p in batch.pixels] == pixels
