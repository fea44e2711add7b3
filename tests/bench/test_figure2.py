"""The runtime figure: its systems on a tiny backbone, its baselines against what they must equal, its outputs."""

import json
from dataclasses import replace

import authors_pipeline
import authors_tpt
import numpy as np
import pytest
import runtime
import torch
import transformers
from PIL import Image
from typer.testing import CliRunner

from meantime import MeantimeError, extras
from meantime.bench import backbones, figure2, systems
from meantime.bench.backbones import BACKBONES, Backbone
from meantime.bench.figure2 import Measured
from meantime.bench.isolated import Isolated, forget_peak, isolated, peak
from meantime.bench.systems import STAGES, Task, Timing
from meantime.cli import app
from meantime.heads.tpt import TPTHead
from meantime.labels import imagenet_names
from meantime.prompting import prompter

SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
TINY = Backbone("tiny", text=SMALL, vision={**SMALL, "image_size": 32, "patch_size": 8}, dim=16)


@pytest.fixture(scope="module")
def encoder():
    made = backbones.make(TINY)
    with torch.no_grad():  # random towers are nearly deaf: make what they say depend on what they read
        for parameter in made.model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made


@pytest.fixture
def task(tmp_path, monkeypatch, encoder):
    """An export takes seconds; PyTorch stands for it here."""
    monkeypatch.setattr(systems, "load_encoder", lambda name: encoder)
    monkeypatch.setenv("MEANTIME_CACHE", "restored after the test")
    return Task(TINY, "nowhere", tuple(figure2.pictures(tmp_path, 2)), imagenet_names()[:5], views=12)


@pytest.mark.parametrize("system", [systems.clip, systems.mta, systems.tpt, authors_pipeline.mta, authors_tpt.tpt])
def test_every_stage_is_timed(task, system):
    timing = system(task)
    of_text = system in (systems.tpt, authors_pipeline.mta, authors_tpt.tpt)
    assert timing.stages.keys() == set(STAGES)
    assert all(timing.stages[name] > 0 for name in STAGES if name != "text" or of_text)
    assert timing.seconds > 0
    assert (timing.once > 0) == system.__module__.startswith("meantime")
    assert (timing.stages["text"] > 0) == of_text


def test_a_backbone_is_exported_with_the_weights_that_every_process_makes(monkeypatch, tmp_path):
    kept = []
    monkeypatch.setattr("meantime.export.export", lambda encoder, directory: kept.append((encoder, directory)))
    backbones.export_to((TINY, str(tmp_path)))
    ((made, directory),) = kept
    assert directory == tmp_path
    assert made.identity == backbones.make(TINY).identity


def test_the_sizes_are_the_published_ones():
    for name, millions in {"ViT-B/32": 151.277313, "ViT-B/16": 149.620737, "ViT-L/14": 427.616513}.items():
        with torch.device("meta"):
            model = transformers.CLIPModel(backbones.config_of(BACKBONES[name]))
        assert sum(p.numel() for p in model.parameters()) == round(1e6 * millions)


def test_the_random_models_read_every_name_word_by_word(encoder):
    ids, _ = encoder.texts.tokenize([f"a photo of a {name}." for name in imagenet_names()])
    assert not (ids == 0).any()
    assert ids.shape[1] < encoder.texts.context_length == 77
    assert set(ids[:, 0]) == {backbones.START}
    assert (ids == backbones.END).any(axis=1).all()


def test_the_baseline_encodes_what_we_encode(encoder, task):
    prompts = [f"a photo of a {name}." for name in task.names]
    unit = torch.nn.functional.normalize(torch.tensor(encoder.encode_texts(prompts)), dim=-1)
    ids = authors_pipeline.tokens(encoder, prompts)
    assert ids.shape == (5, 77)
    with torch.no_grad():
        torch.testing.assert_close(authors_pipeline.encode_texts(encoder, ids), unit, atol=1e-5, rtol=0)
        image = Image.open(task.images[0]).convert("RGB")
        pixels = authors_pipeline.crops(image, task, encoder)
        assert pixels.shape == (12, 3, 32, 32)
        views = authors_pipeline.encode_images(encoder, pixels)
    torch.testing.assert_close(views.norm(dim=-1), torch.ones(12))
    timing = Timing()
    (ours,) = systems.embed(task, encoder, task.images[0], timing, 1)
    assert float(views[0] @ torch.tensor(ours[0])) > 0.999  # view 0 is the same picture


def test_the_baseline_of_tpt_takes_the_step_that_our_head_takes(encoder, task):
    prompts = [f"a photo of a {name}." for name in task.names]
    ids = authors_pipeline.tokens(encoder, prompts)
    plain = torch.nn.functional.normalize(torch.tensor(encoder.encode_texts(prompts)), dim=-1)
    start = authors_tpt.token_embedding(encoder)(ids[0, 1:5]).detach()
    torch.testing.assert_close(authors_tpt.prompted(encoder, ids, start), plain, atol=1e-5, rtol=0)
    views = torch.nn.functional.normalize(torch.randn(20, 16, generator=torch.Generator().manual_seed(1)), dim=-1)
    context = authors_tpt.tuned(encoder, ids, views)
    with torch.no_grad():
        tuned = authors_tpt.prompted(encoder, ids, context)
    head = TPTHead(prompter(encoder, task.names), encoder.logit_scale).adapt(views.numpy())
    np.testing.assert_allclose(tuned.numpy(), head.classes, atol=1e-4)
    assert float((tuned - plain).abs().max()) > 1e-3


def test_a_process_of_its_own():
    three = isolated("builtins:len", "abc")
    assert three.value == 3
    assert three.peak > 1
    assert isolated("os:_exit", 3).error == "died with 3"
    assert "out of memory" in isolated("signal:raise_signal", 9).error
    wrong = isolated("meantime.bench.backbones:backbones_named", ["ViT-B/17"]).error
    assert "no backbone 'ViT-B/17'" in wrong


def test_peak_memory_sees_what_was_held_and_forgets_it():
    forget_peak()
    before = peak()
    np.ones(25_000_000)  # 190 MiB, held and let go
    assert peak() - before > 150
    forget_peak()
    assert peak() - before < 100


def rows_of(missing=True):
    def row(system, seconds, peak_, **stages):
        return Measured(
            "ViT-B/16", 1000, system, 2, 64, Timing(seconds, {**dict.fromkeys(STAGES, 0.0), **stages}), peak_
        )

    rows = [row("CLIP", 0.1, 500, encode=0.09), row("TPT", 30, 6000, encode=4), row("MTA", 4, 800, encode=3.8)]
    baselines = [row(runtime.MTA, 20, 2400, encode=6, text=14), row(runtime.TPT, 60, 6400)]
    gone = [Measured("RN50", 1000, "MTA", 2, 64, missing="needs the extra 'open-clip': meantime[open-clip]")]
    return rows + baselines + gone * missing


def test_measure_asks_each_system_once_for_every_backbone_and_number_of_classes(monkeypatch):
    asked = []

    def here(function, argument):
        asked.append((function, argument))
        if function.endswith("export_to"):
            return Isolated(error="no open_clip") if argument[0].name == "RN50" else Isolated()
        return Isolated(Timing(1.0), 100.0)

    monkeypatch.setattr(figure2, "isolated", here)
    rows = figure2.measure([TINY, BACKBONES["RN50"]], [10, 5], ["a.jpg"], views=4)
    assert [(r.backbone, r.classes, r.system) for r in rows] == [
        (b, k, s) for b in ("tiny", "RN50") for k in (10, 5) for s in ("CLIP", "TPT", "MTA")
    ]
    assert {r.missing for r in rows if r.timing is None} == {"no open_clip"}
    tasks = [argument for function, argument in asked if function == "meantime.bench.systems:mta"]
    assert [(len(t.names), t.views, t.images) for t in tasks] == [(10, 4, ("a.jpg",)), (5, 4, ("a.jpg",))]
    with pytest.raises(MeantimeError, match="expected 2 to 1000"):
        figure2.measure([TINY], [1001], ["a.jpg"])


def test_the_table_says_what_is_missing_and_why(tmp_path):
    rows = rows_of()
    assert rows[2].beside_encoder == pytest.approx(0.05)
    assert np.isnan(rows[-1].beside_encoder)
    paths = figure2.write(rows, tmp_path / "out")
    markdown, table, data = (path.read_text() for path in paths)
    assert "| ViT-B/16 | 1000 | MTA | 4 | 0 | 0 | 3.8 | 0 | 0 | 0 | 5 % | 800 |" in markdown
    assert "RN50 is missing: needs the extra 'open-clip': meantime[open-clip]." in markdown
    assert len(table.splitlines()) == 7
    assert json.loads(data)[2]["timing"]["seconds"] == 4
    noted = replace(rows[1], timing=replace(rows[1].timing, note="in chunks"))
    assert "TPT: in chunks." in figure2.remarks([noted])
    said = "ViT-B/16, 1000 classes: TPT / MTA 7.5 in time, 7.5 in memory (paper: nearly 3 in time)."
    assert said in figure2.remarks(rows)
    assert said in markdown
    assert figure2.ratios(rows[:2]) == []


def test_tpt_tunes_all_images_together_and_says_how_many_prompts_at_a_time(task, monkeypatch):
    tuned = []
    adapt = TPTHead.adapt
    monkeypatch.setattr(TPTHead, "adapt", lambda head, views: tuned.append(views.shape) or adapt(head, views))
    assert systems.tpt(task).note == ""  # five names
    assert tuned == [(2, 12, 16)]
    assert systems.tpt(replace(task, names=tuple(imagenet_names()[:70]))).note == "prompts 64 at a time"
    with pytest.raises(MeantimeError, match="nowhere"):
        systems.tpt(replace(task, images=("nowhere.jpg",)))


def test_the_figure_has_a_bar_for_every_system(tmp_path):
    path = figure2.draw(rows_of(), tmp_path / "figure2.png")
    assert Image.open(path).size[0] > 500
    with pytest.raises(MeantimeError, match="nothing to draw"):
        figure2.draw(rows_of()[-1:], path)


def test_ratios_to_the_baselines():
    text = "\n".join(runtime.ratios(rows_of()))
    assert "MTA against MTA, authors' structure: 5.0 times as fast (to reach: 3.5), 3.0 times less memory" in text
    assert "MTA against TPT, authors' structure: 15.0 times as fast (to reach: 8), 8.0 times less memory" in text
    assert "5.0 % of MTA is not the encoder (at most 10)" in text


def test_the_command(tmp_path, monkeypatch):
    asked = {}

    def measured(chosen, classes, images, **options):
        asked.update(names=[b.name for b in chosen], classes=classes, images=len(images))
        return rows_of()

    monkeypatch.setattr(figure2, "measure", measured)
    run = ["bench", "figure2", "--large", "--images", "3", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, run, catch_exceptions=False)
    assert result.exit_code == 0
    assert asked == {"names": [*BACKBONES], "classes": [1000, 100], "images": 3}
    assert "meantime[open-clip]" in result.output
    assert f"figure2 in {tmp_path}: figure2.md, figure2.csv, figure2.json, figure2.png" in result.output
    for wrong in (["--backbone", "ViT"], ["--classes", "many"], ["--images", "0"]):
        with pytest.raises(MeantimeError, match=r"expected|there is no backbone"):
            CliRunner().invoke(app, ["bench", "figure2", *wrong], catch_exceptions=False)


def test_a_resnet_needs_open_clip(monkeypatch):
    real = extras.importlib.import_module

    def without(name):
        if name == "open_clip":
            raise ImportError(name=name)
        return real(name)

    monkeypatch.setattr(extras.importlib, "import_module", without)
    with pytest.raises(MeantimeError, match=r"meantime\[open-clip\]"):
        backbones.make(BACKBONES["RN50"])
