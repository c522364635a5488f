"""What languages of the C family make of expressions and statements, as OpenCL computes it, against NumPy.

PoCL needs up to half a second for each kernel, so one kernel computes all operators of a type.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from edges import exact_values, finfo

from autosched.codegen.c_family import compile_opencl
from autosched.ir.bits import reinterpret
from autosched.ir.dtype import SCALAR_DTYPES, DType, dtype
from autosched.ir.expr import (
    OPS,
    Expr,
    binary,
    broadcast,
    call,
    cast,
    compare,
    const,
    if_then_else,
    likely,
    logical_and,
    logical_not,
    logical_or,
    make,
    ramp,
    saturate,
    select,
    var,
)
from autosched.ir.stmt import Allocate, Buffer, For, Function, Launch, Let, Stmt, Store, load, seq
from autosched.ir.visit import post_order, substitute
from autosched.runtime.opencl import OpenCLKernel
from autosched.target import Target

ONE = const(1)
N = 240  #: elements of every array here: whole vectors of 2, 3, 4, 5, 8 and 16 lanes
TARGET = Target.parse("opencl")
INTEGERS = [t for t in SCALAR_DTYPES if dtype(t).is_integer]
FLOATS = [t for t in SCALAR_DTYPES if dtype(t).is_float]
#: 1: scalars; 4: OpenCL vectors; 5: a loop over the lanes of every statement
LANES = (1, 4, 5)


def types_and_lanes(names: Sequence[str]) -> list[tuple[str, int]]:
    """Scalars and vectors of all types; loops over lanes are scalar code, which a few types show to work."""
    return [(name, lanes) for name in names for lanes in LANES if lanes < 5 or name in ("int8", "uint32", "float32")]


def corner_values(of: DType) -> list[float | int]:
    if of.is_bool:
        return [0, 1]
    if of.is_float:
        largest = float(finfo(of.numpy).max)
        return [0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.5, 3.0, -7.25, 100.0, largest, -largest, np.inf, -np.inf, np.nan]
    low, high = int(of.min), int(of.max)
    wanted = [0, 1, 2, 3, 5, 7, of.bits - 1, of.bits, 100, high // 3, high - 1, high, -1, -2, -3, -7, low, low + 1]
    return [v for v in dict.fromkeys(wanted) if low <= v <= high]


def pairs(of: DType) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of corner values, as far as they fit, then random numbers."""
    crossed = list(itertools.product(corner_values(of), repeat=2))
    rng = np.random.default_rng(7)
    if len(crossed) > N:
        crossed = [crossed[i] for i in rng.permutation(len(crossed))[:N]]
    a, b = (np.array([p[k] for p in crossed], dtype=of.numpy) for k in (0, 1))
    more = rng.integers(0, 2, (2, N - len(crossed))) if of.is_bool else rng.uniform(-100, 100, (2, N - len(crossed)))
    with np.errstate(all="ignore"):
        extra = np.abs(more) if of.kind == "uint" else more
        return np.concatenate([a, extra[0].astype(of.numpy)]), np.concatenate([b, extra[1].astype(of.numpy)])


def run(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[DType],
    body: Callable[[list[Buffer], list[Buffer], Expr], Stmt],
    threads: int = N,
    length: int = N,
) -> list[np.ndarray]:
    """Run `body(inputs, outputs, i)` on the device, for work-items i of one work-group."""
    thread = var("threadIdx.x", role="thread")
    sources = [Buffer(f"a{k}", (const(a.size),), dtype(a.dtype)) for k, a in enumerate(inputs)]
    targets = [Buffer(f"out{k}", (const(length),), t) for k, t in enumerate(outputs)]
    launch = Launch("kernel0", (ONE, ONE, ONE), (const(threads), ONE, ONE), body(sources, targets, thread))
    function = Function(
        "test", (*sources, *targets), (), launch, tuple(range(len(sources), len(sources) + len(targets)))
    )
    results = [np.zeros(length, t.numpy) for t in outputs]
    execute(function, [*inputs, *results])
    return results


def execute(function: Function, arrays: list[np.ndarray]) -> None:
    """On the device. `test_c_program` runs the tests of this file with another one."""
    call = OpenCLKernel(compile_opencl(function, TARGET), TARGET).bind(arrays)
    call.run()
    call.fetch()


Case = tuple[str, Callable[..., Expr], Callable[..., np.ndarray]]


def evaluate(cases: Sequence[Case], inputs: Sequence[np.ndarray], lanes: int) -> list[np.ndarray]:
    """The results of all cases on elements `i` of the inputs, in one kernel of `lanes`-wide statements."""
    elements = [make("load", dtype(a.dtype), (const(0),), Buffer("x", (), dtype(a.dtype))) for a in inputs]
    types = [build(*elements).dtype.scalar for _, build, _ in cases]

    def body(sources: list[Buffer], targets: list[Buffer], thread: Expr) -> Stmt:
        where = thread if lanes == 1 else ramp(thread * lanes, 1, lanes)
        values = [build(*(load(s, where) for s in sources)) for _, build, _ in cases]
        return seq(*(Store(t, (where,), v) for t, v in zip(targets, values, strict=True)))

    return run(inputs, types, body, threads=N // lanes)


def check(cases: Sequence[Case], inputs: Sequence[np.ndarray], lanes: int) -> None:
    results = evaluate(cases, inputs, lanes)
    wrong = []
    for (name, _, reference), result in zip(cases, results, strict=True):
        with np.errstate(all="ignore"):
            wide = name in ("floordiv", "floormod")  # of bfloat16, NumPy's are others
            given = [a.astype("float32") if a.dtype == "bfloat16" and wide else a for a in inputs]
            expected = np.asarray(reference(*given)).astype(result.dtype)
        same = (result == expected) | ((result != result) & (expected != expected))
        for i in np.flatnonzero(~same)[:3]:
            wrong.append(f"{name}{tuple(a[i] for a in inputs)} = {result[i]!r}, NumPy says {expected[i]!r}")
    assert not wrong, "\n".join(wrong)


# -- operators ------------------------------------------------------------------------------------

BINARY = ["add", "sub", "mul", "truncdiv", "truncmod", "floordiv", "floormod", "min", "max"]
BITS = ["bitand", "bitor", "bitxor", "shl", "shr"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


def operator(op: str, of: DType) -> Case:
    """The IR operator, without the rewriting of the builder functions."""
    result = dtype("bool") if op in COMPARISONS or op.startswith("is") else of
    arity = OPS[op].arity

    def build(*args: Expr) -> Expr:
        return make(op, result.with_lanes(args[0].dtype.lanes), args[:arity])

    return op, build, lambda *args: OPS[op].numpy(*args[:arity])


@pytest.mark.parametrize(("name", "lanes"), types_and_lanes(INTEGERS))
def test_constant_operands_and_chains(name: str, lanes: int) -> None:
    """Operators of two operands: `test_edges`."""
    of = dtype(name)
    check(_integer_cases(of), pairs(of), lanes)


def _integer_cases(of: DType) -> list[Case]:
    """Constant operands, and chains whose intermediate results leave the type."""
    np_of, two = of.numpy.type, (3, -1) if of.kind == "int" else (3, 5)
    cases: list[Case] = []
    for op in ("truncdiv", "truncmod", "floordiv", "floormod"):
        for divisor in two:
            cases.append(
                (
                    f"{op} by {divisor}",
                    lambda a, b, op=op, d=divisor: binary_const(op, a, d),
                    lambda a, b, op=op, d=divisor: OPS[op].numpy(a, np_of(d)),
                )
            )
    for op in ("shl", "shr"):
        for amount in (0, 3, of.bits - 1, of.bits):
            cases.append(
                (
                    f"{op} by {amount}",
                    lambda a, b, op=op, d=amount: binary_const(op, a, d),
                    lambda a, b, op=op, d=amount: OPS[op].numpy(a, np_of(d)),
                )
            )
    cases += [
        ("a+b-b*a", lambda a, b: a + b - b * a, lambda a, b: a + b - b * a),
        ("(a+b)//3", lambda a, b: (a + b) // 3, lambda a, b: (a + b) // np_of(3)),
        ("-(a-b)<a", lambda a, b: -(a - b) < a, lambda a, b: -(a - b) < a),
        ("~(a<<1)", lambda a, b: ~(a << 1), lambda a, b: ~(a << np_of(1))),
        ("int64(a)<<1", lambda a, b: cast("int64", a) << 1, lambda a, b: a.astype("int64") << 1),
        ("(a>>1)*2-a", lambda a, b: (a >> 1) * 2 - a, lambda a, b: (a >> np_of(1)) * np_of(2) - a),
        ("min(a,b)*max(a,b)", lambda a, b: make_minmax(a, b), lambda a, b: np.minimum(a, b) * np.maximum(a, b)),
        ("a<b?a+b:a*b", lambda a, b: select(a < b, a + b, a * b), lambda a, b: np.where(a < b, a + b, a * b)),
        ("(b&3)+1 as divisor", _positive_divisor, lambda a, b: a // ((b & np_of(3)) + np_of(1))),
    ]
    return cases


def binary_const(op: str, a: Expr, value: int) -> Expr:
    return make(op, a.dtype, (a, broadcast(const(value, a.dtype.scalar), a.dtype.lanes)))


def make_minmax(a: Expr, b: Expr) -> Expr:
    return binary("min", a, b) * binary("max", a, b)


def _positive_divisor(a: Expr, b: Expr) -> Expr:
    return a // ((b & 3) + 1)


@pytest.mark.parametrize(("name", "lanes"), types_and_lanes(FLOATS))
def test_floats(name: str, lanes: int) -> None:
    of = dtype(name)
    cases = [operator(op, of) for op in ("floordiv", "floormod")]
    cases += [
        ("(a+b)/b-a", lambda a, b: (a + b) / b - a, lambda a, b: (a + b) / b - a),
        ("a<b?a:-b", lambda a, b: select(a < b, a, -b), lambda a, b: np.where(a < b, a, -b)),
        ("ldexp", lambda a, b: call("ldexp", a, cast("int32", b)), _ldexp),
        ("bits", lambda a, b: reinterpret(f"int{of.bits}", _number(a)) & 0x7FF, _low_bits),
        ("from bits", lambda a, b: _halved(a, of), lambda a, b: _halved_by_numpy(a)),
        ("scalar condition", _scalar_condition, lambda a, b: a + b),
        ("uint8 of a sum", lambda a, b: cast("uint8", a + a), lambda a, b: _saturated(a + a)),
    ]
    check(cases, pairs(of), lanes)


def _ldexp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.ldexp(a, np.array([saturate(float(v), dtype("int32")) for v in b], "int32"))


def _halved(a: Expr, of: DType) -> Expr:
    """Shifted right by a bit, all of it: no operator on floats does that."""
    return reinterpret(of.scalar, reinterpret(f"uint{of.bits}", _number(a)) >> 1)


def _number(a: Expr) -> Expr:
    """Which NaN it is differs where halves are computed in float."""
    return select(call("isnan", a), const(1.5, a.dtype), a)


def _halved_by_numpy(a: np.ndarray) -> np.ndarray:
    number = np.where(np.isnan(a), a.dtype.type(1.5), a)
    return (number.view(f"u{a.itemsize}") >> 1).view(a.dtype)


def _low_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    number = np.where(np.isnan(a), a.dtype.type(1.5), a)
    return number.view(f"i{a.itemsize}") & 0x7FF


def _scalar_condition(a: Expr, b: Expr) -> Expr:
    """A vector choice by one scalar: element 0 of the first input is 0."""
    first = load(_loads(a)[0].value, const(0))
    return if_then_else(first < 1.0, a + b, a - b)


def _loads(e: Expr) -> list[Expr]:
    return [n for n in post_order(e) if n.op == "load"]


def _saturated(x: np.ndarray) -> np.ndarray:
    return np.array([saturate(float(v), dtype("uint8")) for v in x], np.uint8)


@pytest.mark.parametrize("lanes", LANES)
def test_booleans(lanes: int) -> None:
    a, b = pairs(dtype("bool"))
    cases = [operator(op, dtype("bool")) for op in ("min", "max", *COMPARISONS)]
    cases += [
        ("and", logical_and, np.logical_and),
        ("or", lambda a, b: make("or", a.dtype, (a, b)), np.logical_or),
        ("not", lambda a, b: make("not", a.dtype, (a,)), lambda a, b: ~a),
        ("likely", lambda a, b: likely(a), lambda a, b: a),
        ("nand", lambda a, b: logical_not(logical_and(a, b)), lambda a, b: ~(a & b)),
        ("nor", lambda a, b: logical_not(logical_or(a, b)), lambda a, b: ~(a | b)),
        ("a?b:!a", lambda a, b: make("select", a.dtype, (a, b, logical_not(a))), lambda a, b: np.where(a, b, ~a)),
        ("true and", lambda a, b: make("and", a.dtype, (broadcast(const(True), a.dtype.lanes), b)), lambda a, b: b),
    ]
    check(cases, (a, b), lanes)


# -- mixtures ---------------------------------------------------------------------------------------


#: name -> IR and NumPy of (a, b: uint8; c, d: int32; e: uint32)
_MIXTURES: dict[str, tuple[Callable[..., Expr], Callable[..., np.ndarray]]] = {
    "u8 + u8 as u16": (
        lambda a, b, c, d, e: cast("uint16", a) + cast("uint16", b),
        lambda a, b, c, d, e: a.astype("u2") + b,
    ),
    "mean": (
        lambda a, b, c, d, e: cast("uint8", (cast("uint16", a) + cast("uint16", b) + cast("uint16", a)) // 3),
        lambda a, b, c, d, e: ((a.astype("u2") + b + a) // 3).astype("u1"),
    ),
    "u32 < i32 as i64": (
        lambda a, b, c, d, e: cast("int64", e) < cast("int64", c),
        lambda a, b, c, d, e: e.astype("i8") < c,
    ),
    "u32 * i32 as i64": (
        lambda a, b, c, d, e: cast("int64", e) * cast("int64", c),
        lambda a, b, c, d, e: e.astype("i8") * c,
    ),
    "~u32 as u64": (lambda a, b, c, d, e: ~cast("uint64", e), lambda a, b, c, d, e: ~e.astype("u8")),
    "u32 >> 8 as i32": (
        lambda a, b, c, d, e: compare("lt", cast("int32", e >> 8), c),
        lambda a, b, c, d, e: (e >> np.uint32(8)).astype("i4") < c,
    ),
    "i32 as u32 / 7": (
        lambda a, b, c, d, e: cast("uint32", c) // 7,
        lambda a, b, c, d, e: c.astype("u4") // np.uint32(7),
    ),
    "u8 * u8 as i32": (
        lambda a, b, c, d, e: cast("int32", a) * cast("int32", b) - c,
        lambda a, b, c, d, e: a.astype("i4") * b - c,
    ),
    "u8 >> 40 as i64": (lambda a, b, c, d, e: cast("int64", a) >> 40, lambda a, b, c, d, e: a.astype("i8") >> 40),
    "-u8 as u32": (lambda a, b, c, d, e: -cast("uint32", a), lambda a, b, c, d, e: -a.astype("u4")),
    "i32 << 20 as i64": (lambda a, b, c, d, e: cast("int64", c) << 20, lambda a, b, c, d, e: c.astype("i8") << 20),
    "u8 ^ u8 as i8": (
        lambda a, b, c, d, e: cast("int8", a) ^ cast("int8", b),
        lambda a, b, c, d, e: a.astype("i1") ^ b.astype("i1"),
    ),
    "u32 or i32 as i64": (
        lambda a, b, c, d, e: select(c < d, cast("int64", e), cast("int64", c)),
        lambda a, b, c, d, e: np.where(c < d, e.astype("i8"), c),
    ),
    "float of sum": (lambda a, b, c, d, e: cast("float32", a + b), lambda a, b, c, d, e: (a + b).astype("f4")),
}


@pytest.mark.parametrize("lanes", LANES)
def test_mixed_types_keep_their_values(lanes: int) -> None:
    """Promotions of C that would change a value: unsigned against signed, narrow against wide."""
    a, b = pairs(dtype("uint8"))
    c, d = pairs(dtype("int32"))
    e, _ = pairs(dtype("uint32"))
    cases = [(name, build, reference) for name, (build, reference) in _MIXTURES.items()]
    check(cases, (a, b, c, d, e), lanes)


# -- random expressions -----------------------------------------------------------------------------

_RANDOM_OPS = [*BINARY, *BITS, "neg", "bitnot", "abs", "choice", "cast", "cast", "cast"]


def random_expression(rng: random.Random, leaves: Sequence[Expr], of: str, depth: int) -> Expr:
    """An integer expression of type `of` over the leaves, with casts from any other type."""
    lanes = leaves[0].dtype.lanes
    if depth == 0:
        if rng.random() < 0.2:
            return broadcast(const(rng.choice(corner_values(dtype(of))), of), lanes)
        return cast(of, rng.choice(leaves))

    def operand(t: str = of) -> Expr:
        return random_expression(rng, leaves, t, rng.randrange(depth))

    op = rng.choice(_RANDOM_OPS)
    if op == "cast":
        return cast(of, operand(rng.choice(INTEGERS)))
    if op == "choice":
        t = rng.choice(INTEGERS)
        condition = compare(rng.choice(COMPARISONS), operand(t), operand(t))
        return make("select", dtype(of).with_lanes(lanes), (condition, operand(), operand()))
    return make(op, dtype(of).with_lanes(lanes), tuple(operand() for _ in range(OPS[op].arity)))


def reference_value(e: Expr, leaves: dict[Expr, np.ndarray]) -> np.ndarray:
    """`e` node by node, each result in the type of its node."""
    done: dict[Expr, np.ndarray] = dict(leaves)
    with np.errstate(all="ignore"):
        for node in post_order(e):
            if node in done:
                continue
            args = [done[a] for a in node.args]
            if node.op == "const":
                done[node] = np.full(N, node.value, node.dtype.numpy)
            else:
                ufunc = (lambda x: x) if node.op in ("cast", "broadcast") else OPS[node.op].numpy
                done[node] = np.asarray(ufunc(*args)).astype(node.dtype.numpy)
    return done[e]


@pytest.mark.parametrize(("seed", "lanes"), [(seed, lanes) for seed in range(2) for lanes in LANES])
def test_random_integer_expressions(seed: int, lanes: int) -> None:
    inputs = [pairs(dtype(t))[0] for t in INTEGERS]
    outputs = [random.Random(f"{seed}.{k}").choice(INTEGERS) for k in range(24)]

    def build(k: int, leaves: Sequence[Expr]) -> Expr:
        return random_expression(random.Random(f"{seed}/{k}"), leaves, outputs[k], 4)

    def evaluate_one(k: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
        leaves = [var(f"x{i}", a.dtype, role="let") for i, a in enumerate(arrays)]
        return reference_value(build(k, leaves), dict(zip(leaves, arrays, strict=True)))

    cases = [
        (f"case {k}", lambda *leaves, k=k: build(k, leaves), lambda *arrays, k=k: evaluate_one(k, arrays))
        for k in range(len(outputs))
    ]
    check(cases, inputs, lanes)


def test_constants_come_back_exactly() -> None:
    values: list[tuple[str, float | int]] = []
    for t in SCALAR_DTYPES:
        of = dtype(t)
        values += [(t, v) for v in corner_values(of)]
        if of.is_float:
            values += [(t, 0.1), (t, float(finfo(of.numpy).smallest_subnormal)), (t, float(finfo(of.numpy).tiny))]

    def body(_: list[Buffer], targets: list[Buffer], thread: Expr) -> Stmt:
        return seq(*(Store(o, (thread,), const(v, t)) for o, (t, v) in zip(targets, values, strict=True)))

    results = run([], [dtype(t) for t, _ in values], body, threads=1, length=1)
    for (t, v), result in zip(values, results, strict=True):
        expected = np.array([v]).astype(dtype(t).numpy)
        assert result.tobytes() == expected.tobytes() or (np.isnan(v) and np.isnan(result[0])), (t, v, result)


# -- statements in lanes ----------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [2, 3, 4, 5, 8, 16, 24])
def test_vectors_of_any_width(lanes: int) -> None:
    """Widening, arithmetic, comparison, choice, narrowing; contiguous, strided and broadcast accesses."""
    a, b = pairs(dtype("uint8"))
    f = np.linspace(-4, 4, 2 * N).astype(np.float32)

    def body(sources: list[Buffer], targets: list[Buffer], thread: Expr) -> Stmt:
        x, y, z = sources
        here = ramp(thread * lanes, 1, lanes)
        twice = ramp(thread * (2 * lanes), 2, lanes)
        wide = cast("uint16", load(x, here)) + cast("uint16", load(y, here))
        reverse = ramp(thread * lanes + (lanes - 1), -1, lanes)
        chosen = select(load(x, here) < load(y, here), load(z, here), broadcast(load(z, thread), lanes))
        return seq(
            Store(targets[0], (here,), cast("uint8", wide // 2)),
            Store(targets[1], (here,), load(z, twice) * const(2.0)),
            Store(targets[2], (reverse,), load(x, here)),
            Store(targets[3], (here,), chosen),
            Store(targets[4], (here,), ramp(thread * lanes, 3, lanes)),
            Store(targets[5], (here,), load(z, cast("int32", load(x, here)))),
        )

    types = [dtype(t) for t in ("uint8", "float32", "uint8", "float32", "int32", "float32")]
    results = run([a, b, f], types, body, threads=N // lanes)
    groups = np.arange(N) // lanes
    expected = [
        ((a.astype(np.uint16) + b) // 2).astype(np.uint8),
        f[::2] * 2,
        a.reshape(-1, lanes)[:, ::-1].ravel(),
        np.where(a < b, f[:N], f[groups]),
        groups * lanes + 3 * (np.arange(N) % lanes),
        f[a],
    ]
    for k, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        np.testing.assert_array_equal(result, wanted, err_msg=f"output {k}")


def test_a_store_reads_all_lanes_before_it_writes_any() -> None:
    start = np.arange(N, dtype=np.int32)

    def body(sources: list[Buffer], targets: list[Buffer], thread: Expr) -> Stmt:
        (source,) = sources
        shift_up, shift_down, permuted, doubled, last, through = targets
        i = var("i", role="loop")
        copy = For(i, const(0), const(N), "serial", seq(*(Store(t, (i,), load(source, i)) for t in targets)))
        all_lanes = ramp(0, 1, 10)
        return seq(
            copy,
            Store(shift_up, (ramp(1, 1, 10),), load(shift_up, all_lanes)),
            Store(shift_down, (ramp(0, 1, 10),), load(shift_down, ramp(1, 1, 10))),
            Store(permuted, (load(permuted, ramp(9, -1, 10)),), load(permuted, ramp(5, 1, 10))),
            Store(doubled, (all_lanes,), load(doubled, all_lanes) + load(doubled, all_lanes)),
            Store(last, (broadcast(const(3), 10),), load(last, ramp(20, 1, 10))),
            Store(through, (ramp(1, 1, 4),), load(through, ramp(0, 1, 4))),
        )

    results = run([start], [dtype("int32")] * 6, body, threads=1)
    expected = [start.copy() for _ in results]
    expected[0][1:11] = start[0:10]
    expected[1][0:10] = start[1:11]
    expected[2][np.arange(9, -1, -1)] = start[5:15]
    expected[3][:10] *= 2
    expected[4][3] = 29
    expected[5][1:5] = start[0:4]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("lanes", [4, 6])
def test_guarded_lanes_do_not_load(lanes: int) -> None:
    """`if_then_else` in lanes: offsets behind false conditions are far outside of the array."""
    a = np.arange(N, dtype=np.float32)

    def body(sources: list[Buffer], targets: list[Buffer], thread: Expr) -> Stmt:
        here = ramp(thread * lanes, 1, lanes)
        inside = compare("lt", here, broadcast(const(100), lanes))
        far = here + select(inside, const(0), const(2**29))
        guarded = if_then_else(inside, load(sources[0], far), broadcast(const(-1.0), lanes))
        both = logical_and(inside, compare("gt", load(sources[0], far), broadcast(const(50.0), lanes)))
        return seq(Store(targets[0], (here,), guarded), Store(targets[1], (here,), cast("int32", both)))

    guarded, both = run([a], [dtype("float32"), dtype("int32")], body, threads=N // lanes)
    np.testing.assert_array_equal(guarded, np.where(a < 100, a, -1))
    np.testing.assert_array_equal(both, (a < 100) & (a > 50))


@pytest.mark.parametrize("lanes", [1, 4, 6])
def test_let(lanes: int) -> None:
    a, b = pairs(dtype("float32"))
    a, b = np.nan_to_num(a, posinf=1, neginf=2) % 100, np.nan_to_num(b, posinf=1, neginf=2) % 100

    def body(sources: list[Buffer], targets: list[Buffer], thread: Expr) -> Stmt:
        offset = var("offset", dtype("int32").with_lanes(lanes), role="let")
        value = var("value", dtype("float32").with_lanes(lanes), role="let")
        flag = var("flag", dtype("bool").with_lanes(lanes), role="let")
        where = thread if lanes == 1 else ramp(thread * lanes, 1, lanes)
        result = select(flag, value * value, value) + load(sources[1], offset)
        inner = Let(flag, value < 50.0, Store(targets[0], (offset,), result))
        return Let(offset, where, Let(value, load(sources[0], offset), inner))

    (result,) = run([a, b], [dtype("float32")], body, threads=N // lanes)
    np.testing.assert_array_equal(result, np.where(a < 50, a * a, a) + b)


def test_index_values_meet_arithmetic_in_their_type() -> None:
    """An index is exact until it is stored or mixed with a value; then it is an int32."""

    def body(_: list[Buffer], targets: list[Buffer], thread: Expr) -> Stmt:
        i = thread - 5
        scaled = i * 7 + 3
        return seq(
            Store(targets[0], (thread,), i // 4),
            Store(targets[1], (thread,), i % 4),
            Store(targets[2], (thread,), cast("float32", scaled) * const(0.5)),
            Store(targets[3], (thread,), cast("uint8", scaled)),
            Store(targets[4], (thread,), make("truncdiv", i.dtype, (i, const(-3)))),
            Store(targets[5], (thread,), make("truncmod", i.dtype, (i, thread - 8))),
            Store(targets[6], (thread,), select(compare("lt", i, const(3)), -i, binary("min", i, const(9)))),
        )

    names = ("int32", "int32", "float32", "uint8", "int32", "int32", "int32")
    results = run([], [dtype(t) for t in names], body, threads=N)
    t = np.arange(N)
    i = t - 5
    expected = [
        i // 4,
        i % 4,
        (i * 7 + 3) * 0.5,
        (i * 7 + 3).astype(np.uint8),
        np.trunc(i / -3),
        OPS["truncmod"].numpy(i, t - 8),
        np.where(i < 3, -i, np.minimum(i, 9)),
    ]
    for k, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        np.testing.assert_array_equal(result, wanted, err_msg=f"output {k}")


_INDEX_OPS = [
    "add",
    "sub",
    "mul",
    "mul",
    *("floordiv", "floormod", "truncdiv", "truncmod"),
    "min",
    "max",
    "neg",
    "select",
]


def random_index(rng: random.Random, leaves: Sequence[Expr], depth: int) -> Expr:
    if depth == 0:
        return rng.choice([*leaves, const(rng.randint(-40, 40))])
    a, b, c = (random_index(rng, leaves, rng.randrange(depth)) for _ in range(3))
    op = rng.choice(_INDEX_OPS)
    if op == "select":
        return make(op, a.dtype, (compare(rng.choice(COMPARISONS), a, b), b, c))
    return make(op, a.dtype, (a, b)[: OPS[op].arity])


@pytest.mark.parametrize("seed", range(2))
def test_random_index_arithmetic_is_exact(seed: int) -> None:
    """An index is the mathematical integer, in 32 bits where the bound allows it (seed 0) and in 64."""
    points = [(t, i) for t in range(N // 5) for i in range(-2, 3)]
    thread, loop = var("threadIdx.x", role="thread"), var("i", role="loop")
    rng = random.Random(seed)
    chosen: list[Expr] = []
    expected: list[list[int]] = []
    while len(chosen) < 20:
        e = random_index(rng, [thread, loop], (2, 5)[seed])
        values = [exact_values(e, {thread: t, loop: i}) for t, i in points]
        if all(abs(part) < 2**62 for parts in values for part in parts.values()):
            chosen.append(e)
            expected.append([parts[e] for parts in values])

    def body(_: list[Buffer], targets: list[Buffer], here: Expr) -> Stmt:
        where = (here * 5 + (loop + 2),)
        stores = (
            Store(t, where, cast("int64", substitute(e, {thread: here}))) for t, e in zip(targets, chosen, strict=True)
        )
        return For(loop, const(-2), const(5), "serial", seq(*stores))

    results = run([], [dtype("int64")] * len(chosen), body, threads=N // 5)
    for e, result, wanted in zip(chosen, results, expected, strict=True):
        assert result.tolist() == wanted, e


@pytest.mark.parametrize("name", ["bool", "float16", "float64", "int8"])
def test_private_arrays_hold_every_type(name: str) -> None:
    of = dtype(name)
    a, _ = pairs(of)

    def body(sources: list[Buffer], targets: list[Buffer], thread: Expr) -> Stmt:
        i = var("i", role="loop")
        kept = Buffer("kept", (const(4),), of, "local")
        fill = For(i, const(0), const(4), "serial", Store(kept, (i,), load(sources[0], thread * 4 + i)))
        turned = Store(targets[0], (ramp(thread * 4, 1, 4),), load(kept, ramp(3, -1, 4)))
        straight = Store(targets[1], (ramp(thread * 4, 1, 4),), load(kept, ramp(0, 1, 4)))
        return Allocate(kept, seq(fill, turned, straight))

    turned, straight = run([a], [of, of], body, threads=N // 4)
    np.testing.assert_array_equal(turned, a.reshape(-1, 4)[:, ::-1].ravel())
    np.testing.assert_array_equal(straight, a)


def test_expressions_that_share_their_parts() -> None:
    """Thirty levels that use the level below twice; guarded parts stay guarded."""
    a = np.arange(N, dtype=np.uint32)

    def body(sources: list[Buffer], targets: list[Buffer], thread: Expr) -> Stmt:
        def tower(base: Expr) -> Expr:
            for k in range(30):
                base = base * base + k
            return base

        here = load(sources[0], thread)
        far = load(sources[0], thread + 2**28)  # outside of the array
        guarded = if_then_else(compare("lt", thread, const(N)), tower(here), tower(far))
        is_one = compare("eq", tower(far), const(1, "uint32"))
        either = make("or", dtype("bool"), (compare("lt", thread, const(N)), is_one))
        both = make("and", dtype("bool"), (compare("lt", thread, const(0)), is_one))
        return seq(
            Store(targets[0], (thread,), tower(here)),
            Store(targets[1], (thread,), guarded),
            Store(targets[2], (thread,), cast("uint32", either)),
            Store(targets[3], (thread,), cast("uint32", both)),
            Store(targets[4], (ramp(thread * 1, 1, 4),), tower(load(sources[0], ramp(thread, 1, 4)))),
        )

    expected = a.copy()
    for k in range(30):
        expected = expected * expected + np.uint32(k)
    results = run([a], [dtype("uint32")] * 5, body, threads=N - 3)
    whole = slice(0, N - 3)
    np.testing.assert_array_equal(results[0][whole], expected[whole])
    np.testing.assert_array_equal(results[1][whole], expected[whole])
    np.testing.assert_array_equal(results[2][whole], 1)
    np.testing.assert_array_equal(results[3][whole], 0)
    np.testing.assert_array_equal(results[4], expected)


def test_a_sum_of_a_thousand_terms() -> None:
    a = np.arange(N, dtype=np.float32)

    def body(sources: list[Buffer], targets: list[Buffer], thread: Expr) -> Stmt:
        total: Expr = const(0.0)
        for k in range(1000):
            total = total + load(sources[0], const(k % N))
        return Store(targets[0], (thread,), total)

    (result,) = run([a], [dtype("float32")], body, threads=1)
    assert result[0] == np.resize(a, 1000).sum()
