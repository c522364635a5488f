"""`tvm.relay.frontend`: models from files of other frameworks, by way of ONNX."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.errors import ModelError
from autosched.graph.loaded import Model, load
from autosched.runtime.ndarray import NDArray
from autosched.runtime.ndarray import array as nd_array
from autosched.tvm._missing import missing

if TYPE_CHECKING:
    import onnx


class RelayModule:
    """A model, as `relay.build` takes it: `mod["main"]` is its only function, and prints as ONNX's own text.

    model: the model that was read
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    def __getitem__(self, name: str) -> RelayModule:
        if name != "main":
            raise ModelError(f"there is no function {name!r}", asked=f"mod[{name!r}]", legal='mod["main"]')
        return self

    def get_global_vars(self) -> list[str]:
        return ["main"]

    def astext(self, show_meta_data: bool = True) -> str:
        """The nodes, as ONNX's own text; the values of large weights are left out."""
        from onnx import printer

        text: str = printer.to_text(_without_values(self.model.proto).graph)
        return text

    def __str__(self) -> str:
        return self.astext()

    def __repr__(self) -> str:
        proto = self.model.proto.graph
        return f"RelayModule({self.model.name}: {len(proto.node)} nodes)"


def _without_values(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which large weights are inputs."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    _release(copy, lambda t: int(np.prod(t.dims, dtype=np.int64)) > 16)
    return copy


def _release(proto: onnx.ModelProto, chosen: Any) -> list[onnx.TensorProto]:
    """Make inputs of weights; these weights."""
    from onnx import helper

    found = [t for t in proto.graph.initializer if chosen(t)]
    declared = {x.name for x in proto.graph.input}
    kept = [t for t in proto.graph.initializer if not chosen(t)]
    for t in found:
        if t.name not in declared:
            proto.graph.input.append(helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)))
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    return found


def from_onnx(
    model: onnx.ModelProto | str | os.PathLike[str] | bytes,
    shape: Mapping[str, Sequence[int]] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Any = None,
    export_node_renamed_model_path: str | None = None,
) -> tuple[RelayModule, dict[str, NDArray]]:
    """The model of ONNX, and its weights by name.

    model:         as the package `onnx` has it, or a file
    shape:         shapes by name of input, where the model leaves them open
    freeze_params: whether the weights are constants, in which case the second result is empty; otherwise they are
                   inputs, and constants once they are given to `relay.build`. Integers of at most one dimension, such
                   as shapes and axes, are always constants

    `dtype` and `opset` are those of the model. Raises ModelError.
    """
    if convert_config or export_node_renamed_model_path:
        raise ModelError("that is not done here", asked="from_onnx(convert_config=.., export_..)", legal="None")
    found = load(model, shapes=dict(shape or {}))
    if opset is not None and opset not in [o.version for o in found.proto.opset_import]:
        legal = "onnx.version_converter.convert_version(model, opset)"
        raise ModelError(f"the model is not of operator set {opset}", asked=f"from_onnx(opset={opset})", legal=legal)
    if freeze_params:
        return RelayModule(found), {}
    return _with_free_weights(found)


def _with_free_weights(model: Model) -> tuple[RelayModule, dict[str, NDArray]]:
    from onnx import TensorProto, numpy_helper

    integers = (TensorProto.INT32, TensorProto.INT64)
    copy = type(model.proto)()
    copy.CopyFrom(model.proto)
    released = _release(copy, lambda t: len(t.dims) > 1 or t.data_type not in integers)
    params = {t.name: nd_array(numpy_helper.to_array(t)) for t in released}
    return RelayModule(Model(copy, model.shapes, model.name)), params


def with_params(model: Model, params: Mapping[str, Any]) -> Model:
    """The model where these inputs are constants. Raises ModelError for a value of another shape or type."""
    from onnx import numpy_helper

    copy = type(model.proto)()
    copy.CopyFrom(model.proto)
    inputs = {x.name: x for x in copy.graph.input}
    for name, value in params.items():
        array = value.numpy() if isinstance(value, NDArray) else np.asarray(value)
        old = next((t for t in copy.graph.initializer if t.name == name), None)
        if old is not None:
            wanted = list(old.dims)
            copy.graph.initializer.remove(old)
        elif name in inputs:
            wanted = [d.dim_value for d in inputs[name].type.tensor_type.shape.dim]
        else:
            legal = ", ".join([*inputs, *(t.name for t in copy.graph.initializer)][:20])
            raise ModelError(f"there is no weight {name!r}", asked=f"params of {model.name}", legal=legal)
        if list(array.shape) != wanted:
            raise ModelError(f"its shape is {list(array.shape)}", asked=f"params[{name!r}]", legal=str(wanted))
        copy.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
    kept = [x for x in copy.graph.input if x.name not in params]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    return Model(copy, model.shapes, model.name)


_BY_ONNX = {
    "from_pytorch": "torch.onnx.export(model, args, 'model.onnx'), then from_onnx",
    "from_tensorflow": "tf2onnx (python -m tf2onnx.convert ..), then from_onnx",
    "from_keras": "tf2onnx (tf2onnx.convert.from_keras), then from_onnx",
    "from_tflite": "tf2onnx (python -m tf2onnx.convert --tflite ..), then from_onnx",
    **dict.fromkeys("from_mxnet from_caffe from_caffe2 from_coreml from_darknet from_paddle from_oneflow".split(),
                    "the framework's own export to ONNX, then from_onnx"),
}  # fmt: skip
__getattr__ = missing("relay.frontend", globals(), _BY_ONNX)
