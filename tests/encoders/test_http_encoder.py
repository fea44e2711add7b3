import base64
import hashlib
import json
import logging
import pickle
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest
from scripted_api import DIM, FACTS, SIZE, ScriptedApi, answer

import meantime as mt
from meantime.encoders.http import HttpEncoder
from meantime.errors import MeantimeError

SECRET = "sk-very-secret-123"


@pytest.fixture(autouse=True)
def naps(monkeypatch):
    """The waits that were asked for, none of them waited."""
    asked = []
    monkeypatch.setattr("urllib3.util.retry.time", SimpleNamespace(sleep=asked.append, time=time.time))
    return asked


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("MEANTIME_API_KEY", raising=False)


def connect(api, model="", **options):
    return mt.load_encoder(f"{api.url}/v1/embeddings{model}", **(FACTS | {"in_flight": 1} | options))


def pictures(n, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, SIZE, SIZE, 3), dtype=np.uint8)


def expected(texts):
    return np.array([[len(t), t.count("a"), 1] for t in texts], np.float32)


def test_texts_and_images_in_their_order():
    with ScriptedApi() as api:
        encoder = connect(api, batch=4, in_flight=3)
        texts = [f"a cat {'a' * i}" for i in range(11)]
        np.testing.assert_array_equal(encoder.encode_texts(texts), expected(texts))
        pixels = pictures(9)
        got = encoder.encode_images(pixels)
        np.testing.assert_allclose(got, pixels.mean(axis=(1, 2)), rtol=1e-6)
        assert (got.shape, got.dtype) == ((9, DIM), np.float32)
        assert sorted(len(body["input"]) for _, body in api.requests[:3]) == [3, 4, 4]
        assert encoder.encode_texts([]).shape == (0, DIM)
        assert (encoder.dim, encoder.logit_scale, encoder.preprocess.size) == (DIM, 20.0, SIZE)


def test_answers_out_of_order_and_in_base64():
    def shuffled(inputs):
        data = answer(inputs)["data"]
        for item in data:
            item["embedding"] = base64.b64encode(np.array(item["embedding"], "<f4").tobytes()).decode()
        return {"data": data[::-1]}

    with ScriptedApi(then=shuffled) as api:
        texts = ["b", "aa", "ccc"]
        np.testing.assert_array_equal(connect(api).encode_texts(texts), expected(texts))


def test_nothing_is_asked_twice():
    with ScriptedApi() as api:
        encoder = connect(api, batch=3)
        encoder.encode_texts(["a", "b", "a", "b", "a"])
        assert sorted(api.served) == ['"a"', '"b"']
        encoder.encode_texts(["b", "c"])
        connect(api).encode_texts(["a", "c"])  # another object, the same disk
        assert sorted(api.served) == ['"a"', '"b"', '"c"']
        pixels = pictures(2)
        first = encoder.encode_images(np.concatenate([pixels, pixels]))
        np.testing.assert_array_equal(first[:2], first[2:])
        np.testing.assert_array_equal(connect(api).encode_images(pixels), first[:2])
        assert len(api.served) == 5


def test_another_model_is_another_cache():
    with ScriptedApi() as api:
        one, two = connect(api, "#one"), connect(api, "#two")
        assert one.identity != two.identity
        one.encode_texts(["a"])
        two.encode_texts(["a"])
        assert [body["model"] for _, body in api.requests] == ["one", "two"]
        without = connect(api, "#one", cache=False)
        without.encode_texts(["a"])
        assert len(api.requests) == 3


def test_another_process_may_have_it(monkeypatch):
    monkeypatch.setenv("MEANTIME_API_KEY", SECRET)
    with ScriptedApi() as api:
        encoder = connect(api)
        encoder.encode_texts(["a"])
        sent = pickle.dumps(encoder)
        assert SECRET.encode() not in sent
        np.testing.assert_array_equal(pickle.loads(sent).encode_texts(["a", "b"]), expected(["a", "b"]))
        assert api.served == ['"a"', '"b"']


def test_connections_are_reused_and_requests_in_flight_bounded():
    with ScriptedApi() as api:
        api.gather = 3
        connect(api, batch=1, in_flight=3).encode_texts([str(i) for i in range(24)])
        assert api.connections == 3
        assert api.most_at_once == 3


@pytest.mark.parametrize("trouble", [429, 500, 502, 503, 504, "hang up", "cut", "sleep"])
def test_passing_trouble_is_waited_out(trouble, naps):
    times = 1 if trouble == "sleep" else 3
    with ScriptedApi("ok", *[trouble] * times) as api:
        texts = ["a", "b", "c", "d"]
        got = connect(api, batch=2, timeout=1.0).encode_texts(texts)
        np.testing.assert_array_equal(got, expected(texts))
        assert len(api.requests) == 2 + times
        assert sorted(api.served) == [json.dumps(t) for t in texts]  # none lost, none doubled
        assert naps == sorted(naps)  # longer and longer, the first at once
        assert len(naps) == times - 1


def test_retry_after_is_honoured(naps):
    asks = (429, {"Retry-After": "7"}, {"error": "busy"})
    odd = (503, {"Retry-After": "soonish"}, {})
    with ScriptedApi(asks, odd) as api:
        connect(api).encode_texts(["a"])
        assert len(api.requests) == 3
        assert 7 <= naps[0] <= 8


def test_too_long_a_wait_is_told_instead():
    with (
        ScriptedApi((429, {"Retry-After": "3600"}, {})) as api,
        pytest.raises(MeantimeError, match="wait for 3600 s"),
    ):
        connect(api).encode_texts(["a"])


def test_trouble_that_stays_is_an_error(naps):
    with ScriptedApi(then=503) as api, pytest.raises(MeantimeError, match="503 after several tries: no luck today"):
        connect(api, retries=4).encode_texts(["a"])
    assert len(api.requests) == 5
    assert naps == sorted(naps)


def test_a_server_that_dies_half_way_costs_nothing_but_the_rest(naps):
    pixels = pictures(20)
    with ScriptedApi("ok", "ok", "ok", then="hang up") as api:
        with pytest.raises(MeantimeError, match=re.escape("(12 of 20 embeddings are kept; run again to go on)")):
            connect(api, batch=4, retries=2).encode_images(pixels)
        assert len(api.requests) == 3 + 3  # the rest was not even sent
        api.then = "ok"
        got = connect(api, batch=4).encode_images(pixels)
        np.testing.assert_allclose(got, pixels.mean(axis=(1, 2)), rtol=1e-6)
        assert len(api.served) == len(set(api.served)) == 20


def test_what_was_in_flight_beside_a_failure_is_kept():
    texts = [str(i) for i in range(8)]
    with ScriptedApi("ok", 400, "ok", "ok") as api:
        api.gather = 4
        with pytest.raises(MeantimeError, match="answered 400: no luck today"):
            connect(api, batch=2, in_flight=4).encode_texts(texts)
        assert len(api.served) == 6
        connect(api, batch=8).encode_texts(texts)
        assert len(api.served) == len(set(api.served)) == 8


def test_requests_that_are_too_large_are_halved():
    with ScriptedApi() as api:
        api.then = lambda inputs: answer(inputs)
        api.script = [413, 413]  # 8, then 4, then 2 at a time
        texts = [str(i) for i in range(8)]
        np.testing.assert_array_equal(connect(api, batch=8).encode_texts(texts), expected(texts))
        assert [len(body["input"]) for _, body in api.requests] == [8, 4, 2, 2, 4]
        api.then = 413
        with pytest.raises(MeantimeError, match="too large, even with one input"):
            connect(api).encode_texts(["new", "newer"])


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (401, r"wants an API key \(401\); it is read from \$MEANTIME_API_KEY, which is not set"),
        (404, r"no embeddings API at /v1/embeddings \(404: no luck today\)"),
        (422, "answered 422: no luck today"),
        ((301, {"Location": "http://elsewhere/"}, {}), "answered 301"),
        ((200, {}, b"<html>hello</html>"), "not JSON"),
        ((200, {}, [1, 2]), "another shape"),
        (lambda x: {"data": [{"embedding": [1.0]}]}, "another shape"),
        (lambda x: {"data": [{"index": 0, "embedding": "%%%"}]}, "another shape"),
        (lambda x: {"data": [{"index": 0, "embedding": [[1.0], [1.0, 2.0]]}]}, "another shape"),
        (lambda x: answer(x[:1]), "1 embeddings to 2 inputs"),
        (lambda x: answer([*x, "more"]), "3 embeddings to 2 inputs"),
        (lambda x: {"data": [{"index": 0, "embedding": [1, 2, 3]}] * 2}, "2 embeddings to 2 inputs"),
        (
            lambda x: {"data": [{"index": i, "embedding": [1.0] * 4} for i in range(2)]},
            r"shape \(4,\); expected dim = 3",
        ),
        (lambda x: {"data": [{"index": i, "embedding": [1.0] * (3 - i)} for i in range(2)]}, r"shape \(2,\)"),
        (lambda x: {"data": [{"index": i, "embedding": [1.0, float("nan"), 2]} for i in range(2)]}, "NaN"),
        (
            lambda x: {"data": [{"index": i, "embedding": [1.0 - i, 0, -0.0]} for i in range(2)]},
            r"nothing but zeros \(to input 2 of 2\)",
        ),
        ((422, {}, {"detail": "only texts"}), "answered 422: only texts"),
        ((422, {}, {"detail": [{"loc": ["input"], "msg": "too many"}]}), "answered 422: too many"),
        ((400, {}, {"message": "no such model"}), "answered 400: no such model"),
        ((400, {}, b"[" * 10**5), "answered 400$|answered 400 "),
    ],
)
def test_answers_that_cannot_be_used(step, message):
    with ScriptedApi(then=step) as api:
        with pytest.raises(MeantimeError, match=message):
            connect(api).encode_texts(["a", "b"])
        assert len(api.requests) == 1  # trying again would not help


def test_zeros_are_neither_kept_nor_believed_where_they_were():
    zeros = lambda x: {"data": [{"index": i, "embedding": [0.0] * 3} for i, _ in enumerate(x)]}  # noqa: E731
    with ScriptedApi(zeros) as api:
        encoder = connect(api)
        with pytest.raises(MeantimeError, match="zeros"):
            encoder.encode_texts(["a"])
        np.testing.assert_array_equal(encoder.encode_texts(["a"]), expected(["a"]))
        key = next(iter(encoder._cache.read([hashlib.sha256(b"text\0a").digest()])))
        encoder._cache.write({key: np.zeros(3, np.float32)})  # of a time when they were let in
        np.testing.assert_array_equal(connect(api).encode_texts(["a"]), expected(["a"]))
        assert len(api.requests) == 3


def test_an_answer_that_takes_too_long_is_told_with_the_time(naps):
    with (
        ScriptedApi(then="sleep") as api,
        pytest.raises(MeantimeError, match=r"did not answer within 0\.2 s; .* timeout=…"),
    ):
        connect(api, timeout=0.2, retries=0).encode_texts(["a"])


def test_no_server():
    with ScriptedApi() as api:
        url = api.url
    with pytest.raises(MeantimeError, match="cannot be reached"):
        mt.load_encoder(url, retries=1)


def test_the_key_is_sent_and_nowhere_else(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MEANTIME_API_KEY", SECRET)
    with ScriptedApi("ok", (400, {}, {"error": {"message": f"bad key {SECRET}!"}}), 401) as api:
        encoder = connect(api)
        encoder.encode_texts(["a"])
        assert api.requests[0][0]["Authorization"] == f"Bearer {SECRET}"
        with pytest.raises(MeantimeError) as told:
            encoder.encode_texts(["b"])
        assert r"bad key ***!" in str(told.value)
        with pytest.raises(MeantimeError, match="which it does not accept") as refused:
            encoder.encode_texts(["c"])
        places = [str(told.value), str(refused.value), caplog.text]
        places += [encoder.identity, encoder.name, repr(encoder), repr(vars(encoder)), repr(vars(encoder._client))]
        assert not [place for place in places if SECRET in place]
        monkeypatch.setenv("OTHER", "x")
        connect(api, key_env="OTHER").encode_texts(["d"])
        assert api.requests[-1][0]["Authorization"] == "Bearer x"
    with pytest.raises(MeantimeError, match="contains a password") as error:
        mt.load_encoder(f"http://me:{SECRET}@127.0.0.1:1")
    assert SECRET not in str(error.value)
    assert SECRET not in mt.load_encoder(f"http://127.0.0.1:1/e?key={SECRET}", **FACTS).name


OURS = {"name": "embedded", "dim": 3, "size": 8, "logit_scale": 7.5, "identity": "embedded-abc"}


def test_what_a_server_tells_of_itself():
    told = {"size": 8, "resize": 10, "interpolation": "bilinear", "mean": [0, 0, 0], "std": [1, 1, 1], "squash": False}
    with ScriptedApi(models={"models": [OURS | {"preprocess": told}]}) as api:
        encoder = mt.load_encoder(api.url)
        assert (encoder.dim, encoder.logit_scale, encoder.identity) == (3, 7.5, "http-embedded-abc")
        assert encoder.preprocess == mt.preprocess.Preprocess(8, 10, "bilinear", (0, 0, 0), (1, 1, 1))
        encoder.encode_texts(["a"])
        assert api.requests[0][1] == {"input": ["a"], "model": "embedded", "encoding_format": "base64"}
        assert mt.load_encoder(api.url, logit_scale=50).logit_scale == 50


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        (None, {}, r"no embeddings API at /v1/models"),
        ({"data": [{"id": "clip-v2"}]}, {"dim": 3}, r"does not tell size, logit_scale of its model; pass size=…"),
        ({"models": "many"}, {}, "does not list its models"),
        ({"models": [OURS, OURS | {"name": "b"}]}, {}, r"has 2 models \(embedded, b\); add #NAME"),
        ({"models": [OURS]}, {"model": "#c"}, "has no model 'c'; it has embedded"),
        ({"models": [OURS | {"dim": "many"}]}, {}, "cannot be used"),
        ({"models": [OURS | {"dim": 2.5}]}, {}, r"cannot be used: dim is 2.5; expected a whole number"),
        ({"models": [OURS]}, {"logit_scale": -1}, "cannot be used: logit_scale is -1; expected a number above 0"),
        ({"models": [OURS]}, {"model": "?dim=0"}, "cannot be used: dim is 0; expected a number above 0"),
        ({"models": [OURS]}, {"model": "?dim="}, "cannot be used"),
        (None, {"size": 0, "dim": 3, "logit_scale": 1}, "cannot be used: size is 0"),
        (None, {"dim": 10**400, "size": 3, "logit_scale": 1}, "cannot be used"),
        (None, {"logit_scale": float("inf"), "dim": 3, "size": 3}, "cannot be used: logit_scale is inf"),
        (
            None,
            {"model": "/v1/embeddings?size=224#clip-x"},
            r"clip-x does not tell dim, logit_scale of its model; pass dim=…, logit_scale=…, or write them into the "
            r"address: …/embeddings\?dim=512&logit_scale=100$",
        ),
    ],
)
def test_a_server_that_tells_too_little(models, options, message):
    with ScriptedApi(models=models) as api, pytest.raises(MeantimeError, match=message):
        mt.load_encoder(api.url + options.pop("model", ""), **options)


def test_facts_in_the_address():
    with ScriptedApi() as api:
        told = f"{api.url}/v1/embeddings?dim=3&key={SECRET}&size=8&logit_scale=20.5#clip-x"
        encoder = mt.load_encoder(told)
        assert (encoder.dim, encoder.preprocess.size, encoder.logit_scale) == (3, 8, 20.5)
        np.testing.assert_array_equal(encoder.encode_texts(["a"]), expected(["a"]))
        assert api.paths == [f"/v1/embeddings?key={SECRET}"]  # the rest is the server's
        assert encoder.name == f"{api.url}/v1/embeddings?dim=3&size=8&logit_scale=20.5#clip-x"
        passed = mt.load_encoder(f"{api.url}/v1/embeddings?key={SECRET}#clip-x", **FACTS)
        assert passed.identity == encoder.identity
        assert mt.load_encoder(told, logit_scale=7).logit_scale == 7


def test_slips():
    with pytest.raises(MeantimeError, match="names no host"):
        mt.load_encoder("http://", **FACTS)
    with pytest.raises(MeantimeError, match="its own device"):
        mt.load_encoder("http://127.0.0.1:1", device="cuda", **FACTS)
    with pytest.raises(MeantimeError, match="dim given; only an encoder at an http address"):
        mt.load_encoder("embedded", dim=3)
    with pytest.raises(MeantimeError, match="must be at least 1"):
        HttpEncoder("http://127.0.0.1:1", batch=0, **FACTS)
    encoder = HttpEncoder("http://127.0.0.1:1", **FACTS)
    with pytest.raises(MeantimeError, match="expects \\(n, 8, 8, 3\\)"):
        encoder.encode_images(np.zeros((1, 9, 9, 3), np.uint8))
    with pytest.raises(MeantimeError, match="one string given"):
        encoder.encode_texts("a")


def test_a_cache_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path / "file"))
    with pytest.raises(MeantimeError, match="cache=False"):
        HttpEncoder("http://127.0.0.1:1", **FACTS)
    HttpEncoder("http://127.0.0.1:1", cache=False, **FACTS)
    (tmp_path / "api.sqlite").write_bytes(b"nonsense " * 1000)
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path))
    with pytest.raises(MeantimeError, match="Delete it if it is damaged"):
        HttpEncoder("http://127.0.0.1:1", **FACTS)
