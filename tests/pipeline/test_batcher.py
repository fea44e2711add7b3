"""The encoder's thread: those who wait always hear, of an answer or of what went wrong."""

import threading
import time

import numpy as np
import pytest
from toy import ToyEncoder

import meantime as mt
from meantime.pipeline import Batcher

PIXELS = np.zeros((4, 16, 16, 3), np.uint8)


@pytest.fixture
def batcher():
    made = Batcher(ToyEncoder())
    yield made
    made.close()


@pytest.mark.parametrize("broken", [lambda pixels: None, lambda pixels: np.zeros((3, 3), np.float32)])
def test_an_encoder_that_forgets_rows_is_told_of_and_the_next_is_encoded(batcher, broken):
    sound, batcher.encoder.encode_images = batcher.encoder.encode_images, broken
    with pytest.raises((mt.MeantimeError, TypeError)):
        batcher.images(PIXELS).result(10)
    batcher.encoder.encode_images = sound
    assert batcher.images(PIXELS).result(10).shape == (4, 3)


def test_nothing_to_encode_is_no_error(batcher):
    assert batcher.images(PIXELS[:0]).result(10).shape == (0, 3)
    assert batcher.images(PIXELS).result(10).shape == (4, 3)


def test_what_waits_is_finished_before_the_end_and_nothing_is_taken_after():
    class Slow(ToyEncoder):
        def encode_images(self, pixels):
            time.sleep(0.01)
            return super().encode_images(pixels)

    batcher = Batcher(Slow(), batch=4)
    futures = [batcher.images(PIXELS) for _ in range(5)]
    batcher.close()
    assert all(future.done() for future in futures)
    with pytest.raises(RuntimeError):
        batcher.images(PIXELS)
    assert batcher.waiting == 0


def test_many_askers_get_their_own_rows(batcher):
    answers = {}

    def ask(value):
        answers[value] = batcher.images(np.full((3, 16, 16, 3), value, np.uint8)).result(10)

    threads = [threading.Thread(target=ask, args=(value,)) for value in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for value, rows in answers.items():
        np.testing.assert_array_equal(rows, np.full((3, 3), value + 1))
