"""Random expressions over every element type, by scalars and by vectors, against NumPy.

A failing program is printed with its seed; `program(seed)` builds it again. Float arithmetic that
may be contracted is left out, so every result is compared bit for bit.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from edges import exact_values

from autosched.codegen import compile_function
from autosched.ir.dtype import SCALAR_DTYPES, DType, dtype
from autosched.ir.expr import OPS, Expr, broadcast, const, floormod, is_index, make, ramp, saturate, var
from autosched.ir.ops import as_type, evaluated
from autosched.ir.stmt import Buffer, For, Function, Let, Seq, Stmt, Store, load
from autosched.ir.visit import post_order
from autosched.runtime import load as load_kernel
from autosched.target import Target

COUNT = 64
TARGET = Target.parse("llvm -threads=1")
BOOL, INT32 = dtype("bool"), dtype("int32")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
INTEGER = (
    *("add", "sub", "mul", "truncdiv", "truncmod", "floordiv", "floormod", "min", "max", "neg", "abs"),
    *("bitand", "bitor", "bitxor", "bitnot", "shl", "shr", "popcount"),
)
FLOAT = ("min", "max", "neg", "abs", "floor", "sqrt")


class Grammar:
    """Random expressions over one buffer of each type and the variables."""

    def __init__(self, rng: random.Random, buffers: list[Buffer], variables: list[Expr]) -> None:
        self.rng = rng
        self.buffers = buffers
        self.variables = variables

    def expression(self, of: DType, depth: int) -> Expr:
        if depth == 0 or self.rng.random() < 0.1:
            return self.leaf(of)
        kind = self.rng.random()
        if kind < 0.15:
            condition = self.expression(BOOL, depth - 1)
            return make(
                self.rng.choice(("select", "if_then_else")),
                of,
                (condition, self.expression(of, depth - 1), self.expression(of, depth - 1)),
            )
        if of.is_bool and kind < 0.6:
            operands = dtype(self.rng.choice(SCALAR_DTYPES))
            op = self.rng.choice(COMPARE)
            return make(op, of, (self.expression(operands, depth - 1), self.expression(operands, depth - 1)))
        if not of.is_bool and kind < 0.35:
            return make("cast", of, (self.expression(dtype(self.rng.choice(SCALAR_DTYPES)), depth - 1),))
        op = self.rng.choice(("and", "or", "not") if of.is_bool else FLOAT if of.is_float else INTEGER)
        return make(op, of, tuple(self.expression(of, depth - 1) for _ in range(OPS[op].arity)))

    def leaf(self, of: DType) -> Expr:
        if self.rng.random() < 0.6:
            return load(next(b for b in self.buffers if b.dtype == of), floormod(self.index(), COUNT))
        return self.rng.choice([const(self.literal(of), of), *(v for v in self.variables if v.dtype == of)])

    def index(self) -> Expr:
        """An index of any sign and size: the loop variable, arithmetic on it, or a value that is read."""
        i, n = self.variables[0], const(self.literal(INT32))
        indices = next(b for b in self.buffers if b.dtype == INT32)
        op = self.rng.choice(("add", "mul", "sub", "truncmod", "floordiv"))
        return self.rng.choice(
            (i, make(op, INT32, (i, n)), load(indices, i), make("add", INT32, (load(indices, i), n)))
        )

    def literal(self, of: DType) -> int | float:
        if of.is_float:
            return self.rng.choice((0.0, 1.0, -1.0, 0.5, -7.25, 100.0))
        number = self.rng.choice((0, 1, 2, 3, 7, 8, 16, 100, -1, -2, -8, int(of.min), int(of.max)))
        return max(int(of.min), min(int(of.max), number))


def evaluate(e: Expr, env: dict[object, np.ndarray]) -> np.ndarray:
    """The value of `e` in each of the COUNT iterations."""
    if is_index(e):
        known = [v for v in post_order(e) if v.op == "var"]
        values = [exact_values(e, {v: env[v][i] for v in known})[e] for i in range(COUNT)]
        if e.dtype.is_bool:
            return np.array(values, bool)
        return np.array([const(int(v), e.dtype).value for v in values], e.dtype.numpy)
    if e.op == "load":
        return env[e.value][evaluate(e.args[0], env).astype(np.int64)]
    if e.op in ("const", "var"):
        return np.full(COUNT, e.value, e.dtype.numpy) if e.op == "const" else env[e]
    args = [evaluate(a, env) for a in e.args]
    if e.op == "cast":
        if e.args[0].dtype.is_float and e.dtype.is_integer:
            return np.array([saturate(float(v), e.dtype) for v in args[0]], e.dtype.numpy)
        return as_type(args[0], e.dtype)
    if e.op in ("select", "if_then_else"):
        return np.where(*args)
    return evaluated(e.op, e.dtype, args)


def vectorized(e: Expr, lanes: int, known: dict[Expr, Expr]) -> Expr:
    """`e` with each variable replaced by the vector in `known`."""
    if e not in known:
        if not e.args:
            known[e] = broadcast(e, lanes)
        elif e.op == "load":
            known[e] = load(e.value, vectorized(e.args[0], lanes, known))
        else:
            args = tuple(vectorized(a, lanes, known) for a in e.args)
            known[e] = make(e.op, e.dtype.with_lanes(lanes), args, e.value)
    return known[e]


def contents(of: DType, rng: np.random.Generator) -> np.ndarray:
    if of.is_bool:
        return rng.random(COUNT) < 0.5
    if of.is_float:
        return rng.choice(np.array([0, 1, -1, 0.5, 2.5, -3.75, 1e3, np.inf, -np.inf, np.nan]), COUNT).astype(of)
    wide, narrow = (int(of.min), int(of.max)), (0 if of.kind == "uint" else -4, 9)
    low, high = wide if rng.random() < 0.5 else narrow
    return rng.integers(low, high, COUNT, dtype=of.numpy, endpoint=True)


def program(seed: int) -> tuple[Expr, Function, list[np.ndarray], np.ndarray]:
    """The expression, a function that computes it twice, its inputs, and what it must give."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    buffers = [Buffer(f"x_{of}", (const(COUNT),), dtype(of)) for of in SCALAR_DTYPES]
    data = [contents(b.dtype, numbers) for b in buffers]
    i, block = var("i", role="loop"), var("block", role="loop")
    given = var("given", rng.choice([of for of in SCALAR_DTYPES if of not in ("int32", "int64")]), role="let")
    grammar = Grammar(rng, buffers, [i])
    definition = grammar.leaf(given.dtype)
    grammar.variables.append(given)
    e = grammar.expression(dtype(rng.choice(SCALAR_DTYPES)), rng.choice((2, 3, 4, 5)))

    lanes = rng.choice((4, 8, 16))
    known = {i: ramp(block * lanes, 1, lanes)}
    wide_definition = vectorized(definition, lanes, known)
    known[given] = make("var", given.dtype.with_lanes(lanes), (), var("wide", role="let").value)
    outs = [Buffer(name, (const(COUNT),), e.dtype) for name in ("by_scalars", "by_vectors")]
    scalar: Stmt = Let(given, definition, Store(outs[0], (i,), e))
    vector: Stmt = Let(known[given], wide_definition, Store(outs[1], (known[i],), vectorized(e, lanes, known)))
    loops = Seq(
        (
            For(i, const(0), const(COUNT), "serial", scalar),
            For(block, const(0), const(COUNT // lanes), "serial", vector),
        )
    )
    function = Function("fuzz", (*buffers, *outs), (), loops, (len(buffers), len(buffers) + 1))

    env: dict[object, np.ndarray] = {**dict(zip(buffers, data, strict=True)), i: np.arange(COUNT, dtype=np.int32)}
    with np.errstate(all="ignore"):
        env[given] = evaluate(definition, env)
        return e, function, data, evaluate(e, env)


@pytest.mark.parametrize("first", range(0, 80, 40))
def test_random_expressions(first: int) -> None:
    for seed in range(first, first + 40):
        e, function, data, expected = program(seed)
        outs = [np.zeros(COUNT, expected.dtype) for _ in range(2)]
        load_kernel(compile_function(function, TARGET), TARGET).bind([*data, *outs]).run()
        for form, actual in zip(("scalars", "vectors"), outs, strict=True):
            actual, wanted = (v.astype("float32") if v.dtype == "bfloat16" else v for v in (actual, expected))
            np.testing.assert_array_equal(actual, wanted, err_msg=f"seed {seed}, by {form}: {e!r}")
