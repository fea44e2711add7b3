"""Table 5 and figures 3 and 5 on a small store, with heads as `meantime fit` saves them."""

import numpy as np
import pytest

from meantime.bench import Bench, Cell, Shelf, fewshot
from meantime.bench.heads import Heads
from meantime.fit import HeadInfo, load_head, save_head
from meantime.heads.saved import PromptHead
from meantime.heads.tip_adapter import TipAdapterHead
from meantime.registry import method_named
from meantime.store import import_arrays

RNG = np.random.default_rng(0)
K, D, N = 5, 8, 6
TEXTS = RNG.standard_normal((K, D)).astype(np.float32)
NAMES = tuple("abcde")


@pytest.fixture
def stores(tmp_path):
    labels = np.arange(20) % K
    found = []
    for dataset in ("imagenet", "dtd"):
        for seed in range(2):
            rng = np.random.default_rng([seed, len(dataset)])
            centres = TEXTS[labels] + 1.1 * np.random.default_rng(len(dataset)).standard_normal((20, D))
            views = centres[:, None] + rng.standard_normal((20, N, D))
            np.savez(tmp_path / "x.npz", views=views, labels=labels, names=np.array(NAMES), text_single=TEXTS)
            place = tmp_path / f"{dataset}-{seed}"
            found.append(import_arrays(tmp_path / "x.npz", place, name=dataset, encoder="ViT-B-16:openai", seed=seed))
    return found


@pytest.fixture
def heads(tmp_path):
    folder = tmp_path / "saved"
    for kind in ("coop", "tip-adapter"):
        for dataset in ("imagenet", "dtd"):
            for shots in (1, 16):
                for seed in range(2):
                    noise = np.random.default_rng([shots, seed]).standard_normal((K, D)).astype(np.float32) / shots
                    m = 16 if kind == "coop" else None
                    head = (
                        PromptHead(np.zeros((16, 4), np.float32), TEXTS + noise, 10.0)
                        if kind == "coop"
                        else TipAdapterHead(TEXTS + noise, range(K), TEXTS, 10.0)
                    )
                    info = HeadInfo(kind, dataset, NAMES, "ViT-B-16:openai", "ViT-B-16:openai", shots, seed, m)
                    save_head(folder / f"{kind}-{dataset}-{shots}-{seed}", head, info)
    return folder


@pytest.fixture
def bench(stores, heads, tmp_path):
    return Bench(Shelf(stores), tmp_path / "out", n_views=N, seeds=2, heads=Heads(heads))


def accuracies(stores, heads, method, dataset, shots):
    kind = method.rpartition("@")[2]
    values = []
    for store in stores:
        if store.name == dataset:
            head = load_head(heads / f"{kind}-{dataset}-{shots}-{store.seed}")
            (batch,) = store.batches(64)
            logits = method_named(method)(batch.views, {kind: head}).logits
            values.append(100 * (logits.argmax(-1) == batch.labels).mean())
    return values


def test_table5_is_each_seeds_head_on_each_seeds_views_beside_the_paper(bench, stores, heads):
    table = fewshot.table5(bench)
    for method in ("coop", "mta@coop", "tip-adapter", "mta@tip-adapter"):
        for shots in (1, 16):
            cell = table.cells[method, str(shots)]
            np.testing.assert_allclose(cell.values, accuracies(stores, heads, method, "imagenet", shots))
    plain, ours, gain = (table.cells[row, "16"] for row in ("coop", "mta@coop", "gain coop"))
    np.testing.assert_allclose(gain.values, np.subtract(ours.values, plain.values))
    assert (plain.paper.mean, ours.paper.mean, gain.paper.mean) == (71.87, 74.20, 2.33)


def test_cells_without_a_head_say_how_to_make_it(bench):
    table = fewshot.table5(bench)
    missing = table.cells["mta@prograd", "4"]
    assert missing.values == ()
    assert "meantime fit prograd imagenet --shots 4" in missing.reason
    assert missing.paper.mean == 72.50
    assert table.cells["gain prograd", "4"].reason == missing.reason


def test_figures_have_a_row_for_each_method_and_dataset_and_the_average(bench, stores, heads, tmp_path):
    table = fewshot.figure(bench, "figure5", 16, ["imagenet", "dtd"])
    assert list(table.rows)[-1] == "average/mta@coop"
    both = [accuracies(stores, heads, "mta@coop", d, 16) for d in ("imagenet", "dtd")]
    np.testing.assert_allclose(table.cells["average/mta@coop", "16"].values, np.mean(both, axis=0))
    assert "every dataset; 2 of 2" in table.cells["average/coop", "8"].reason
    assert "augmix" in table.cells["dtd/tpt@coop", "16"].reason
    path = fewshot.draw(table, tmp_path / "figure5.png")
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_only_some_rows_with_the_metric_and_the_notes_of_the_run(bench, stores, heads, tmp_path):
    by_top5 = Bench(bench.shelf, tmp_path / "out", n_views=N, seeds=3, heads=Heads(heads), metric="top5")
    for table in (
        fewshot.table5(by_top5, methods=["coop"]),
        fewshot.figure(by_top5, "figure5", 16, ["imagenet"], ["coop"]),
    ):
        assert [row.rpartition("/")[2] for row in table.rows] == ["coop"]
        assert table.unit == "top-5 in per cent"
        assert "imagenet: seed 0, 1 only" in table.notes
        assert "imagenet: 20 of the 50000 test images" in table.notes
    assert "published: ViT-B/16, 64 views" in fewshot.table5(bench).notes


def test_averages_and_gains_join_seeds_by_their_number(stores, heads, tmp_path):
    some = [store for store in stores if (store.name, store.seed) != ("imagenet", 0)]
    table = fewshot.figure(
        Bench(Shelf(some), tmp_path / "out", n_views=N, seeds=2, heads=Heads(heads)),
        "figure5",
        16,
        ["imagenet", "dtd"],
    )
    both = [accuracies(stores, heads, "coop", d, 16)[1] for d in ("imagenet", "dtd")]
    np.testing.assert_allclose(table.cells["average/coop", "16"].values, [np.mean(both)])
    plain, ours = Cell((1.0, 2.0), seeds=(0, 1)), Cell((5.0,), seeds=(1,))
    assert fewshot._gain(plain, ours).values == (3.0,)
    assert fewshot._gain(Cell((1.0,), seeds=(0,)), ours).reason == "the two rows have no seed in common"


def test_the_average_of_figure3_is_also_that_of_16_tokens(bench, stores, heads, tmp_path):
    table = fewshot.figure(bench, "figure3", 4, ["imagenet", "dtd"])
    both = [accuracies(stores, heads, "coop", d, 16) for d in ("imagenet", "dtd")]
    np.testing.assert_allclose(table.cells["average/coop, M 16", "16"].values, np.mean(both, axis=0))
    assert table.cells["average/coop", "16"].reason  # none has been fitted with 4
    assert [(row, style) for row, _, _, style in fewshot._lines(table, "average")][2:4] == [
        ("average/mta@coop", "-"),
        ("average/coop, M 16", "--"),
    ]
    assert fewshot.draw(table, tmp_path / "figure3.png").is_file()


def test_figure3_is_beside_what_the_papers_text_tells(bench):
    table = fewshot.figure(bench, "figure3", 4)
    assert len(table.rows) == 3 * 12 + 3  # the average also of 16 tokens
    assert table.cells["aircraft/mta@coop", "16"].paper.mean == 44.33
    assert table.cells["aircraft/mta@coop", "8"].paper is None
    assert table.cells["imagenet/coop", "16"].reason is not None
