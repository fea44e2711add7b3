"""The store of `classify`: it grows with its folder, and never answers for a photo that is no longer there."""

import os

import pytest
from PIL import Image
from toy import ToyEncoder, picture

from meantime import Classifier, MeantimeError
from meantime.datasets import load_dataset
from meantime.engines import LocalEngine
from meantime.engines.images import count_encoded, encode_images
from meantime.store import Manifest, open_store
from meantime.store.encode import encode_dataset


class CountingEncoder(ToyEncoder):
    @property
    def images(self):
        return sum(self.batches) // 4


def save(path, colour, seed=0):
    Image.fromarray(picture(colour, seed=seed)).save(path)
    return path


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "folder").mkdir()
    for name, colour in (("a", "red"), ("b", "green"), ("d", "blue")):
        save(tmp_path / "folder" / f"{name}.png", colour)
    return tmp_path / "folder"


@pytest.fixture
def run(tmp_path, folder):
    """Answer for the folder, or for other sources, by the store; how many images were encoded for it."""

    def answer(sources=None, encoder=None, method="mta", views=4, seed=0, **options):
        encoder = encoder or CountingEncoder()
        classifier = Classifier(["red", "green", "blue"], encoder, method, views=views, seed=seed)
        sources = sorted(folder.iterdir()) if sources is None else sources
        images = encode_images(sources, tmp_path / "store", classifier, LocalEngine(), **options)
        return [p.label for p in classifier.answers(images)], encoder.images

    return answer


def parts(tmp_path):
    return sorted(path.name for path in (tmp_path / "store").iterdir() if path.name != ".lock")


def test_what_was_encoded_is_not_encoded_again(run, folder, tmp_path, monkeypatch):
    assert run() == (["red", "green", "blue"], 3)
    assert run() == (["red", "green", "blue"], 0)
    monkeypatch.chdir(folder)  # the same files by other names
    assert run(["d.png", "a.png", "./a.png"]) == (["blue", "red", "red"], 0)
    assert parts(tmp_path) == ["part-00001"]


def test_new_photos_are_added_and_the_others_kept(run, folder, tmp_path):
    run()
    save(folder / "c.png", "red", seed=1)
    assert run() == (["red", "green", "red", "blue"], 1)
    (folder / "a.png").unlink()
    assert run() == (["green", "red", "blue"], 0)
    assert parts(tmp_path) == ["part-00001", "part-00002"]


def test_a_photo_that_has_changed_is_encoded_again(run, folder):
    run()
    before = (folder / "a.png").stat()
    save(folder / "a.png", "blue")
    assert run() == (["blue", "green", "blue"], 1)
    pixels = (folder / "b.png").read_bytes()
    os.utime(folder / "b.png", ns=(before.st_atime_ns, before.st_mtime_ns - 1))
    assert (folder / "b.png").read_bytes() == pixels
    assert run() == (["blue", "green", "blue"], 1)


def test_a_photo_that_could_not_be_read_is_tried_again(run, folder, tmp_path):
    good = (folder / "b.png").read_bytes()
    status = (folder / "b.png").stat()
    (folder / "b.png").write_bytes(b"x" * len(good))
    os.utime(folder / "b.png", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run() == (["red", None, "blue"], 2)
    assert run() == (["red", None, "blue"], 0)
    assert parts(tmp_path) == ["part-00001"]  # a run without a readable image leaves nothing
    (folder / "b.png").write_bytes(good)
    os.utime(folder / "b.png", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run() == (["red", "green", "blue"], 1)


def test_a_run_that_is_interrupted_keeps_its_shards(run, folder, tmp_path):
    class Interrupted(CountingEncoder):
        def encode_images(self, pixels):
            if self.images == 2:
                raise KeyboardInterrupt
            return super().encode_images(pixels)

    sources = sorted(folder.iterdir())
    with pytest.raises(KeyboardInterrupt):
        run(encoder=Interrupted(), shard_size=1)
    assert count_encoded(sources, tmp_path / "store") == 2
    heard = []
    assert run(progress=lambda *counts: heard.append(counts)) == (["red", "green", "blue"], 1)
    assert heard == [(2, 3), (3, 3)]
    assert count_encoded([*sources, sources[0]], tmp_path / "store") == 4


def test_shards_are_small_so_that_little_is_lost(run, folder, tmp_path):
    for i in range(17):
        save(folder / f"e{i}.png", "red", seed=i)
    run(views=64)
    assert [shard.rows for shard in open_store(tmp_path / "store" / "part-00001").manifest.shards] == [16, 4]


def test_a_run_that_is_interrupted_at_once_leaves_nothing(run, tmp_path):
    class Interrupted(CountingEncoder):
        def encode_images(self, pixels):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(encoder=Interrupted())
    assert parts(tmp_path) == []


def test_a_shard_that_was_not_noted_yet_is_swept_away(run, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Manifest, "with_shard", interrupt)  # between the shard's file and its line in the manifest
    with pytest.raises(KeyboardInterrupt):
        run()
    assert parts(tmp_path) == []


def test_a_shard_that_is_lost_or_cut_short_is_made_again(run, tmp_path):
    run(shard_size=1)
    (tmp_path / "store" / "part-00001" / "shard-00000.parquet").unlink()
    (tmp_path / "store" / "part-00001" / "shard-00002.parquet").write_bytes(b"PAR1")
    assert run() == (["red", "green", "blue"], 2)


def test_another_seed_other_views_and_another_encoder_are_refused(run):
    run()
    with pytest.raises(MeantimeError, match=r"store' does not match: seed is 0, asked 1\. "):
        run(seed=1)
    with pytest.raises(MeantimeError, match="n_views is 4, asked 5"):
        run(views=5)
    other = CountingEncoder()
    other.identity = "toy-2"
    with pytest.raises(MeantimeError, match="encoder is 'toy-1', asked 'toy-2'"):
        run(encoder=other)


def test_a_method_of_one_view_reads_the_first_and_the_store_keeps_them_all(run):
    assert run(method="clip") == (["red", "green", "blue"], 3)
    assert run(method="mta") == (["red", "green", "blue"], 0)


def test_folders_of_something_else_are_refused(run, folder, tmp_path):
    with pytest.raises(MeantimeError, match="holds other things"):
        encode_images([folder / "a.png"], folder, Classifier(["red", "blue"], ToyEncoder()), LocalEngine())
    (tmp_path / "photos").mkdir()
    folder.rename(tmp_path / "photos" / "red")
    encode_dataset(load_dataset(str(tmp_path / "photos")), tmp_path / "store", ToyEncoder())
    with pytest.raises(MeantimeError, match="a folder of its own"):
        run([])


def test_many_shards_in_any_order_are_read(run, folder):
    colours = [("red", "green", "blue")[i % 3] for i in range(70)]
    for i, colour in enumerate(colours):
        save(folder / f"{i:02}.png", colour, seed=i)
    sources = [folder / f"{i:02}.png" for i in range(70)]
    assert run(sources, shard_size=40) == (colours, 70)
    order = [(i * 37) % 70 for i in range(70)]
    assert run([sources[i] for i in order]) == ([colours[i] for i in order], 0)


def test_places_with_a_url_are_known_by_their_size(run, folder):
    sources = [f"file://{path}" for path in sorted(folder.iterdir())]
    assert run([*sources, f"file://{folder}/nowhere.png"]) == (["red", "green", "blue", None], 3)
    assert run(sources) == (["red", "green", "blue"], 0)
    with (folder / "a.png").open("ab") as file:
        file.write(b"more")
    assert run(sources) == (["red", "green", "blue"], 1)


def test_pictures_without_a_name_are_known_by_their_pixels(run):
    assert run([picture("red"), picture("blue")]) == (["red", "blue"], 2)
    assert run([picture("blue"), picture("green"), object()]) == (["blue", "green", None], 1)
