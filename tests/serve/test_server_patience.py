"""A real server and clients that are slow, leave, or never stop: none holds it for long."""

import json
import socket
import time

import numpy as np
import urllib3
from parts import SlowEncoder, running, text64

from meantime.serve.server import listen
from meantime.serve.writing import to_json


def connect(service, request=b""):
    client = socket.create_connection(("127.0.0.1", service.port), timeout=20)
    client.sendall(request)
    return client


def rest(client):
    """All that the server sends until it closes."""
    received = b""
    try:
        while piece := client.recv(65536):
            received += piece
    except ConnectionError:
        pass
    return received


def question(red, **changes):
    return to_json({"image": text64(red), "labels": ["red"], "views": 2} | changes)


def head(path, length, extra=""):
    text = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{extra}\r\n"
    )
    return text.encode()


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_headers_that_do_not_end_close_the_connection():
    with running(header_seconds=0.2) as service:
        silent, begun = connect(service), connect(service, b"GET / HTTP/1.1\r\nHost: ")
        second = connect(service, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /heal")
        assert rest(silent) == rest(begun) == b""
        assert rest(second).count(b"200 OK") == 1
        wait_until(lambda: not service.server.server_state.connections)


def test_a_body_that_does_not_end_is_refused(red):
    body = question(red)
    with running(body_seconds=0.2) as service:
        answer = rest(connect(service, head("/v1/classify", len(body)) + body[:-1]))
        assert answer.startswith(b"HTTP/1.1 408")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "too_slow"
        wait_until(lambda: service.service.gate.inside == 0)
        assert service.service.gate.bytes == 0


def test_a_body_that_nobody_wants_is_cut_off():
    with running(header_seconds=0.2, max_body=1000) as service:
        client = connect(service, head("/v1/mta", 10**9))
        sent = 0
        try:
            while sent < 10**9:
                client.sendall(bytes(10**5))
                sent += 10**5
                time.sleep(0.001)
        except ConnectionError:
            pass
        assert sent < 10**9
        wait_until(lambda: not service.server.server_state.connections)


def test_a_client_that_leaves_is_not_worked_for(red):
    encoder = SlowEncoder()
    with running(encoder) as service:
        encoder.entered.clear()
        encoder.may.clear()
        body = question(red)
        first = connect(service, head("/v1/classify", len(body)) + body)
        assert encoder.entered.wait(20)  # one is with the encoder, two wait behind it
        others = [connect(service, head("/v1/classify", len(body)) + body) for _ in range(2)]
        wait_until(lambda: service.service.pipeline.batcher.waiting == 4)
        for other in others:
            other.close()
        wait_until(lambda: service.service.gate.inside <= 1)
        before = sum(encoder.batches)
        encoder.may.set()
        wait_until(lambda: service.service.gate.inside == 0)
        assert sum(encoder.batches) - before == 2
        first.close()
        assert service.service.pixels.used == service.service.gate.bytes == 0


def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_nothing(red):
    body = question(red)
    with running() as service:
        for cut in (1, len(body) // 2, len(body) - 1):
            connect(service, head("/v1/classify", len(body)) + body[:cut]).close()
        wait_until(lambda: not service.server.server_state.tasks)
        assert service.service.gate.inside == service.service.gate.bytes == 0
        assert urllib3.request("GET", f"{service.url}/healthz").status == 200


def test_a_client_that_does_not_read_is_dropped():
    with running(header_seconds=0.3) as service:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", service.port))
        client.settimeout(1)
        try:
            for _ in range(400):
                client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
        except (ConnectionError, TimeoutError):
            pass
        wait_until(lambda: not service.server.server_state.connections)


def test_one_connection_too_many_is_told_when_to_come_again():
    with running(max_connections=2) as service:
        first, second = connect(service), connect(service)
        wait_until(lambda: len(service.server.server_state.connections) == 2)
        answer = rest(connect(service))
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"Retry-After: 5" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "overloaded"
        first.close()
        second.close()
        wait_until(lambda: not service.server.server_state.connections)
        assert urllib3.request("GET", f"{service.url}/healthz").status == 200


def test_what_is_no_http_at_all_is_refused():
    rng = np.random.default_rng(0)
    with running(header_seconds=0.2) as service:
        for data in (
            rng.bytes(3000),
            b"\r\n" * 1000,
            b"GET /" + b"a" * 10**5,
            b"\x16\x03\x01",
        ):
            assert b"200 OK" not in rest(connect(service, data))
        for headers in ("Content-Length: -1\r\n", "Content-Length: 9\r\nTransfer-Encoding: chunked\r\n"):
            assert b"200 OK" not in rest(connect(service, head("/v1/mta", 5, headers) + b"12345"))
        assert urllib3.request("GET", f"{service.url}/healthz").status == 200


def test_connections_do_not_wait_to_fill_a_packet():
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        taken, _ = listening.accept()
        with taken:
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
