"""Hundreds of hostile requests: a clear refusal each, the service as well as before, its memory too."""

import gc
import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from hostile import corpus
from parts import text64

LEAKS = ("Traceback", "site-packages", "/src/", ".py", "object at 0x", str(Path.home()), "BytesIO")


@pytest.fixture(scope="module")
def requests():
    return list(corpus())


def memory():
    """Resident bytes of this process, where the system tells."""
    gc.collect()
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


def ask(client, method, path, headers, body):
    try:
        return client.request(method, path, headers=headers, content=body)
    except (httpx.InvalidURL, UnicodeEncodeError):  # this client refuses to send it
        return None


def test_the_corpus_is_large_and_always_the_same(requests):
    assert len(requests) >= 500
    assert len({name for name, *_ in requests}) == len(requests)
    assert list(corpus()) == requests


def test_each_is_refused_or_answered_and_nothing_remains(client, red, requests):
    service = client.service
    for name, *request in requests:  # the largest that memory ever holds, and some of the rest
        if name.startswith(("bombs", "kept_classes")) or len(name) % 8 == 0:
            ask(client, *request)
    before, threads = memory(), threading.active_count()
    statuses = Counter()
    for name, *request in requests:
        answer = ask(client, *request)
        if answer is None:
            statuses["not sent"] += 1
            continue
        statuses[answer.status_code] += 1
        assert answer.status_code < 500, f"{name}: {answer.status_code} {answer.text[:300]}"
        if answer.status_code >= 400 and request[0] != "HEAD":
            message = answer.json()["error"]["message"]
            assert message, name
            assert len(message) < 1000, name
            assert not [leak for leak in LEAKS if leak in answer.text], f"{name}: {message}"
    assert sum(statuses[s] for s in (400, 404, 405, 413, 415, 422)) > 400, statuses
    assert statuses["not sent"] < 20
    assert service.gate.inside == service.gate.bytes == service.pixels.used == service.pipeline.batcher.waiting == 0
    assert threading.active_count() <= threads + 2
    assert memory() - before < 64 * 2**20
    answer = client.post("/v1/classify", json={"image": text64(red), "labels": ["red", "green"], "views": 4})
    assert answer.json()["label"] == "red"


def test_many_at_once_do_no_more_harm(client, requests):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda request: ask(client, *request[1:]), requests[::6]))
    assert {a.status_code for a in answers if a is not None} <= {200, 304, 400, 404, 405, 413, 415, 422, 503}
    assert client.get("/readyz").status_code == 200
