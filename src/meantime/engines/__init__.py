"""Where a dataset is encoded: in this process, or by workers of a Ray cluster. One worker, two engines."""

from meantime.engines.local import LocalEngine
from meantime.engines.ray_engine import RayEngine
from meantime.engines.worker import Engine, Job, Worker

__all__ = ["Engine", "Job", "LocalEngine", "RayEngine", "Worker"]
