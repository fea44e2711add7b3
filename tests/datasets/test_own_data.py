"""Anybody's own data: folders, tables, WebDataset shards."""

import csv
import io
import json
import os
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trees import PNG, class_folders, image, text

from meantime import MeantimeError
from meantime.datasets import check_dataset, load_dataset, subset
from meantime.images import load_image


def rows(dataset):
    return [(s.key, dataset.class_names[s.label]) for s in dataset.samples]


def table(path, *lines):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    return str(path)


def tar(path, **members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return str(path)


def test_a_folder_of_folders(tmp_path):
    class_folders(tmp_path / "pets" / "cat", ["young"], images=1)
    class_folders(tmp_path / "pets", ["dog", "cat"], images=1)
    dataset = load_dataset(str(tmp_path / "pets"))
    assert dataset.class_names == ("cat", "dog")
    assert rows(dataset) == [("cat/cat_0.JPEG", "cat"), ("cat/young/young_0.JPEG", "cat"), ("dog/dog_0.JPEG", "dog")]
    assert check_dataset(str(tmp_path / "pets")).ok


def test_a_folder_with_splits_and_numbers(tmp_path):
    class_folders(tmp_path / "test", ["2", "10"], images=1)
    class_folders(tmp_path / "train", ["2", "10"], images=3)
    assert load_dataset(str(tmp_path)).class_names == ("2", "10")
    assert len(load_dataset(str(tmp_path), split="train").samples) == 6
    text(tmp_path / "classnames.txt", *(f"class {i}" for i in range(11)))
    assert {name for _, name in rows(load_dataset(str(tmp_path)))} == {"class 2", "class 10"}


@pytest.mark.parametrize("split", ["test", "trian"])
def test_a_split_that_is_not_there_does_not_make_classes_of_the_others(tmp_path, split):
    class_folders(tmp_path / "train", ["cat", "dog"], images=2)
    class_folders(tmp_path / "val", ["cat", "dog"], images=1)
    with pytest.raises(MeantimeError, match=rf"has train, val but no '{split}'; .*--split train.*{tmp_path / 'train'}"):
        load_dataset(str(tmp_path), split=split)
    assert not check_dataset(str(tmp_path), split=split).ok
    assert load_dataset(str(tmp_path), split="val").class_names == ("cat", "dog")
    class_folders(tmp_path, ["tram"], images=1)  # now "train" is a vehicle
    assert load_dataset(str(tmp_path)).class_names == ("train", "tram", "val")


def test_given_classes_decide_the_order_and_must_be_all(tmp_path):
    class_folders(tmp_path, ["hot_dog", "cat"], images=1)
    dataset = load_dataset(str(tmp_path), class_names=["hot dog", "ox", "cat"])
    assert dataset.samples.labels == [0, 2]
    with pytest.raises(MeantimeError, match="has the class 'hot_dog', which is not there among the 1 classes"):
        load_dataset(str(tmp_path), class_names=["cat"])
    with pytest.raises(MeantimeError, match="no images in sub-folders"):
        load_dataset(str(tmp_path / "cat"))


def test_a_csv_of_names(tmp_path):
    path = table(tmp_path / "labels.csv", ("file", "name"), ("b.png", "dog"), ("a.png", "cat"))
    assert rows(load_dataset(path)) == [("b.png", "dog"), ("a.png", "cat")]
    assert rows(load_dataset(str(tmp_path))) == rows(load_dataset(path))
    assert load_dataset(path).name == tmp_path.name
    assert "2 of 2 listed images are missing" in check_dataset(path).problems[0]


def test_numbers_and_names_must_agree(tmp_path):
    path = table(tmp_path / "x.csv", ("path", "imagenet_index", "name"), ("a.png", "1", "dog"))
    assert load_dataset(path).class_names == ("dog",)  # the classes that occur
    assert load_dataset(path, class_names=["cat", "dog"]).samples.labels == [1]
    with pytest.raises(MeantimeError, match="calls class 1 'dog', but class 1 is 'cat'; the numbers follow another"):
        load_dataset(path, class_names=["dog", "cat"])
    with pytest.raises(MeantimeError, match="label 1, but there are 1 classes"):
        load_dataset(path, class_names=["dog"])


def test_a_name_of_two_classes_needs_a_number(tmp_path):
    path = table(tmp_path / "x.csv", ("file", "name"), ("a.png", "missile"))
    with pytest.raises(MeantimeError, match="'missile', which stands for several classes"):
        load_dataset(path, class_names=["missile", "cat", "missile"])


def test_a_parquet_table_with_splits(tmp_path):
    path = tmp_path / "x.parquet"
    columns = {"path": ["a.png", "b.png"], "label": [1, 0], "split": ["test", "train"]}
    pq.write_table(pa.table(columns), path)
    with pytest.raises(MeantimeError, match=r"numbers as labels.*classnames.txt"):
        load_dataset(str(path))
    text(tmp_path / "classnames.txt", "cat", "dog")
    assert rows(load_dataset(str(path))) == [("a.png", "dog")]
    with pytest.raises(MeantimeError, match="no rows for the split 'val'"):
        load_dataset(str(path), split="val")


def test_tables_that_cannot_be_used(tmp_path):
    with pytest.raises(MeantimeError, match="has the columns picture, name; expected one of file"):
        load_dataset(table(tmp_path / "x.csv", ("picture", "name"), ("a", "b")))
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(MeantimeError, match="cannot be read"):
        load_dataset(str(tmp_path / "x.parquet"))
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(MeantimeError, match="is no dataset"):
        load_dataset(str(tmp_path / "x.txt"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([("file", "name"), ("a.png", "cat"), ("b.png", "dog"), ("c.png",)], "row 3 of .* has no label: its 'name'"),
        ([("file", "label"), ("a.png", "0"), ("b.png", " ")], "row 2 of .* has no label: its 'label'"),
        ([("file", "name", "split"), ("a.png", "", "val"), ("", "cat", "test")], "row 2 of .* has no file"),
    ],
)
def test_a_row_that_lacks_something_makes_no_class_of_nothing(tmp_path, lines, message):
    with pytest.raises(MeantimeError, match=message):
        load_dataset(table(tmp_path / "x.csv", *lines))


def test_class_names_as_editors_save_them(tmp_path):
    class_folders(tmp_path, ["cat", "dog"], images=1)
    (tmp_path / "classnames.txt").write_bytes(b"\xef\xbb\xbfcat\r\ndog\r\n")
    assert load_dataset(str(tmp_path)).class_names == ("cat", "dog")
    (tmp_path / "classnames.txt").write_bytes("kätzchen\ndog\n".encode("latin-1"))
    with pytest.raises(MeantimeError, match=r"classnames.txt' is not text in UTF-8"):
        load_dataset(str(tmp_path))


def test_a_name_that_is_no_utf8_has_a_key_that_can_be_stored(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9") / os.fsdecode(b"t\xe9")
    image(folder / os.fsdecode(b"\xe9.png"))
    dataset = load_dataset(str(folder.parent))
    (sample,) = dataset.samples
    assert sample.source.is_file()
    assert (dataset.name, dataset.class_names, sample.key) == (r"caf\xe9", (r"t\xe9",), r"t\xe9/\xe9.png")
    assert len(dataset.fingerprint) == 64


def test_tar_shards_are_read_in_place(tmp_path):
    root = tmp_path / "wds"
    first = {"s/0.png": PNG, "s/0.cls": b"1\n", "s/1.cls": b"0", "s/1.PNG": PNG}
    tar(root / "test" / "0.tar", **first)
    tar(root / "test" / "1.tar", **{"2.jpg": PNG, "2.json": json.dumps({"label": 1}).encode(), "2.txt": b"?"})
    text(root / "classnames.txt", "cat", "dog")
    dataset = load_dataset(str(root))
    assert rows(dataset) == [("0/s/0", "dog"), ("0/s/1", "cat"), ("1/2", "dog")]
    assert all(load_image(s.source).shape == (1, 1, 3) for s in dataset.samples)
    assert len(dataset.samples[:2]) == 2
    assert check_dataset(str(root)).ok


def test_tars_are_told_apart_by_the_split_in_their_names(tmp_path):
    for name in ("train-0", "train-1", "val-0"):
        tar(tmp_path / f"{name}.tar", **{"0.png": PNG, "0.cls": b"dog"})
    assert [s.key for s in load_dataset(str(tmp_path), split="train").samples] == ["train-0/0", "train-1/0"]
    assert [s.key for s in load_dataset(str(tmp_path), split="val").samples] == ["val-0/0"]
    with pytest.raises(MeantimeError, match="has train, val but no 'test'"):
        load_dataset(str(tmp_path))
    tar(tmp_path / "testimony.tar", **{"0.png": PNG, "0.cls": b"dog"})  # so the names are no splits
    assert len(load_dataset(str(tmp_path)).samples) == 4


def test_tars_with_names_as_labels(tmp_path):
    path = tar(tmp_path / "x.tar", **{"0.png": PNG, "0.cls": b"dog", "1.png": PNG, "1.cls": b"cat"})
    assert rows(load_dataset(path)) == [("x/0", "dog"), ("x/1", "cat")]
    with pytest.raises(MeantimeError, match="class 'dog', which is not there"):
        load_dataset(path, class_names=["cat"])


def test_tars_that_cannot_be_used(tmp_path):
    with pytest.raises(MeantimeError, match=r"'0' in .* has no label"):
        load_dataset(tar(tmp_path / "x.tar", **{"0.png": PNG}))
    with pytest.raises(MeantimeError, match=r"are numbers; put classnames.txt"):
        load_dataset(tar(tmp_path / "x.tar", **{"0.png": PNG, "0.cls": b"0"}))
    path = tar(tmp_path / "y.tar", **{"0.cls": b"a", "0.png": PNG * 100})
    with open(path, "r+b") as file:
        file.truncate(2000)
    with pytest.raises(MeantimeError, match=r"truncated|not a whole"):
        load_dataset(path)
    with pytest.raises(MeantimeError, match="hold no images"):
        load_dataset(tar(tmp_path / "w.tar", **{"readme.txt": b"?"}))
    (tmp_path / "z.tar").write_bytes(b"\x1f\x8b" + bytes(600))
    with pytest.raises(MeantimeError, match="not a whole, uncompressed tar"):
        load_dataset(str(tmp_path / "z.tar"))


def test_a_part_of_tars_reads_nothing_until_it_is_asked(tmp_path):
    path = tar(
        tmp_path / "x.tar", **{f"{i}.{end}": data for i in range(9) for end, data in (("png", PNG), ("cls", b"a"))}
    )
    few = subset(load_dataset(path), 4).samples
    (tmp_path / "x.tar").rename(tmp_path / "away")
    assert len(few.sources[1:3]) == 2
    with pytest.raises(MeantimeError, match=r"x.tar' cannot be read"):
        few.sources[1:3][0]
    (tmp_path / "away").rename(tmp_path / "x.tar")
    assert few.sources[1:3][0] == PNG


def test_a_hidden_or_foreign_file_is_no_image(tmp_path):
    class_folders(tmp_path, ["cat"], images=1)
    image(tmp_path / "cat" / ".thumb.png")
    text(tmp_path / "cat" / "readme.txt", "hello")
    assert len(load_dataset(str(tmp_path)).samples) == 1
