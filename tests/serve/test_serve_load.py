"""`meantime serve` with the embedded encoder, in a process of its own, under load."""

import io
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
import urllib3
from PIL import Image
from serve_clients import Process, free_port, run_clients, started

EXAMPLES = Path(__file__).parents[2] / "examples" / "photos"
NAMES = {"chelsea": "cat", "coffee": "cup of coffee", "rocket": "rocket", "flower": "flower"}
CLIENTS = 64


@pytest.fixture(scope="module")
def questions():
    """(path, headers, body) of small photos, with the label of each."""
    made = []
    for name, label in NAMES.items():
        file = io.BytesIO()
        with Image.open(EXAMPLES / f"{name}.jpg") as photo:
            photo.thumbnail((240, 240))
            photo.save(file, "JPEG")
        labels = ",".join(NAMES.values()).replace(" ", "%20")
        path = f"/v1/classify?labels={labels}&top=2&views="
        made.append((path, {"content-type": "image/jpeg"}, file.getvalue(), label))
    return made


def asked(questions, count, views):
    return [(f"{p}{views}", h, b) for p, h, b, _ in (questions[i % len(questions)] for i in range(count))]


@pytest.fixture
def service(tmp_path):
    with started(MEANTIME_CACHE=str(tmp_path)) as process:
        yield process


def test_64_clients_are_answered(service, questions, record_property):
    alone = run_clients(service.url, asked(questions, 8, 2), clients=1)
    assert alone.statuses == {200: 8}
    run_clients(service.url, asked(questions, CLIENTS, 2), CLIENTS)  # what 64 need at once stays theirs
    before = service.memory()
    load = run_clients(service.url, asked(questions, 3 * CLIENTS, 2), CLIENTS)
    after = service.memory()
    assert load.statuses == {200: 3 * CLIENTS}
    for index, _, answer in load.answers:
        assert answer["label"] == questions[index % len(questions)][-1]
    assert after - before < 96 * 2**20
    assert service.gauge("meantime_requests_inside") == 0
    # Requests that arrived together were encoded together: fewer calls than requests
    assert service.gauge("meantime_encoder_calls_total") < service.gauge("meantime_views_encoded_total") / 2
    summary = {
        "requests": sum(load.statuses.values()),
        "statuses": dict(load.statuses),
        "p50 / alone": load.quantile(0.5) / alone.quantile(0.5),
        "p99 / alone": load.quantile(0.99) / alone.quantile(0.5),
        "MiB before, after": (before >> 20, after >> 20),
    }
    record_property("load", summary)
    print(summary)


def test_a_stop_finishes_what_was_accepted(service, questions):
    done = []
    thread = threading.Thread(target=lambda: done.append(run_clients(service.url, asked(questions, 12, 24), 12)))
    thread.start()
    while service.gauge("meantime_requests_inside") < 12:
        time.sleep(0.005)
    status, output = service.stop()
    thread.join()
    assert done[0].statuses == {200: 12}, done[0].statuses
    assert "Traceback" not in output
    assert status in (0, -signal.SIGTERM)
    with pytest.raises(urllib3.exceptions.HTTPError):
        urllib3.request("GET", f"{service.url}/healthz", retries=False, timeout=2)


def test_killed_under_load_it_starts_again_where_it_was(questions, tmp_path):
    port = free_port()
    first = Process(port, MEANTIME_CACHE=str(tmp_path)).wait_until_ready()
    done, stop = [], threading.Event()
    requests = asked(questions, 400, 2)
    thread = threading.Thread(target=lambda: done.append(run_clients(first.url, requests, 16, stop)))
    thread.start()
    while first.gauge("meantime_views_encoded_total") < 40:
        time.sleep(0.01)
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait(30)
    stop.set()
    thread.join()
    assert done[0].statuses[200] > 0
    assert set(done[0].statuses) - {200}  # those in flight saw the connection break
    second = Process(port, MEANTIME_CACHE=str(tmp_path)).wait_until_ready()
    try:
        again = run_clients(second.url, asked(questions, 8, 2), 4)
        assert again.statuses == {200: 8}
    finally:
        second.stop(signal.SIGKILL)


def test_a_full_house_refuses_and_recovers(questions, tmp_path):
    with started("--queue", "8", MEANTIME_CACHE=str(tmp_path)) as service:
        load = run_clients(service.url, asked(questions, 2 * CLIENTS, 2), CLIENTS)
        assert set(load.statuses) == {200, 503}
        assert run_clients(service.url, asked(questions, 4, 2), 1).statuses == {200: 4}


def test_a_port_in_use_and_an_empty_token_are_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = Process(taken.getsockname()[1])
        empty = Process(None, "--token-env", "NO_SUCH_TOKEN")
        for process, words in ((busy, "choose another with --port"), (empty, "NO_SUCH_TOKEN")):
            output, _ = process.process.communicate(timeout=60)
            assert process.process.returncode == 2
            assert output.startswith("meantime: ")
            assert words in output
            assert output.count("\n") == 1
