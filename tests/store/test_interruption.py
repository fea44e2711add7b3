"""Whatever stops a run, the same store comes out in the end, and nothing is overwritten."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from toy import ToyEncoder

from meantime import MeantimeError, ViewSpec
from meantime.datasets import load_dataset
from meantime.store import open_store, verify_store
from meantime.store import writer as writing
from meantime.store.encode import encode_dataset


def content(folder):
    return {p.name: p.read_bytes() for p in Path(folder).iterdir() if p.name != ".lock"}


class Dying(ToyEncoder):
    """Stops in the middle of the second shard."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def encode_images(self, pixels):
        if len(self.batches) == 7:
            raise self.error
        return super().encode_images(pixels)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("device lost"), MemoryError()])
def test_a_run_that_stops_is_resumed_to_the_same_bytes(encode, tmp_path, error):
    encode("whole", batch=5)
    with pytest.raises(type(error)):
        encode("parts", Dying(error), batch=5)
    half = open_store(tmp_path / "parts")
    assert not half.complete
    assert len(half) == 5
    encoder = ToyEncoder()
    encode("parts", encoder, batch=5, resume=True)
    assert len(encoder.batches) == 6  # the six readable images of two shards; the first was not encoded again
    assert content(tmp_path / "parts") == content(tmp_path / "whole")


def test_kill_9_at_any_moment_is_resumed_to_the_same_bytes(encode, photos, tmp_path):
    encode("whole", batch=5)
    script = textwrap.dedent(
        f"""
        import time
        from toy import ToyEncoder
        from meantime import ViewSpec
        from meantime.datasets import load_dataset
        from meantime.store.encode import encode_dataset

        class Slow(ToyEncoder):
            def encode_images(self, pixels):
                time.sleep(0.05)
                return super().encode_images(pixels)

        encode_dataset(load_dataset({str(photos)!r}), {str(tmp_path / "killed")!r}, Slow(), ViewSpec(n=5),
                       shard_size=5, batch=5, resume=True)
        """
    )
    source, tests = Path(writing.__file__).parents[2], Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{tests}"}
    process = subprocess.Popen([sys.executable, "-c", script], env=environment)
    shard = tmp_path / "killed" / "shard-00000.parquet"
    deadline = time.monotonic() + 60
    while not shard.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    remains = tmp_path / "killed" / "shard-00001.parquet.0123456789ab.part"
    remains.write_bytes(b"half a shard")  # what a killed write leaves
    encode("killed", batch=5, resume=True)
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def test_a_full_disk_is_an_error_of_one_sentence_and_can_be_resumed(encode, tmp_path, monkeypatch):
    encode("whole")
    original, calls = writing.write_shard, []

    def full(path, *arguments):
        original(path, *arguments)
        calls.append(path)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing, "write_shard", full)
    with pytest.raises(MeantimeError, match=r"No space left on device.*--resume"):
        encode("full")
    assert not list((tmp_path / "full").glob("*.part"))
    encode("full", resume=True)
    assert content(tmp_path / "full") == content(tmp_path / "whole")


def test_a_deleted_shard_is_made_again(encode, tmp_path):
    encode()
    before = content(tmp_path / "store")
    (tmp_path / "store" / "shard-00001.parquet").unlink()
    (tmp_path / "store" / "text-single.parquet").unlink()
    encode(resume=True)
    assert content(tmp_path / "store") == before


def test_nothing_is_overwritten_without_being_asked(encode, tmp_path):
    encode()
    before = content(tmp_path / "store")
    with pytest.raises(MeantimeError, match=r"not empty.*--resume"):
        encode()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    for resume in (False, True):
        with pytest.raises(MeantimeError, match=r"not empty|not a store"):
            encode("mine", resume=resume)
    assert content(tmp_path / "store") == before
    assert sorted(content(tmp_path / "mine")) == ["thesis.tex"]


def test_only_our_own_remains_are_swept(encode, tmp_path):
    mine = tmp_path / "store" / "film.mkv.part"
    mine.parent.mkdir()
    mine.write_text("a download")
    with pytest.raises(MeantimeError, match="not empty"):
        encode()
    mine.rename(tmp_path / "film.mkv.part")
    encode()
    (tmp_path / "film.mkv.part").rename(mine)
    (tmp_path / "store" / "manifest.json.0123456789ab.part").write_text("{")
    encode(resume=True)
    assert [path.name for path in mine.parent.glob("*.part")] == ["film.mkv.part"]


def test_a_folder_with_a_colon_is_no_url(encode, tmp_path, monkeypatch, photos):
    monkeypatch.chdir(tmp_path)
    store = encode_dataset(load_dataset(str(photos)), "a:b", ToyEncoder(), ViewSpec(n=2))
    assert len(next(store.batches(20))) == 11


def test_a_file_system_without_locks_is_written_to_with_a_warning(encode, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(UserWarning, match="has no locks"):
        assert encode().complete


def test_without_parquet_nothing_is_left_behind(encode, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow.parquet", None)
        with pytest.raises(MeantimeError, match=r"meantime\[parquet\]"):
            encode()
    assert not (tmp_path / "store").exists()
    assert encode().complete


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"seed": 1}, "seed is 0, asked 1"),
        ({"spec": ViewSpec(n=6)}, "n_views is 5, asked 6"),
        ({"spec": ViewSpec(n=5, augment="augmix")}, "views is 'crop-fast.*asked 'augmix"),
        ({"prompt": "{}"}, "prompt is 'a photo of a {}.', asked '{}'"),
        ({"shard_size": 4}, "shard_size is 5, asked 4"),
        ({"part": (1, 2)}, "parts is 1, asked 2"),
    ],
)
def test_a_store_of_something_else_is_refused_with_the_difference(encode, change, difference):
    encode()
    with pytest.raises(MeantimeError, match=difference):
        encode(resume=True, **change)


def test_another_encoder_or_dataset_is_refused(encode, photos):
    encode()
    other = ToyEncoder()
    other.identity = "toy-2"
    with pytest.raises(MeantimeError, match="encoder is 'toy-1', asked 'toy-2'"):
        encode(encoder=other, resume=True)
    (photos / "red" / "0.png").rename(photos / "red" / "9.png")
    with pytest.raises(MeantimeError, match="fingerprint is"):
        encode(resume=True)


def test_two_writers_do_not_meet(encode, tmp_path):
    store = encode()
    with (
        writing.open_writer(tmp_path / "store", store.plan, resume=True),
        pytest.raises(MeantimeError, match="another process is writing"),
    ):
        encode(resume=True)
    verify_store(encode(resume=True))


def test_a_place_that_cannot_be_written(encode, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(MeantimeError, match="cannot write to"):
        encode("file/store")
    (tmp_path / "odd" / ".lock").mkdir(parents=True)
    with pytest.raises(MeantimeError, match="cannot write to"):
        encode("odd")


def test_a_second_try_that_ends_between_shard_and_manifest_is_made_up_for(encode, photos, tmp_path, monkeypatch):
    encode()
    (photos / "green" / "2.png").write_bytes((photos / "green" / "1.png").read_bytes())
    publish = writing.publish

    def interrupted(*arguments):
        publish(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(writing, "publish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            encode(resume=True, retry=True)
    assert not open_store(tmp_path / "store").complete
    assert len(encode(resume=True)) == 12
