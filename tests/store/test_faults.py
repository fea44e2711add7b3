"""Damaged, foreign and contradictory stores: each a clear error."""

import errno
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from toy import ToyEncoder

from meantime import MeantimeError
from meantime.store import Row, merge, merge_stores, open_store, open_writer, verify_store


def edit(folder, change):
    path = folder / "manifest.json"
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_a_good_store_is_verified(encode):
    seen = []
    verify_store(encode(ensemble=True), lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_truncated_shard(encode, tmp_path):
    encode()
    path = tmp_path / "store" / "shard-00001.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(MeantimeError, match=r"shard-00001.*truncated or changed"):
        open_store(tmp_path / "store")
    with pytest.raises(MeantimeError, match=r"shard-00001.*delete it, and --resume"):
        encode(resume=True)
    path.unlink()
    with pytest.raises(MeantimeError, match=r"shard-00001.*missing"):
        open_store(tmp_path / "store")


def test_a_shard_that_is_truncated_while_it_is_open(encode, tmp_path):
    store = encode()
    path = tmp_path / "store" / "shard-00001.parquet"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(MeantimeError, match=r"shard-00001.*truncated or damaged"):
        list(store.batches(2))


def test_a_wrong_checksum(encode, tmp_path):
    store = encode()
    path = tmp_path / "store" / "shard-00002.parquet"
    data = bytearray(path.read_bytes())
    views = next(store.batches(100)).views[-1].astype(np.float16).tobytes()
    data[data.index(views)] ^= 1  # one bit of an embedding
    path.write_bytes(data)
    with pytest.raises(MeantimeError, match=r"shard-00002.*wrong checksum"):
        verify_store(open_store(tmp_path / "store"))
    with pytest.raises(MeantimeError, match=r"shard-00002.*damaged"):  # reading notices too
        list(open_store(tmp_path / "store").batches(4))


def test_a_wrong_checksum_of_the_texts(encode, tmp_path):
    store = encode()
    edit(tmp_path / "store", lambda m: m["texts"]["single"].update(sha256="0" * 64))
    with pytest.raises(MeantimeError, match=r"text-single.parquet: wrong checksum"):
        verify_store(open_store(store.path))


def test_a_manifest_of_another_version(encode, tmp_path):
    encode()
    edit(tmp_path / "store", lambda m: m.update(version=2, versions={"meantime": "9.0"}))
    with pytest.raises(MeantimeError, match=r"version 2 of the store format, written by meantime 9.0.*version 1"):
        open_store(tmp_path / "store")
    with pytest.raises(MeantimeError, match="version 2"):
        encode(resume=True)


def test_damaged_and_foreign_manifests(encode, tmp_path):
    folder = encode().path
    with pytest.raises(MeantimeError, match="not a folder"):
        open_store(tmp_path / "nowhere")
    with pytest.raises(MeantimeError, match="not a store"):
        open_store(tmp_path)
    edit(folder, lambda m: m["plan"].pop("seed"))
    with pytest.raises(MeantimeError, match="field is missing or wrong"):
        open_store(folder)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(MeantimeError, match="not valid JSON"):
        open_store(folder)
    (folder / "manifest.json").write_text('{"name": "something else"}')
    with pytest.raises(MeantimeError, match="not the manifest of a store"):
        open_store(folder)


def test_shards_that_belong_to_another_place(encode, tmp_path):
    store = encode()
    edit(tmp_path / "store", lambda m: m["shards"][0].update(start=1))
    edit(tmp_path / "store", lambda m: m["plan"].update(classes=["blue"]))
    with pytest.raises(MeantimeError, match=r"not each of the images 1 to 4 once.*label outside 0..0"):
        verify_store(open_store(store.path))


def test_parts_are_merged_to_the_same_bytes(encode, tmp_path):
    encode("whole", batch=5)
    parts = [encode(f"part{i}", batch=5, part=(i, 2), ensemble=i == 2) for i in (1, 2)]
    assert [len(part) for part in parts] == [7, 4]
    assert not parts[0].complete
    merged = merge_stores(tmp_path / "merged", [part.path for part in parts])
    assert merged.complete
    assert merged.texts.ensemble is not None
    for shard in sorted(p.name for p in (tmp_path / "whole").glob("shard-*")):
        assert (tmp_path / "merged" / shard).read_bytes() == (tmp_path / "whole" / shard).read_bytes()
    verify_store(merged)
    encoder = ToyEncoder()
    encode("merged", encoder, resume=True)  # it is a store like any other
    assert encoder.batches == []


def test_a_merge_goes_on_by_resume_when_a_part_is_missing(encode, tmp_path):
    encode("part", part=(1, 2))
    merge_stores(tmp_path / "merged", [tmp_path / "part"])
    assert encode("merged", resume=True).complete


def test_two_encoders_or_seeds_do_not_merge(encode, tmp_path):
    encode("a", part=(1, 2))
    other = ToyEncoder()
    other.identity = "toy-2"
    encode("b", other, part=(2, 2), seed=3)
    with pytest.raises(
        MeantimeError, match=r"encoder is 'toy-1' in the first and 'toy-2'.*seed is 0 in the first and 3"
    ):
        merge_stores(tmp_path / "merged", [tmp_path / "a", tmp_path / "b"])
    assert not (tmp_path / "merged").exists()


def test_a_merge_refuses_contradictions_damage_and_a_full_place(encode, tmp_path, photos):
    encode("a")
    encode("b", batch=5)
    encode("part", part=(1, 2))
    with pytest.raises(MeantimeError, match=r"parts is 2, asked 1"):
        merge_stores(tmp_path / "part", [tmp_path / "b"])
    with pytest.raises(MeantimeError, match="is not a store"):
        merge_stores(photos, [tmp_path / "b"])
    with pytest.raises(MeantimeError, match="no stores"):
        merge_stores(tmp_path / "c", [])
    shutil.copy(photos / "red" / "1.png", photos / "blue" / "0.png")
    encode("d")
    with pytest.raises(MeantimeError, match=r"shard-00000.parquet differs between"):
        merge_stores(tmp_path / "c", [tmp_path / "a", tmp_path / "d"])
    assert not (tmp_path / "c").exists()
    with pytest.raises(MeantimeError, match=r"shard-00000.parquet differs between"):
        merge_stores(tmp_path / "d", [tmp_path / "a"])
    edit(tmp_path / "b", lambda m: m["shards"][0].update(sha256="0"))
    with pytest.raises(MeantimeError, match="wrong checksum"):
        merge_stores(tmp_path / "c", [tmp_path / "b"])


def test_a_merge_that_stops_goes_on_with_what_is_not_there_yet(encode, tmp_path, monkeypatch):
    parts = [encode(f"part{i}", part=(i, 2), ensemble=True).path for i in (1, 2)]
    original, copied = merge._copy_bytes, []

    def copy(source, target):
        copied.append(source.name)
        if len(copied) == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(source, target)

    monkeypatch.setattr(merge, "_copy_bytes", copy)
    with pytest.raises(MeantimeError, match=r"cannot write.*No space left"):
        merge_stores(tmp_path / "merged", parts)
    heard = []
    merged = merge_stores(tmp_path / "merged", parts, lambda *counts: heard.append(counts))
    assert sorted(copied) == sorted([*(f.file for f in merged.manifest.files), copied[4]])  # each once, one twice
    assert heard == [(i, 6) for i in range(1, 7)]
    assert merged.complete
    verify_store(merged)
    merge_stores(tmp_path / "merged", parts)
    assert len(copied) == 7


def test_two_lists_of_classes_are_told_apart_by_what_differs(encode):
    plan = replace(encode().plan, classes=tuple("abcdefgh"))
    assert plan.differences(replace(plan, classes=tuple("abcdeXgh"))) == ["classes[5] is 'f', asked 'X'"]
    assert plan.differences(replace(plan, classes=tuple("abcdefg"))) == [
        "classes is 8 names ('a', 'b', 'c', …), asked 7 names ('a', 'b', 'c', …)"
    ]


def test_parts_are_counted_from_one_to_all(encode):
    with pytest.raises(MeantimeError, match="part 9 of 8 was asked for; expected 1/8 to 8/8"):
        replace(encode().plan, part=9, parts=8)


def test_a_writer_refuses_rows_that_do_not_fit(encode, tmp_path):
    store = encode()
    views, boxes = np.ones((5, 3), np.float32), np.zeros((5, 4), np.float32)
    rows = [Row(i, str(i), 0, views, views[:, 0], boxes, boxes[:, 0] > 0) for i in range(5)]
    with open_writer(tmp_path / "new", store.plan) as writer:
        with pytest.raises(MeantimeError, match="must hold images 0 to 4"):
            writer.add_shard(0, rows[:4])
        with pytest.raises(MeantimeError, match="label 3, but there are 3 classes"):
            writer.add_shard(0, [replace(row, label=3) for row in rows])
        with pytest.raises(MeantimeError, match=r"shape \(4, 3\)"):
            writer.add_shard(0, [replace(row, views=views[:4]) for row in rows])
        writer.add_shard(0, rows)
    assert len(open_store(tmp_path / "new")) == 5
