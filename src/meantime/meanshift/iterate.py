"""Repeat a step on many rows until each has had enough: the loop around every update of the solver.

State is kept as rows (B, S, …) of B images and S settings. A row that has converged is frozen while others
go on, so that a batch gives what its images give one by one; and images whose rows have all converged
leave the batch, so that a slow image does not hold up the rest.
"""

from collections.abc import Callable
from typing import TypeVar, cast

from meantime.meanshift.arrays import Array, array_namespace, every

State = TypeVar("State", bound=tuple[Array, ...])
Fixed = tuple[Array, ...]

# Sorting out the finished images costs some copies: not worth it in the few steps of a short loop.
PATIENCE = 16


def iterate(
    step: Callable[[Fixed, State, int], tuple[State, Array]],
    fixed: Fixed,
    state: State,
    limit: int,
    visit: Callable[[State], None] | None = None,
) -> tuple[State, Array, Array]:
    """Apply ``step`` until no row moves, ``limit`` times at most.

    ``step(fixed, state, n)`` gets arrays with the leading axis B of the images still at work (``fixed``) or
    B and S (``state``) and returns the next state and which rows (B, S) it moved enough to go on.
    Returns the last state, the steps that each row took, and which rows stopped by themselves.
    ``visit`` sees the whole state after each step.
    """
    xp = array_namespace(state[0])
    rows, device = state[0].shape[:2], state[0].device
    index = xp.arange(rows[0], device=device)
    running = None  # every row: no masks are kept until the first has stopped
    finished: list[tuple[Array, ...]] = []
    for n in range(1, limit + 1):
        new, moved = step(fixed, state, n)
        state = new if running is None else _freeze(running, new, state)
        if visit is not None:
            visit(state)
        if running is None:
            if every(moved):
                continue
            running, steps = moved, xp.full(rows, n, dtype=xp.int64, device=device)
        else:
            steps = xp.where(running, n, steps)
            running = running & moved
        if every(~running):
            break
        if n < PATIENCE or visit is not None:
            continue
        at_work = xp.any(running, axis=-1)
        if 2 * int(xp.sum(xp.astype(at_work, xp.int64))) <= at_work.shape[0]:
            done, left = xp.nonzero(~at_work)[0], xp.nonzero(at_work)[0]
            finished.append(_take((index, steps, running, *state), done))
            index, steps, running, *rest = _take((index, steps, running, *state), left)
            fixed, state = _take(fixed, left), _like(state, rest)
    if running is None:
        running = xp.ones(rows, dtype=xp.bool, device=device)
        steps = xp.full(rows, limit, dtype=xp.int64, device=device)
    index, steps, running, *rest = _in_order([*finished, (index, steps, running, *state)])
    return _like(state, rest), steps, ~running


def _freeze(running: Array, new: State, old: State) -> State:
    xp = array_namespace(running)
    wide = running[..., None]
    return _like(old, [xp.where(running if x.ndim == 2 else wide, x, y) for x, y in zip(new, old, strict=True)])


def _like(state: State, values: list[Array]) -> State:
    """Return the values in the state's own (named) tuple."""
    make = getattr(type(state), "_make", tuple)
    return cast(State, make(values))


def _take(arrays: tuple[Array, ...], images: Array) -> tuple[Array, ...]:
    xp = array_namespace(images)
    return tuple(xp.take(x, images, axis=0) for x in arrays)


def _in_order(parts: list[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Join the parts of a batch, whose first field is each image's place, and put them in order."""
    if len(parts) == 1:
        return parts[0]
    xp = array_namespace(parts[0][0])
    joined = tuple(xp.concat(list(column)) for column in zip(*parts, strict=True))
    return _take(joined, xp.argsort(joined[0]))
