import threading

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
