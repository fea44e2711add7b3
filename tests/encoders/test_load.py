import pytest
import torch

from meantime.encoders import OnnxEncoder, list_encoders, load_encoder
from meantime.encoders.torch_towers import choose_device
from meantime.errors import MeantimeError


def test_by_name(tiny):
    assert load_encoder().name == "embedded"
    encoder = load_encoder(f"onnx:{tiny}", threads=1)
    assert isinstance(encoder, OnnxEncoder)
    assert (encoder.dim, encoder.threads) == (4, 1)
    assert encoder.identity.startswith("onnx-")


def test_an_encoder_passes_through(tiny):
    encoder = OnnxEncoder(tiny)
    assert load_encoder(encoder) is encoder


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("embeded", "Did you mean 'embedded'?"),
        ("resnet", "unknown encoder 'resnet'"),
        ("onnx:", "needs a directory"),
        ("embedded:x", "takes no argument"),
        (None, "type NoneType given"),
    ],
)
def test_unknown_names(name, message):
    with pytest.raises(MeantimeError) as error:
        load_encoder(name)
    assert message in str(error.value)


def test_list():
    first, *rest = list_encoders()
    assert (first.name, first.dim, first.installed) == ("embedded", 384, True)
    assert first.size_mb is not None
    assert 20 < first.size_mb <= 40
    assert rest[0].name == "onnx:DIR"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("embedded", {"threads": -1}, "threads is -1; expected at least 1"),
        ("embedded", {"pretrained": "openai"}, "only names of open_clip take it"),
        ("hf:x/y", {"pretrained": "openai"}, "only names of open_clip take it"),
        ("http://localhost:1", {"dimm": 3}, "knows no dimm; known: dim, size"),
        ("http://[bad", {}, "is no address"),
    ],
)
def test_options_that_mean_nothing_are_refused(name, options, message):
    with pytest.raises(MeantimeError) as error:
        load_encoder(name, **options)
    assert message in str(error.value)


def test_an_encoder_that_is_not_whole_is_told_what_it_lacks(tiny):
    class Half:
        name = dim = "half"
        encode_images = encode_texts = print

    with pytest.raises(MeantimeError, match="type Half lacks identity, logit_scale, preprocess; an encoder has name,"):
        load_encoder(Half())


def test_a_whole_encoder_is_not_asked_before_it_must(tiny):
    encoder = OnnxEncoder(tiny)
    load_encoder(encoder)
    assert "identity" not in vars(encoder)  # a hash of all its files


@pytest.mark.parametrize("device", ["cpu:abc", "cpu:", "gpu", "cuda:-1"])
def test_devices_that_do_not_exist(device):
    with pytest.raises(MeantimeError, match="unknown device"):
        choose_device(device)


def test_a_gpu_beyond_those_there_are(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == "cuda:1"
    with pytest.raises(MeantimeError, match="no device 'cuda:9'; PyTorch counts 2"):
        choose_device("cuda:9")
