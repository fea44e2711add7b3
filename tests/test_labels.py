import json
from pathlib import Path

import pytest

from meantime import MeantimeError
from meantime.labels import as_labels, fill, imagenet_names, templates80, typed_labels


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


def test_lines_that_begin_with_a_hash_are_comments(tmp_path):
    (tmp_path / "names.txt").write_text("# animals\ncat\n  # and\ndog #2\n")
    assert as_labels(tmp_path / "names.txt").names == ("cat", "dog #2")


@pytest.mark.parametrize("typed", ["names.csv", "nowhere/names", "names.txt", "C:\\names", " names.yaml"])
def test_a_single_label_that_looks_like_a_file_is_a_slip(typed, recwarn):
    with pytest.raises(MeantimeError, match="there is no label file"):
        typed_labels(typed)
    assert not recwarn.list


def test_typed_labels_are_names_files_and_sets(tmp_path):
    assert typed_labels("and/or,names.csv").names == ("and/or", "names.csv")
    assert len(typed_labels("imagenet").names) == 1000
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    assert typed_labels(str(tmp_path / "names.txt")).names == ("cat", "dog")
    with pytest.raises(MeantimeError, match="is a folder"):
        typed_labels(str(tmp_path))
    for name in ("cat", "St. Bernard"):
        with pytest.warns(UserWarning, match="only one label"):
            assert typed_labels(name).names == (name,)


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


@pytest.mark.parametrize("name", ["NAMES.TXT", "Names.Txt"])
def test_the_suffix_of_a_label_file_may_be_in_capitals(tmp_path, name):
    (tmp_path / name).write_text("cat\ndog\n")
    assert as_labels(str(tmp_path / name)).names == ("cat", "dog")


def test_a_file_never_becomes_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("l.csv", "names"):
        Path(name).write_text("cat\ndog\n")
        for given in (name, Path(name)):
            with pytest.raises(MeantimeError, match=rf"'{name}' is a file.*\.txt.*\.json: rename"):
                as_labels(given)
    for missing, words in (("nothere", "is a path"), ("nothere.txt", "no label file")):
        with pytest.raises(MeantimeError, match=words):
            as_labels(Path(missing))
    assert len(as_labels(",".join(f"name{i}" for i in range(2000))).names) == 2000  # too long for a file name


def test_a_mapping_is_read_like_a_json_object():
    labels = as_labels({"cat": ["a cat", "a kitten"], "dog": "a dog"})
    assert labels.prompts == (("a cat", "a kitten"), ("a dog",))
    for wrong in ({"cat": 1}, {3: "a cat", "dog": "a dog"}):
        with pytest.raises(MeantimeError, match="the mapping of labels must hold"):
            as_labels(wrong)


@pytest.mark.parametrize("given", [None, 3])
def test_what_holds_no_names_is_refused(given):
    with pytest.raises(MeantimeError, match=f"labels of type {type(given).__name__} given"):
        as_labels(given)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_label_files_are_utf8(tmp_path, encoding):
    path = tmp_path / "names.txt"
    path.write_bytes("bär\nkatze\n".encode(encoding))
    with pytest.raises(MeantimeError, match=r"names\.txt is not UTF-8; save it as UTF-8"):
        as_labels(path)


def test_one_label_alone_is_told():
    with pytest.warns(UserWarning, match="only one label was given, 'cats.csv'"):
        as_labels("cats.csv")


def test_names_given_twice_count_once_where_that_is_asked(recwarn):
    assert as_labels(["cat", "dog", "cat"]).names == ("cat", "dog", "cat")  # places mean something
    assert len(as_labels("imagenet", distinct=True).names) == 1000
    assert not recwarn.list
    with pytest.warns(UserWarning, match="given more than once, counted once: cat$"):
        assert as_labels(["cat", "dog", "cat"], distinct=True).names == ("cat", "dog")
