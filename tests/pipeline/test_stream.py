"""Many images through the threads: full batches, in order, within bounds, to the byte again; the encoder never idle."""

import threading
import time

import numpy as np
import pytest
from toy import ToyEncoder, picture

from meantime import ViewSpec, pipeline


def test_batches_are_filled_across_images():
    encoder = ToyEncoder()
    list(pipeline.encode([picture("red", seed=i) for i in range(10)], encoder, ViewSpec(n=4), batch=16))
    assert encoder.batches == [16, 16, 8]


def test_batch_and_threads_change_nothing():
    images = [picture("blue", seed=i) for i in range(7)]
    expected = [e.embeddings for e in pipeline.encode(images, ToyEncoder(), ViewSpec(n=5))]
    for batch, threads in ((1, 1), (7, 3), (1000, 2)):
        got = [e.embeddings for e in pipeline.encode(images, ToyEncoder(), ViewSpec(n=5), batch=batch, threads=threads)]
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_few_images_are_read_ahead():
    taken = []

    def sources():
        for i in range(1000):
            taken.append(i)
            yield picture("red", seed=i)

    stream = pipeline.encode(sources(), ToyEncoder(), ViewSpec(n=4), batch=8, threads=2)
    next(stream)
    assert len(taken) < 20
    stream.close()


def test_stopping_early_leaves_no_thread():
    before = threading.active_count()
    stream = pipeline.encode([picture("red")] * 50, ToyEncoder(), ViewSpec(n=4), batch=8)
    next(stream)
    stream.close()
    assert threading.active_count() == before


def test_an_error_of_the_encoder_is_not_swallowed():
    class Broken(ToyEncoder):
        def encode_images(self, pixels):
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        list(pipeline.encode([picture("red")], Broken(), ViewSpec(n=2)))


def test_the_encoder_has_its_next_batch_while_an_answer_is_looked_at():
    second = threading.Event()

    class Noted(ToyEncoder):
        def encode_images(self, pixels):
            rows = super().encode_images(pixels)
            if len(self.batches) == 2:
                second.set()
            return rows

    stream = pipeline.encode([picture("red", seed=i) for i in range(8)], Noted(), ViewSpec(n=4), batch=4)
    next(stream)
    assert second.wait(10)  # nobody has asked for the second image yet
    stream.close()


def test_batches_depend_on_the_order_of_images_alone():
    def batches(threads, slow):
        encoder = ToyEncoder()

        def sources():
            for i in range(9):
                time.sleep(0.002 * (i % slow))
                yield b"no image" if i in (2, 3) else picture("red", seed=i)

        found = list(pipeline.encode(sources(), encoder, ViewSpec(n=3), batch=8, threads=threads))
        assert [e.error is not None for e in found] == [i in (2, 3) for i in range(9)]
        return encoder.batches

    assert batches(1, 1) == batches(3, 3) == batches(2, 5) == [9, 9, 3]


@pytest.mark.parametrize("readable", [0, 1])
def test_nothing_but_unreadable_images_come_out_as_errors(readable):
    images = [b"no image"] * 30 + [picture("red")] * readable
    found = list(pipeline.encode(images, ToyEncoder(), ViewSpec(n=4), batch=8, threads=2))
    assert [e.error is None for e in found] == [False] * 30 + [True] * readable


def test_no_pixels_are_kept_of_what_is_encoded():
    (encoded,) = pipeline.encode([picture("red")], ToyEncoder(), ViewSpec(n=4))
    assert len(encoded.places) == 4
    held = {**vars(encoded), **vars(encoded.places)} | {"source": None}
    assert not any(isinstance(x, np.ndarray) and x.dtype == np.uint8 for x in held.values())


@pytest.mark.parametrize(("own", "expected"), [(16, 64), (256, 256)])
def test_a_batch_is_one_of_the_encoders_own_at_least(own, expected):
    encoder = ToyEncoder()
    encoder.batch = own  # of its device
    list(pipeline.encode([picture("red")] * 40, encoder, ViewSpec(n=8)))
    assert encoder.batches == [expected] * (320 // expected) + [320 % expected] * (320 % expected > 0)
