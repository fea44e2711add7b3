"""Text embeddings are computed once: kept in memory, and on disk for the next run.

The disk part is one SQLite file in the user's cache directory (``MEANTIME_CACHE`` overrides it). It may
be deleted at any time; where it cannot be written, memory alone serves.
"""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from meantime.encoders.base import Encoder, Floats, check_texts

_memory: dict[tuple[str, str], Floats] = {}  # (encoder identity, prompt) -> (d,)


def cached_texts(encoder: Encoder, prompts: Sequence[str]) -> Floats:
    """(K, d): as ``encoder.encode_texts``, but only prompts never seen before are encoded, each once."""
    prompts = check_texts(prompts)
    identity = encoder.identity
    wanted = [p for p in dict.fromkeys(prompts) if (identity, p) not in _memory]
    if wanted:
        _memory.update(_read(identity, wanted, encoder.dim))
        unseen = [p for p in wanted if (identity, p) not in _memory]
        if unseen:
            new = dict(zip(unseen, encoder.encode_texts(unseen), strict=True))
            _memory.update({(identity, prompt): row for prompt, row in new.items()})
            _write(identity, new)
    if not prompts:
        return np.empty((0, encoder.dim), np.float32)
    return np.stack([_memory[identity, prompt] for prompt in prompts])


def cache_file() -> Path:
    """Where the disk part lies."""
    directory = os.environ.get("MEANTIME_CACHE")
    if not directory:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        directory = str(Path(base) / "meantime")
    return Path(directory) / "texts.sqlite"


def _read(identity: str, prompts: list[str], dim: int) -> dict[tuple[str, str], Floats]:
    found: dict[tuple[str, str], Floats] = {}
    path = cache_file()
    if not path.is_file():
        return found
    query = "SELECT embedding FROM texts WHERE encoder = ? AND prompt = ?"
    try:
        with closing(sqlite3.connect(path)) as db:
            for prompt in prompts:
                row = db.execute(query, (identity, prompt)).fetchone()
                if row is not None and len(row[0]) == 4 * dim:
                    found[identity, prompt] = np.frombuffer(row[0], "<f4").astype(np.float32)
    except (OSError, sqlite3.Error):
        pass  # a cache that cannot be read is an empty one
    return found


def _write(identity: str, rows: dict[str, Floats]) -> None:
    """Add the rows in one transaction; a file that is not a database makes way for a new one."""
    path = cache_file()
    records = [(identity, prompt, row.astype("<f4").tobytes()) for prompt, row in rows.items()]
    for last in (False, True):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(path)) as db, db:
                db.execute(
                    "CREATE TABLE IF NOT EXISTS texts "
                    "(encoder TEXT, prompt TEXT, embedding BLOB, PRIMARY KEY (encoder, prompt))"
                )
                db.executemany("INSERT OR REPLACE INTO texts VALUES (?, ?, ?)", records)
            return
        except (OSError, sqlite3.OperationalError):
            return  # unwritable or locked by another process: memory serves
        except sqlite3.DatabaseError:
            if last:
                return
            path.unlink(missing_ok=True)
