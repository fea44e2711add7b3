import pytest

from meantime.encoders import OnnxEncoder, list_encoders, load_encoder
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
