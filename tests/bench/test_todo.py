"""The commands that are still needed, and no others."""

import shlex

import numpy as np
import pytest

from meantime import MeantimeError
from meantime.bench import TABLES
from meantime.bench.heads import Heads
from meantime.bench.todo import todo
from meantime.cli import bench as command
from meantime.cli import main
from meantime.heads.saved import HeadInfo, PromptHead, save_head


def test_what_is_there_is_not_asked_for(make_store, bench, tmp_path):
    spec = TABLES["table1"].on(["imagenet"])
    stores = [make_store("imagenet", seed, ensemble=seed == 0) for seed in (0, 1)]
    info = HeadInfo("coop", "imagenet", stores[0].class_names, "x", "ViT-B-16:openai", 16, 0, 4)
    classes = np.ones((7, 8), np.float32)
    save_head(tmp_path / "heads" / "a", PromptHead(np.zeros((4, 5), np.float32), classes, 10.0), info)
    b = bench(stores, heads=Heads(tmp_path / "heads"))
    b.heads.data["imagenet"] = tmp_path / "my data"
    root = f"--root {shlex.quote(str(tmp_path / 'my data'))}"
    assert todo(b, [spec], tmp_path / "new") == [
        f"meantime encode imagenet {root} --model ViT-B-16:openai --views 6 --seed 1 --out "
        f"{shlex.quote(str(stores[1].path))} --ensemble --resume",
        f"meantime encode imagenet {root} --model ViT-B-16:openai --views 6 --seed 2 --out "
        f"{tmp_path / 'new'}/imagenet-ViT-B-16-openai-crop6-seed2 --ensemble",
        *(f"meantime fit coop imagenet --shots 16 --m 4 --model ViT-B-16:openai --seed {s} {root}" for s in (1, 2)),
    ]
    assert todo(bench(stores[:1], seeds=1), [spec.only(["mta+e"])], tmp_path) == []


def test_tables_share_their_stores(bench, tmp_path):
    specs = [TABLES[name] for name in ("table1", "table3", "figure4")]
    of_mta = [spec.on(["imagenet"]).only(["mta"]) for spec in specs]
    (one,) = todo(bench([], n_views=None, seeds=1), of_mta, tmp_path)
    assert "--views 128 " in one
    assert "--subset" not in one
    (part,) = todo(bench([], n_views=None, seeds=1), of_mta[1:2], tmp_path)
    assert "--views 128 --subset 1000 " in part


def test_in_the_shell(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["meantime", "bench", "todo", "fine-grained", "--seeds", "1", "--method", "tpt"])
    with pytest.raises(SystemExit):
        main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert all("--augment augmix --seed 0" in line for line in lines)
    with pytest.raises(MeantimeError, match="there is no table 'rows' that stores are needed for; there are table1"):
        command._named("rows")
