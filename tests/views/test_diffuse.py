"""Pictures made by diffusion: with a tiny pipeline, saved in diffusers' own format and loaded by its path."""

import json
from types import SimpleNamespace

import diffusers
import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from toy import picture
from typer.testing import CliRunner

from meantime.cli import app
from meantime.datasets import load_dataset
from meantime.errors import MeantimeError
from meantime.store import open_store
from meantime.views.diffuse import Settings, diffuse, load_variations, picture_seed


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """An untrained image-variation pipeline of 32 x 32 pictures."""
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    vision = transformers.CLIPVisionConfig(
        hidden_size=16, intermediate_size=16, projection_dim=16, num_hidden_layers=1, num_attention_heads=2,
        image_size=16, patch_size=8,
    )  # fmt: skip
    unet = diffusers.UNet2DConditionModel(
        sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16, attention_head_dim=4, norm_num_groups=4,
    )  # fmt: skip
    vae = diffusers.AutoencoderKL(
        block_out_channels=(8, 8), in_channels=3, out_channels=3, latent_channels=4, norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    diffusers.StableDiffusionImageVariationPipeline(
        vae=vae,
        image_encoder=transformers.CLIPVisionModelWithProjection(vision),
        unet=unet,
        scheduler=diffusers.DDIMScheduler(),
        safety_checker=None,
        feature_extractor=transformers.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size=16),
        requires_safety_checker=False,
    ).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def pipe(model):
    return load_variations(model, device="cpu")


@pytest.fixture
def data(tmp_path):
    for colour in ("red", "blue"):
        path = tmp_path / "data" / colour / "1.png"
        path.parent.mkdir(parents=True)
        Image.fromarray(picture(colour)).save(path)
    return load_dataset(str(tmp_path / "data"))


def settings(model, **changes):
    return Settings(**{"model": model, "steps": 2, **changes})


def pixels(folder):
    return {str(p.relative_to(folder)): np.asarray(Image.open(p)).astype(int) for p in sorted(folder.rglob("*.png"))}


def test_pictures_of_an_image_lie_in_a_folder_named_like_it(model, pipe, data, tmp_path):
    made = diffuse(data, tmp_path / "out", pipe, settings(model), count=3, batch=2)
    assert (made.pictures, made.kept, made.errors) == (6, 0, [])
    found = pixels(tmp_path / "out")
    assert list(found) == [f"{colour}/1/00{i}.png" for colour in ("blue", "red") for i in range(3)]
    assert {values.shape for values in found.values()} == {(32, 32, 3)}
    assert not list((tmp_path / "out").rglob(".*"))
    different = list(found.values())
    assert all(np.abs(a - b).mean() > 1 for i, a in enumerate(different) for b in different[:i])


def test_a_picture_belongs_to_its_seed_and_not_to_the_batch(model, pipe, data, tmp_path):
    for name, batch, seed in (("a", 1, 0), ("b", 3, 0), ("c", 1, 1)):
        diffuse(data, tmp_path / name, pipe, settings(model, seed=seed), count=3, batch=batch)
    a, b, c = (pixels(tmp_path / name) for name in "abc")
    for name in a:
        assert np.abs(a[name] - b[name]).max() <= 2  # rounding
        assert np.abs(a[name] - c[name]).mean() > 1


def test_the_image_and_the_guidance_are_heard(pipe, model, data, tmp_path):
    for name, guidance in (("weak", 1.5), ("strong", 7.5)):
        diffuse(data, tmp_path / name, pipe, settings(model, guidance=guidance), count=1)
    weak, strong = pixels(tmp_path / "weak"), pixels(tmp_path / "strong")
    assert all(np.abs(weak[name] - strong[name]).max() > 0 for name in weak)


def test_an_interrupted_run_goes_on_and_ends_with_the_same_pictures(model, pipe, data, tmp_path):
    whole, part = tmp_path / "whole", tmp_path / "part"
    diffuse(data, whole, pipe, settings(model), count=4, batch=1)
    calls = []

    def failing(**arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return pipe(**arguments)

    with pytest.raises(KeyboardInterrupt):
        diffuse(data, part, failing, settings(model), count=4, batch=1)
    assert len(pixels(part)) == 2
    torn = part / "blue" / "1" / "000.png"
    torn.write_bytes(torn.read_bytes()[:200])
    before = (part / "blue" / "1" / "001.png").stat().st_mtime_ns
    made = diffuse(data, part, pipe, settings(model), count=4, batch=1)
    assert (made.pictures, made.kept) == (7, 1)
    assert (part / "blue" / "1" / "001.png").stat().st_mtime_ns == before
    a, b = pixels(whole), pixels(part)
    assert a.keys() == b.keys()
    assert all((a[name] == b[name]).all() for name in a)


def test_an_unreadable_image_does_not_stop_the_others(model, pipe, data, tmp_path):
    (tmp_path / "data" / "blue" / "1.png").write_bytes(b"no image")
    made = diffuse(data, tmp_path / "out", pipe, settings(model), count=1)
    assert made.pictures == 1
    assert "is not an image" in made.errors[0]


def test_pictures_made_otherwise_are_not_mixed_in(model, pipe, data, tmp_path):
    diffuse(data, tmp_path / "out", pipe, settings(model), count=1)
    with pytest.raises(MeantimeError, match=r"made with guidance 3\.0, not 5\.0; seed 0, not 1; take another folder"):
        diffuse(data, tmp_path / "out", pipe, settings(model, guidance=5.0, seed=1), count=1)
    (tmp_path / "out" / "diffusion.json").write_text("{")
    with pytest.raises(MeantimeError, match=r"diffusion\.json' is damaged"):
        diffuse(data, tmp_path / "out", pipe, settings(model), count=1)


@pytest.mark.parametrize(("black", "pictures"), [(2, 1), (9, 0)])
def test_a_picture_that_the_safety_checker_blacks_out_is_made_anew(data, tmp_path, black, pictures):
    seeds = []

    def checked(image, generator, **_):
        seeds.append(generator[0].initial_seed())
        return SimpleNamespace(images=image, nsfw_content_detected=[len(seeds) <= black])

    only = data.samples[0]
    one = load_dataset(str(tmp_path / "data"))
    object.__setattr__(one, "samples", type(one.samples)([only.source], [only.label], [only.key]))
    made = diffuse(one, tmp_path / "out", checked, Settings("none"), count=1)
    assert made.pictures == pictures
    assert len(set(seeds)) == len(seeds) == (3 if pictures else 5)
    assert [("refused picture 0 of" in error) for error in made.errors] == ([] if pictures else [True])


def test_seeds_differ_in_everything_that_they_belong_to():
    seeds = {picture_seed(s, d, n, a) for s in (0, 1) for d in (0, 2**100) for n in (0, 62) for a in (0, 1)}
    assert len(seeds) == 16
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_names_that_would_be_mixed_up(model, pipe, data, tmp_path):
    Image.fromarray(picture("red")).save(tmp_path / "data" / "red" / "1.jpg")
    with pytest.raises(MeantimeError, match="differ only in their extension"):
        diffuse(load_dataset(str(tmp_path / "data")), tmp_path / "out", pipe, settings(model))
    with pytest.raises(MeantimeError, match="expected at least 1"):
        diffuse(data, tmp_path / "out", pipe, settings(model), count=0)


def test_a_pipeline_that_is_not_there_or_of_another_kind(tmp_path, model):
    with pytest.raises(MeantimeError, match="cannot be loaded"):
        load_variations(str(tmp_path / "none"))
    other = tmp_path / "other"
    unet = diffusers.UNet2DModel(
        sample_size=8, block_out_channels=(8, 8), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2,
    )  # fmt: skip
    diffusers.DDPMPipeline(unet=unet, scheduler=diffusers.DDPMScheduler()).save_pretrained(other)
    with pytest.raises(MeantimeError, match="DDPMPipeline, which does not make variations"):
        load_variations(str(other), device="cpu")


def test_the_commands_from_photos_to_a_store(model, data, tmp_path):
    def run(*arguments):
        return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)

    made, store = tmp_path / "made", tmp_path / "store"
    options = ("--model", model, "--out", made, "--count", 2, "--steps", 1, "--device", "cpu")
    result = run("views", "diffuse", tmp_path / "data", *options, "--subset", 1)
    assert result.output.endswith(f"2 pictures made in {made}\n")
    result = run("views", "diffuse", tmp_path / "data", *options)
    assert result.output.endswith(f"2 pictures made in {made}, 2 were there\n")
    assert json.loads((made / "diffusion.json").read_text())["guidance"] == 3.0
    encode = ("encode", tmp_path / "data", "--diffusion", made, "--diffused", 2, "--views", 3)
    assert run(*encode, "--out", store).exit_code == 0
    assert open_store(store).n_views == 5
    assert run(*encode, "--out", tmp_path / "one", "--subset", 1).exit_code == 0
    assert len(open_store(tmp_path / "one")) == 1
