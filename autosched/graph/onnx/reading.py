"""ONNX to a graph of te tensors.

The official package parses, checks and knows the standard: what version of an operator an opset means, and the bodies
of operators that are functions of others. Here each node becomes te tensors, by its row of the table in `node.py` or
by its function body; what depends on constants alone is computed at once.
"""

from __future__ import annotations

import os
from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched import te
from autosched.errors import AutoschedError, ModelError, check_path, did_you_mean, named_file
from autosched.graph.known import Undecided, depends_on, evaluated
from autosched.graph.model import Array, Graph, Step
from autosched.graph.onnx import ops
from autosched.graph.onnx.node import OPERATORS, Dim, Node, Value
from autosched.graph.small import carried, carrier, is_small
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor

if TYPE_CHECKING:
    import onnx

#: the standard's own operators are of the domain without a name, which has another spelling
_STANDARD = ("", "ai.onnx")
#: what is legal of a model
_VALID = "what onnx.checker accepts"
#: bytes that computing constants may take: a model says their shapes, and may say anything
MOST_CONSTANT_BYTES = 4 << 30
#: bytes that one tensor may take
MOST_TENSOR_BYTES = 64 << 30

#: sizes for names of dimensions or for inputs: `{"batch": 8}`, `{"data": [1, 3, 224, 224]}`
Shapes = Mapping[str, int | Sequence[int]]


class NeedsValues(ModelError):
    """The model computes shapes from the values of inputs: it can be read for given values only."""

    def __init__(self, asked: str, names: Sequence[str]) -> None:
        self.names = tuple(names)
        said = ", ".join(names)
        super().__init__(
            f"its shapes depend on the values of {said}",
            asked=asked,
            legal=f"give them: values={{{names[0]!r}: ...}}; `run` does so by itself",
        )


@cache
def operators() -> Mapping[str, Any]:
    """The table of operators, filled."""
    for module in iter_modules(ops.__path__):
        import_module(f"{ops.__name__}.{module.name}")
    return OPERATORS


def official() -> Any:
    """The package `onnx`. Raises ModelError where it is not installed."""
    try:
        import onnx
    except ImportError:
        why, legal = "the package `onnx` is not installed", "pip install autosched[onnx]"
        raise ModelError(why, asked="an ONNX model", legal=legal) from None
    return onnx


def parse(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> onnx.ModelProto:
    """The model of a file, of its bytes, or as it is, checked by the official checker. Raises ModelError, or
    FileError where the file cannot be read."""
    onnx = official()
    if isinstance(source, onnx.ModelProto):
        model, asked = source, f"model {source.graph.name!r}"
    elif isinstance(source, bytes):
        model, asked = _parsed(onnx, lambda: onnx.load_model_from_string(source), "a model"), "a model"
    else:
        path = check_path(source, f"load({source!r:.200})")
        asked = str(path)
        with named_file(asked):
            path.open("rb").close()
        model = _parsed(onnx, lambda: onnx.load_model(path), asked)
    checked = _with_shapes_of_outputs(onnx, model)
    _parsed(onnx, lambda: onnx.checker.check_model(checked), asked)
    return model


def _with_shapes_of_outputs(onnx: Any, model: Any) -> Any:
    """The model for the checker, which asks for a shape of each output, though nothing needs one: shapes follow from
    the nodes, and ONNX Runtime and the standard's own evaluator take models without."""

    def is_open(o: Any) -> bool:
        return o.type.HasField("tensor_type") and not o.type.tensor_type.HasField("shape")

    if not any(map(is_open, model.graph.output)):
        return model
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for o in filter(is_open, found.graph.output):
        o.type.tensor_type.shape.SetInParent()
    return found


def _parsed(onnx: Any, action: Any, asked: str) -> Any:
    """What the official package makes of it; its refusal as a ModelError."""
    try:
        return action()
    except (onnx.checker.ValidationError, OSError, ValueError, RuntimeError, TypeError) as error:
        why = " ".join(str(error).split())[:400]
        raise ModelError(f"it is no valid model: {why}", asked=asked, legal=_VALID) from None
    except Exception as error:
        if type(error).__module__.startswith("google.protobuf"):
            why = "it is no ONNX file, or not a whole one"
            raise ModelError(why, asked=asked, legal=_VALID) from None
        raise


def read(
    model: onnx.ModelProto, shapes: Shapes | None = None, values: Mapping[str, Any] | None = None, name: str = ""
) -> Graph:
    """The graph of a model.

    shapes: sizes of symbolic dimensions by their names, or whole shapes by names of inputs
    values: arrays for inputs whose values decide shapes; lists of arrays for sequences. Such an input is a constant
            of the graph

    Raises ModelError, which names all operators that are missing, or the node; NeedsValues.
    """
    return _Reader(model, dict(shapes or {}), dict(values or {}), name).graph()


def check_shapes(model: onnx.ModelProto, shapes: Shapes) -> None:
    """Raise ModelError for a shape of something that the model has not."""
    inputs = {x.name: x for x in model.graph.input}
    sizes = {_dimension(x, k, d) for x in inputs.values() for k, d in enumerate(x.type.tensor_type.shape.dim)} - {""}
    for name, given in shapes.items():
        asked = f"shapes[{name!r}]"
        if name not in inputs and name not in sizes:
            legal = f"inputs: {', '.join(inputs) or 'none'}; symbolic dimensions: {', '.join(sorted(sizes)) or 'none'}"
            why = "the model has no input and no symbolic dimension of this name"
            raise ModelError(why, asked=asked, legal=did_you_mean(str(name), [*inputs, *sizes]) + legal)
        if name not in inputs and not isinstance(given, (int, np.integer)):
            raise ModelError(f"{given!r:.60} is no size of a dimension", asked=asked, legal="one number")


def _dimension(info: Any, k: int, d: Any) -> str:
    """The name of a symbolic dimension of an input; empty for a number."""
    return "" if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or f"{_word(info.name)}_{k}"


class _Reader:
    def __init__(self, model: Any, shapes: dict[str, Any], values: dict[str, Any], name: str) -> None:
        self.onnx = official()
        self.model = model
        self.name = name or model.graph.name or "model"
        self.shapes, self.values = shapes, values
        self.opsets = {_domain(o.domain): o.version for o in model.opset_import} or {"": 1}
        self.functions = {(_domain(f.domain), f.name): f for f in model.functions}
        self.constants: dict[Tensor, Array] = {}
        self.small: dict[Tensor, np.dtype[Any]] = {}
        self.sizes: dict[str, Expr] = {}
        self.inputs: dict[str, Tensor] = {}
        #: inputs, and what is known to depend on them
        self.varying: set[Tensor] = set()
        self.steps: list[Step] = []
        self.bytes = 0

    def graph(self) -> Graph:
        """Read everything."""
        proto = self.model.graph
        self._check_versions()
        self._refuse_missing()
        scope: dict[str, Value] = {}
        self._enter_constants(proto, scope)
        for x in proto.input:
            if x.name not in scope:
                scope[x.name] = self._input(x)
        try:
            self._run(proto.node, scope, self.opsets)
        except Undecided as error:
            names = [name for name, t in self.inputs.items() if t is error.tensor]
            if not names:
                why, legal = (
                    "a shape depends on values that only a run knows",
                    "shapes that follow from those of inputs",
                )
                raise ModelError(why, asked=self.name, legal=legal) from None
            raise NeedsValues(self.name, names) from None
        outputs = {o.name: _found(scope, o.name, f"output of {self.name}") for o in proto.output}
        types = {o.name: self._declared(o) for o in proto.output}
        for name, of in types.items():
            self._check_output(name, outputs[name], of)
        small = {name: of for name, of in types.items() if of is not None and is_small(of)}
        return Graph(self.name, self.inputs, outputs, self.constants, self.steps, small=small)

    def _check_output(self, name: str, value: Value, of: np.dtype[Any] | None) -> None:
        """Raise ModelError unless an output is of the type that the model declares."""
        if of is not None and isinstance(value, Tensor) and str(value.dtype) != str(carrier(of)):
            why = f"it is declared as {of}, and its node computes {value.dtype}"
            raise ModelError(why, asked=f"output {name!r} of {self.name}", legal="one type, or a Cast between them")

    # -- what is given --------------------------------------------------------------------------
    def _enter_constants(self, proto: Any, scope: MutableMapping[str, Value]) -> None:
        for t in proto.initializer:
            scope[t.name] = self._constant(self._array(t), t.name)
        for s in proto.sparse_initializer:
            scope[s.values.name] = self._constant(self._dense(s), s.values.name)

    def _array(self, proto: Any) -> Array:
        array = self._array_or_text(proto, f"tensor {proto.name!r}")
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise ModelError("it holds NaN", asked=f"weights {proto.name!r} of {self.name}", legal="numbers")
        return array

    def _dense(self, s: Any) -> Array:
        values, at = (self.onnx.numpy_helper.to_array(x) for x in (s.values, s.indices))
        self._count(int(np.prod(s.dims, dtype=object)) * values.dtype.itemsize, s.values.name)
        dense = np.zeros(list(s.dims), values.dtype)
        if at.ndim == 1:
            dense.reshape(-1)[at] = values
        else:
            dense[tuple(at.T)] = values
        return dense

    def _check_type(self, of: np.dtype[Any], where: str) -> None:
        try:
            carrier(of)
        except AutoschedError:
            legal = "bool, integers of up to 64 bits, floats of 4 to 64 bits"
            raise ModelError(
                f"elements of type {of} are not supported", asked=f"{where} of {self.name}", legal=legal
            ) from None

    def _count(self, size: int, what: str) -> None:
        """Add to the bytes of constants. Raises ModelError before there are too many."""
        self.bytes += size
        if self.bytes > MOST_CONSTANT_BYTES:
            why = f"its constants take more than {MOST_CONSTANT_BYTES >> 30} GB"
            raise ModelError(why, asked=f"{what!r} of {self.name}", legal="weights of that size in all")

    def _constant(self, array: Array, name: str) -> Tensor:
        made = self._placeholder(array.shape, array.dtype, name)
        self.constants[made] = carried(array)
        return made

    def _placeholder(self, shape: Sequence[Dim], of: np.dtype[Any], name: str) -> Tensor:
        made = te.placeholder(shape, carrier(of), name=_word(name))
        if is_small(of):
            self.small[made] = of
        return made

    def _declared(self, info: Any) -> np.dtype[Any] | None:
        """The type that the model says an output is of."""
        number = info.type.tensor_type.elem_type
        return self._numpy_type(number, f"output {info.name!r}") if number else None

    def _numpy_type(self, number: int, where: str) -> np.dtype[Any]:
        """The type that has this number."""
        try:
            return np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(number))
        except KeyError:
            raise ModelError(
                f"no type has the number {number}", asked=f"{where} of {self.name}", legal=_VALID
            ) from None

    def _input(self, info: Any) -> Value:
        """The placeholder of an input; the constant, where its value is given."""
        kind = info.type.WhichOneof("value")
        if info.name in self.values:
            given = self.values[info.name]
            if given is None or isinstance(given, (list, tuple)):
                return (
                    given
                    if given is None
                    else [self._constant(np.asarray(x), f"{info.name}_{i}") for i, x in enumerate(given)]
                )
            self._check_type(np.asarray(given).dtype, f"input {info.name!r}")
            return self._constant(np.asarray(given), info.name)
        if kind != "tensor_type":
            raise NeedsValues(f"input {info.name!r} of {self.name}", [info.name])
        of = self._numpy_type(info.type.tensor_type.elem_type, f"input {info.name!r}")
        self._check_type(of, f"input {info.name!r}")
        made = self._placeholder(self._shape(info), of, info.name)
        self.inputs[info.name] = made
        self.varying.add(made)
        return made

    def _shape(self, info: Any) -> list[Dim]:
        tensor = info.type.tensor_type
        given = self.shapes.get(info.name)
        if given is not None:
            given = [given] if isinstance(given, (int, np.integer)) else given  # of one dimension
            if not isinstance(given, Sequence) or not all(isinstance(d, (int, np.integer)) and d >= 0 for d in given):
                raise ModelError(f"{given!r} is no shape", asked=f"shapes[{info.name!r}]", legal="a list of numbers")
            if tensor.HasField("shape") and len(tensor.shape.dim) != len(given):
                why = f"it has {len(tensor.shape.dim)} dimensions, not {len(given)}"
                raise ModelError(why, asked=f"shapes[{info.name!r}]", legal="a number for each dimension")
        elif not tensor.HasField("shape"):
            raise ModelError(
                "its shape is not known", asked=f"input {info.name!r} of {self.name}", legal="`shapes` of load"
            )
        found: list[Dim] = []
        for k, d in enumerate(tensor.shape.dim if tensor.HasField("shape") else given or ()):
            wanted = None if given is None else int(given[k])
            fixed = d if isinstance(d, int) else d.dim_value if d.HasField("dim_value") else None
            if wanted is not None and fixed is not None and wanted != fixed and fixed > 0:
                why = f"dimension {k} is {fixed}, not {wanted}"
                raise ModelError(why, asked=f"shapes[{info.name!r}]", legal="numbers for symbolic dimensions")
            size = wanted if wanted is not None else fixed
            found.append(size if size is not None and size >= 0 else self._size(_dimension(info, k, d)))
        return found

    def _size(self, name: str) -> Dim:
        """A symbolic dimension: the number that was given for it, else a size variable."""
        given = self.shapes.get(name)
        if isinstance(given, (int, np.integer)):
            return int(given)
        if name not in self.sizes:
            self.sizes[name] = te.size_var(_word(name))
        return self.sizes[name]

    # -- nodes ------------------------------------------------------------------------------------
    def _check_versions(self) -> None:
        """Raise ModelError for operator sets that are not known yet, and for operands that lie along an axis, as before
        operator set 7."""
        newest = self.onnx.defs.onnx_opset_version()
        for version in (self.opsets.get(""), *(o.version for f in self.model.functions for o in f.opset_import)):
            if version is not None and version > newest:
                legal = f"operator sets up to {newest}, or a newer package onnx"
                raise ModelError(f"it is written in operator set {version}", asked=f"model {self.name}", legal=legal)
        for n, _ in self._all_nodes(self.model.graph.node, self.opsets):
            if {"axis", "broadcast"} <= {a.name for a in n.attribute}:
                why = f"{_called(n)} lays its second operand along an axis, as before operator set 7"
                legal = "onnx.version_converter.convert_version(model, 7)"
                raise ModelError(why, asked=f"model {self.name}, node {n.name or n.output[0]!r}", legal=legal)

    def _refuse_missing(self) -> None:
        """Raise ModelError with all operators that nothing here reads, how often they occur, and a node of each."""
        missing: Counter[str] = Counter()
        nodes: dict[str, str] = {}
        for n, opsets in self._all_nodes(self.model.graph.node, self.opsets):
            called = _called(n)
            if called not in operators() and not self._has_body(n, opsets):
                missing[called] += 1
                nodes.setdefault(called, n.name or (n.output[0] if n.output else ""))
        if missing:
            said = ", ".join(f"{name} ({count}, {nodes[name]!r})" for name, count in missing.most_common())
            legal = "operators that docs/models.md names, and functions of them"
            raise ModelError(f"no such operator: {said}", asked=f"model {self.name}", legal=legal)

    def _all_nodes(self, nodes: Any, opsets: Mapping[str, int]) -> Iterator[tuple[Any, Mapping[str, int]]]:
        for n in nodes:
            yield n, opsets
            for a in n.attribute:
                for g in [a.g] if a.HasField("g") else a.graphs:
                    yield from self._all_nodes(g.node, opsets)

    def _has_body(self, n: Any, opsets: Mapping[str, int]) -> bool:
        if (_domain(n.domain), n.op_type) in self.functions:
            return True
        schema = self._schema(n, opsets)
        return schema is not None and (schema.has_function or schema.has_context_dependent_function)

    def _schema(self, n: Any, opsets: Mapping[str, int]) -> Any:
        try:
            return self.onnx.defs.get_schema(n.op_type, opsets.get(_domain(n.domain), 1), _domain(n.domain))
        except self.onnx.defs.SchemaError:
            return None

    def _run(self, nodes: Any, scope: MutableMapping[str, Value], opsets: Mapping[str, int], note: bool = True) -> None:
        """Read nodes in order; `scope` gets their results."""
        for n in nodes:
            name = n.name or next((o for o in n.output if o), n.op_type)
            inputs = [_found(scope, x, f"node {name!r} of {self.name}") if x else None for x in n.input]
            outputs = self._node(n, name, inputs, scope, opsets)
            self._note_small(n, inputs, outputs, opsets)
            found = {o: self._settled(v, name) for o, v in zip(n.output, outputs, strict=False) if o}
            scope.update(found)
            if note:
                tensors = {o: v for o, v in found.items() if isinstance(v, Tensor)}
                self.steps.append(Step(n.op_type, name, tensors))

    def _note_small(self, n: Any, inputs: Sequence[Value], outputs: Sequence[Value], opsets: Mapping[str, int]) -> None:
        """Note results that are of the type of an input, which is carried in a wider one."""
        types = [self.small.get(x) if isinstance(x, Tensor) else None for x in inputs]
        schema = self._schema(n, opsets) if any(types) else None
        if schema is None:
            return
        named = {schema.inputs[min(k, len(schema.inputs) - 1)].type_str: of for k, of in enumerate(types) if of}
        for k, v in enumerate(outputs):
            of = named.get(schema.outputs[min(k, len(schema.outputs) - 1)].type_str)
            if of is not None and isinstance(v, Tensor):
                self.small.setdefault(v, of)

    def _node(
        self, n: Any, name: str, inputs: list[Value], scope: MutableMapping[str, Value], opsets: Mapping[str, int]
    ) -> Sequence[Value]:
        attrs = {a.name: a for a in n.attribute}
        body = self.functions.get((_domain(n.domain), n.op_type))
        reader = operators().get(_called(n))
        if body is None and reader is None:
            body, defaults = self._standard_body(n, inputs, opsets)
            attrs = defaults | attrs
        if body is not None:
            return self._inlined(body, attrs, inputs)
        node = Node(
            n.op_type,
            name,
            opsets.get(_domain(n.domain), 1),
            {k: self._attribute(a) for k, a in attrs.items() if not a.HasField("g")},
            list(n.output),
            self.constants,
            {k: self._body(a.g, scope, opsets) for k, a in attrs.items() if a.HasField("g")},
            small=self.small,
        )
        assert reader is not None
        try:
            result = reader(node, *inputs)
        except Undecided:
            raise
        except ModelError:
            raise
        except AutoschedError as error:
            shapes = ", ".join(repr(x) if isinstance(x, Tensor) else "-" for x in inputs)
            asked, about = (
                f"{n.op_type} node {name!r} of {self.name} ({shapes})",
                f"{error.asked}: " if error.asked else "",
            )
            raise ModelError(f"{about}{error.why}", asked=asked, legal=error.legal or _VALID) from error
        except TypeError as error:
            if "argument" not in str(error):
                raise
            raise node.refused(f"{len(inputs)} inputs do not fit: {error}") from error
        return result if isinstance(result, tuple) else (result,)

    def _attribute(self, a: Any) -> Any:
        value = self.onnx.helper.get_attribute_value(a)
        if a.type == self.onnx.AttributeProto.TENSOR:
            return self._array_or_text(value)
        if a.type == self.onnx.AttributeProto.SPARSE_TENSOR:
            return self._dense(value)
        if a.type == self.onnx.AttributeProto.TYPE_PROTO:
            return value
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        if isinstance(value, (str, int, float)):
            return value
        return [x.decode(errors="replace") if isinstance(x, bytes) else x for x in value]

    def _array_or_text(self, proto: Any, what: str = "an attribute") -> Array:
        try:
            array = self.onnx.numpy_helper.to_array(proto)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ModelError(
                f"its values are damaged: {error}", asked=f"weights {proto.name!r} of {self.name}", legal=_VALID
            ) from None
        self._check_type(array.dtype, what)
        return array

    def _body(self, g: Any, scope: MutableMapping[str, Value], opsets: Mapping[str, int]) -> Any:
        """A graph inside a node as a function: it sees the values around it."""

        def call(given: Sequence[Value]) -> list[Value]:
            inner: MutableMapping[str, Value] = ChainMap({}, scope)
            self._enter_constants(g, inner)
            inner.update(zip((x.name for x in g.input), given, strict=False))
            self._run(g.node, inner, opsets, note=False)
            return [_found(inner, o.name, f"output of {g.name or 'a body'}") for o in g.output]

        return call

    # -- functions --------------------------------------------------------------------------------
    def _standard_body(self, n: Any, inputs: Sequence[Value], opsets: Mapping[str, int]) -> tuple[Any, dict[str, Any]]:
        """The function that the standard defines an operator by, for operands of these types; and the attributes that
        nodes need not have."""
        schema = self._schema(n, opsets)
        defaults = {name: a.default_value for name, a in schema.attributes.items() if a.default_value.type}
        if schema.has_function:
            return schema.function_body, defaults
        types = [self._type(x) for x in inputs]
        data = schema.get_context_dependent_function(n.SerializeToString(), [t.SerializeToString() for t in types])
        body = self.onnx.FunctionProto()
        body.ParseFromString(data)
        if not body.node:
            asked = f"{n.op_type} node {n.name!r} of {self.name}"
            raise ModelError(
                "the standard has no body for it",
                asked=asked,
                legal="operators that docs/models.md names, and functions of them",
            )
        return body, defaults

    def _type(self, x: Value) -> Any:
        if not isinstance(x, Tensor):
            return self.onnx.TypeProto()
        of = self.onnx.helper.np_dtype_to_tensor_dtype(self.small.get(x, x.dtype.numpy))
        dims = [int(d.value) if d.op == "const" else None for d in x.shape]
        return self.onnx.helper.make_tensor_type_proto(of, dims)

    def _inlined(self, f: Any, attrs: Mapping[str, Any], inputs: Sequence[Value]) -> list[Value]:
        """The results of a function: its nodes read with the caller's attributes in place of its own."""
        given = {a.name: a for a in f.attribute_proto} | dict(attrs)
        scope: dict[str, Value] = dict.fromkeys(f.input)
        scope.update(zip(f.input, inputs, strict=False))
        opsets = {_domain(o.domain): o.version for o in f.opset_import} or self.opsets
        nodes = [_with_attributes(n, given) for n in f.node]
        self._run(nodes, scope, {**self.opsets, **opsets}, note=False)
        return [scope.get(o) for o in f.output]

    # -- constants --------------------------------------------------------------------------------
    def _settled(self, v: Value, name: str) -> Value:
        """A value that node computes; where it depends on constants alone, the constant."""
        if isinstance(v, list):
            return [self._settled(x, name) for x in v]
        if not isinstance(v, Tensor) or v in self.constants or v in self.varying:
            return v
        if all(d.op == "const" for d in v.shape):
            size = int(np.prod([int(d.value) for d in v.shape], dtype=object)) * v.dtype.bytes
            if size > MOST_TENSOR_BYTES:
                why, legal = f"its result takes {size} bytes", f"{MOST_TENSOR_BYTES >> 30} GB at most"
                raise ModelError(why, asked=f"node {name!r} of {self.name}", legal=legal)
            if size > MOST_CONSTANT_BYTES - self.bytes:
                return v
        array = None if depends_on(v, self.varying) else evaluated(v, self.constants)
        if array is None:
            self.varying.add(v)
            return v
        self._count(array.nbytes, v.name)
        made = self._constant(np.asarray(array), v.name)
        if v in self.small:
            self.small[made] = self.small[v]
        return made


def _with_attributes(n: Any, given: Mapping[str, Any]) -> Any:
    """A node of a function, in which attributes of the function's have the caller's values."""
    made = type(n)()
    made.CopyFrom(n)
    del made.attribute[:]
    for a in n.attribute:
        if not a.ref_attr_name:
            one = made.attribute.add()
            one.CopyFrom(a)
            if a.HasField("g"):
                inner = [_with_attributes(x, given) for x in a.g.node]
                del one.g.node[:]
                one.g.node.extend(inner)
        elif a.ref_attr_name in given:
            one = made.attribute.add()
            one.CopyFrom(given[a.ref_attr_name])
            one.name = a.name
    return made


def _domain(name: str) -> str:
    return "" if name in _STANDARD else name


def _called(n: Any) -> str:
    """The name of a node's operator in the table."""
    domain = _domain(n.domain)
    return f"{domain}.{n.op_type}" if domain else str(n.op_type)


def _found(scope: Mapping[str, Value], name: str, asked: str) -> Value:
    if name not in scope:
        raise ModelError(f"nothing computes {name!r}", asked=asked, legal=_VALID)
    return scope[name]


def _word(name: str) -> str:
    """A name that a te tensor may have."""
    word = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name) or "x"
    return word if not word[0].isdigit() else f"x{word}"


def stem_of(source: object) -> str:
    """The name of a model that is read from a file."""
    return Path(source).stem if isinstance(source, (str, os.PathLike)) else ""
