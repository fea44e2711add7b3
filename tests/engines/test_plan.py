"""`meantime plan`: arithmetic that is compared with a real store, and assumptions that are stated."""

import pytest
from toy import ToyEncoder

from meantime import MeantimeError, ViewSpec
from meantime.cli import main
from meantime.plan import DEVICES, MODELS, UTILISATION, RunPlan, assumed_rate, measured_rate, model_facts


def test_hours_and_devices():
    run = RunPlan(images=1e9, views=64, dim=512, views_per_second=3600, hours=100)
    assert run.device_hours == pytest.approx(1e9 * 64 / 3600 / 3600)
    assert (run.devices - 1) * 100 < run.device_hours <= run.devices * 100
    half = run.with_views(32)
    assert half.device_hours == run.device_hours / 2
    assert half.terabytes == pytest.approx(run.terabytes / 2, rel=0.01)
    assert RunPlan(1, 1, 512, 1e3).devices == 1


def test_the_storage_of_a_plan_is_that_of_a_store(encode):
    store = encode("store", shard_size=12)  # 11 images of 5 views of 3 dimensions: mostly what is not counted
    wide = RunPlan(1, 64, 512, 1).image_bytes
    assert wide == pytest.approx(64 * (1024 + 4 + 16 + 0.125) + 150)
    per_image = RunPlan(1, 5, 3, 1).image_bytes
    assert store.manifest.shards[0].bytes > per_image * len(store) * 0.8


def test_models_are_known_by_all_their_names():
    for name in ("ViT-B-16", "ViT-B-16:openai", "hf:openai/clip-vit-base-patch16", "ViT-B-16-quickgelu:dfn2b"):
        assert model_facts(name) == MODELS["ViT-B-16"]
    with pytest.raises(MeantimeError, match=r"'no-such'.*known: embedded.*--measure"):
        model_facts("no-such")
    with pytest.raises(MeantimeError, match=r"'abacus'.*known: cpu"):
        assumed_rate(1.0, "abacus")


def test_the_cost_of_a_transformer_is_its_matrix_products():
    """ViT-B/16 and L/14 by hand: patches, 4 products of attention, 2 of attention itself, 2 of the perceptron."""
    for name, layers, width, tokens, patch in (
        ("ViT-B-16", 12, 768, 197, 16),
        ("ViT-B-32", 12, 768, 50, 32),
        ("ViT-L-14", 24, 1024, 257, 14),
    ):
        layer = tokens * 12 * width**2 + 2 * tokens**2 * width
        products = layers * layer + (tokens - 1) * 3 * patch**2 * width
        assert MODELS[name][0] == pytest.approx(2 * products / 1e9, rel=0.02)
    assert assumed_rate(35.1, "a100") == pytest.approx(DEVICES["a100"] * 1e12 * UTILISATION / 35.1e9)


def test_a_rate_is_measured_by_the_pipeline():
    encoder = ToyEncoder()
    rate = measured_rate(encoder, ViewSpec(n=4), seconds=0.05)
    assert rate > 0
    assert sum(encoder.batches) >= 4


def test_the_command(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["meantime", "plan", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code or 0, *capsys.readouterr()

    monkeypatch.setenv("COLUMNS", "160")
    code, out, _ = run("--images", "1e9", "--model", "ViT-B-16", "--views", "64", "--device", "a100", "--anytime", "20")
    assert code == 0
    for fact in ("1,000,000,000 images", "5,000.0", "30", "anytime, 20", "69%", "40% of a peak of 312 TFLOPS", "67"):
        assert fact in out
    code, out, _ = run("--images", "36e5", "--views", "1", "--views-per-second", "1000", "--price", "3")
    assert code == 0
    assert "1.0" in out
    assert "3" in out
    assert "as given" in out
    assert run("--images", "0")[0] == 2
    code, _, err = run("--images", "1", "--views-per-second", "0")
    assert (code, "--views-per-second is 0; expected more" in err) == (2, True)
    assert "known: embedded" in run("--images", "1", "--model", "x")[2]
