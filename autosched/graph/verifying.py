"""`verify`: everything that a compiled model keeps in memory, compared with the official reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.graph.onnx.reading import official
from autosched.te.tensor import Tensor

if TYPE_CHECKING:
    import onnx

    from autosched.graph.compiled import CompiledModel

Array = np.ndarray[Any, Any]

#: by bits of a float: how far apart results may be, as a share of the largest magnitude in the tensor
TOLERANCE = {16: 2e-2, 32: 1e-3, 64: 1e-6}


@dataclass(frozen=True)
class Compared:
    """A tensor of the model beside the reference: `error` is the largest difference as a share of the largest
    magnitude, `allowed` the most that rounding explains."""

    node: str
    kind: str
    tensor: str
    error: float
    allowed: float

    @property
    def is_wrong(self) -> bool:
        return not self.error <= self.allowed


def verify(compiled: CompiledModel, proto: onnx.ModelProto, inputs: Mapping[str, Any]) -> list[Compared]:
    """The tensors that lie in memory between kernels, in the order of the model: the first wrong one names the node
    where a fault is, or one that is computed together with it."""
    named: dict[str, tuple[str, str, Tensor]] = {}
    for s in compiled.prepared.steps:
        for tensor, t in s.outputs.items():
            if t in compiled.values_of:
                named[tensor] = (s.name, s.kind, t)
    found = compiled.intermediates(inputs, [t for _, _, t in named.values()])
    expected = reference_values(proto, inputs, list(named))
    rows = []
    for tensor, (node, kind, t) in named.items():
        order = compiled.prepared.layouts.get(t, range(t.ndim))
        ours = found[t].transpose(np.argsort(order)) if t.ndim else found[t]
        rows.append(Compared(node, kind, tensor, *difference(ours, expected[tensor])))
    return rows


def difference(ours: Array, reference: Array) -> tuple[float, float]:
    """(the largest difference, what is allowed), as shares of the largest magnitude; integers have to be equal."""
    if ours.shape != reference.shape:
        return float("inf"), 0.0
    if not ours.size:
        return 0.0, 0.0
    a, b = (np.asarray(x, np.float64) for x in (ours, reference))
    allowed = TOLERANCE[ours.dtype.itemsize * 8] if ours.dtype.kind in "fV" else 0.0
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 1.0
    return float(np.nan_to_num(apart, nan=np.inf).max() / (scale or 1.0)), allowed


def reference_values(proto: onnx.ModelProto, inputs: Mapping[str, Any], names: list[str]) -> dict[str, Array]:
    """These tensors of the model by `onnx.reference`."""
    onnx = official()
    from onnx.reference import ReferenceEvaluator

    model = onnx.ModelProto()
    model.CopyFrom(proto)
    del model.graph.output[:]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    values = ReferenceEvaluator(model).run(None, dict(inputs))
    return dict(zip(names, values, strict=True))
