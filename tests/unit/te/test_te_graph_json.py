"""Op graphs as plain data: round trips, keys, and what comes from a hostile hand."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import RecordError
from autosched.ir.dtype import SCALAR_DTYPES
from autosched.te.graph_json import VERSION
from autosched.te.tensor import Graph, Tensor
from autosched.testing.externs import know_references
from autosched.testing.programs import random_program


def box_blur(channels: int = 3, dtype: str = "uint8", names: str = "image padded x_blur blur") -> list[Tensor]:
    """The fixed program whose key is kept in a golden text."""
    height, width = te.var("height"), te.var("width")
    image_name, padded_name, x_name, y_name = names.split()
    image = te.placeholder((height, width, channels), dtype, name=image_name)

    def clamp(value: object, high: object) -> object:
        return te.max(te.min(value, high), 0)

    padded = te.compute(
        (height + 2, width + 2, channels),
        lambda y, x, c: image[clamp(y - 1, height - 1), clamp(x - 1, width - 1), c].astype("uint16"),
        name=padded_name,
    )
    x_blur = te.compute(
        (height + 2, width, channels),
        lambda y, x, c: padded[y, x, c] + padded[y, x + 1, c] + padded[y, x + 2, c],
        name=x_name,
    )
    blur = te.compute(
        (height, width, channels),
        lambda y, x, c: ((x_blur[y, x, c] + x_blur[y + 1, x, c] + x_blur[y + 2, x, c]) / 9).astype(dtype),
        name=y_name,
    )
    return [image, blur]


def everything() -> list[Tensor]:
    """A graph with a node of every kind."""
    n, m = te.var("n"), te.size_var("m", "int64")
    a, b = te.placeholder((n, m), name="a"), te.placeholder((n,), "uint8", name="b")
    k = te.reduce_axis((1, n), name="k")
    c = te.compute(
        (n, m),
        lambda i, j: te.if_then_else(
            te.all(i > 0, te.any(j < m - 1, b[i] == 3), te.likely(i < n), ~te.isnan(a[i, j])),
            te.select(b[i] & 1 != 0, te.exp(a[i, j]), -te.pow(a[i, j], 2.0) / 3),
            te.const(float("inf")) + te.popcount(b[i]) * 0.1 + te.max(a[i, 0], float("-inf")),
        ),
        name="c",
    )
    d = te.compute((m,), lambda j: te.sum(c[k, j] * 2, axis=k, where=b[k] % 2 == 0), name="d", tag="rows")
    e = te.compute(
        (n,), lambda i: (b[i] << 1 ^ ~b[i] | b[i] >> 2) // 3 + te.truncmod(b[i], 7) + te.truncdiv(b[i], 2), name="e"
    )
    f = te.compute((), lambda: te.const(2**40) + te.abs(e[0].astype("int64")), name="f")
    return [a, b, d, e, f, c]


# -- round trips ----------------------------------------------------------------------------------


def over_the_wire(args: list[Tensor]) -> list[Tensor]:
    return te.graph_from_json(json.loads(json.dumps(te.graph_to_json(args))))


@pytest.mark.parametrize("make", [box_blur, everything])
def test_round_trip(make) -> None:
    args = make()
    again = over_the_wire(args)
    assert te.graph_to_json(again) == te.graph_to_json(args)
    assert te.workload_key(again) == te.workload_key(args)
    for new, old in zip(Graph.of(again).ops, Graph.of(args).ops, strict=True):
        assert type(new) is type(old)
        assert (new.name, new.dtype) == (old.name, old.dtype)
        assert repr(new.output_tensor) == repr(old.output_tensor)
        if hasattr(old, "body"):
            assert repr(new.body) == repr(old.body)
            assert new.tag == old.tag
            assert [repr(a) for a in (*new.axis, *new.reduce_axis)] == [repr(a) for a in (*old.axis, *old.reduce_axis)]


def test_round_trip_computes_the_same() -> None:
    args, again = everything(), over_the_wire(everything())
    x = np.linspace(-2, 2, 20, dtype="float32").reshape(4, 5)
    inputs = [x, np.array([1, 2, 3, 255], "uint8")]
    for old, new in zip(te.reference(args, inputs), te.reference(again, inputs), strict=True):
        assert np.array_equal(old, new, equal_nan=True)
        assert old.dtype == new.dtype


@pytest.mark.parametrize("seed", range(60))
def test_round_trip_of_random_programs(seed: int) -> None:
    program = random_program(random.Random(seed))
    again = over_the_wire(program.args)
    know_references(again)
    assert te.graph_to_json(again) == te.graph_to_json(program.args)
    for old, new in zip(
        te.reference(program.args, program.inputs()), te.reference(again, program.inputs()), strict=True
    ):
        assert old.dtype == new.dtype and old.tobytes() == new.tobytes()


@pytest.mark.parametrize("of", SCALAR_DTYPES)
def test_literals_of_every_type(of: str) -> None:
    t = te.const(0, of).dtype
    numbers = [0, 1, t.min, t.max] if not t.is_float else [0.0, -0.0, 0.1, float("inf"), float("-inf"), float("nan")]
    for number in numbers:
        args = [te.compute((2,), lambda i, v=number: te.const(v, of), name="c")]
        (old,), (new,) = te.reference(args, []), te.reference(over_the_wire(args), [])
        assert old.tobytes() == new.tobytes()
        assert new.dtype == of


def test_what_is_shared_is_written_once() -> None:
    """30 doublings are 2**30 nodes of text and 30 entries of data."""

    def double(i: object) -> object:
        e = a[i]
        for _ in range(30):
            e = e * e + e
        return e

    a = te.placeholder((4,), name="a")
    args = [a, te.compute((4,), double, name="b")]
    assert len(json.dumps(te.graph_to_json(args))) < 5000
    assert te.graph_to_json(over_the_wire(args)) == te.graph_to_json(args)


# -- keys -----------------------------------------------------------------------------------------


def test_the_key_of_the_box_blur(golden) -> None:
    """Records are found by it: a change of this text makes every record ever written unfindable."""
    lines = [
        f"{c} channels of {of}: {te.workload_key(box_blur(c, of))}" for c in (1, 3, 4) for of in ("uint8", "float32")
    ]
    golden("\n".join([*lines, f"everything: {te.workload_key(everything())}"]))


def test_names_do_not_matter() -> None:
    assert te.workload_key(box_blur(names="a b c d")) == te.workload_key(box_blur())
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    one = te.compute((n,), lambda i: a[i] + 1, name="b")
    other = te.compute((n,), lambda position: a[position] + 1, name="b")
    assert te.workload_key([a, one]) == te.workload_key([a, other])


def key_of(n: object = None, of: str = "float32", shape: int = 8, body=lambda a, i: a[i, 0] + 1, out=None) -> str:
    n = te.var("n") if n is None else n
    a = te.placeholder((n, shape), of, name="a")
    return te.workload_key([a, te.compute((n,) if out is None else out(n), lambda i: body(a, i), name="b")])


def test_what_is_computed_matters() -> None:
    keys = [
        key_of(),
        key_of(n=4),
        key_of(n=te.var("n", "int64")),
        key_of(of="float64"),
        key_of(shape=9),
        key_of(body=lambda a, i: a[i, 0] + 2),
        key_of(body=lambda a, i: a[i, 0] - 1),
        key_of(body=lambda a, i: a[i, 1] + 1),
        key_of(body=lambda a, i: 1 + a[i, 0]),
        key_of(body=lambda a, i: a[i, 0] + te.const(1, "float64")),
        key_of(out=lambda n: (n - 1,)),
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(k) == 16 and int(k, 16) >= 0 for k in keys)
    assert key_of() == keys[0]


def test_which_sizes_are_the_same_matters() -> None:
    n, m = te.var("n"), te.var("m")
    square, any_shape = te.placeholder((n, n), name="a"), te.placeholder((n, m), name="a")
    assert te.workload_key([square]) != te.workload_key([any_shape])


def test_the_order_of_arguments_matters() -> None:
    args = everything()
    assert te.workload_key(args) != te.workload_key([args[1], args[0], *args[2:]])


def test_the_key_is_the_same_in_every_process() -> None:
    code = "import sys; sys.path.append(sys.argv[1]); from test_te_graph_json import *; print(te.workload_key(everything()))"
    keys = {te.workload_key(everything())}
    for seed in ("0", "7"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        here = os.path.dirname(__file__)
        done = subprocess.run(
            [sys.executable, "-c", code, here], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        keys.add(done.stdout.strip())
    assert len(keys) == 1


# -- what comes from a hostile hand ---------------------------------------------------------------

JUNK: list[Any] = [None, -1, 0, 1, 10**30, 1.5, float("nan"), True, "", "add", "x" * 1000, [], [0], [[0]], {}, {"v": 1}]
JUNK += [["const", "int32", [], 1], ["var", "int32", [], -1], "__import__('os').system('true')", "float32x4"]


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def replaced(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    broken = copy.deepcopy(data)
    node = broken
    for key in path[:-1]:
        node = node[key]
    if value is KeyError:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return broken


def refusal(data: Any) -> RecordError | None:
    try:
        te.graph_from_json(data)
    except RecordError as error:
        return error
    return None


def readable(data: Any) -> bool:
    """Whether it is a graph; then it is a sound one. If not, the error is a RecordError."""
    error = refusal(data)
    if error is not None:
        assert error.asked == "workload graph"
        assert len(str(error)) < 5000
        return False
    again = te.graph_to_json(te.graph_from_json(data))
    assert te.graph_to_json(te.graph_from_json(again)) == again
    return True


@pytest.mark.parametrize("make", [everything, box_blur])
def test_any_part_replaced_by_junk(make) -> None:
    data = te.graph_to_json(make())
    rng = random.Random(5)
    spots = list(places(data))
    outcomes = [readable(replaced(data, path, junk)) for path in spots for junk in [rng.choice(JUNK)]]
    assert outcomes.count(False) > len(outcomes) // 2
    for path in spots:
        readable(replaced(data, path, KeyError))


def test_any_two_parts_exchanged() -> None:
    data = te.graph_to_json(everything())
    rng = random.Random(6)
    spots = list(places(data))
    for _ in range(200):
        a, b = rng.sample(spots, 2)
        value_a, value_b = data, data
        for key in a:
            value_a = value_a[key]
        for key in b:
            value_b = value_b[key]
        try:
            broken = replaced(replaced(data, a, copy.deepcopy(value_b)), b, copy.deepcopy(value_a))
        except (LookupError, TypeError):
            continue  # one lay inside the other
        readable(broken)


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_no_graph_at_all(junk: Any) -> None:
    assert not readable(junk)


def graph(**changes: Any) -> dict[str, Any]:
    """`b[i] = a[i] + 1.0` over 4 elements, with some tables replaced."""
    return {
        "v": VERSION,
        "vars": [["i", "int32", "loop"], ["n", "int32", "size"]],
        "exprs": [
            ["const", "int32", [], 4],
            ["const", "int32", [], 0],
            ["var", "int32", [], 0],
            ["read", "float32", [2], 0],
            ["const", "float32", [], 1.0],
            ["add", "float32", [3, 4], None],
        ],
        "axes": [[0, 1, 0, "spatial"]],
        "ops": [
            {"name": "a", "dtype": "float32", "shape": [0]},
            {"name": "b", "dtype": "float32", "shape": [0], "body": 5, "axis": [0], "tag": ""},
        ],
        "args": [0, 1],
        **changes,
    }


def with_expr(position: int, *entry: Any) -> dict[str, Any]:
    data = graph()
    data["exprs"][position] = list(entry)
    return data


def with_op(position: int, **changes: Any) -> dict[str, Any]:
    data = graph()
    data["ops"][position].update(changes)
    return data


def test_the_plain_graph_reads() -> None:
    assert readable(graph())
    args = te.graph_from_json(graph())
    assert te.reference(args, [np.arange(4, dtype="float32")])[0].tolist() == [1, 2, 3, 4]


HOSTILE: dict[str, dict[str, Any]] = {
    "a newer format": graph(v=VERSION + 1),
    "the format as a truth": graph(v=[VERSION]),
    "an unknown operator": with_expr(5, "system", "float32", [3, 4], None),
    "a lowered operator": with_expr(5, "load", "float32", [2], None),
    "a vector operator": with_expr(5, "ramp", "float32x2", [3, 4], None),
    "too few operands": with_expr(5, "add", "float32", [3], None),
    "too many operands": with_expr(5, "add", "float32", [3, 4, 4], None),
    "operands of two types": with_expr(5, "add", "float32", [3, 0], None),
    "a result of another type": with_expr(5, "add", "int32", [3, 4], None),
    "a vector type": with_expr(5, "add", "float32x4", [3, 4], None),
    "an unknown type": with_expr(5, "add", "float33", [3, 4], None),
    "a type that is no text": with_expr(5, "add", 32, [3, 4], None),
    "a cast to bool": with_expr(5, "cast", "bool", [3], None),
    "bits of floats": with_expr(5, "bitand", "float32", [3, 4], None),
    "integers in a float function": with_expr(5, "exp", "int32", [2], None),
    "a float division of integers": with_expr(5, "div", "int32", [2, 0], None),
    "logic of numbers": with_expr(5, "and", "float32", [3, 4], None),
    "a choice by a number": with_expr(5, "select", "float32", [2, 3, 4], None),
    "itself as operand": with_expr(5, "add", "float32", [3, 5], None),
    "a later operand": with_expr(3, "add", "float32", [5, 4], None),
    "an operand from the end": with_expr(5, "add", "float32", [3, -2], None),
    "an operand that is a truth": with_expr(5, "add", "float32", [3, True], None),
    "an operand that is a fraction": with_expr(5, "add", "float32", [3, 4.0], None),
    "operands as text": with_expr(5, "add", "float32", "34", None),
    "a number beyond its type": with_expr(0, "const", "int32", [], 2**31),
    "a fraction as an integer": with_expr(0, "const", "int32", [], 4.5),
    "a truth as an integer": with_expr(0, "const", "int32", [], True),
    "a text as a number": with_expr(4, "const", "float32", [], "1.0; evil()"),
    "an enormous number": with_expr(4, "const", "float32", [], 10**400),
    "an unknown variable": with_expr(2, "var", "int32", [], 7),
    "a variable of another type": with_expr(2, "var", "int64", [], 0),
    "a read of a later tensor": with_expr(3, "read", "float32", [2], 1),
    "a read from the end": with_expr(3, "read", "float32", [2], -1),
    "a read with too few indices": with_expr(3, "read", "float32", [], 0),
    "a read of another type": with_expr(3, "read", "int8", [2], 0),
    "a read at a fraction": with_expr(3, "read", "float32", [4], 0),
    "a free loop variable": graph(vars=[["i", "int32", "loop"], ["n", "int32", "loop"]], exprs=[
        *graph()["exprs"][:2], ["var", "int32", [], 0], ["var", "int32", [], 1], ["read", "float32", [3], 0],
        ["add", "float32", [4, 4], None]]),
    "a variable of an unknown role": graph(vars=[["i", "int32", "loop"], ["n", "int32", "thread"]]),
    "a size that is a float": graph(vars=[["i", "int32", "loop"], ["n", "float32", "size"]]),
    "a variable without a name": graph(vars=[[None, "int32", "loop"], ["n", "int32", "size"]]),
    "an axis longer than its dimension": graph(axes=[[0, 1, 2, "spatial"]]),
    "an axis that does not start at 0": graph(axes=[[0, 0, 0, "spatial"]]),
    "a reduce axis as a dimension": graph(axes=[[0, 1, 0, "reduce"]]),
    "an axis of an unknown kind": graph(axes=[[0, 1, 0, "vectorize"]]),
    "an axis over a size": graph(axes=[[1, 1, 0, "spatial"]]),
    "one variable for two axes": with_op(1, shape=[0, 0], axis=[0, 0]),
    "fewer axes than dimensions": with_op(1, axis=[]),
    "more axes than dimensions": with_op(1, axis=[0, 0]),
    "a dimension that is a fraction": with_op(0, shape=[4]),
    "a dimension that is a loop": with_op(0, shape=[2]),
    "a negative dimension": graph(exprs=[["const", "int32", [], -4], *graph()["exprs"][1:]]),
    "another type than its expression": with_op(1, dtype="float64"),
    "a name that is no text": with_op(0, name=["a"]),
    "a tag that is no text": with_op(1, tag=3),
    "no name": graph(ops=[{"dtype": "float32", "shape": [0]}]),
    "an argument that is not there": graph(args=[0, 2]),
    "an argument from the end": graph(args=[-1]),
    "an axis of itself": graph(
        axes=[[0, 1, 0, "spatial"], [1, 1, 5, "reduce"]],
        exprs=[*graph()["exprs"][:5], ["reduce", "float32", [4, 4], ["sum", [1]]]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_graphs(name: str) -> None:
    with pytest.raises(RecordError):
        te.graph_from_json(HOSTILE[name])


def reduction(value: Any, args: list[int], axis: list[Any] | None = None) -> dict[str, Any]:
    """`b[i] = sum(a[k] over k in [0, 4))`, with parts replaced."""
    base = graph()
    return graph(
        vars=[["i", "int32", "loop"], ["k", "int32", "loop"]],
        exprs=[
            *base["exprs"][:2],
            ["var", "int32", [], 1],
            ["read", "float32", [2], 0],
            ["const", "bool", [], True],
            ["reduce", "float32", args, value],
        ],
        axes=[[0, 1, 0, "spatial"], axis or [1, 1, 0, "reduce"]],
    )


def test_the_plain_reduction_reads() -> None:
    args = te.graph_from_json(reduction(["sum", [1]], [3, 4]))
    assert te.reference(args, [np.arange(4, dtype="float32")])[0].tolist() == [6, 6, 6, 6]


@pytest.mark.parametrize(
    "data",
    [
        reduction(["mean", [1]], [3, 4]),
        reduction([["sum"], [1]], [3, 4]),
        reduction(["sum", []], [3, 4]),
        reduction(["sum", [0]], [3, 4]),
        reduction(["sum", [7]], [3, 4]),
        reduction(["sum", 1], [3, 4]),
        reduction("sum", [3, 4]),
        reduction(["sum", [1]], [3]),
        reduction(["sum", [1]], [3, 3]),
        reduction(["sum", [1]], [2, 4]),
        reduction(["sum", [1]], [3, 4], [1, 1, 0, "spatial"]),
        reduction(["sum", [1]], [3, 4], [1, 1, 3, "reduce"]),
        reduction(["sum", [1]], [3, 4], [1, 1, 2, "reduce"]),
        reduction(["sum", [1]], [3, 4], [0, 1, 0, "reduce"]),
    ],
)
def test_hostile_reductions(data: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        te.graph_from_json(data)


def test_a_chain_deeper_than_the_stack() -> None:
    exprs = [["const", "float32", [], 1.0]] + [["sqrt", "float32", [k], None] for k in range(50_000)]
    data = graph(
        exprs=[
            ["const", "int32", [], 4],
            ["const", "int32", [], 0],
            *([e[0], e[1], [a + 2 for a in e[2]], e[3]] for e in exprs),
        ]
    )
    data["ops"] = [{"name": "b", "dtype": "float32", "shape": [0], "body": 50_002, "axis": [0], "tag": ""}]
    data["args"] = [0]
    with pytest.raises(RecordError, match="operators deep"):
        te.graph_from_json(data)


def test_axes_that_are_nested_without_end() -> None:
    """Each axis' extent is a reduction over the next axis."""
    count = 4000
    exprs = [*graph()["exprs"][:2], ["const", "bool", [], True]]
    exprs += [["reduce", "int32", [0, 2], ["sum", [k]]] for k in range(1, count)]
    data = graph(
        vars=[[f"k{k}", "int32", "loop"] for k in range(count)],
        exprs=exprs,
        axes=[[0, 1, 0, "spatial"], *([k, 1, min(k + 3, len(exprs) - 1), "reduce"] for k in range(1, count))],
        ops=[{"name": "b", "dtype": "int32", "shape": [0], "body": 3, "axis": [0], "tag": ""}],
        args=[0],
    )
    with pytest.raises(RecordError):
        te.graph_from_json(data)


def test_names_are_only_names() -> None:
    """A text is kept as it is, and never run, looked up or formatted."""
    evil = "{0.__class__} %s __import__('os') /\"'; DROP"
    data = with_op(0, name=evil)
    data["vars"][0][0] = evil
    args = te.graph_from_json(data)
    assert args[0].name == evil
    assert args[1].op.axis[0].name == evil
    assert te.workload_key(args) == te.workload_key(te.graph_from_json(graph()))


def test_another_format_is_refused() -> None:
    a = te.placeholder((3,), name="a")
    with pytest.raises(RecordError, match="graph format 99"):
        te.graph_from_json({**te.graph_to_json([a]), "v": 99})
