"""Sequences, which are lists of tensors while a model is read, and optionals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched import topi
from autosched.graph.onnx.node import Node, Value, operator
from autosched.graph.onnx.ops.movement import axis_of, pieces, without
from autosched.te.tensor import Tensor
from autosched.topi.arguments import number

List = list[Any]


def _position(node: Node, among: List, position: Tensor | None, default: int, most: int) -> int:
    at = default if position is None else int(node.number(position))
    if not -len(among) <= at <= most:
        raise node.refused(f"there is no position {at} in a sequence of {len(among)}")
    return at + len(among) if at < 0 else at


@operator("SequenceConstruct")
def sequence_construct(node: Node, *xs: Tensor) -> List:
    return list(xs)


@operator("SequenceEmpty")
def sequence_empty(node: Node) -> List:
    return []


@operator("SequenceAt")
def sequence_at(node: Node, xs: List, position: Tensor) -> Value:
    found: Value = xs[_position(node, xs, position, 0, len(xs) - 1)]
    return found


@operator("SequenceInsert")
def sequence_insert(node: Node, xs: List, x: Value, position: Tensor | None = None) -> List:
    at = _position(node, xs, position, len(xs), len(xs))
    return [*xs[:at], x, *xs[at:]]


@operator("SequenceErase")
def sequence_erase(node: Node, xs: List, position: Tensor | None = None) -> List:
    at = _position(node, xs, position, -1, len(xs) - 1)
    return [*xs[:at], *xs[at + 1 :]]


@operator("SequenceLength")
def sequence_length(node: Node, xs: List) -> Tensor:
    return node.constant(len(xs), "int64")


@operator("SplitToSequence")
def split_to_sequence(node: Node, x: Tensor, split: Tensor | None = None) -> List:
    at = axis_of(node, node.attr("axis", 0), x.ndim)
    if split is not None and split.ndim:
        return list(pieces(x, at, node.dims(split)))
    length, part = number(x.shape[at], node.kind), 1 if split is None else int(node.number(split))
    if part < 1:
        raise node.refused(f"pieces of {part} elements", "1 or more")
    found = pieces(x, at, [min(part, length - k) for k in range(0, length, part)])
    return [without(t, [at]) for t in found] if split is None and not node.attr("keepdims", 1) else list(found)


@operator("ConcatFromSequence")
def concat_from_sequence(node: Node, xs: List) -> Tensor:
    at = node.attr("axis")
    return topi.stack(xs, at) if node.attr("new_axis", 0) else topi.concatenate(xs, at)


@operator("SequenceMap")
def sequence_map(node: Node, xs: List, *more: Value) -> object:
    made: Sequence[list[Value]] = [
        node.bodies["body"]([x, *(m[k] if isinstance(m, list) else m for m in more)]) for k, x in enumerate(xs)
    ]
    return tuple([results[k] for results in made] for k in range(len(node.outputs)))


@operator("Optional")
def optional(node: Node, x: Value = None) -> Value:
    return x


@operator("OptionalHasElement")
def optional_has_element(node: Node, x: Value = None) -> Tensor:
    return node.constant(x is not None, "bool")


@operator("OptionalGetElement")
def optional_get_element(node: Node, x: Value) -> Value:
    if x is None:
        raise node.refused("the optional holds nothing")
    return x
