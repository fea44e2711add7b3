"""What a user installs: the wheel, in an environment of its own, without torch and without the checkout."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from meantime.heads.saved import HeadInfo, PromptHead, save_head

ROOT = Path(__file__).parents[1]
LIMIT_MB = 400


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of a clean environment with nothing but the wheel and what it asks for."""
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", place / "env"], check=True)
    interpreter = place / "env" / "bin" / "python"
    subprocess.run([interpreter, "-m", "pip", "install", "--quiet", wheel], check=True, capture_output=True)
    return interpreter


def ask(python, program, cwd):
    return subprocess.run([python, "-c", program], cwd=cwd, capture_output=True, text=True, check=True).stdout.strip()


def test_embeddings_and_images_work_from_the_wheel_alone(python, tmp_path):
    program = f"""
import numpy as np, meantime as mt
assert {str(ROOT)!r} not in mt.__file__
r = mt.mta(np.random.default_rng(0).standard_normal((8, 16)), np.eye(16))
clf = mt.Classifier(["cat", "rocket"], views=4)
print(clf({str(ROOT / "examples/photos/chelsea.jpg")!r}).label)
"""
    assert ask(python, program, tmp_path) == "cat"


def test_a_saved_head_needs_no_more_than_the_default_install(python, tmp_path):
    info = HeadInfo("coop", "animals", ("cat", "dog"), "e-1", "e", 16, 0, 4)
    save_head(tmp_path / "head", PromptHead(np.zeros((4, 3), np.float32), np.eye(2, dtype=np.float32)), info)
    program = """
import numpy as np
from meantime.heads import load_head
print(load_head("head", classes=["dog", "cat"])(np.eye(2))[0].argmax())
"""
    assert ask(python, program, tmp_path) == "1"


def test_the_default_install_has_no_torch_and_is_small(python, tmp_path):
    program = """
import importlib.util, pathlib, sysconfig
print(importlib.util.find_spec("torch"), importlib.util.find_spec("matplotlib"))
site = pathlib.Path(sysconfig.get_path("purelib"))
print(sum(f.stat().st_size for f in site.rglob("*") if f.is_file()) // 2**20)
"""
    specs, megabytes = ask(python, program, tmp_path).splitlines()
    assert specs == "None None"
    assert int(megabytes) < LIMIT_MB


def test_a_missing_extra_is_one_sentence(python, tmp_path):
    photo = ROOT / "examples/photos/chelsea.jpg"
    command = [python.parent / "meantime", "explain", photo, "--labels", "cat,dog", "--views", "4"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 2
    assert "pip install 'meantime[plots]'" in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_parquet_without_its_extra_is_one_sentence_before_any_work(python, tmp_path):
    photo = ROOT / "examples/photos/chelsea.jpg"
    command = [python.parent / "meantime", "classify", photo, "--labels", "cat,dog", "--out", "x.parquet"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 2
    assert "pip install 'meantime[parquet]'" in run.stderr
    assert list(tmp_path.iterdir()) == []
