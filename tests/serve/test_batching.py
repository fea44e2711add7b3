"""What arrives together is encoded together; what nobody waits for is not encoded; too much is refused."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from parts import SlowEncoder, text64

from meantime.pipeline import Batcher
from meantime.registry import methods
from meantime.serve.batching import AsyncEncoder, Budget
from meantime.serve.settings import Settings
from meantime.serve.texts import Texts


def pixels(count, value=0):
    return np.full((count, 16, 16, 3), value, np.uint8)


@pytest.fixture
def batcher():
    made = Batcher(SlowEncoder(), batch=8)
    yield made
    made.encoder.may.set()
    made.close()


@pytest.fixture
def encode(batcher):
    return AsyncEncoder(batcher)


def test_requests_that_wait_share_a_batch_and_get_their_own_rows(batcher, encode):
    async def run():
        batcher.encoder.may.clear()
        first = asyncio.ensure_future(encode.images(pixels(1)))
        await asyncio.to_thread(batcher.encoder.entered.wait)
        others = [asyncio.ensure_future(encode.images(pixels(3, value))) for value in (10, 20, 30)]
        text = asyncio.ensure_future(encode.texts(["red"]))
        await asyncio.sleep(0)
        assert batcher.waiting == 10
        batcher.encoder.may.set()
        return [await f for f in (first, *others, text)]

    _, *rows, text = asyncio.run(run())
    assert batcher.encoder.batches == [1, 6, 3]  # 3 + 3 fit into 8, and three more do not
    for value, row in zip((10, 20, 30), rows, strict=True):
        np.testing.assert_array_equal(row, np.full((3, 3), value + 1))
    np.testing.assert_array_equal(text, batcher.encoder.encode_texts(["red"]))


def test_a_large_request_takes_turns(batcher, encode):
    rows = asyncio.run(encode.images(np.concatenate([pixels(1, v) for v in range(20)])))
    assert batcher.encoder.batches == [8, 8, 4]
    np.testing.assert_array_equal(rows[:, 0], np.arange(20) + 1)


def test_a_small_request_comes_between_the_parts_of_a_large_one(batcher, encode):
    order = []

    async def ask(name, count):
        await encode.images(pixels(count))
        order.append(name)

    async def run():
        batcher.encoder.may.clear()
        large = asyncio.ensure_future(ask("large", 40))
        await asyncio.to_thread(batcher.encoder.entered.wait)
        small = asyncio.ensure_future(ask("small", 1))
        await asyncio.sleep(0)
        batcher.encoder.may.set()
        await asyncio.gather(large, small)

    asyncio.run(run())
    assert order == ["small", "large"]


def test_what_nobody_waits_for_is_not_encoded(batcher, encode):
    async def run():
        batcher.encoder.may.clear()
        first = asyncio.ensure_future(encode.images(pixels(1)))
        await asyncio.to_thread(batcher.encoder.entered.wait)
        gone = asyncio.ensure_future(encode.images(pixels(20)))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        batcher.encoder.may.set()
        await first
        return await encode.images(pixels(2))

    asyncio.run(run())
    assert batcher.encoder.batches == [1, 2]


def test_a_failing_encoder_fails_its_batch_alone(batcher, encode):
    sound = batcher.encoder.encode_images

    def failing(x):
        if x[0, 0, 0, 0] == 13:
            raise RuntimeError("broken")
        return sound(x)

    batcher.encoder.encode_images = failing

    async def run():
        with pytest.raises(RuntimeError, match="broken"):
            await encode.images(pixels(2, 13))
        return await encode.images(pixels(2))

    assert asyncio.run(run()).shape == (2, 3)


def test_the_budget_is_kept_in_order_and_a_large_one_passes_alone():
    async def run():
        budget, order = Budget(4), []

        async def hold(name, count):
            await budget.take(count)
            order.append(name)
            assert budget.used <= max(4, count)
            await asyncio.sleep(0.001)
            budget.give(count)

        await asyncio.gather(*(hold(i, count) for i, count in enumerate([3, 1, 2, 9, 1, 4])))
        return order, budget.used

    assert asyncio.run(run()) == ([0, 1, 2, 3, 4, 5], 0)


def classify(client, red, **changes):
    return client.post("/v1/classify", json={"image": text64(red), "labels": ["red"], "views": 2} | changes)


def test_a_full_queue_answers_503_with_the_time_to_come_again(serve, red):
    client = serve(queue=2)
    encoder = client.service.encoder
    encoder.entered.clear()
    encoder.may.clear()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(classify, client, red) for _ in range(2)]
        while client.service.gate.inside < 2:
            time.sleep(0.001)
        refused = classify(client, red)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["type"] == "overloaded"
        # The loop is not blocked meanwhile
        assert client.get("/healthz").status_code == 200
        encoder.may.set()
        assert [w.result().status_code for w in waiting] == [200, 200]
    assert classify(client, red).status_code == 200
    assert client.service.gate.inside == client.service.gate.bytes == client.service.pixels.used == 0


def test_bodies_that_would_fill_memory_together_are_refused(serve, red):
    client = serve(max_waiting_bytes=2000)
    refused = classify(client, red)
    assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
    assert client.service.gate.bytes == 0


def test_a_failure_inside_is_an_answer_without_details(serve, red, caplog):
    client = serve()
    client.service.encoder.encode_images = lambda pixels: (_ for _ in ()).throw(RuntimeError("/secret/path"))
    answer = classify(client, red)
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "secret" in caplog.text
    assert client.service.gate.inside == client.service.pixels.used == 0


def test_the_same_new_labels_asked_together_are_encoded_once(serve, red):
    client = serve()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: classify(client, red, labels=["green", "teal"]), range(8)))
    assert {a.status_code for a in answers} == {200}
    assert client.service.encoder.texts.count("a photo of a teal.") == 1


def test_labels_that_nobody_waits_for_any_more_are_not_encoded(batcher, encode):
    texts = Texts(batcher.encoder, encode, Settings())

    async def run():
        batcher.encoder.may.clear()
        first = asyncio.ensure_future(encode.images(pixels(1)))
        await asyncio.to_thread(batcher.encoder.entered.wait)
        asked = [
            asyncio.ensure_future(texts.heads(names, methods()["mta"], None)) for names in (("a",), ("a",), ("b",))
        ]
        while batcher.waiting < 2:
            await asyncio.sleep(0.001)
        asked[1].cancel()
        asked[2].cancel()
        await asyncio.gather(*asked[1:], return_exceptions=True)
        await asyncio.sleep(0.01)
        batcher.encoder.may.set()
        await first
        return await asked[0]

    assert asyncio.run(run())["text"].n_classes == 1
    assert batcher.encoder.texts == ["a photo of a a."]
    assert not texts._making


def test_threads_end_with_the_service(serve):
    names = {t.name for t in threading.enumerate()}
    client = serve()
    client.service.close()
    assert not {t.name for t in threading.enumerate() if t.name.startswith("encoder")} - names
