import json
import tarfile
from collections import Counter

import numpy as np
import pytest

from meantime import MeantimeError
from meantime.datasets import load_dataset
from meantime.fit import draw_shots, find_pools, kept_draw


@pytest.fixture
def splits(make_photos, tmp_path):
    make_photos("data/train", 9, 9, 9)
    make_photos("data/val", 6, 6, 6)
    make_photos("data/test", 2, 2, 2)
    return str(tmp_path / "data")


@pytest.mark.parametrize("shots", [1, 2, 4, 8])
def test_shots_of_each_class_from_the_training_split_and_up_to_four_from_validation(splits, shots):
    pools = find_pools(splits)
    draw = draw_shots(pools, shots, 1)
    assert Counter(draw.labels.tolist()) == dict.fromkeys(range(3), shots)
    assert Counter(draw.val_labels.tolist()) == dict.fromkeys(range(3), min(shots, 4))
    assert len(set(draw.train)) == len(draw.train)
    assert pools.val is not pools.train
    assert draw.notes == ()


def test_a_seed_draws_the_same_and_another_another(splits):
    pools = find_pools(splits)
    assert draw_shots(pools, 4, 1) == draw_shots(pools, 4, 1)
    assert draw_shots(pools, 4, 1) != draw_shots(pools, 4, 2)


def test_more_shots_hold_fewer(splits):
    pools = find_pools(splits)
    few, many = (set(draw_shots(pools, n, 3).train) for n in (2, 8))
    assert few < many


def test_a_class_with_too_few_photos_repeats_some_and_says_so(make_photos):
    draw = draw_shots(find_pools(str(make_photos(red=3))), 4, 0)
    assert Counter(draw.labels.tolist()) == dict.fromkeys(range(3), 4)
    reds = [i for i, label in zip(draw.train, draw.labels, strict=True) if label == 2]  # blue, green, red
    assert len(set(reds)) == 2  # of three, one validates
    assert "'red'" in " ".join(draw.notes)
    assert "used again" in " ".join(draw.notes)


def test_one_folder_gives_all_three_parts_without_overlap(make_photos):
    photos = str(make_photos(red=5, green=5, blue=5))
    pools = find_pools(photos)
    draw = draw_shots(pools, 2, 0)
    keys = draw.keys()
    left = set(load_dataset(photos).samples.keys) - {*keys["train"], *keys["val"]}
    assert (len(keys["train"]), len(keys["val"]), len(left)) == (6, 3, 6)  # 2, 1 and 2 of each class
    assert not set(keys["train"]) & set(keys["val"])
    assert "drawn apart" in pools.told


def test_a_training_split_without_validation_gives_both(make_photos, tmp_path):
    make_photos("data/train", 9, 9, 9)
    make_photos("data/test", 2, 2, 2)
    pools = find_pools(str(tmp_path / "data"))
    draw = draw_shots(pools, 8, 0)
    assert len(draw.val) == 3  # of nine, eight train
    assert not set(draw.train) & set(draw.val)
    assert draw_shots(pools, 2, 0).val_labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_table_with_a_column_of_splits(make_photos):
    folder = make_photos()
    rows = [f"{c}/{i}.png,{c},{'train' if i < 4 else 'val'}" for c in ("red", "green") for i in range(6)]
    (folder / "labels.csv").write_text("\n".join(["file,name,split", *rows]))
    pools = find_pools(str(folder))
    assert (len(pools.train.samples), len(pools.val.samples), pools.whole) == (8, 4, False)
    (folder / "labels.csv").write_text("\n".join(["file,name", *(row.rpartition(",")[0] for row in rows)]))
    assert find_pools(str(folder)).whole


def test_tars_that_are_named_after_splits(make_photos, tmp_path):
    folder = make_photos()
    (tmp_path / "tars").mkdir()
    for split in ("train", "val"):
        with tarfile.open(tmp_path / "tars" / f"{split}-0.tar", "w") as tar:
            for colour in ("red", "green"):
                label = tmp_path / f"{colour}.cls"
                label.write_text(colour)
                for i in range(4 if split == "train" else 2):
                    tar.add(folder / colour / f"{i}.png", f"{colour}{i}.png")
                    tar.add(label, f"{colour}{i}.cls")
    pools = find_pools(str(tmp_path / "tars"))
    assert (len(pools.train.samples), len(pools.val.samples), pools.whole) == (8, 4, False)


def test_a_class_without_a_photo_is_an_error_unless_its_text_is_to_speak(make_photos):
    pools = find_pools(str(make_photos()), class_names=["red", "green", "blue", "pink", "grey"])
    with pytest.raises(MeantimeError, match=r"2 of the 5 classes .* no training photo: 'pink', 'grey'"):
        draw_shots(pools, 2, 0)
    assert set(draw_shots(pools, 2, 0, partial=True).labels) == {0, 1, 2}


def test_labels_that_repeat(make_photos):
    folder = make_photos()
    (folder / "labels.csv").write_text("file,label\nred/0.png,0\nred/1.png,1\n")
    (folder / "classnames.txt").write_text("red\nred\n")
    with pytest.raises(MeantimeError, match="'red' occurs 2 times"):
        find_pools(str(folder))


@pytest.mark.parametrize("shots", [0, -1, True])
def test_impossible_shots(make_photos, shots):
    with pytest.raises(MeantimeError, match="at least 1"):
        draw_shots(find_pools(str(make_photos())), shots, 0)


def test_no_photo_is_left_to_validate_with(make_photos):
    with pytest.raises(MeantimeError, match="a second photo"):
        draw_shots(find_pools(str(make_photos(red=1, green=1, blue=1))), 1, 0)


def test_a_saved_draw_is_used_again(make_photos, tmp_path):
    pools = find_pools(str(make_photos()))
    file = tmp_path / "draws" / "a.json"
    first = kept_draw(file, pools, 2, 0)
    value = json.loads(file.read_text())
    assert value["train"] == first.keys()["train"]
    # Whatever a later version draws, the file decides.
    value["train"][0] = next(key for key in pools.train.samples.keys if key not in value["train"])
    file.write_text(json.dumps(value))
    assert kept_draw(file, pools, 2, 0).keys()["train"] == value["train"]
    value["train"][0] = "gone.png"
    file.write_text(json.dumps(value))
    with pytest.raises(MeantimeError, match=r"gone\.png.*draw anew"):
        kept_draw(file, pools, 2, 0)


def test_every_photo_can_be_drawn(make_photos):
    pools = find_pools(str(make_photos()))
    drawn = np.unique([draw_shots(pools, 2, seed).train for seed in range(20)])
    assert len(drawn) == 18


def test_a_validation_split_of_other_classes_is_no_missing_one(make_photos, tmp_path):
    make_photos("data/train", 3, 3, 3)
    (tmp_path / "data/val").mkdir()
    (tmp_path / "data/train/red").rename(tmp_path / "data/val/reds")
    with pytest.raises(MeantimeError, match="has the class 'reds'"):
        find_pools(str(tmp_path / "data"))
