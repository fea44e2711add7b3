import json
import shutil

import numpy as np
import pytest

import meantime as mt
from meantime import MeantimeError, TextHead
from meantime.fit import HeadInfo, head_info, load_head, save_head, saved_heads
from meantime.heads import make_heads
from meantime.heads import saved as saving
from meantime.heads.saved import PromptHead, heads_for
from meantime.heads.tip_adapter import TipAdapterHead
from meantime.labels import as_labels
from meantime.registry import method_named

RNG = np.random.default_rng(0)
CLASSES = RNG.standard_normal((3, 3)).astype(np.float32)
NAMES = ("red", "green", "blue")


def info(kind="coop", **change):
    facts = {"kind": kind, "dataset": "colours", "classes": NAMES, "encoder": "toy-1", "encoder_name": "toy"}
    return HeadInfo(**(facts | {"shots": 2, "seed": 1, "m": 4 if kind == "coop" else None} | change))


def prompt():
    return PromptHead(RNG.standard_normal((4, 5)).astype(np.float32), CLASSES, 20.0)


def cache():
    keys = RNG.standard_normal((4, 3)).astype(np.float32)
    return TipAdapterHead(keys, [0, 0, 1, 2], CLASSES, 20.0, alpha=1.5, beta=2.5)


@pytest.fixture
def x():
    x = RNG.standard_normal((5, 3)).astype(np.float32)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.parametrize(("kind", "make"), [("coop", prompt), ("tip-adapter", cache)])
def test_a_saved_head_is_the_same_to_the_bit(tmp_path, x, kind, make):
    head = make()
    path = save_head(tmp_path / "h", head, info(kind, settings={"epochs": 3}, draw={"train": ["a"], "val": []}))
    again = load_head(path, encoder_identity="toy-1", classes=NAMES)
    np.testing.assert_array_equal(again(x), head(x))
    assert head_info(path) == info(kind, settings={"epochs": 3}, draw={"train": ["a"], "val": []})
    if kind == "coop":
        np.testing.assert_array_equal(again.context, head.context)


@pytest.mark.parametrize(("kind", "make"), [("coop", prompt), ("tip-adapter", cache)])
def test_classes_may_come_in_another_order_or_fewer(tmp_path, x, kind, make):
    head = make()
    path = save_head(tmp_path / "h", head, info(kind))
    np.testing.assert_allclose(load_head(path, classes=["blue", "red"])(x), head(x)[:, [2, 0]], rtol=1e-5)


def test_another_encoder_and_other_classes_are_refused(tmp_path):
    path = save_head(tmp_path / "h", prompt(), info())
    with pytest.raises(MeantimeError, match=r"coop of 4 tokens on colours, 2 shots, seed 1.*encoder 'toy'.*other-7"):
        load_head(path, encoder_identity="other-7")
    with pytest.raises(MeantimeError, match=r"other classes.*'pink'.*1 of the 2"):
        load_head(path, classes=["red", "pink"])


def test_a_cache_of_classes_with_one_name_only_in_its_own_order(tmp_path):
    names = ("missile", "dog", "missile")
    path = save_head(tmp_path / "h", cache(), info("tip-adapter", classes=names))
    assert load_head(path, classes=names).n_classes == 3
    with pytest.raises(MeantimeError, match="several classes"):
        load_head(path, classes=("missile", "dog"))


def test_damage_is_told(tmp_path):
    path = save_head(tmp_path / "h", prompt(), info())
    (path / "head.safetensors").write_bytes(b"short")
    with pytest.raises(MeantimeError, match=r"head\.safetensors.*fit the head again"):
        load_head(path)
    (path / "head.json").write_text("{")
    with pytest.raises(MeantimeError, match="damaged"):
        load_head(path)
    (path / "head.json").write_text(json.dumps({"format": "other", "version": 1}))
    with pytest.raises(MeantimeError, match="this version"):
        load_head(path)
    with pytest.raises(MeantimeError, match="no saved head"):
        load_head(tmp_path)


def found(folder, kind, **wanted):
    """The first head below a folder that is all of this."""
    return next(iter(heads_for(saved_heads(folder), kind, **wanted)), None)


def test_heads_are_found_by_what_they_are(tmp_path):
    for shots in (1, 2):
        save_head(tmp_path / f"deep/{shots}", prompt(), info(shots=shots))
    save_head(tmp_path / "tip", cache(), info("tip-adapter"))
    assert found(tmp_path, "coop", dataset="colours", encoder="toy-1", shots=2, seed=1, m=4) == tmp_path / "deep/2"
    assert found(tmp_path, "coop", dataset="colours", encoder="toy-1", shots=2, seed=1, m=16) is None
    assert found(tmp_path, "tip-adapter", shots=2) == tmp_path / "tip"


def test_a_prompt_of_unknown_training_fits_where_no_known_one_does(tmp_path):
    save_head(tmp_path / "a", prompt(), info(shots=None, seed=None))
    assert found(tmp_path, "coop", shots=2, seed=1, m=4) == tmp_path / "a"
    assert found(tmp_path, "coop", shots=2, seed=1, m=16) is None
    save_head(tmp_path / "b", prompt(), info(shots=2, seed=1))
    assert found(tmp_path, "coop", shots=2, seed=1, m=4) == tmp_path / "b"
    assert info(seed=None).title == "coop of 4 tokens on colours, 2 shots"


def test_methods_reach_heads_by_name_and_by_folder(tmp_path, encoder, x):
    labels = as_labels(["green", "red"])
    head = cache()
    path = save_head(tmp_path / "heads/one", head, info("tip-adapter"))
    for name in ("mta@tip-adapter", f"mta@{path}"):
        method = method_named(name)
        heads = make_heads(encoder, labels, method.heads | {"text"})
        np.testing.assert_allclose(heads[method.head](x), head(x)[:, [1, 0]], rtol=1e-5)
        assert isinstance(heads["text"], TextHead)
    assert method_named(str(path)).head == str(path)
    classifier = mt.Classifier(["green", "red"], encoder, f"zero@{path}", views=4)
    assert classifier(np.full((20, 20, 3), 99, np.uint8)).label in ("green", "red")
    save_head(tmp_path / "heads/two", head, info("tip-adapter", seed=2))
    with pytest.raises(MeantimeError, match=r"2 heads fit 'tip-adapter'.*seed 1.*seed 2.*mta@DIR"):
        make_heads(encoder, labels, {"tip-adapter"})
    with pytest.raises(MeantimeError, match=r"no coop head.*meantime fit coop"):
        make_heads(encoder, labels, {"coop"})
    with pytest.raises(MeantimeError, match="can be tuned"):
        method_named(f"tpt@{path}")


def test_a_head_that_is_half_overwritten_is_none(tmp_path, monkeypatch):
    path = save_head(tmp_path / "one", prompt(), info())
    replace = saving._replace

    def interrupted(file, data):
        replace(file, data)
        raise KeyboardInterrupt

    monkeypatch.setattr(saving, "_replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_head(path, prompt(), info())
    with pytest.raises(MeantimeError, match="holds no saved head"):
        load_head(path)


def test_a_head_without_its_prompt_says_so(tmp_path):
    path = save_head(tmp_path / "one", prompt(), info())
    save_head(tmp_path / "tip", cache(), info("tip-adapter"))
    shutil.copy(tmp_path / "tip/head.safetensors", path)
    with pytest.raises(MeantimeError, match="lacks ctx: fit the head again"):
        load_head(path)
