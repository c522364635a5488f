"""Schedules, functions, tensors and expressions as JSON text, to be read in another process.

text = save_json(s)
s = load_json(text)           # a new graph and a new schedule, on which the trace was replayed
"""

from __future__ import annotations

import json
from typing import Any

from autosched.errors import RecordError, UsageError
from autosched.ir.expr import Expr
from autosched.schedule.schedule import Schedule, replay
from autosched.te.graph_json import graph_from_json, graph_to_json
from autosched.te.tensor import Operation, Tensor, compute
from autosched.tir.module import IRModule
from autosched.tir.prim_func import PrimFunc

__all__ = ["load_json", "save_json"]

_LEGAL = "a Schedule, a PrimFunc or a module of them, a tensor or operation, a list of tensors, an expression"


def save_json(node: Any) -> str:
    """Its text. Raises UsageError for what has none, such as a lowered function.

    >>> from autosched import create_schedule, te
    >>> A = te.placeholder((64,), name="A")
    >>> B = te.compute((64,), lambda i: A[i] + 1, name="B")
    >>> s = create_schedule(B)
    >>> _ = s[B].split("i", factor=8)
    >>> load_json(save_json(s))["B"]
    Stage(B: i.outer / i.inner)
    """
    return json.dumps(_to_data(node))


def _to_data(node: Any) -> dict[str, Any]:
    if isinstance(node, Schedule):
        return {"schedule": graph_to_json(node.outputs), "trace": node.trace.to_json()}
    if isinstance(node, PrimFunc):
        outputs = [node.args.index(t) for t in node.schedule.outputs]
        graph = graph_to_json(node.args)
        return {"function": graph, "outputs": outputs, "trace": node.schedule.trace.to_json(), "attrs": node.attrs}
    if isinstance(node, IRModule):
        return {"module": {str(name): _to_data(f) for name, f in node.items()}}
    if isinstance(node, Operation):
        return {"operation": graph_to_json([node.output_tensor])}
    if isinstance(node, Tensor):
        return {"tensor": graph_to_json([node])}
    if isinstance(node, (list, tuple)) and node and all(isinstance(t, Tensor) for t in node):
        return {"tensors": graph_to_json(node)}
    if isinstance(node, Expr):
        return {"expression": graph_to_json([compute((), lambda: node, name="expression")])}
    raise UsageError(f"a {type(node).__name__} is not stored", asked="save_json", legal=_LEGAL)


def load_json(json_str: str) -> Any:
    """What `save_json` was given, made anew. Raises RecordError for other text."""
    try:
        data = json.loads(json_str)
        return _from_data(data)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(
            f"it is not what save_json writes ({error})", asked="load_json", legal="the text itself"
        ) from None


def _from_data(data: dict[str, Any]) -> Any:
    if "schedule" in data:
        return replay(data["trace"], graph_from_json(data["schedule"]))
    if "function" in data:
        args = graph_from_json(data["function"])
        return PrimFunc(tuple(args), replay(data["trace"], [args[k] for k in data["outputs"]]), dict(data["attrs"]))
    if "module" in data:
        return IRModule({name: _from_data(f) for name, f in data["module"].items()})
    ((kind, graph),) = data.items()
    tensors = graph_from_json(graph)
    if kind == "operation":
        return tensors[0].op
    if kind == "expression":
        (body,) = tensors[0].op.body  # type: ignore[attr-defined]
        return body
    if kind not in ("tensor", "tensors"):
        raise ValueError(f"unknown kind {kind!r}")
    return tensors if kind == "tensors" else tensors[0]
