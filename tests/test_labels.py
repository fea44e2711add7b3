import json

import pytest

from meantime import MeantimeError
from meantime.labels import as_labels, fill, imagenet_names, templates80


def test_imagenet_has_1000_names_of_which_998_are_distinct():
    names = imagenet_names()
    assert (len(names), len(set(names))) == (1000, 998)
    assert names.count("missile") == names.count("sunglasses") == 2


def test_there_are_80_templates_and_the_first_is_the_base_prompt():
    assert len(set(templates80())) == 80
    assert templates80()[0] == "a photo of a {}."
    assert all(t.count("{}") == 1 for t in templates80())


def test_names_come_from_lists_comma_lists_files_and_sets(tmp_path):
    text, js = tmp_path / "names.txt", tmp_path / "names.json"
    text.write_text("cat\n\n dog \n")
    js.write_text(json.dumps(["cat", "dog"]))
    for given in (["cat", "dog"], "cat, dog", text, str(js)):
        assert as_labels(given).names == ("cat", "dog")
    assert len(as_labels("imagenet").names) == 1000


def test_a_json_object_gives_whole_prompts(tmp_path):
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps({"cat": ["a cat", "a kitten"], "dog": "a dog"}))
    labels = as_labels(path, "never {}")
    assert labels.prompts == (("a cat", "a kitten"), ("a dog",))


def test_templates_take_both_places_and_underscores_become_spaces():
    assert fill("a photo of a {}.", "golden_retriever") == "a photo of a golden retriever."
    assert fill("art of {c}", "cat") == "art of cat"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "no labels"),
        ([], "no labels"),
        ([" "], "empty"),
        ([1], "1 (int)"),
        ("nowhere.txt", "nowhere.txt"),
    ],
)
def test_bad_labels_are_named(given, words):
    with pytest.raises(MeantimeError) as error:
        as_labels(given)
    assert words in str(error.value)


@pytest.mark.parametrize("content", ["{", '{"cat": 1}', "3"])
def test_bad_json_is_named(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(MeantimeError, match=r"x\.json"):
        as_labels(path)


def test_a_template_without_a_place_is_refused():
    with pytest.raises(MeantimeError, match="no place"):
        as_labels("cat,dog", "a photo")
