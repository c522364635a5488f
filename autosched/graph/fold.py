"""Passes over a graph before it is cut: what moves elements becomes index maps, what constants scale becomes weights.

Each is a function of a graph; `PASSES` has them in order. What they ask is what te bodies say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from autosched import te
from autosched.graph.group import reads_in_place
from autosched.graph.known import evaluated
from autosched.graph.model import Array, Graph, tensors_of
from autosched.graph.rewriting import Changes, rewritten
from autosched.ir.expr import Expr, binary, is_const, make, variables
from autosched.ir.visit import reads, rewrite, substitute
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, Operation, Tensor
from autosched.te.tensor import Graph as Operations


def operations(graph: Graph) -> Operations:
    """The operations that its outputs depend on."""
    return Operations.of([t for v in graph.outputs.values() for t in tensors_of(v)])


def finals(graph: Graph) -> set[Operation]:
    return {t.op for v in graph.outputs.values() for t in tensors_of(v)}


def of_scans(found: Operations) -> set[Operation]:
    """The operations that are parts of scans: steps, and what they begin with."""
    scans = [op for op in found.ops if isinstance(op, ScanOp)]
    return {part for op in scans for part in (*op.steps, *(t.op for t in op.init))}


def index_maps(graph: Graph) -> Graph:
    """Reshapes, transpositions, slices and broadcasts compute nothing: readers read what these read."""
    found = operations(graph)
    kept = finals(graph) | of_scans(found)
    chosen = {op for op in found.ops if isinstance(op, ComputeOp) and op not in kept and is_index_map(op)}
    opaque = {t.op for op in found.ops if not isinstance(op, ComputeOp) for t in op.input_tensors}
    return rewritten(graph, Changes(inlined=chosen - opaque)) if chosen - opaque else graph


def is_index_map(op: ComputeOp) -> bool:
    """Whether an element is one of another tensor, whatever it is, at a place that indices alone say."""
    body = op.body[0]
    return op.num_outputs == 1 and body.op == "read" and all(i.index for i in body.args)


def scales_into_weights(graph: Graph) -> Graph:
    """A sum of products with weights that is then scaled by constants along an axis of the weights (batch norm after a
    convolution) is a sum of products with scaled weights."""
    found, final = operations(graph), finals(graph)
    constants = dict(graph.constants)
    bodies: dict[Operation, list[Expr]] = {}
    for op in found.ops:
        if not isinstance(op, ComputeOp) or op.reduce_axis or op.num_outputs > 1:
            continue
        for t in op.input_tensors:
            alone = t.op not in final and found.consumers[t.op] == (op,) and isinstance(t.op, ComputeOp)
            if alone and t.op not in bodies and op not in bodies and reads_in_place(op, t):
                bodies.update(_scaled(op, t, constants))
    return replace(rewritten(graph, Changes(bodies=bodies)), constants=constants) if bodies else graph


def _scaled(op: ComputeOp, t: Tensor, constants: dict[Tensor, Array]) -> dict[Operation, list[Expr]]:
    """New bodies of `op` and of the sum `t` that it scales; the scaled weights are entered among the constants."""
    anchor = t.op
    assert isinstance(anchor, ComputeOp)
    weights = weights_of(anchor, constants)
    form = _linear(op.body[0], t)
    if weights is None or form is None or weights.value.dtype != t.dtype or not t.dtype.is_float:
        return {}
    scale, rest = form
    along = variables(scale)
    if len(along) != 1 or not all(e.value in constants for e in reads(scale)):
        return {}
    k = [a.var for a in op.axis].index(next(iter(along)))
    own = [d for d, i in enumerate(weights.args) if i is anchor.axis[k].var]
    if len(own) != 1:
        return {}
    n = op.axis[k].extent
    factor = te.compute((n,), lambda i: substitute(scale, {op.axis[k].var: i}), name="scale")
    values = evaluated(factor, constants)
    if values is None:
        return {}
    shape = [1] * weights.value.ndim
    shape[own[0]] = -1
    made = te.placeholder(weights.value.shape, weights.value.dtype, name=f"{weights.value.name}_scaled")
    constants[made] = constants[weights.value] * values.reshape(shape)
    body = rewrite(anchor.body[0], lambda e, args: make("read", e.dtype, args, made) if e is weights else None)
    place = make("read", t.dtype, tuple(a.var for a in op.axis), t)
    return {anchor: [body], op: [place if rest is None else binary("add", place, rest)]}


def weights_of(op: Operation, constants: Mapping[Tensor, Array]) -> Expr | None:
    """The one read of a constant among the factors of a sum of products."""
    if not isinstance(op, ComputeOp) or op.num_outputs > 1 or op.body[0].op != "reduce":
        return None
    body = op.body[0]
    source, condition, *first = body.args
    if body.value.combiner != "sum" or first or not is_const(condition, True):
        return None
    found = [e for e in _factors(source) if e.op == "read" and e.value in constants]
    others = [e for e in reads(source) if e not in found]
    return found[0] if len(found) == 1 and others else None


def _factors(e: Expr) -> list[Expr]:
    return [x for a in e.args for x in _factors(a)] if e.op == "mul" else [e]


def _linear(e: Expr, t: Tensor) -> tuple[Expr, Expr | None] | None:
    """(a, b) of an expression that is `a * t[..] + b`; None where it is none, or a is 1."""
    form = _terms(e, t)
    factors, rest = form or (None, None)
    if not factors:
        return None
    return reduce(lambda x, y: binary("mul", x, y), factors), rest


def _terms(e: Expr, t: Tensor) -> tuple[list[Expr] | None, Expr | None] | None:
    """(factors of the read of `t`, what is added); None for factors where `t` is not read."""
    if not any(x.value is t for x in reads(e)):
        return None, e
    if e.op == "read":
        return [], None
    if e.op not in ("add", "sub", "mul"):
        return None
    left, right = (_terms(a, t) for a in e.args)
    if left is None or right is None or (left[0] is not None and right[0] is not None):
        return None
    (factors, rest), other = (left, e.args[1]) if left[0] is not None else (right, e.args[0])
    assert factors is not None
    if e.op == "mul":
        return [*factors, other], None if rest is None else binary("mul", rest, other)
    if e.op == "sub" and left[0] is None:
        return None
    return factors, other if rest is None and e.op == "add" else binary(
        e.op, rest, other
    ) if rest is not None else -other


def needed_constants(graph: Graph) -> Graph:
    """The graph without constants that nothing reads any more."""
    used = {t for op in operations(graph).ops for t in (*op.input_tensors, *op.outputs)}
    used |= {t for v in graph.outputs.values() for t in tensors_of(v)}
    return replace(graph, constants={t: a for t, a in graph.constants.items() if t in used})
