"""Trees that people have: many files, names that occur twice, odd names, links in circles."""

import os
import shutil

from PIL import Image
from toy import ToyEncoder, picture

from meantime import ViewSpec
from meantime.datasets import load_dataset
from meantime.images import find_images
from meantime.store.encode import encode_dataset


def test_a_hundred_thousand_files_in_a_folder(tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    for i in range(100_000):
        os.close(os.open(many / f"{i:06d}.jpg", os.O_CREAT | os.O_WRONLY))
    found = find_images(tmp_path)
    assert next(found).name == "000000.jpg"
    names = [path.name for path in found]
    assert len(names) == 99_999
    assert names == sorted(names)
    shutil.rmtree(many)  # pytest would keep it


def test_odd_names_twins_and_links_in_circles_are_each_encoded_once(tmp_path):
    root = tmp_path / "a folder: 写真"
    for folder in ("red", "blue/deep", "blue/pale"):
        (root / folder).mkdir(parents=True)
        for name in ("same.png", "with space & ünïcode 🐈.png", "100%.png", "-dash.png"):
            Image.fromarray(picture(folder.partition("/")[0], seed=len(name))).save(root / folder / name)
    (root / "blue" / "deep" / "circle").symlink_to(root / "blue", target_is_directory=True)
    (root / "red" / "circle").symlink_to(root, target_is_directory=True)
    (root / "red" / "nowhere.png").symlink_to(root / "gone.png")
    data = load_dataset(str(root))
    store = encode_dataset(data, tmp_path / "store", ToyEncoder(), ViewSpec(n=2), shard_size=5)
    keys = [key for batch in store.batches(4) for key in batch.keys]
    assert len(keys) == len(set(keys)) == 12
    assert sorted(keys) == sorted(p.relative_to(root).as_posix() for p in root.rglob("*.png") if p.exists())
    assert not store.errors
