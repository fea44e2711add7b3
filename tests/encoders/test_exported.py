"""An export that is kept takes its model's place on a CPU."""

import shutil

import numpy as np
import pytest
from tiny_models import photo, save

import meantime as mt
from meantime.encoders import OnnxEncoder, export_folder, exported
from meantime.errors import MeantimeError
from meantime.export import export

NAME = "hf:somebody/tiny"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The export of a small model, kept under a published name; and the model itself."""
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "cache"))
    save("clip", tmp_path / "model")
    original = mt.load_encoder(f"hf:{tmp_path / 'model'}", device="cpu")
    export(original, export_folder(NAME))
    return original


def test_it_answers_under_the_models_name(kept):
    encoder = mt.load_encoder(NAME)
    assert isinstance(encoder, OnnxEncoder)
    assert encoder.name == NAME
    answers = [mt.Classifier(["cat", "dog"], e, views=4)(photo()).probabilities for e in (encoder, kept)]
    np.testing.assert_allclose(*answers, atol=1e-4)


def test_pytorch_can_still_be_asked_for(kept, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for options in ({"device": "cpu"}, {"precision": "bf16"}):  # the model itself: this hub name does not exist
        with pytest.raises(MeantimeError):
            mt.load_encoder(NAME, **options)
    monkeypatch.setattr(exported, "choose_device", lambda device: "cuda")  # a GPU is faster
    assert exported.stand_in(NAME, None) is None


def test_what_lies_on_the_disk_may_change_and_is_not_kept(kept, tmp_path):
    with pytest.raises(MeantimeError, match="say where its export is to go"):
        export_folder(f"hf:{tmp_path / 'model'}")


def test_rounded_weights_do_not_stand_in(kept):
    folder = export_folder(NAME)
    assert exported.stand_in(NAME, None) is not None
    shutil.rmtree(folder)
    export(kept, folder, weights="int8")
    assert exported.stand_in(NAME, None) is None
    assert mt.load_encoder(f"onnx:{folder}").weights == "int8"
