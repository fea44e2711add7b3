"""What all encoders of PyTorch share: batches, memory layout, compilation."""

import zipfile

import numpy as np
import pytest
import torch

from meantime.encoders.open_clip import is_torchscript
from meantime.encoders.torch_towers import CPU_BATCH, Texts, TorchEncoder
from meantime.errors import MeantimeError
from meantime.preprocess import Preprocess
from meantime.views import ViewSpec, make_views
from meantime.views.torch_crops import Feed

PRE = Preprocess(size=8, resize=8, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))


class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = torch.nn.Conv2d(3, 5, 4, stride=4)
        self.rows = []

    def image(self, pixels):
        self.rows.append(len(pixels))
        return self.patches(pixels).mean(dim=(2, 3))


def load(**options):
    torch.manual_seed(0)
    model = Tiny()
    return TorchEncoder(
        model,
        name="tiny",
        description="tiny",
        image_tower=model.image,
        text_tower=lambda ids, mask: torch.nn.functional.one_hot(ids[:, 0], 5).float(),
        texts=Texts(lambda texts: (np.array([[len(t) % 5] for t in texts]), None), 1, "longest", 0, str),
        preprocess=PRE,
        logit_scale=10.0,
        **options,
    )


@pytest.fixture
def encoder():
    return load()


def pixels(n):
    return np.random.default_rng(n).integers(0, 256, (n, 8, 8, 3), np.uint8)


def by_hand(model, x):
    """Normalised, cut into four patches, each a product with the kernel; in float64."""
    x = (x / 255 - PRE.mean) / PRE.std
    kernel = model.patches.weight.detach().numpy().astype(np.float64)  # (5, 3, 4, 4)
    patches = x.reshape(len(x), 2, 4, 2, 4, 3)
    return np.einsum("nahbwc,kchw->nk", patches, kernel) / 4 + model.patches.bias.detach().numpy()


@pytest.mark.parametrize("n", [0, 1, CPU_BATCH, 2 * CPU_BATCH + 5])
def test_images_of_any_number(encoder, n):
    out = encoder.encode_images(pixels(n))
    assert (out.shape, out.dtype) == ((n, 5), np.float32)
    np.testing.assert_allclose(out, by_hand(encoder.model, pixels(n)), rtol=1e-4, atol=1e-5)
    assert sum(encoder.model.rows) == n
    assert max(encoder.model.rows, default=0) <= CPU_BATCH


def test_convolutions_and_pixels_have_their_channels_last(encoder):
    assert encoder.model.patches.weight.is_contiguous(memory_format=torch.channels_last)
    assert encoder.normalise(torch.tensor(pixels(2))).is_contiguous(memory_format=torch.channels_last)


def test_the_layout_is_no_part_of_the_identity(encoder):
    before = encoder.identity
    encoder.model.to(memory_format=torch.contiguous_format)
    del encoder.__dict__["identity"]
    assert encoder.identity == before


def test_a_compiled_tower_gives_the_same(encoder):
    expected = encoder.encode_images(pixels(3))
    assert encoder.compile(backend="eager") is encoder
    np.testing.assert_allclose(encoder.encode_images(pixels(3)), expected, rtol=1e-5)


def test_read_only_pixels_pass_without_a_warning(encoder, recwarn):
    frozen = pixels(2)
    frozen.flags.writeable = False
    encoder.encode_images(frozen)
    assert not recwarn.list


def test_views_are_cut_on_the_device_only_if_it_is_a_gpu(encoder):
    assert encoder.cut is None


def test_tensors_are_encoded_like_arrays(encoder):
    x = pixels(2 * CPU_BATCH + 5)
    np.testing.assert_array_equal(encoder.encode_images(torch.tensor(x)), encoder.encode_images(x))
    assert max(encoder.model.rows) <= CPU_BATCH
    assert encoder.encode_images(torch.tensor(x[:0])).shape == (0, 5)
    for wrong in (torch.tensor(x).float(), torch.tensor(x)[:, :4], torch.tensor(x)[0]):
        with pytest.raises(MeantimeError, match=r"expects \(n, 8, 8, 3\) of type uint8"):
            encoder.encode_images(wrong)


def test_crops_that_stay_on_the_device_give_pillows_embeddings(encoder):
    image = np.random.default_rng(0).integers(0, 256, (50, 60, 3), np.uint8)
    cut, plain = (
        make_views(image, ViewSpec(9, exact=exact), PRE, cut=Feed("cpu").cut).pixels for exact in (False, True)
    )
    assert isinstance(cut, torch.Tensor)
    assert isinstance(plain, np.ndarray)
    a, b = encoder.encode_images(cut), encoder.encode_images(plain)
    np.testing.assert_allclose(a, b, atol=0.02)
    assert cosine(a, b) > 0.999


def cosine(a, b):
    return ((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min()


def test_mixed_precision_keeps_the_weights_and_nearly_the_embeddings(encoder):
    seen = []
    mixed = load(precision="amp", device="cpu")
    tower = mixed.image_tower
    mixed.image_tower = lambda x: seen.append(tower(x).dtype) or tower(x)
    a, b = encoder.encode_images(pixels(9)), mixed.encode_images(pixels(9))
    assert b.dtype == mixed.encode_texts(["a"]).dtype == np.float32
    assert set(seen) == {torch.bfloat16}
    assert (a != b).any()
    assert cosine(a, b) > 0.999
    assert mixed.model.patches.weight.dtype == torch.float32
    assert (encoder.precision, mixed.precision) == ("fp32", "amp")


def test_each_precision_is_an_encoder_of_its_own(encoder):
    others = [load(precision=precision, device="cpu") for precision in ("fp32", "bf16", "fp16", "amp")]
    assert len({e.identity for e in (encoder, *others)}) == 4
    assert [e.precision for e in others] == ["fp32", "bf16", "fp16", "amp"]


def test_mixed_precision_needs_a_device_that_has_it(monkeypatch):
    monkeypatch.setattr(torch.amp, "is_autocast_available", lambda device: False)
    with pytest.raises(MeantimeError, match=r"no autocast for the device 'cpu'.*choose one of fp32, fp16, bf16"):
        load(precision="amp")


def test_openais_own_files_are_told_from_weights_alone(tmp_path):
    """They are programs of TorchScript, and trained with QuickGELU whatever name they are loaded under."""
    model = torch.nn.Linear(2, 3)
    with zipfile.ZipFile(tmp_path / "openai.pt", "w") as archive:  # what torch.jit.save writes
        for name in ("data.pkl", "code/__torch__/model.py", "constants.pkl", "version"):
            archive.writestr(f"openai/{name}", "")
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    (tmp_path / "torn.pt").write_bytes(b"PK")
    files = ("openai.pt", "weights.pt", "torn.pt", "nowhere.pt")
    assert [is_torchscript(str(tmp_path / name)) for name in files] == [True, False, False, False]
