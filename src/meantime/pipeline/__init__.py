"""The one path from pixels to embeddings, for lists of files as for a service's clients.

Threads decode and crop ahead, one thread encodes in batches that cross images, and an image that cannot be read is an
error in its place. :class:`Pipeline` is the threads, :class:`Flight` one image on its way through them,
:func:`encode` and :func:`encode_until` send many through and yield them in order.
"""

from meantime.pipeline.batcher import BATCH, Batcher
from meantime.pipeline.flight import Encoded, Flight, source_name
from meantime.pipeline.stream import chunks, encode, encode_until
from meantime.pipeline.threads import Pipeline, default_threads

__all__ = [
    "BATCH",
    "Batcher",
    "Encoded",
    "Flight",
    "Pipeline",
    "chunks",
    "default_threads",
    "encode",
    "encode_until",
    "source_name",
]
