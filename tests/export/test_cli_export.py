"""`meantime export`, `meantime models` and `--precision`, as a user types them."""

import pytest
from tiny_models import photo, save
from typer.testing import CliRunner

from meantime.cli import app
from meantime.errors import MeantimeError


@pytest.fixture
def meantime(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        return CliRunner().invoke(app, [str(a) for a in arguments])

    return run


def test_from_a_saved_model_to_a_classification_without_it(meantime, tmp_path):
    save("siglip", tmp_path / "model")
    photo().save(tmp_path / "x.png")
    run = meantime("export", "--model", "hf:model", "onnx")
    assert run.exit_code == 0, run.output
    assert "largest difference to the original" in run.output
    classify = ("classify", "x.png", "--labels", "cat,dog", "--views", 4)
    for options in (["onnx:onnx"], ["hf:model"], ["hf:model", "--precision", "bf16", "--device", "cpu"]):
        run = meantime(*classify, "--model", *options)
        assert "1 classified" in run.output
    assert isinstance(meantime("export", "--model", "embedded", "onnx").exception, MeantimeError)


def test_models_are_listed_with_where_they_are(meantime):
    listed = meantime("models").output
    assert all(word in listed for word in ("embedded", "ViT-B-16:openai", "598", "download", "meantime[open-clip]"))


def test_only_float32_is_kept_in_the_models_place(meantime):
    error = meantime("export", "--model", "hf:some/where", "--weights", "int8").exception
    assert isinstance(error, MeantimeError)
    assert "say where its int8 export is to go" in str(error)
