"""Who may ask, what browsers are told, and that nothing of the machine leaks."""

import time

import pytest
import urllib3
from parts import running, text64
from starlette.testclient import TestClient
from toy import ToyEncoder

from meantime.serve import Settings, create_app
from meantime.serve.service import public_name

TOKEN = "correct horse battery"


@pytest.fixture
def guarded(serve):
    client = serve(token=TOKEN)
    return client


def test_the_token_is_asked_of_the_api_and_not_of_the_page(guarded, red):
    asked = {"image": text64(red), "labels": ["red"], "views": 1}
    for header in (None, "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer", f"Bearer {TOKEN}x", "Bearer ünïcode"):
        headers = {} if header is None else {"Authorization": header.encode("utf-8")}
        answer = guarded.post("/v1/classify", json=asked, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error"]["type"] == "unauthorized"
        assert TOKEN not in answer.text
    for scheme in ("Bearer", "bearer"):
        assert (
            guarded.post("/v1/classify", json=asked, headers={"Authorization": f"{scheme} {TOKEN}"}).status_code == 200
        )
    for path in ("/v1/models", "/v1/methods", "/v1/samples", "/metrics", "/openapi.json"):
        assert guarded.get(path).status_code == 401
        assert guarded.get(path, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    for path in ("/", "/healthz", "/readyz"):
        assert guarded.get(path).status_code == 200


def test_every_answer_has_the_headers_that_protect_a_browser(client):
    for path in ("/", "/healthz", "/v1/models", "/nothing", "/static/none.js"):
        headers = client.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert client.get("/v1/models").headers["cache-control"] == "no-store"


def test_other_sites_may_ask_only_if_named(serve, client):
    asking = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in client.get("/v1/models", headers=asking).headers
    assert "access-control-allow-origin" not in client.options("/v1/classify", headers=asking).headers
    open_ = serve(origins=("https://example.org",), token=TOKEN)
    answer = open_.options("/v1/classify", headers=asking)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://example.org")
    refused = open_.get("/v1/models", headers=asking)  # the page must be able to read why
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "https://example.org")
    other = open_.options("/v1/classify", headers=asking | {"Origin": "https://example.com"})
    assert "access-control-allow-origin" not in other.headers


def test_a_failure_of_our_own_is_counted_protected_logged_and_tells_nothing(serve, monkeypatch, caplog):
    client = serve(origins=("https://example.org",))

    def boom(_):
        raise RuntimeError("a secret of the machine")

    monkeypatch.setattr("meantime.serve.api_about.asdict", boom)
    answer = client.get("/v1/models", headers={"Origin": "https://example.org"})
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "internal_error"
    assert "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["access-control-allow-origin"] == "https://example.org"
    assert "GET /v1/models failed" in caplog.text
    assert "a secret of the machine" in caplog.text
    assert 'meantime_requests_total{method="GET",path="/v1/models",status="500"} 1' in client.get("/metrics").text


def test_a_model_that_cannot_be_loaded_is_told_and_logged(caplog):
    class Broken(ToyEncoder):
        def encode_texts(self, texts):
            raise RuntimeError("no weights")

    with TestClient(create_app(Settings(), Broken())) as client:
        deadline = time.monotonic() + 30
        while "being loaded" in (answer := client.get("/readyz")).text:
            assert time.monotonic() < deadline
    assert answer.status_code == 503
    assert "could not be loaded" in answer.json()["error"]["message"]
    assert "no weights" not in answer.text
    assert "no weights" in caplog.text


def test_the_access_log_does_not_hold_what_was_asked(capfd, red):
    with running(log_level="info") as service:
        address = f"{service.url}/v1/classify?labels=my%20secret&views=1"
        answer = urllib3.request("POST", address, body=red, headers={"Content-Type": "image/png"})
        assert answer.status == 200
    logged = "".join(capfd.readouterr())
    assert '"POST /v1/classify HTTP/1.1" 200' in logged
    assert "secret" not in logged


def test_unknown_addresses_answer_in_the_same_shape(client):
    assert client.get("/nothing").json()["error"]["type"] == "not_found"
    assert client.get("/v1/classify").json()["error"]["type"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
def test_who_only_looks_whether_it_is_there_may(serve, path):
    client = serve(token="sesame")
    assert client.head(path).status_code == client.get(path).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/samples/../app.py",
        "/samples/..%2fapp.py",
        "/samples/%2e%2e/app.py",
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e%2fapp.py",
        "/samples/%00",
        "/static/%00",
        "/samples//etc/passwd",
        "/static//etc/passwd",
    ],
)
def test_no_address_reaches_a_file_that_is_not_the_pages(serve, tmp_path, path):
    (tmp_path / "app.py").write_text("secret")
    static = tmp_path / "static"
    (static / "samples").mkdir(parents=True)
    (static / "index.html").write_text("page")
    (static / "samples" / "cat.jpg").write_bytes(b"photo")
    client = serve(static=static)
    assert client.get(path).status_code == 404
    assert client.get("/").text == "page"
    assert client.get("/static/index.html").text == "page"
    assert client.get("/v1/samples").json() == {"samples": [{"name": "cat", "url": "/samples/cat.jpg"}]}
    assert client.get("/samples/cat.jpg").content == b"photo"


def test_without_the_page_there_is_a_message(serve, tmp_path):
    client = serve(static=tmp_path / "none")
    assert "/openapi.json" in client.get("/").text
    assert client.get("/v1/samples").json() == {"samples": []}
    assert client.get("/static/index.html").status_code == 404


def test_a_models_directory_is_not_told(tmp_path):
    assert public_name("embedded") == "embedded"
    assert public_name("hf:openai/clip-vit-base-patch16") == "hf:openai/clip-vit-base-patch16"
    assert public_name(f"onnx:{tmp_path}") == f"onnx:{tmp_path.name}"
    assert public_name(str(tmp_path)) == tmp_path.name


def test_metrics_count_what_happened(client, red):
    before = client.service.pipeline.batcher.encoded["images"]
    client.post("/v1/classify", json={"image": text64(red), "labels": ["red"], "views": 3})
    client.get("/some/random/address")
    lines = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if not line.startswith("#"))
    assert lines['meantime_requests_total{method="POST",path="/v1/classify",status="200"}'] == "1"
    assert lines['meantime_requests_total{method="GET",path="other",status="404"}'] == "1"
    assert lines['meantime_request_seconds_count{path="/v1/classify"}'] == "1"
    assert lines['meantime_request_seconds_bucket{path="/v1/classify",le="+Inf"}'] == "1"
    assert lines["meantime_views_encoded_total"] == str(before + 3)
    assert lines["meantime_requests_inside"] == "0"
