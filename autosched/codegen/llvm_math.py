"""The formulas of `formulas.py` as LLVM functions, which LLVM inlines, and C's functions lane by lane.

Each formula becomes one small function for each type that asks for it. Operations here carry no `contract` flag: each
rounds as written, and what must be fused is `llvm.fma`.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.codegen.formulas import FORMULAS, Formula
from autosched.codegen.llvm_text import Value, Writer, constant, mangled, register_type, typed
from autosched.ir.dtype import BOOL, DType, dtype

_INTS = {32: dtype("int32"), 64: dtype("int64")}


def inlined(w: Writer, name: str, of: DType, args: Sequence[Value], is_usual: bool = False) -> Value | None:
    """Call inline code for the function `name` of operands of type `of`; None where there is none.

    With `is_usual`, code for operands that lie in `usual` alone, where it gives the same bits.
    There is none on a CPU without fused multiply-add, where the exact steps would be calls.
    """
    formula = FORMULAS.get((name, of.bits))
    if formula is None or not w.module.abilities.fuses:
        return None
    symbol, kind = f"math.{name}.{'usual.' if is_usual else ''}{mangled(of)}", register_type(of)
    if w.module.first(symbol):
        f = _Llvm(Writer(w.module), of, is_usual)
        parameters = [Value(f"%x{i}", of) for i in range(len(args))]
        f.w.do(f"ret {typed(formula(f, *parameters))}")
        header = f"define internal {kind} @{symbol}({', '.join(map(typed, parameters))})"
        f.w.finish(f"{header} alwaysinline nounwind willreturn memory(none)")
    return w.op(f"call {kind} @{symbol}({', '.join(map(typed, args))})", of)


def call(w: Writer, symbol: str, of: DType, args: Sequence[Value]) -> Value:
    """Call a function of a mathematics library, which depends on nothing but its operands."""
    kind = register_type(of)
    callee = w.module.declare(symbol, kind, [kind] * len(args), "nounwind willreturn memory(none)")
    return w.op(f"call {kind} {callee}({', '.join(map(typed, args))})", of)


def by_lanes(w: Writer, name: str, of: DType, args: Sequence[Value]) -> Value:
    """C's function of that name, called for each lane."""
    symbol = name if of.bits == 64 else f"{name}f"
    if of.lanes == 1:
        return call(w, symbol, of, args)
    return w.concat([call(w, symbol, of.scalar, [w.extract(a, i) for a in args]) for i in range(of.lanes)], of)


class _Llvm(Formula[Value]):
    """A formula as instructions."""

    def __init__(self, w: Writer, of: DType, is_usual: bool = False) -> None:
        super().__init__(of, is_usual)
        self.w = w
        self.ints = _INTS[of.bits].with_lanes(of.lanes)

    def _value(self, x: Value | float) -> Value:
        return x if isinstance(x, Value) else constant(x, self.of)

    def binary(self, op: str, a: Value | float, b: Value | float) -> Value:
        return self.w.binary(f"f{op}", self._value(a), self._value(b))

    def fma(self, a: Value | float, b: Value | float, c: Value | float) -> Value:
        return self.w.intrinsic("fma", self.of, [self._value(a), self._value(b), self._value(c)])

    def unary(self, op: str, x: Value) -> Value:
        return self.w.intrinsic({"abs": "fabs"}.get(op, op), self.of, [x])

    def copysign(self, x: Value, sign: Value) -> Value:
        return self.w.intrinsic("copysign", self.of, [x, sign])

    def compare(self, predicate: str, a: Value, b: Value | float) -> Value:
        return self.w.compare(predicate, a, b)

    def both(self, a: Value, b: Value) -> Value:
        return self.w.binary("and", a, b)

    def select(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        return self.w.select(condition, self._value(a), self._value(b))

    def bits(self, x: Value) -> Value:
        return self.w.convert("bitcast", x, self.ints)

    def from_bits(self, x: Value) -> Value:
        return self.w.convert("bitcast", x, self.of)

    def integer(self, op: str, a: Value | int, b: Value | int) -> Value:
        a, b = (x if isinstance(x, Value) else constant(x, self.ints) for x in (a, b))
        return self.w.binary(op, a, b)

    def shifted(self, a: Value, by: int) -> Value:
        return self.w.convert("sitofp", self.integer("ashr", a, by), self.of)

    def is_odd(self, a: Value) -> Value:
        return self.w.convert("trunc", a, BOOL.with_lanes(self.of.lanes))

    def rarely(self, condition: Value, name: str, args: Sequence[Value], usual: Value) -> Value:
        """Select C's function `name` in the few lanes where the condition holds, else `usual`."""
        w, kind, symbol = self.w, register_type(self.of), f"math.{name}.rare.{mangled(self.of)}"
        if w.module.first(symbol):
            inner, parameters = Writer(w.module), [Value(f"%x{i}", self.of) for i in range(len(args))]
            inner.do(f"ret {typed(by_lanes(inner, name, self.of, parameters))}")
            header = f"define internal {kind} @{symbol}({', '.join(map(typed, parameters))})"
            inner.finish(f"{header} noinline cold nounwind willreturn memory(none)")
        some = condition if self.of.lanes == 1 else w.intrinsic("vector.reduce.or", BOOL, [condition])
        weights = w.module.metadata('!{!"branch_weights", i32 1, i32 2000}')
        before, rare, joined = w.block, w.label("rare"), w.label("joined")
        w.branch(some.ref, rare, joined, f", !prof {weights}")
        w.start(rare)
        with w.scope():
            called = w.op(f"call {kind} @{symbol}({', '.join(map(typed, args))})", self.of)
            chosen = w.select(condition, called, usual)
        w.jump(joined)
        w.start(joined)
        return w.fresh(f"phi {kind} [ {usual.ref}, %{before} ], [ {chosen.ref}, %{rare} ]", self.of)
