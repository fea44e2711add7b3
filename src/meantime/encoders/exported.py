"""Exports that stand in for their originals on a CPU, where ONNX Runtime is several times faster than PyTorch.

`meantime export --model NAME` keeps one in the cache; `load_encoder(NAME)` then takes it wherever there is no GPU. Only
float32 may: rounded weights are another encoder, to be asked for by their directory.
`python benchmarks/encoders.py` measures what that gains.
"""

import re
from importlib.util import find_spec
from pathlib import Path

from meantime.encoders.cache import cache_file
from meantime.encoders.onnx import OnnxEncoder
from meantime.encoders.torch_towers import choose_device
from meantime.errors import MeantimeError


def export_folder(name: str) -> Path:
    """Return where the export of a published model is kept."""
    path = name.partition(":")[2] or name
    if Path(name).exists() or Path(path).exists():
        raise MeantimeError(f"{name!r} lies on this disk and may change: say where its export is to go")
    return cache_file().parent / "onnx" / re.sub(r"[^\w.-]+", "--", name)


def stand_in(name: str, threads: int | None) -> OnnxEncoder | None:
    """Return the kept export of a model, if there is one and no GPU that would be faster."""
    try:
        folder = export_folder(name)
    except MeantimeError:
        return None
    if not (folder / "image.onnx").is_file() or (find_spec("torch") and choose_device("auto") != "cpu"):
        return None
    encoder = OnnxEncoder(folder, name=name, threads=threads)
    return encoder if encoder.weights == "float32" else None
