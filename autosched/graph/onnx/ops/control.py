"""Control flow. A branch is chosen, and a loop is written out, while the model is read; a condition that only a run
knows makes a choice between two results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched import te, topi
from autosched.graph.onnx.node import Node, Value, operator
from autosched.te.tensor import Tensor
from autosched.topi.arguments import axis_of, number, same

#: steps that loops of a node are written out for, at most
MOST_STEPS = 4096


@operator("If")
def choice(node: Node, condition: Tensor) -> tuple[Value, ...]:
    if not node.is_known(condition):
        sides = [node.bodies[f"{side}_branch"]([]) for side in ("then", "else")]
        if all(_alike(a, b) for a, b in zip(*sides, strict=True)):
            truth = condition(*[0] * condition.ndim)
            return tuple(
                te.compute(a.shape, lambda *i, a=a, b=b: te.if_then_else(truth, a(*i), b(*i)), name="choice")
                for a, b in zip(*sides, strict=True)
            )
    return tuple(node.bodies["then_branch" if node.number(condition) else "else_branch"]([]))


def _alike(a: Value, b: Value) -> bool:
    """Whether two values are tensors of one type and shape."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return False
    return a.dtype == b.dtype and a.ndim == b.ndim and all(map(same, a.shape, b.shape))


@operator("Loop")
def loop(node: Node, count: Tensor | None, condition: Tensor | None, *initial: Value) -> tuple[Value, ...]:
    body, carried = node.bodies["body"], list(initial)
    trips = None if count is None else int(node.number(count))
    goes_on = condition is None or bool(node.number(condition))
    rows: list[list[Tensor]] = []
    step = 0

    def run() -> list[Any]:
        of = "int64" if count is None else count.dtype
        return list(body([node.constant(np.int64(step), of), node.constant(np.bool_(True)), *carried]))

    while goes_on and (trips is None or step < trips):
        if step == MOST_STEPS:
            raise node.refused(f"it takes more than {MOST_STEPS} steps", f"{MOST_STEPS} steps")
        again, *found = run()
        carried = found[: len(initial)]
        rows.append(found[len(initial) :])
        step += 1
        goes_on = bool(node.number(again)) if again is not None else True
    if not rows:
        return (*carried, *(_empty(node, t) for t in run()[1 + len(initial) :]))
    return (*carried, *(_stacked(column, 0) for column in zip(*rows, strict=True)))


def _empty(node: Node, like: Tensor) -> Tensor:
    """No rows, of the shape of this one."""
    return node.constant(np.zeros([0, *(number(d, node.kind) for d in like.shape)], like.dtype.numpy))


def _stacked(rows: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors of one shape along a new axis."""
    return topi.stack(list(rows), axis)


@operator("Scan")
def scan(node: Node, *given: Tensor | None) -> tuple[Value, ...]:
    tensors: list[Any] = list(given)
    if node.opset > 8:
        return _scan(node, tensors, [0] * len(tensors))
    lengths, *rest = tensors
    if lengths is not None:
        raise node.refused("sequences of several lengths", "no first input, or operator set 9")
    batches = [
        _scan(node, [_slice(t, 0, te.const(b)) for t in rest], node.attr("directions"))
        for b in range(number(rest[0].shape[0], f"Scan {node.name}"))
    ]
    return tuple(_stacked(parts, 0) for parts in zip(*batches, strict=True))


def _scan(node: Node, given: list[Any], directions: Any) -> tuple[Value, ...]:
    """One sequence."""
    body, inputs = node.bodies["body"], node.attr("num_scan_inputs")
    states, sources = given[: len(given) - inputs], given[len(given) - inputs :]
    asked = f"Scan {node.name}"
    at = [axis_of(t, a, asked) for t, a in zip(sources, node.attr("scan_input_axes") or [0] * inputs, strict=True)]
    backward = node.attr("scan_input_directions") or node.attr("directions") or [0] * inputs
    times = {number(t.shape[a], asked) for t, a in zip(sources, at, strict=True)}
    if len(times) != 1 or max(times) > MOST_STEPS or not times:
        raise node.refused(f"sequences of lengths {sorted(times)}", f"one length of {MOST_STEPS} at most")
    (length,) = times
    count, rows = len(states), []

    def run(step: int) -> list[Any]:
        places = [te.const(length - 1 - step if back else step) for back in backward]
        return list(body([*states, *(_slice(t, a, p) for t, a, p in zip(sources, at, places, strict=True))]))

    for step in range(length):
        found = run(step)
        states = found[:count]
        rows.append(found[count:])
    if not rows:
        raise node.refused("a sequence of length 0", "a step at least")
    columns = list(zip(*rows, strict=True))
    axes = node.attr("scan_output_axes") or [0] * len(columns)
    reverse = node.attr("scan_output_directions") or [0] * len(columns)
    return (
        *states,
        *(
            _stacked(c[::-1] if back else c, a % (c[0].ndim + 1))
            for c, a, back in zip(columns, axes, reverse, strict=True)
        ),
    )


def _slice(t: Tensor, axis: int, place: Any) -> Tensor:
    """The part of a tensor at a place along an axis, which it no longer has."""
    shape = [d for k, d in enumerate(t.shape) if k != axis]
    return te.compute(tuple(shape), lambda *i: t(*i[:axis], place, *i[axis:]), name="slice")
