"""Encoded views on disk: Parquet shards and a JSON manifest. Encode once, then ask anything of them.

`meantime.store.encode` fills a store from images; it stands above the pipeline, so it is not imported here.
"""

from meantime.store.arrays import import_arrays
from meantime.store.manifest import Manifest, Plan, Shard
from meantime.store.merge import merge_stores
from meantime.store.reader import Batch, Store, open_store
from meantime.store.shards import Row
from meantime.store.texts import Texts
from meantime.store.verify import verify_store
from meantime.store.writer import StoreWriter, open_writer

__all__ = [
    "Batch",
    "Manifest",
    "Plan",
    "Row",
    "Shard",
    "Store",
    "StoreWriter",
    "Texts",
    "import_arrays",
    "merge_stores",
    "open_store",
    "open_writer",
    "verify_store",
]
