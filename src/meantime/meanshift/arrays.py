"""Arrays of any library in, clear errors out: the one gate through which input reaches the mathematics.

Everything behind this gate may assume arrays of one library and device, in float32 or float64, of unit
length where the method asks for it, without NaN.
"""

import functools
from typing import Any

import array_api_compat
import numpy as np

from meantime.errors import MeantimeError

Array = Any  # an array of NumPy, PyTorch, or any library that follows the array-API standard
Namespace = Any  # that library's functions


def namespace(**arrays: Array) -> Namespace:
    """Return the array-API namespace that all named arrays share; raise if they do not share one."""
    found = [(name, _namespace_of(name, x), array_api_compat.device(x)) for name, x in arrays.items()]
    first, xp, device = found[0]
    for name, other, other_device in found[1:]:
        if other is not xp:
            raise MeantimeError(
                f"{first} is an array of {_library(xp)} but {name} is one of {_library(other)}: "
                "convert one, so that both come from the same library"
            )
        if other_device != device:
            raise MeantimeError(
                f"{first} is on device {device} but {name} is on {other_device}: move one to the other's device"
            )
    return xp


def array_namespace(x: Array) -> Namespace:
    """Return the library of an array. NumPy follows the standard itself and is faster without a wrapper."""
    return np if isinstance(x, np.ndarray) else array_api_compat.array_namespace(x)


def _namespace_of(name: str, x: Array) -> Namespace:
    try:
        return array_namespace(x)
    except TypeError as error:
        raise MeantimeError(
            f"{name} must be an array (NumPy, PyTorch or another array-API library), not {type(x).__name__}"
        ) from error


def _library(xp: Namespace) -> str:
    return str(xp.__name__).removeprefix("array_api_compat.").split(".")[0]


def checked(name: str, x: Array, rank: int, layout: str) -> Array:
    """Check that ``x`` holds floats in at least ``rank`` axes, none empty; return it as an array.

    Plain (nested) lists become NumPy arrays, since that is how embeddings arrive from an HTTP API; so do arrays of
    arrays, a table's column.
    """
    rows = isinstance(x, np.ndarray) and x.dtype == object and x.ndim == 1
    if isinstance(x, list | tuple) or rows:
        x = _from_rows(name, x, layout)
    if isinstance(x, np.ma.MaskedArray):
        raise MeantimeError(
            f"{name} is a masked array, and what is behind a mask cannot be left out: give whole vectors"
        )
    _namespace_of(name, x)
    shape = tuple(x.shape)
    if x.ndim < rank:
        raise MeantimeError(f"{name} must have shape {layout}, but its shape is {shape}")
    if 0 in shape:
        raise MeantimeError(f"{name} must have shape {layout} with no empty axis, but its shape is {shape}")
    # By kind, which other libraries do not have; or by name: NumPy's bfloat16 (of ml_dtypes) is of no such kind
    if getattr(x.dtype, "kind", "") != "f" and "float" not in str(x.dtype):
        raise MeantimeError(
            f"{name} must hold floating-point numbers, but its dtype is {x.dtype} (shape {shape}): "
            "embeddings are real numbers; convert with .astype('float32') if these really are"
        )
    # A tensor may be part of a training graph: the solver is not differentiated
    return x.detach() if hasattr(x, "detach") else x


def _from_rows(name: str, rows: Any, layout: str) -> Array:
    """Return nested lists, or an array of arrays, as one array."""
    inner = rows
    while isinstance(inner, list | tuple | np.ndarray) and len(inner):
        inner = inner[0]
    if isinstance(inner, str):
        raise MeantimeError(f"{name} must hold embeddings {layout}, but it holds the text {inner!r}: encode it first")
    try:
        return np.asarray(list(rows), dtype=float)
    except (TypeError, ValueError) as error:
        if "inhomogeneous" not in str(error):  # NumPy's word for rows of different lengths
            raise MeantimeError(f"{name} must be {layout}, but it cannot be made an array: {error}") from error
        alone = "; images with another number of views go into a call of their own" if name == "views" else ""
        raise MeantimeError(f"{name} must be {layout}, but its rows are ragged, of different lengths{alone}") from error


def number(name: str, x: Any) -> float:
    """Return a number given as one, or as an array or parameter that holds one."""
    try:
        if isinstance(x, str):
            raise TypeError
        return float(x.detach() if hasattr(x, "detach") else x)  # models keep their temperature as a parameter
    except (TypeError, ValueError) as error:
        raise MeantimeError(f"{name} must be a number, but it is {x!r}") from error


def to_floats(x: Array) -> Array:
    """Return floats of any kind in float32 or better."""
    xp = array_namespace(x)
    return x if x.dtype in (xp.float32, xp.float64) else xp.astype(x, xp.float32)


def as_floats(name: str, x: Array, rank: int, layout: str) -> Array:
    """Check as :func:`checked` and return in float32 or better."""
    return to_floats(checked(name, x, rank, layout))


def unit(name: str, x: Array, length: float = 1.0) -> Array:
    """Return ``x`` scaled to a length along its last axis; raise on NaN, infinity and zero vectors."""
    xp = array_namespace(x)
    with np.errstate(over="ignore", invalid="ignore"):
        norm2 = xp.vecdot(x, x)
    # One cheap test on the norms covers every element: NaN and infinity reach the norm.
    if not every((norm2 > 1e-30) & (norm2 < 1e30)):
        x = _rescaled(name, x)
        norm2 = xp.vecdot(x, x)
    return x * (length / xp.sqrt(norm2))[..., None]


def is_unit(x: Array) -> bool:
    """Whether all vectors along the last axis have unit length but for rounding: then there is nothing to scale."""
    xp = array_namespace(x)
    with np.errstate(over="ignore", invalid="ignore"):
        return every(xp.abs(xp.vecdot(x, x) - 1) < 8 * machine_epsilon(x))


def _rescaled(name: str, x: Array) -> Array:
    """Name the bad vector; or, if numbers are only huge or tiny, scale each so that its square is safe."""
    xp = array_namespace(x)
    shape = tuple(x.shape)
    finite = xp.all(xp.isfinite(x), axis=-1)
    if not bool(xp.all(finite)):
        raise MeantimeError(f"{name} {shape} holds NaN or infinity, first in {name}[{_first(xp, ~finite)}]")
    largest = xp.max(xp.abs(x), axis=-1, keepdims=True)
    zero = largest[..., 0] == 0
    if bool(xp.any(zero)):
        raise MeantimeError(
            f"{name} {shape} holds a zero vector, first in {name}[{_first(xp, zero)}]: it has no direction; "
            "check the encoder, or leave that vector out"
        )
    return x / largest


def _first(xp: Namespace, bad: Array) -> str:
    index = int(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int32)))
    place = []
    for size in reversed(tuple(bad.shape)):
        place.append(str(index % size))
        index //= size
    return ", ".join(reversed(place))


@functools.lru_cache(maxsize=64)
def _widest(xp: Namespace, device: Any) -> Any:
    """float64 where the library and the device have it (Apple's GPUs and JAX by default do not)."""
    floats = xp.__array_namespace_info__().dtypes(device=device, kind="real floating")
    return floats.get("float64", xp.float32)


def to_widest(x: Array) -> Array:
    """Return ``x`` in the widest float of its library and device.

    Distances come from a Gram matrix by subtraction. In float32 that leaves an error of 1e-7, more than
    the true distance between nearly coinciding views, whose bandwidth is as small: their kernels would be
    noise. The N x N part of the work is small, so it is done in float64.
    """
    xp = array_namespace(x)
    return xp.astype(x, _widest(xp, array_api_compat.device(x)), copy=False)


def for_small_steps(*arrays: Array) -> tuple[Array, ...]:
    """Return PyTorch's CPU tensors as NumPy arrays on the same memory; others as they are.

    The solver takes many steps on small arrays, and NumPy spends a third of PyTorch's time on each.
    """
    return tuple(x.numpy() for x in arrays) if all(map(is_numpy_under_torch, arrays)) else arrays


def is_numpy_under_torch(x: Array) -> bool:
    """Whether it is a tensor of PyTorch in the computer's own memory, of floats that NumPy has too."""
    here = "torch" in type(x).__module__ and getattr(getattr(x, "device", None), "type", None) == "cpu"
    return here and str(x.dtype) in ("torch.float16", "torch.float32", "torch.float64")


def every(x: Array) -> bool:
    """Whether all of ``x`` is true. NumPy's reductions themselves are twice as fast as the functions around them."""
    if isinstance(x, np.ndarray):
        return bool(np.logical_and.reduce(x, axis=None))
    return bool(array_namespace(x).all(x))


def machine_epsilon(x: Array) -> float:
    """Return the relative rounding of an array's floats."""
    return 2.0**-52 if x.dtype == array_namespace(x).float64 else 2.0**-23


def largest(x: Array) -> Array:
    """Maximum along the last axis, kept."""
    if not isinstance(x, np.ndarray):
        return array_namespace(x).max(x, axis=-1, keepdims=True)
    while x.strides[-1] > x.itemsize and x.shape[-1] > 16:  # NumPy is slow along an axis that jumps: fold it in two
        x = np.maximum(x[..., : -(-x.shape[-1] // 2)], x[..., x.shape[-1] // 2 :])
    return np.maximum.reduce(x, axis=-1, keepdims=True)


def total(x: Array) -> Array:
    """Sum along the last axis, kept."""
    if isinstance(x, np.ndarray):
        return np.add.reduce(x, axis=-1, keepdims=True)
    return array_namespace(x).sum(x, axis=-1, keepdims=True)


def softmax(logits: Array) -> Array:
    """Softmax over the last axis, safe for any finite logits (Eq. 2)."""
    e = array_namespace(logits).exp(logits - largest(logits))
    return e / total(e)


def log_softmax(logits: Array) -> Array:
    """Logarithm of :func:`softmax`, exact also where a probability underflows."""
    return log_and_softmax(logits)[0]


def log_and_softmax(logits: Array) -> tuple[Array, Array]:
    """Both, for the price of one exponential."""
    xp = array_namespace(logits)
    z = logits - largest(logits)
    e = xp.exp(z)
    z_total = total(e)
    return z - xp.log(z_total), e / z_total
