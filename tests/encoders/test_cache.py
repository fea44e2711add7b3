import os
import sqlite3

import numpy as np
import pytest

from meantime.encoders import cache, cached_texts
from meantime.errors import MeantimeError


class Counting:
    """An encoder that remembers what it was asked."""

    dim = 3

    def __init__(self, identity="one"):
        self.identity = identity
        self.asked = []

    def encode_texts(self, texts):
        self.asked += texts
        return np.array([[len(t), len(self.identity), 0.1] for t in texts], np.float32)


def forget():
    cache._memory.clear()


def test_each_prompt_is_encoded_once():
    encoder = Counting()
    out = cached_texts(encoder, ["cat", "horse", "cat"])
    assert encoder.asked == ["cat", "horse"]
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, Counting().encode_texts(["cat", "horse", "cat"]))
    cached_texts(encoder, ["horse", "ox"])
    assert encoder.asked == ["cat", "horse", "ox"]
    assert cached_texts(encoder, []).shape == (0, 3)


def test_the_disk_remembers_the_very_bits():
    out = cached_texts(Counting(), ["cat", "größe"])
    forget()
    encoder = Counting()
    np.testing.assert_array_equal(cached_texts(encoder, ["größe", "cat"]), out[::-1])
    assert encoder.asked == []


def test_encoders_do_not_mix():
    cached_texts(Counting("one"), ["cat"])
    encoder = Counting("another")
    assert cached_texts(encoder, ["cat"])[0, 1] == len("another")
    assert encoder.asked == ["cat"]


def test_a_corrupt_file_is_ignored_and_rewritten():
    cache.cache_file().write_bytes(b"nonsense " * 1000)
    assert cached_texts(Counting(), ["cat"]).shape == (1, 3)
    forget()
    encoder = Counting()
    cached_texts(encoder, ["cat"])
    assert encoder.asked == []


def test_a_torn_row_is_encoded_again():
    cached_texts(Counting(), ["cat"])
    with sqlite3.connect(cache.cache_file()) as db:
        db.execute("UPDATE texts SET embedding = x'00'")
    db.close()
    forget()
    encoder = Counting()
    cached_texts(encoder, ["cat"])
    assert encoder.asked == ["cat"]


def test_without_a_writable_directory_memory_serves(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "file" / "cache"))
    encoder = Counting()
    cached_texts(encoder, ["cat"])
    cached_texts(encoder, ["cat"])
    assert encoder.asked == ["cat"]


def test_a_locked_file_does_not_stop_the_work(monkeypatch):
    cached_texts(Counting(), ["cat"])
    connect = sqlite3.connect
    monkeypatch.setattr(cache.sqlite3, "connect", lambda path: connect(path, timeout=0.01))
    with connect(cache.cache_file()) as other:
        other.execute("BEGIN EXCLUSIVE")
        forget()
        assert cached_texts(Counting(), ["cat"]).shape == (1, 3)
    other.close()


def test_places(monkeypatch, tmp_path):
    monkeypatch.delenv("MEANTIME_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_file() == tmp_path / "meantime" / "texts.sqlite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_file() == tmp_path / ".cache" / "meantime" / "texts.sqlite"
    assert not os.listdir(tmp_path)


def test_a_bare_string_is_refused():
    with pytest.raises(MeantimeError, match="one string given"):
        cached_texts(Counting(), "cat")
