"""Photos that a head was fitted on are in no row of the table that has it."""

import numpy as np
import pytest

from meantime import MeantimeError
from meantime.bench import TABLES, Bench, Shelf, fewshot
from meantime.bench.heads import Heads
from meantime.bench.own import rows
from meantime.bench.predictions import pq
from meantime.heads.saved import HeadInfo, PromptHead, save_head
from meantime.meanshift.head import TextHead

K = 7  # the names of `make_store`


def keys_of(store):
    (batch,) = store.batches(1000)
    return list(batch.keys)


@pytest.fixture
def fitted(tmp_path):
    """Save a head that was fitted on some images of a store, whose answers are right on just these."""

    def save(store, numbers, seed=0, shots=1, m=16, **facts):
        keys = keys_of(store)
        draw = {"train": [keys[i] for i in numbers[1:]], "val": [keys[i] for i in numbers[:1]]}
        facts = {"dataset": store.name, "draw": draw} | facts
        info = HeadInfo(
            "coop",
            classes=store.class_names,
            encoder=store.plan.encoder,
            encoder_name="x",
            shots=shots,
            seed=seed,
            m=m,
            **facts,
        )
        classes = np.random.default_rng(shots).normal(size=(K, store.dim)).astype(np.float32)
        folder = tmp_path / "heads" / f"{shots}-{seed}-{m}"
        return save_head(folder, PromptHead(np.zeros((m, 4), np.float32), classes, 10.0), info)

    return save


def measured_keys(file, method):
    found = pq.read_table(file, filters=[("method", "=", method)]).to_pylist()
    return {(row["seed"], row["key"]) for row in found}


def test_every_row_and_shot_of_table5_is_about_the_same_images(make_store, fitted, tmp_path):
    stores = [make_store("mine", seed) for seed in (0, 1)]
    drawn = {(0, 1): [0, 1, 2], (0, 2): [0, 1, 2, 3], (1, 1): [9, 10, 11], (1, 2): [9, 10, 11]}
    for (seed, shots), numbers in drawn.items():
        fitted(stores[seed], numbers, seed, shots)
    bench = Bench(Shelf(stores), tmp_path / "out", n_views=6, seeds=2, heads=Heads(tmp_path / "heads"))
    table = fewshot.table5(bench, "mine", ["coop", "mta@coop", "clip"])
    keys = keys_of(stores[0])
    left = {(0, key) for key in keys[4:]} | {(1, key) for key in (*keys[:9], *keys[12:])}
    for method in ("coop, 1 shot, M 16", "coop, 2 shots, M 16", "mta@coop, 1 shot, M 16", "clip"):
        assert measured_keys(tmp_path / "out" / "table5.parquet", f"{method} (6 views)") == left
    assert "mine: 4 of 24 or 3 of 24 images are left out of every row: heads were fitted on them" in table.notes
    (batch,) = stores[0].batches(100)
    logits = TextHead(stores[0].texts.single, 10.0)(batch.views[4:, 0])
    names = np.array(stores[0].class_names)
    expected = 100 * np.mean(names[logits.argmax(-1)] == names[batch.labels[4:]])
    for shots in "1", "16":  # a row without a head is the same for any
        assert table.cells["clip", shots].values[0] == pytest.approx(expected)


def test_rows_leave_them_out_too_and_count_the_rest(make_store, fitted, tmp_path):
    store = make_store("mine")
    head = fitted(store, [0, 5, 7])
    for heads, name in ((Heads(tmp_path / "heads"), "mta@coop"), (Heads(), f"mta@{head}")):
        bench = Bench(Shelf([store]), tmp_path / "out", n_views=6, seeds=1, heads=heads)
        (measured,) = rows(bench, only=["clip", name])
        assert {len(p) for (p,) in measured.predictions.values()} == {21}
        assert list(measured.predictions) == ["clip", name]
        assert measured.table.title.startswith("mine: 21 images")
        assert any("3 of 24 images are left out" in note for note in measured.table.notes)
    (plain,) = rows(bench, only=["clip"])
    assert len(plain.predictions["clip"][0]) == 24
    assert not any("left out" in note for note in plain.table.notes)


@pytest.mark.parametrize("facts", [{"settings": {"split": "train"}}, {"drawn_from": "other"}])
def test_photos_of_another_split_or_dataset_stay_whatever_they_are_called(make_store, fitted, tmp_path, facts):
    store = make_store("mine")
    fitted(store, [0, 1], **facts)
    bench = Bench(Shelf([store]), tmp_path / "out", n_views=6, seeds=1, heads=Heads(tmp_path / "heads"))
    (measured,) = rows(bench, only=["clip", "coop"])
    assert {len(p) for (p,) in measured.predictions.values()} == {24}


def test_where_none_is_left_cells_say_so(make_store, fitted, tmp_path):
    store = make_store("mine")
    fitted(store, list(range(24)))
    bench = Bench(Shelf([store]), tmp_path / "out", n_views=6, seeds=1, heads=Heads(tmp_path / "heads"))
    table = fewshot.table5(bench, "mine", ["coop", "clip"])
    reason = "heads were fitted on every image of mine, seed 0: none is left to measure on"
    assert {cell.reason for cell in table.cells.values() if "fit coop" not in (cell.reason or "")} == {reason}
    (measured,) = rows(bench, only=["clip", "coop"])
    assert measured.table.reasons == [reason]


def test_several_heads_of_a_kind_must_be_told_apart(make_store, fitted, tmp_path):
    store = make_store("mine")
    folders = [fitted(store, [0, 1], shots=shots) for shots in (1, 2)]
    bench = Bench(Shelf([store]), tmp_path / "out", n_views=6, seeds=1, heads=Heads(tmp_path / "heads"))
    spec = TABLES["table6"].on(["mine"]).with_rows(["mta@coop"]).only(["mta@coop"])
    (reason,) = bench.tables([spec])[0].reasons
    assert "2 heads fit 'coop'" in reason
    assert str(folders[1]) in reason
    with pytest.raises(MeantimeError, match="there is no learned head"):
        rows(bench, only=["mta@nothing"])
