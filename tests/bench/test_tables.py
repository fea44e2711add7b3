"""Tables from stores: the right stores, the right numbers, and a reason wherever there is none."""

import csv
import io
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import tiny_models

import meantime as mt
from meantime import MeantimeError
from meantime.bench import TABLES, Cell, Shelf, published, write
from meantime.bench import heads as heads_module
from meantime.bench.declare import IMAGENETS, Row
from meantime.bench.experiments import EXPERIMENTS, Options
from meantime.bench.grid import SETTINGS, table7
from meantime.bench.heads import Heads
from meantime.bench.own import rows
from meantime.bench.predictions import pq
from meantime.bench.shelf import backbone_of, kind_of
from meantime.datasets import list_datasets
from meantime.heads.saved import HeadInfo, PromptHead, save_head, saved_heads


def counted(store):
    """What must be equal for an answer to be right: of the paper's datasets the class, of one's own its name."""
    return np.arange(len(store.class_names)) if store.name in list_datasets() else np.array(store.class_names)


def accuracy(store, name, n=6, subset=None):
    (batch,) = store.batches(1000, views=n)
    heads = {"text": mt.TextHead(store.texts.single, store.logit_scale)}
    if store.texts.ensemble is not None:
        heads["ensemble"] = mt.TextHead(store.texts.ensemble, store.logit_scale)
    names = counted(store)
    hits = names[mt.methods()[name](batch.views, heads).logits.argmax(-1)] == names[batch.labels]
    return 100 * hits[slice(None) if subset is None else np.isin(batch.index, subset)].mean()


def test_cells_are_means_over_seeds_beside_the_papers(make_store, bench):
    stores = [make_store(name, seed) for name in ("imagenet", "imagenet-a") for seed in (0, 1, 2)]
    (table,) = bench(stores).tables([TABLES["table1"]])
    values = [accuracy(store, "mta") for store in stores[:3]]
    cell = table.cells["mta", "imagenet"]
    assert cell.values == pytest.approx(values)
    assert cell.mean == pytest.approx(np.mean(values))
    assert cell.std == pytest.approx(np.std(values))
    assert cell.paper == published("table1", "mta", "imagenet")
    assert cell.difference == pytest.approx(np.mean(values) - 69.29)
    assert table.cells["zero", "imagenet"].paper.mean == 69.31
    assert table.cells["mta", "imagenet-r"].reason == "no store of imagenet-r with ViT-B-16"
    assert table.cells["mta", "average"].reason == "an average needs every column"
    assert "meantime fit coop imagenet --shots 16" in table.cells["coop", "imagenet"].reason


def test_averages_are_taken_seed_by_seed(make_store, bench):
    stores = {
        (name, seed): make_store(name, seed, images=20 + i) for i, name in enumerate(IMAGENETS) for seed in (0, 1)
    }
    tables = bench(list(stores.values()), seeds=2).tables([TABLES["table1"], TABLES["table4"]])
    expected = [np.mean([accuracy(stores[name, seed], "mta+e") for name in IMAGENETS]) for seed in (0, 1)]
    assert tables[0].cells["mta+e", "average"].values == pytest.approx(expected)
    assert tables[1].cells["mta+e", "ViT-B-16"].values == pytest.approx(expected)
    assert tables[1].cells["mta+e", "RN50"].reason == "no store of imagenet with RN50 (and 4 more like this)"


def test_seeds_that_are_missing_are_told(make_store, bench):
    (table,) = bench([make_store("imagenet", seed=1)]).tables([TABLES["table1"]])
    assert table.cells["clip", "imagenet"].std is None
    assert "imagenet: seed 1 only" in table.notes
    stores = [make_store("imagenet", 0), make_store("imagenet-a", 1)]
    spec = TABLES["table1"].on(["imagenet", "imagenet-a"])
    assert "no seed in common" in bench(stores).tables([spec])[0].cells["clip", "average"].reason


def test_reasons_for_views_and_prompts_and_incomplete_stores(make_store, bench):
    store = make_store(ensemble=False)
    (table,) = bench([store], n_views=None).tables([TABLES["table1"]])
    assert "has 6 views, not 64: --views 6" in table.cells["mta", "imagenet"].reason
    (table,) = bench([store]).tables([TABLES["table1"]])
    assert (
        f"the store '{store.path}' of imagenet, seed 0, lacks the 80 prompts" in table.cells["mta+e", "imagenet"].reason
    )
    assert table.cells["mta", "imagenet"].values
    manifest = json.loads((store.path / "manifest.json").read_text())
    manifest["shards"].pop()
    (store.path / "manifest.json").write_text(json.dumps(manifest))
    (table,) = bench(Shelf.at([store.path]).stores).tables([TABLES["table1"]])
    assert "not complete" in table.cells["mta", "imagenet"].reason


def test_on_other_datasets_averages_stand_alone(make_store, bench):
    (table,) = bench([make_store("mine")]).tables([TABLES["table6"].on(["mine"])])
    assert table.cells["mta", "average"].paper is None
    assert "mine" in table.title
    best = table.cells["mta-vision, best", "average"]
    assert best.mean >= table.cells["mta-vision", "average"].mean - 1e-9
    assert any("these very labels" in note for note in table.notes)


def test_table3_draws_its_images_once(make_store, bench):
    spec = TABLES["table3"].on(["imagenet"])
    small = type(spec)(**{**spec.__dict__, "subset": 7})
    stores = [make_store("imagenet", seed) for seed in (0, 1)]
    (table,) = bench(stores, seeds=2).tables([small])
    (file,) = (bench(stores).out / "subsets").iterdir()
    drawn = json.loads(file.read_text())["index"]
    assert len(set(drawn)) == 7
    expected = [accuracy(store, "mta", subset=drawn) for store in stores]
    assert table.cells["mta, crops", "imagenet"].values == pytest.approx(expected)
    assert table.cells["mta, crops, rho 0.5", "imagenet"].paper.mean == 69.11
    assert "diffusion views" in table.cells["mta, diffusion", "imagenet"].reason
    file.write_text(json.dumps({"fingerprint": "other", "index": drawn}))
    (table,) = bench(stores, seeds=2).tables([small])
    assert "drawn from other images" in table.cells["mta, crops", "imagenet"].reason


def test_learned_heads_are_found_by_what_they_are_for(make_store, bench, tmp_path):
    store = make_store()
    rng = np.random.default_rng(3)
    classes = rng.normal(size=(len(store.class_names), store.dim)).astype(np.float32)
    info = HeadInfo("coop", "imagenet", store.class_names, store.plan.encoder, "x", shots=16, seed=0, m=4)
    save_head(tmp_path / "heads" / "a", PromptHead(np.zeros((4, 5), np.float32), classes, 10.0), info)
    (table,) = bench([store], heads=Heads(tmp_path / "heads")).tables([TABLES["table1"]])
    (batch,) = store.batches(100)
    names = counted(store)
    for row, logits in (
        ("coop", mt.TextHead(classes, 10.0)(batch.views[:, 0])),
        ("mta@coop", mt.mta(batch.views, mt.TextHead(classes, 10.0)).logits),
    ):
        expected = 100 * np.mean(names[logits.argmax(-1)] == names[batch.labels])
        assert table.cells[row, "imagenet"].values == pytest.approx((expected,))
    (table,) = bench([store], heads=Heads(tmp_path / "nowhere")).tables([TABLES["table1"]])
    reason = table.cells["coop", "imagenet"].reason
    assert "meantime fit coop imagenet --shots 16 --m 4 --model ViT-B-16:openai --seed 0" in reason
    assert "there is no folder" in reason


def save_coop(folder, store, **facts):
    classes = np.random.default_rng(3).normal(size=(len(store.class_names), store.dim)).astype(np.float32)
    facts = {"shots": 16, "seed": 0, "m": 4} | facts
    info = HeadInfo("coop", "imagenet", store.class_names, store.plan.encoder, "x", **facts)
    save_head(folder, PromptHead(np.zeros((4, 5), np.float32), classes, 10.0), info)


@pytest.mark.parametrize(
    ("facts", "note"),
    [
        ({"seed": None}, "coop of 4 tokens on imagenet, 16 shots: one training for all seeds"),
        ({"seed": 5}, "coop of 4 tokens on imagenet, 16 shots, seed 5: one training for all seeds"),
        ({"seed": 0, "shots": None}, "coop of 4 tokens on imagenet, seed 0: of how many shots is not known"),
    ],
)
def test_a_head_that_is_not_quite_what_was_asked_is_told(make_store, bench, tmp_path, facts, note):
    store = make_store()
    save_coop(tmp_path / "heads" / "a", store, **facts)
    b = bench([store], heads=Heads(tmp_path / "heads"))
    first, second = b.tables([TABLES["table1"], TABLES["table6"].on(["imagenet"])])
    assert first.cells["coop", "imagenet"].values
    assert note in first.notes
    assert note not in second.notes


def test_of_trainings_with_other_seeds_none_is_taken_for_the_one(make_store, bench, tmp_path):
    store = make_store()
    for seed in (1, 2):
        save_coop(tmp_path / "heads" / str(seed), store, seed=seed)
    (table,) = bench([store], heads=Heads(tmp_path / "heads")).tables([TABLES["table1"]])
    there = "has only coop of 4 tokens on imagenet, 16 shots, seed 1; coop of 4 tokens on imagenet, 16 shots, seed 2"
    assert there in table.cells["coop", "imagenet"].reason


def test_what_heads_there_are_is_told_beside_the_one_that_is_missing(make_store, bench, tmp_path):
    store = make_store()
    save_coop(tmp_path / "heads" / "a", store, shots=1)
    (table,) = bench([store], heads=Heads(tmp_path / "heads")).tables([TABLES["table1"]])
    assert "has only coop of 4 tokens on imagenet, 1 shot, seed 0" in table.cells["coop", "imagenet"].reason
    spec = TABLES["table1"].on(["mine"]).with_rows(["prograd"])
    own = bench([make_store("mine")], heads=Heads(tmp_path / "heads"))
    (table,) = own.tables([spec])
    reason = table.cells["prograd", "mine"].reason
    assert "meantime fit prograd FOLDER --model ViT-B-16:openai --seed 0;" in reason  # where it lies is not known
    assert "has no prograd of mine for ViT-B-16:openai" in reason
    own.heads.data["mine"] = tmp_path / "my photos"
    (table,) = own.tables([spec])
    assert f"meantime fit prograd '{tmp_path / 'my photos'}' --model" in table.cells["prograd", "mine"].reason


def test_titles_tell_how_many_views_and_images_were_measured(make_store, bench):
    spec = TABLES["table3"].on(["imagenet"])
    store = make_store()
    (table,) = bench([store]).tables([spec])
    assert table.title == "Crops against diffusion: ImageNet (ViT-B-16), 6 views, 24 images of each set"
    (table,) = bench([store]).tables([replace(spec, subset=7)])
    assert table.title.endswith("6 views, 7 images of each set")


def test_saved_heads_are_read_once(make_store, bench, tmp_path, monkeypatch):
    stores = [make_store("imagenet", seed) for seed in (0, 1)]
    save_coop(tmp_path / "heads" / "a", stores[0])
    reads = []
    monkeypatch.setattr(heads_module, "saved_heads", lambda folder: reads.append(folder) or saved_heads(folder))
    bench(stores, heads=Heads(tmp_path / "heads")).tables([TABLES["table1"]])
    assert len(reads) == 1


def test_a_store_made_in_half_precision_finds_its_encoder_again(make_store, changed, bench, tmp_path):
    tiny_models.save("clip", tmp_path / "model")
    encoder = mt.load_encoder(f"hf:{tmp_path / 'model'}", device="cpu", precision="bf16")
    by = {"encoder": encoder.identity, "encoder_name": encoder.name}
    store = changed(make_store("mine", dim=encoder.dim), **by)
    spec = TABLES["table1"].on(["mine"]).only(["tpt"])
    (table,) = bench([store]).tables([spec])
    assert table.cells["tpt", "mine"].values
    other = changed(make_store("mine", dim=encoder.dim, images=20), **by | {"encoder": "torch-0"})
    (table,) = bench([other]).tables([spec])
    assert "was made by torch-0" in table.cells["tpt", "mine"].reason
    assert encoder.identity in table.cells["tpt", "mine"].reason


def test_part_of_a_dataset_does_not_stand_for_the_whole(make_store, bench, changed):
    full, part = make_store(n=6), make_store(n=9, images=20)
    shelf = Shelf([full, part])
    for n in (6, 9):
        assert shelf.find("imagenet", "ViT-B-16", "crop", [0], n_views=n)[0] is full
    assert shelf.find("imagenet", "ViT-B-16", "crop", [0], n_views=9, images=20)[0] is part  # as table 3 asks
    assert shelf.find("imagenet", "ViT-B-16", "crop", [0], n_views=6, images=20)[0] is full
    (table,) = bench([part]).tables([TABLES["table1"]])
    assert "imagenet: 20 of the 50000 test images" in table.notes
    half = changed(make_store(n=6, images=30), shards=1)
    assert Shelf([half, full]).find("imagenet", "ViT-B-16", "crop", [0])[0] is full


def test_numbers_that_were_published_for_something_else_are_told(make_store, bench):
    store, other = make_store(n=64), make_store(encoder="RN50:openai", n=64)
    for options, expected in (
        ({"n_views": None}, []),
        ({"n_views": 6}, ["published: ViT-B/16, 64 views"]),
        ({"n_views": 6, "model": "RN50:openai"}, ["published: ViT-B/16, 64 views"]),
        ({"n_views": None, "model": "RN50:openai"}, ["published: ViT-B/16, 64 views"]),
    ):
        there = [other] if "model" in options else [store]
        for table in (bench(there, **options).tables([TABLES["table1"]])[0], table7(bench(there, **options))):
            assert [note for note in table.notes if note.startswith("published")] == expected


def test_a_search_is_for_top1_only(make_store, bench):
    (table,) = bench([make_store("mine")], metric="top5").tables([TABLES["table6"].on(["mine"])])
    assert table.cells["mta-vision, best", "average"] == Cell(reason="searched for top-1 only")
    assert table.cells["mta-vision", "average"].values


def test_at_least_one_view(make_store, bench):
    with pytest.raises(MeantimeError, match="0 views were asked for; expected at least 1"):
        bench([make_store()], n_views=0)


def test_an_incomplete_store_is_measured_nowhere(make_store, bench, changed):
    b = bench([changed(make_store(), shards=1)])
    assert "not complete" in table7(b).reasons[0]
    (measured,) = rows(b)
    assert measured.table.filled == 0
    assert "not complete" in measured.table.reasons[0]
    with pytest.raises(MeantimeError, match="not complete"):
        EXPERIMENTS["figure1"].run(b, Options())


def test_methods_on_part_of_the_images_are_called_so(make_store, bench):
    spec = replace(TABLES["table3"].on(["imagenet"]), subset=7)
    b = bench([make_store()])
    b.tables([spec, TABLES["figure4"].on(["imagenet"])])
    methods = set(pq.read_table(b.out / "predictions.parquet")["method"].to_pylist())
    assert {"mta (6 views, 7 images)", "mta (4 views)"} <= methods


def test_three_reductions_of_the_prompts(make_store, bench):
    store = make_store(templates=5)
    (table,) = bench([store]).tables([TABLES["table1"]])
    (batch,) = store.batches(100)
    names = counted(store)
    mode = mt.mta(batch.views, mt.TextHead(store.texts.single, 10.0)).mode
    for reduction in ("vote", "probability"):
        head = mt.ensemble_head(store.templates().astype(np.float32), 10.0, reduction)
        for key, x in (("clip+e", batch.views[:, 0]), ("mta+e", mode)):
            expected = 100 * np.mean(names[head(x).argmax(-1)] == names[batch.labels])
            cell = table.cells[f"{key}, {reduction}", "imagenet"]
            assert cell.values == pytest.approx((expected,))
            assert cell.paper == published("table1", key, "imagenet")
    (table,) = bench([make_store("pets")]).tables([TABLES["table2"]])
    assert "one by one" in table.cells["mta+e, vote", "pets"].reason


def test_the_grid_has_71_cells(make_store, bench):
    store = make_store()
    table = table7(bench([store]))
    assert table.filled == len(SETTINGS) == 71
    (batch,) = store.batches(100)
    r = mt.mta(batch.views, mt.TextHead(store.texts.single, 10.0), lambda_=8, lambda_y=0.4)
    names = counted(store)
    assert table.cells["8", "0.4"].mean == pytest.approx(100 * np.mean(names[r.labels] == names[batch.labels]))
    assert table.cells["8", "0.4"].paper.mean == 69.3
    assert table.cells["8", "inf"].mean is None
    assert table7(bench([store]), "pets").reasons == ["no store of pets with ViT-B-16"]


def test_rows_of_any_store(make_store, bench):
    stores = [make_store("mine", seed, "embedded") for seed in (0, 1)]
    b = bench(stores)
    (measured,) = rows(b)
    table = measured.table
    assert table.cells["mta", "top1"].values == pytest.approx([accuracy(s, "mta") for s in stores])
    gain = table.cells["mta", "gain"]
    assert gain.mean == pytest.approx(table.cells["mta", "top1"].mean - table.cells["clip", "top1"].mean)
    assert gain.interval[0] <= gain.mean <= gain.interval[1]
    written = pq.read_table(b.out / "rows.parquet").to_pylist()
    assert len(written) == 2 * 24 * len(table.rows)
    first = written[0]
    assert first["prediction"] == first["top5"][0]
    assert list(first)[:5] == ["dataset", "encoder", "seed", "method", "index"]
    records = [json.loads(f.read_text()) for f in (b.out / "clip_benchmark").iterdir()]
    (record,) = [r for r in records if r["method"] == "mta" and r["seed"] == 0]
    assert record["metrics"]["acc1"] == pytest.approx(accuracy(stores[0], "mta") / 100)
    assert (record["model"], record["pretrained"], record["task"]) == (
        "embedded",
        "meantime",
        "zeroshot_classification",
    )
    with pytest.raises(MeantimeError, match="no store fits; there are mine"):
        rows(b, ["yours"])


def test_rows_take_one_store_of_each_seed_and_keep_kinds_apart(make_store, bench, changed):
    part = make_store("imagenet", 0, images=20, n=9)
    crops = make_store("imagenet", 0)
    augmix = changed(make_store("imagenet", 0, images=22), views="augmix-1")
    b = bench([part, crops, augmix], model="ViT-B-16")
    first, second = (measured.table for measured in rows(b))
    assert first.name == "rows-imagenet-vit-b-16-openai"
    assert "24 images, 7 names, 6 views, seed 0, " in first.title
    assert second.name == "rows-imagenet-vit-b-16-openai-augmix"
    assert "22 images, 7 names, 6 augmix views, seed 0, " in second.title
    assert Counter(pq.read_table(b.out / "rows.parquet")["method"].to_pylist()) == {
        name + mark: count for name in first.rows for mark, count in (("", 24), (" (augmix)", 22))
    }
    names = [path.name for path in (b.out / "clip_benchmark").iterdir()]
    assert len(names) == 2 * len(first.rows)


def test_rows_join_seeds_by_their_number_and_images_by_their_key(make_store, bench):
    stores = [
        make_store("mine", 0, ensemble=False),
        make_store("mine", 1, n=8),
        make_store("mine", 2, images=20),
    ]
    (measured,) = rows(bench(stores, n_views=None))
    table = measured.table
    assert "24 or 20 images, 7 names, 6 views, seed 0, 1, 2" in table.title
    assert table.cells["mta", "top1"].values == pytest.approx([accuracy(store, "mta") for store in stores])
    expected = [accuracy(store, "mta+e") - accuracy(store, "clip") for store in stores[1:]]
    assert table.cells["mta+e", "gain"].values == pytest.approx(expected)
    assert table.cells["mta+e", "gain"].interval
    assert any(note.startswith("mta+e: seed 1, 2 only (") for note in table.notes)


def test_stores_are_found_by_what_they_hold(make_store, tmp_path):
    few, many = make_store(n=4), make_store(n=6)
    make_store("imagenet", 1), make_store("pets", 0, "embedded")
    shelf = Shelf.at([tmp_path / "stores"])
    assert {store.n_views for store in shelf.stores} == {4, 6}
    found = shelf.find("imagenet", "ViT-B-16", "crop", range(3))
    assert {seed: store.n_views for seed, store in found.items()} == {0: 6, 1: 6}
    assert shelf.find("imagenet", few.plan.encoder, "crop", [0])[0].path == many.path
    assert shelf.find("imagenet", "RN50", "crop", range(3)) == {}
    assert len(Shelf.at([few.path, few.path]).stores) == 1
    with pytest.raises(MeantimeError, match="there is no folder"):
        Shelf.at([tmp_path / "none"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(MeantimeError, match="is no store and holds none"):
        Shelf.at([tmp_path / "empty"])
    assert Shelf.at([tmp_path / "empty", tmp_path / "none"], to_fill=True).stores == []


@pytest.mark.parametrize(
    ("name", "backbone"),
    [
        ("ViT-B-16:openai", "ViT-B-16"),
        ("hf:openai/clip-vit-base-patch16", "ViT-B-16"),
        ("CLIP ViT-B/16", "ViT-B-16"),
        ("hf:openai/clip-vit-large-patch14", "ViT-L-14"),
        ("hf:openai/clip-vit-large-patch14-336", None),
        ("hf:laion/CLIP-ViT-B-32-laion2B-s34B-b79K", None),
        ("hf:wkcn/TinyCLIP-ViT-61M-32-Text-29M-LAION400M", None),
        ("hf:google/vit-base-patch16", None),
        ("ViT-B-16-quickgelu:openai", "ViT-B-16"),
        ("RN50-quickgelu:yfcc15m", None),
        ("ViT-L-14-336:openai", None),
        ("ViT-B-16:laion400m_e32", None),
        ("ViT-B-16-SigLIP", None),
        ("RN50:openai", "RN50"),
        ("RN50x4:openai", None),
        ("RN101", "RN101"),
        ("ViT-B-32:openai", "ViT-B-32"),
        ("embedded", None),
    ],
)
def test_backbones_by_the_names_that_people_use(name, backbone):
    assert backbone_of(name) == backbone


def test_kinds_of_views(make_store):
    plan = make_store().plan

    def kind(views):
        return kind_of(type(plan)(**{**plan.__dict__, "views": views}))

    assert kind("imported") == kind(mt.ViewSpec().identity) == "crop"
    assert kind(mt.ViewSpec(augment="augmix").identity) == "augmix"
    assert kind(mt.ViewSpec(n=65, files="made", n_files=63).identity) == "diffusion"


def test_the_encoder_must_be_clear(make_store, bench):
    stores = [make_store("a", encoder="embedded"), make_store("b", encoder="other")]
    with pytest.raises(MeantimeError, match="embedded, other: choose one by --model"):
        bench(stores).tables([TABLES["table1"]])
    assert bench(stores[:1]).encoder == "embedded"
    assert bench([*stores, make_store()]).encoder == "ViT-B-16"
    with pytest.raises(MeantimeError, match="metric is 'x'"):
        bench(stores, metric="x")


def test_rows_of_ones_own_follow_the_papers():
    rows = TABLES["table1"].with_rows(["mta", "mine"]).rows
    assert [row.key for row in rows].count("mta") == 1
    assert rows[-1] == Row("mine", "mine")


def test_every_form_says_the_same(make_store, bench, tmp_path):
    b = bench([make_store("imagenet", seed) for seed in (0, 1)])
    (table,) = b.tables([TABLES["table1"]])
    cell = table.cells["mta", "imagenet"]
    shown = f"{cell.mean:.2f} ± {cell.std:.2f}"
    paper = f"69.29 ± 0.09 ({cell.difference:+.2f})"
    files = {path.suffix: path.read_text() for path in write.write_all(table, tmp_path / "t")}
    line = next(line for line in files[".md"].splitlines() if line.startswith("| MTA |"))
    assert f"| {shown}<br>{paper} |" in line
    assert line.count("|") == files[".md"].splitlines()[2].count("|")
    assert shown.replace("±", r"$\pm$") in files[".tex"]
    assert paper.replace("±", r"$\pm$") in files[".tex"]
    assert "ZERO + Ensemble" in files[".tex"]
    by_place = {(r["row"], r["column"]): r for r in csv.DictReader(io.StringIO(files[".csv"]))}
    assert float(by_place["mta", "imagenet"]["mean"]) == pytest.approx(cell.mean)
    assert by_place["mta", "imagenet-r"]["reason"] == "no store of imagenet-r with ViT-B-16"
    cells = {(c["row"], c["column"]): c for c in json.loads(files[".json"])["cells"]}
    assert cells["mta", "imagenet"]["values"] == pytest.approx(cell.values)
    for i, reason in enumerate(table.reasons, 1):
        assert f"[{i}] {reason}" in files[".md"]
