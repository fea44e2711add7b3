"""Whole fits: of the caches with a toy encoder, of the prompts with the embedded one."""

import json

import numpy as np
import pytest
from PIL import Image
from toy import ToyEncoder, picture
from typer.testing import CliRunner

import meantime as mt
from meantime import MeantimeError
from meantime.bench import Bench, Shelf
from meantime.bench.own import rows
from meantime.cli import app
from meantime.datasets import load_dataset
from meantime.encoders import EMBEDDED, OnnxEncoder
from meantime.fit import fit_head, head_info, import_prompt, load_head
from meantime.heads.named import photos_used
from meantime.labels import as_labels
from meantime.store.encode import encode_dataset


@pytest.mark.parametrize("kind", ["tip-adapter", "tip-adapter-f"])
def test_a_fit_is_saved_used_by_path_and_reproduced_to_the_bit(make_photos, encoder, tmp_path, kind):
    photos = make_photos()
    fitted = fit_head(kind, photos, encoder=encoder, shots=2, seed=3, out=tmp_path / "one")
    again = fit_head(kind, photos, encoder=encoder, shots=2, seed=3, out=tmp_path / "two", store=tmp_path / "fresh")
    for name in ("head.safetensors", "head.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    other = fit_head(kind, photos, encoder=encoder, shots=2, seed=4, out=tmp_path / "other")
    assert (other.head.keys != fitted.head.keys).any()
    assert fitted.info.settings["weights"] == "ensemble"
    assert len(again.info.draw["train"]) == 6
    classifier = mt.Classifier(["red", "green", "blue"], encoder, f"mta@{tmp_path / 'one'}", views=8)
    assert classifier(picture("green", seed=99)).label == "green"


def test_a_second_kind_encodes_nothing_again(make_photos, tmp_path):
    photos = make_photos()
    fit_head("tip-adapter", photos, encoder=ToyEncoder(), shots=2, out=tmp_path / "a")
    encoder = ToyEncoder()
    fit_head("tip-adapter-f", photos, encoder=encoder, shots=2, out=tmp_path / "b")
    assert encoder.batches == []


def test_labels_of_the_test_are_never_read(make_photos, encoder, tmp_path):
    """Photos that are not drawn may have any label, or be no images at all: the head is the same to the bit."""
    photos = make_photos()
    first = fit_head("tip-adapter-f", photos, encoder=encoder, shots=2, seed=0, out=tmp_path / "one")
    used = {key for keys in first.info.draw.values() for key in keys}
    changed = make_photos("changed/photos")
    spoiled = 0
    for path in sorted(changed.rglob("*.png")):
        if path.relative_to(changed).as_posix() not in used:
            path.write_bytes(b"no image")
            spoiled += 1
    assert spoiled == 9
    fit_head("tip-adapter-f", changed, encoder=encoder, shots=2, seed=0, out=tmp_path / "two", store=tmp_path / "own")
    assert (tmp_path / "one/head.safetensors").read_bytes() == (tmp_path / "two/head.safetensors").read_bytes()


def test_labels_of_a_test_split_are_never_read(make_photos, encoder, tmp_path):
    """With splits, a test split whose labels are all wrong changes nothing."""
    for name, test in (("right", "test"), ("wrong", "test")):
        make_photos(f"{name}/data/train")
        make_photos(f"{name}/data/val", 3, 3, 3)
        make_photos(f"{name}/data/{test}", 3, 3, 3)
    swapped = tmp_path / "wrong/data/test"
    (swapped / "red").rename(swapped / "x")
    (swapped / "blue").rename(swapped / "red")
    (swapped / "x").rename(swapped / "blue")
    for name in ("right", "wrong"):
        fit_head(
            "tip-adapter",
            tmp_path / name / "data",
            encoder=encoder,
            shots=4,
            out=tmp_path / f"h-{name}",
            store=tmp_path / f"s-{name}",
        )
    assert (tmp_path / "h-right/head.json").read_bytes() == (tmp_path / "h-wrong/head.json").read_bytes()


def test_text_weights_are_a_parameter_and_alpha_zero_is_zero_shot(make_photos, encoder, tmp_path):
    fitted = fit_head("tip-adapter", make_photos(), encoder=encoder, shots=2, weights="text", out=tmp_path / "h")
    plain = mt.Classifier(["blue", "green", "red"], encoder, "clip").heads["text"]
    np.testing.assert_allclose(fitted.head.classes, plain.classes, rtol=1e-5)
    assert fitted.info.settings["weights"] == "text"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "coo"}, "there are coop, prograd"),
        ({"weights": "best"}, "'ensemble' or 'text'"),
        ({"fresh": True}, "fresh crops are for coop"),
        ({"shots": 0}, "at least 1"),
        ({"epochs": 0}, "0 epochs were asked for"),
        ({"epochs": -3}, "expected at least 1"),
        ({"dataset": "nowhere"}, "neither a dataset nor a path"),
        ({"labels": ["red", "green", "blue", "pink"]}, "no training photo: 'pink'"),
        ({"labels": ["red", "green", "blue", "red"]}, "stands for several classes"),
    ],
)
def test_bad_input(make_photos, encoder, tmp_path, change, message):
    options = {"kind": "tip-adapter", "dataset": make_photos(), "shots": 2, "out": tmp_path / "h"} | change
    with pytest.raises(MeantimeError, match=message):
        fit_head(options.pop("kind"), options.pop("dataset"), encoder=encoder, **options)
    assert not (tmp_path / "h").exists()


def test_classes_without_a_photo_may_stand_by_their_texts(make_photos, encoder, tmp_path):
    names = ["red", "green", "blue", "pink"]
    fitted = fit_head(
        "tip-adapter", make_photos(), labels=names, partial=True, encoder=encoder, shots=2, out=tmp_path / "h"
    )
    assert fitted.head.n_classes == 4
    assert set(fitted.head.labels) == {0, 1, 2}


class Quiet(OnnxEncoder):
    """The embedded encoder's texts with images of three colours, so that a fit costs no network for pixels."""

    def encode_images(self, pixels):
        directions = np.random.default_rng(0).standard_normal((3, self.dim)).astype(np.float32)
        return (pixels.mean(axis=(1, 2)) / 255 - 0.4).astype(np.float32) @ directions


@pytest.fixture(scope="module")
def quiet():
    return Quiet(EMBEDDED, name="embedded", threads=1)


@pytest.mark.parametrize("kind", ["coop", "prograd"])
def test_a_prompt_is_fitted_saved_and_needs_no_text_tower_after(make_photos, quiet, tmp_path, kind):
    photos = make_photos()
    options = {"encoder": quiet, "shots": 2, "epochs": 6, "views": 5}
    fitted = fit_head(kind, photos, out=tmp_path / "one", **options)
    fit_head(kind, photos, out=tmp_path / "two", **options)
    assert (tmp_path / "one/head.safetensors").read_bytes() == (tmp_path / "two/head.safetensors").read_bytes()
    assert (fitted.info.m, fitted.info.settings["init"], fitted.info.settings["epochs"]) == (4, "words", 6)
    assert fitted.head.context.shape == (4, 384)
    x = np.eye(3, quiet.dim, dtype=np.float32)
    loaded = load_head(tmp_path / "one", encoder_identity=quiet.identity, classes=["red", "blue"])
    np.testing.assert_allclose(loaded(x), fitted.head(x)[:, [2, 0]], rtol=1e-4, atol=1e-5)


def test_a_prompt_is_carried_to_other_classes_and_tuned_from(make_photos, quiet, tmp_path):
    fitted = fit_head("coop", make_photos(), encoder=quiet, shots=1, epochs=2, views=3, out=tmp_path / "one")
    carried = import_prompt(
        tmp_path / "one", ["pink", "red"], tmp_path / "two", encoder=quiet, dataset="more", shots=None
    )
    np.testing.assert_allclose(carried.head.classes[1], fitted.head.classes[2], atol=1e-5)
    info = head_info(tmp_path / "two")
    assert info.draw == fitted.info.draw
    used = {key for keys in info.draw.values() for key in keys}
    labels = as_labels(["pink", "red"])
    for dataset, expected in (("photos", used), ("more", set())):  # no test may have the photos of the fit
        assert photos_used({str(tmp_path / "two")}, quiet, labels, dataset) == expected
    classifier = mt.Classifier(["pink", "red"], quiet, f"tpt@{tmp_path / 'two'}", views=10)
    assert classifier(picture("red")).label in ("pink", "red")


def test_a_published_prompt_file(quiet, make_photos, tmp_path):
    import torch

    context = torch.randn(4, 384)
    file = tmp_path / "model.pth.tar-50"
    torch.save({"state_dict": {"ctx": context, "token_prefix": torch.zeros(3, 1, 384)}, "epoch": 50}, file)
    result = import_prompt(file, ["red", "blue"], tmp_path / "h", encoder=quiet, dataset="colours")
    np.testing.assert_allclose(result.head.context, context)
    assert head_info(tmp_path / "h").shots is None
    torch.save({"state_dict": {"ctx": torch.randn(4, 512)}}, file)
    with pytest.raises(MeantimeError, match="another encoder"):
        import_prompt(file, ["red", "blue"], tmp_path / "h2", encoder=quiet, dataset="colours")


def test_the_command_takes_a_published_prompt_for_what_it_is(make_photos, tmp_path):
    import torch

    file, photos = tmp_path / "model.pth.tar-50", make_photos()
    torch.save({"state_dict": {"ctx": torch.randn(4, 384)}}, file)

    def fit(*arguments):
        return CliRunner().invoke(app, ["fit", *map(str, arguments)], catch_exceptions=False)

    assert fit("coop", photos, "--prompt-file", file, "--out", tmp_path / "a").exit_code == 0
    facts = head_info(tmp_path / "a")
    assert (facts.kind, facts.shots, facts.seed, facts.m) == ("coop", None, None, 4)
    fit("prograd", photos, "--prompt-file", file, "--shots", 4, "--seed", 2, "--out", tmp_path / "b")
    facts = head_info(tmp_path / "b")
    assert (facts.kind, facts.shots, facts.seed) == ("prograd", 4, 2)
    fit("prograd", photos, "--prompt-file", tmp_path / "b", "--out", tmp_path / "c")
    facts = head_info(tmp_path / "c")
    assert (facts.kind, facts.shots, facts.seed) == ("prograd", 4, 2)
    with pytest.raises(MeantimeError, match="is a prograd head; 'coop' was asked for"):
        fit("coop", photos, "--prompt-file", tmp_path / "b", "--out", tmp_path / "d")
    with pytest.raises(MeantimeError, match="coop or prograd; 'tip-adapter' was asked for"):
        fit("tip-adapter", photos, "--prompt-file", file, "--out", tmp_path / "d")


def test_fresh_crops(make_photos, quiet, tmp_path):
    fitted = fit_head("coop", make_photos(), encoder=quiet, shots=1, epochs=3, fresh=True, out=tmp_path / "h")
    assert fitted.info.settings["views"] == "fresh"
    assert not list((tmp_path / "heads" / "views").glob("*/manifest.json"))


def test_the_command_fits_and_says_what_it_did(tmp_path, monkeypatch):
    """Real photos through the embedded encoder: two classes of three, one each to train, validate and test."""
    monkeypatch.chdir(tmp_path)
    for name, colour in (("tomato", "red"), ("sea", "blue")):
        (tmp_path / "data" / name).mkdir(parents=True)
        for i in range(3):
            Image.fromarray(picture(colour, seed=i)).save(tmp_path / "data" / name / f"{i}.png")
    result = CliRunner().invoke(
        app, ["fit", "tip-adapter", "data", "--shots", "1", "--weights", "text", "--out", "mine"]
    )
    assert result.exit_code == 0, result.output
    assert "tip-adapter on data, 1 shot, seed 0, 2 classes" in result.output
    assert "drawn apart" in result.output
    assert "weights: text" in result.output
    assert "--method mta@mine" in result.output
    draw = json.loads((tmp_path / "mine/head.json").read_text())["draw"]
    assert (len(draw["train"]), len(draw["val"])) == (2, 2)
    photo = str(tmp_path / "data/sea/0.png")
    result = CliRunner().invoke(
        app, ["classify", photo, "--labels", "tomato,sea", "--method", "mta@mine", "--views", "4"]
    )
    assert result.exit_code == 0, result.output


def test_evaluate_leaves_out_what_a_head_was_fitted_on(make_photos, encoder, tmp_path):
    photos = make_photos()
    head = fit_head("tip-adapter", photos, encoder=encoder, shots=2, out=tmp_path / "h").path
    result = mt.Classifier(["red", "green", "blue"], encoder, f"mta@{head}", views=4).evaluate(photos)
    assert (result.n_images, result.left_out) == (9, 9)
    assert mt.Classifier(["red", "green", "blue"], encoder, "mta", views=4).evaluate(photos).left_out == 0


@pytest.mark.parametrize("divided", [False, True])
def test_the_bench_leaves_out_what_a_head_was_fitted_on_unless_it_was_another_split(
    make_photos, encoder, tmp_path, divided
):
    for split in ("train", "test") if divided else (".",):
        make_photos(f"photos/{split}")  # files of the same names in both splits
    fitted = fit_head("tip-adapter", tmp_path / "photos", encoder=encoder, shots=2, out=tmp_path / "head")
    data = load_dataset(str(tmp_path / "photos"))
    store = encode_dataset(data, tmp_path / "store", encoder, mt.ViewSpec(n=2))
    (measured,) = rows(Bench(Shelf([store]), tmp_path / "out", seeds=1), only=["clip", f"mta@{fitted.path}"])
    used = {key for keys in fitted.info.draw.values() for key in keys}
    for (predictions,) in measured.predictions.values():
        assert set(predictions.keys) == set(data.samples.keys) - (set() if divided else used)
    assert used
