import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from toy import ToyEncoder, picture

import meantime as mt
from meantime.answers import answers
from meantime.encoders import cache
from meantime.registry import training_free

NAMES = ["red", "green", "blue"]
EXAMPLES = Path(__file__).parents[1] / "examples" / "photos"


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_memory", {})


@pytest.fixture
def clf():
    return mt.Classifier(NAMES, ToyEncoder(), views=8)


def test_one_image_gives_one_prediction(clf):
    p = clf(picture("green"))
    assert p.label == "green"
    assert p.scores[0] == ("green", p.score)
    assert p.inlierness.shape == (8,)
    assert p.boxes.shape == (8, 4)
    assert p.to_dict(top=2)["scores"][0]["label"] == "green"
    assert len(p.to_dict(top=2)["scores"]) == 2


def test_file_pil_and_array_agree(clf, tmp_path):
    array = picture("red")
    path = tmp_path / "x.png"
    Image.fromarray(array).save(path)
    of_file, of_pil, of_array = clf([str(path), Image.fromarray(array), array])
    for other in (of_pil, of_array):
        np.testing.assert_allclose(other.probabilities, of_file.probabilities, rtol=1e-5)
        np.testing.assert_array_equal(other.boxes, of_file.boxes)
    assert (of_file.path, of_array.path) == (str(path), None)


def test_a_list_is_its_images_one_by_one_in_any_order(clf):
    images = [picture(c, seed=i) for i, c in enumerate(NAMES * 4)]
    together = clf(images)
    for image, p, q in zip(images, together, reversed(clf(images[::-1])), strict=True):
        np.testing.assert_allclose(clf(image).probabilities, p.probabilities, rtol=1e-4)
        np.testing.assert_array_equal(p.boxes, q.boxes)


def test_an_unreadable_image_does_not_stop_the_others(clf, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no image")
    first, second, third = clf([picture("red"), str(bad), picture("blue")])
    assert (first.label, second.label, third.label) == ("red", None, "blue")
    assert "bad.jpg" in second.error
    assert second.to_dict()["error"] == second.error
    with pytest.raises(mt.ImageError, match=r"bad\.jpg"):
        clf(str(bad))


@pytest.mark.parametrize(("method", "views"), [("clip", 8), ("clip", "auto"), ("clip+e", 8)])
def test_a_method_that_reads_the_original_alone_encodes_no_other_view(method, views):
    image = picture("green", noise=90)
    clf = mt.Classifier(NAMES, ToyEncoder(), method, views=views)
    p = clf(image)
    assert clf.encoder.batches == [1]
    assert p.n_views == len(p.boxes) == len(p.flips) == p.to_dict()["n_views"] == 1
    all_views = mt.Classifier(NAMES, ToyEncoder(), "mean", views=8)
    (encoded,) = mt.pipeline.encode([image], all_views.encoder, all_views.spec)
    (q,) = clf.answers([encoded])  # of a store that has more
    assert q.n_views == len(q.boxes) == 1
    np.testing.assert_allclose(p.probabilities, q.probabilities, rtol=1e-6)
    (among_all,) = answers(encoded.embeddings[None], clf.method, clf.heads)
    np.testing.assert_allclose(p.probabilities, among_all.probabilities, rtol=1e-6)


def test_a_folder_or_a_path_is_streamed_as_its_images(clf, tmp_path):
    for name in NAMES:
        Image.fromarray(picture(name)).save(tmp_path / f"{name}.png")
    assert [p.label for p in clf.stream(str(tmp_path))] == sorted(NAMES)
    assert [p.label for p in clf.stream(tmp_path / "red.png")] == ["red"]
    with pytest.raises(mt.MeantimeError, match="put it into a list"):
        clf.stream((tmp_path / "red.png").read_bytes())


def test_one_view_is_plain_zero_shot():
    image = picture("green", noise=90)
    for method in training_free():
        if "+e" in method or method == "mta-ensemble":
            continue  # read by other prompts
        p = mt.Classifier(NAMES, ToyEncoder(), method, views=1)(image)
        assert p.label == p.plain_label
        if not method.startswith("zero"):
            np.testing.assert_allclose(p.probabilities, p.plain, rtol=1e-4)


@pytest.mark.parametrize("method", training_free())
def test_every_method_classifies_what_is_plain(method):
    clf = mt.Classifier(NAMES, ToyEncoder(), method, views=16)
    assert [p.label for p in clf([picture(c) for c in NAMES])] == NAMES


def test_with_labels_encodes_only_new_texts(clf):
    other = clf.with_labels(["red", "red and green"])
    assert other.encoder.texts == [f"a photo of a {n}." for n in [*NAMES, "red and green"]]
    assert other(picture("red")).label == "red"


def test_several_prompts_of_a_name_are_averaged(tmp_path):
    path = tmp_path / "p.json"
    path.write_text('{"warm": ["red"], "cold": ["blue", "green"]}')
    clf = mt.Classifier(path, ToyEncoder(), views=4)
    assert clf(picture("blue")).label == "cold"


def test_embed_is_the_mode_and_a_vote_has_none(clf):
    e = clf.embed(picture("red"))
    np.testing.assert_allclose(np.linalg.norm(e), 1, rtol=1e-5)
    with pytest.raises(mt.MeantimeError, match="no mode"):
        mt.Classifier(NAMES, ToyEncoder(), "zero").embed(picture("red"))


def test_abstaining_gives_no_answer_and_says_so():
    p = mt.Classifier(NAMES, ToyEncoder(), views=4, abstain=1.0)(np.full((30, 30, 3), 200, np.uint8))
    assert p.label is None
    assert p.abstained
    assert p.to_dict()["abstained"] is True


def test_duplicate_names_neither_crash_nor_merge():
    p = mt.Classifier(["red", "red", "blue"], ToyEncoder(), views=8)(picture("red"))
    assert p.label == "red"
    assert len(p.probabilities) == 3


def test_names_that_were_typed_twice_count_once():
    with pytest.warns(UserWarning, match="counted once: red"):
        clf = mt.Classifier("red,red,blue", ToyEncoder(), views=8)
    assert clf.labels.names == ("red", "blue")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"views": 0}, "number of views is 0"),
        ({"views": 1_000_000}, "1000000 views were asked for; expected at most 2048"),
        ({"method": "nope"}, "'nope'"),
        ({"abstain": 2.0}, "abstain"),
        ({"encoder": "embeded"}, "embedded"),
        ({"batch": 0}, "batch"),
        ({"labels": []}, "no labels"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    with pytest.raises(mt.MeantimeError) as error:
        mt.Classifier(**{"labels": NAMES, "encoder": ToyEncoder(), **arguments})
    assert words in str(error.value)


def test_the_embedded_encoder_knows_the_sample_photos():
    clf = mt.Classifier(["cat", "cup of coffee", "rocket", "flower"], views=8)
    for p, name in zip(
        clf([str(EXAMPLES / f"{n}.jpg") for n in ("chelsea", "coffee", "rocket", "flower")]),
        clf.labels.names,
        strict=True,
    ):
        assert p.label == name


def test_a_model_trained_with_a_sigmoid_is_said_to_use_a_softmax():
    encoder = ToyEncoder()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mt.Classifier(["red", "green"], encoder)
    encoder.logit_bias = -3.0
    with pytest.warns(UserWarning, match=r"toy was trained with a sigmoid; .* a softmax over the labels is used"):
        mt.Classifier(["red", "green"], encoder)
