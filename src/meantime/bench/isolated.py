"""A function in a process of its own: the memory that it takes can be told, and if that is too much, only it dies."""

import importlib
import multiprocessing
import resource
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from meantime.errors import MeantimeError


@dataclass(frozen=True)
class Isolated:
    """What the function returned, or why it did not; and the most memory that its process held, in MiB."""

    value: Any = None
    peak: float = 0.0
    error: str | None = None


def isolated(function: str, argument: Any) -> Isolated:
    """Call ``module:name`` with one argument in a fresh process."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(function, argument, sender), daemon=True)
    process.start()
    sender.close()
    try:
        result: Isolated = receiver.recv()
    except EOFError:
        process.join()
        killed = process.exitcode == -9
        return Isolated(error="killed: probably out of memory" if killed else f"died with {process.exitcode}")
    finally:
        receiver.close()
    process.join()
    return result


def _run(function: str, argument: Any, sender: Connection) -> None:
    module, _, name = function.partition(":")
    try:
        value = getattr(importlib.import_module(module), name)(argument)
        sender.send(Isolated(value, peak()))
    except MeantimeError as error:
        sender.send(Isolated(error=str(error)))
    except Exception as error:
        sender.send(Isolated(error=f"{type(error).__name__}: {error}"))


def peak() -> float:
    """The most memory that this process has held since it began, or since `forget_peak`, in MiB."""
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / (1024 * 1024 if sys.platform == "darwin" else 1024)


def forget_peak() -> None:
    """Count anew from what is held now: loading a model takes more than using it. Only Linux can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
