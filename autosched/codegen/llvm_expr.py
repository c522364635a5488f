"""Expressions to LLVM.

An expression is a *value*, in its own type, where integers wrap, or an *index*, in 64 bits, where arithmetic is
exact. An index that meets a value is cut to its type. What evaluates its operands on demand (`if_then_else`, `and`,
`or` around loads) branches on a scalar condition and masks the loads under a vector one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial

import llvmlite.binding as llvm

from autosched.codegen.formulas import usual
from autosched.codegen.lanes import is_known, line_of, one_side, pattern_of
from autosched.codegen.legalize import HALF_ARITHMETIC, legal
from autosched.codegen.llvm_dot import dot
from autosched.codegen.llvm_math import inlined
from autosched.codegen.llvm_memory import Memory
from autosched.codegen.llvm_ops import (
    LLVM_OPS,
    STRUCTURAL,
    convert,
    extend,
    floor_div,
    floor_mod,
    rounded,
    trunc_div,
    trunc_mod,
)
from autosched.codegen.llvm_text import Scoped, Value, Writer, constant, memory_type, register_type, typed
from autosched.codegen.signature import PACKED_PREFIX
from autosched.codegen.together import is_as_large, sides_of
from autosched.codegen.value_range import ValueRanges
from autosched.errors import BuildError
from autosched.ir.calls import Callee, touches_memory
from autosched.ir.dtype import BOOL, HANDLE, INT64, DType, dtype
from autosched.ir.expr import OPS, Expr, const, is_const, is_index, logical_and
from autosched.ir.ops import COMPARISONS
from autosched.ir.ranges import Ranges
from autosched.ir.visit import conjuncts, needed_by_both, post_order

_DIVISIONS = {"truncdiv": trunc_div, "truncmod": trunc_mod, "floordiv": floor_div, "floormod": floor_mod}
#: cutting the operands to fewer bits gives the same low bits of the result
_RING = frozenset(("add", "sub", "mul", "neg"))


def _ref(mask: Value | None) -> str:
    return "" if mask is None else mask.ref


#: operators of `combine_lanes` for which LLVM has an instruction, and of which the order is the same to everybody
_LANES_IN_ANY_ORDER = {"bitand": "and", "bitor": "or", "bitxor": "xor"}


class Expressions:
    """Emits the expressions of one function. `bound` gives a variable its value."""

    def __init__(self, writer: Writer, memory: Memory, ranges: Ranges) -> None:
        self.w = writer
        self.memory = memory
        self.ranges = ranges
        self.variables: dict[Expr, Value] = {}
        self._values: Scoped[Expr, Value] = writer.tracks(Scoped())
        self._indices: Scoped[Expr, Value] = writer.tracks(Scoped())
        #: values that depend on memory: good until the statement ends, under the same mask and narrower ones
        self._loaded: Scoped[tuple[Expr, str], Value] = writer.tracks(Scoped())
        self.mask: Value | None = None  #: lanes that run; None for all
        self._wider: list[Value | None] = []  #: the masks around it, of more lanes, innermost first
        self._unused: Expr | None = None  #: whose value nobody wants

    # -- variables and statements -------------------------------------------------------------
    @contextmanager
    def bound(self, variable: Expr, value: Value) -> Iterator[None]:
        """Let `variable` stand for `value`, which is in the variable's type or in 64 bits.

        The caller opens a scope of the writer around it, in which the expressions over `variable`
        are forgotten.
        """
        outer = self.variables.get(variable)
        if outer is not None:  # an inner binding of the same variable hides what the outer one gave
            self._values.clear()
            self._indices.clear()
        self.variables[variable] = value
        yield
        if outer is None:
            del self.variables[variable]
        else:
            self.variables[variable] = outer
            self._values.clear()
            self._indices.clear()

    def begin_statement(self) -> None:
        """Forget what was loaded: memory may have changed since the last statement."""
        self._loaded.clear()

    @contextmanager
    def masked(self, condition: Value) -> Iterator[None]:
        """Evaluate for the lanes where `condition` holds (and the present mask does)."""
        outer = self.mask
        self._wider.insert(0, outer)
        self.mask = condition if outer is None else self.w.binary("and", outer, condition)
        yield
        self.mask = self._wider.pop(0)

    @contextmanager
    def _unmasked(self) -> Iterator[None]:
        """Evaluate for all lanes."""
        outer, wider = self.mask, self._wider
        self.mask, self._wider = None, []
        yield
        self.mask, self._wider = outer, wider

    def effect(self, e: Expr) -> None:
        """Emit an expression for what it does."""
        self.begin_statement()
        self._unused = e
        self.value(e)
        self._unused = None

    # -- values -------------------------------------------------------------------------------
    def value(self, root: Expr) -> Value:
        """`root` in its own type."""
        stack = [root]
        while stack:  # by hand: a reduction unrolled a thousand times is a thousand levels deep
            e = stack[-1]
            if self._find(e) is not None:
                stack.pop()
                continue
            is_plain = e.op in LLVM_OPS and not is_index(e)
            pending = [a for a in e.args if is_plain and self._find(a) is None]
            if pending:
                stack.extend(reversed(pending))
                continue
            stack.pop()
            self.remember(e, self._emit(e))
        found = self._find(root)
        assert found is not None
        return found

    def _find(self, e: Expr) -> Value | None:
        if not touches_memory(e):
            return self._values.get(e)
        found = (self._loaded.get((e, _ref(mask))) for mask in (self.mask, *self._wider))
        return next((value for value in found if value is not None), None)

    def remember(self, e: Expr, value: Value) -> None:
        """Let `e` be `value`: if it reads memory, until the statement ends."""
        if touches_memory(e):
            self._loaded.remember((e, _ref(self.mask)), value)
        else:
            self._values.remember(e, value)

    def _emit(self, e: Expr) -> Value:
        if e.op == "const":
            return constant(e.value, e.dtype)
        if e.op == "var":
            return self._variable(e)
        if is_index(e):
            return self._index_condition(e) if e.dtype.is_bool else self._narrow(e)
        if e.op in LLVM_OPS:
            plain = legal(e, HALF_ARITHMETIC)
            if plain is not e:
                return self.value(plain)
            args = [self.value(a) for a in e.args]
            return self._usual(e, args) or LLVM_OPS[e.op](self.w, e.dtype, args)
        if e.op not in STRUCTURAL:
            raise BuildError(
                f"the operator {e.op!r} cannot reach code generation", asked=repr(e), legal="lower the function first"
            )
        match e.op:
            case "load":
                return self._load(e)
            case "address":
                return Value(self.memory.address(e.value, self.index(e.args[0])), HANDLE)
            case "call":
                return self._call(e)
            case "ramp":
                return self._ramp_value(e)
            case "broadcast":
                return self.w.splat(self.value(e.args[0]), e.dtype.lanes)
            case "select":
                asked, yes, no = e.args
                if asked.op == "not":
                    (asked,), yes, no = asked.args, no, yes
                return (self.w.blend if one_side(e) else self.w.select)(*map(self.value, (asked, yes, no)))
            case "if_then_else":
                return self._choose(e, *e.args)
            case "to_line":
                return self.memory.to_line(e.value, self.index(e.args[0]))
            case "combine_lanes":
                return self._first_lane(e) or self._combine_lanes(e.value, self.value(e.args[0]))
            case "dot":
                total, a, b = map(self.value, e.args)
                return dot(self.w, total, a, b)
            case "and":
                return self._shortcut(e, e.args[0], e.args[1], const(False, e.dtype))
            case _:
                return self._shortcut(e, e.args[0], const(True, e.dtype), e.args[1])

    def _usual(self, e: Expr, args: Sequence[Value]) -> Value | None:
        """A function of a value that needs nothing special there; None where that is not known."""
        needed = usual(e.op, e.dtype) if OPS[e.op].kind == "math" else None
        found = None if needed is None else ValueRanges.of(e.args[0], self.ranges)
        if needed is None or found is None or not found.within(needed):
            return None
        return inlined(self.w, e.op, e.dtype, args, is_usual=True)

    def _bound_to(self, e: Expr) -> Value:
        found = self.variables.get(e)
        if found is None:
            raise BuildError(
                f"the variable {e.name!r} has no value here",
                asked="code generation",
                legal="every variable must be bound by a loop, a let or the sizes of the function",
            )
        return found

    def _variable(self, e: Expr) -> Value:
        bound = self._bound_to(e)
        return bound if bound.dtype == e.dtype or e.dtype.is_float else extend(self.w, bound, e.dtype)

    def _ramp_value(self, e: Expr) -> Value:
        base, stride = (self.w.splat(self.value(a), e.dtype.lanes) for a in e.args)
        if e.dtype.is_float:
            steps = convert(self.w, self.w.iota(INT64.with_lanes(e.dtype.lanes)), e.dtype)
            sums = self.w.binary("fadd", base, self.w.binary("fmul", steps, stride))
            return rounded(self.w, sums)
        steps = self.w.iota(e.dtype)
        if stride.const is not None:
            return self.w.binary("add", base, self.w.iota(e.dtype, int(stride.const)))
        return self.w.binary("add", base, self.w.binary("mul", steps, stride))

    def _first_lane(self, e: Expr) -> Value | None:
        """The number of the first lane in which a condition holds, as it is spelled: a count of the bits before it."""
        lanes, chosen, w = e.args[0].dtype.lanes, e.args[0], self.w
        if e.value != "min" or chosen.op != "select" or lanes > 64 or chosen.args[0].dtype.lanes == 1:
            return None
        condition, numbers, otherwise = chosen.args
        is_number = numbers.op == "ramp" and is_const(numbers.args[0], 0) and is_const(numbers.args[1], 1)
        if not is_number or otherwise.op != "broadcast" or not is_const(otherwise.args[0], lanes):
            return None
        width = max(8, 1 << (lanes - 1).bit_length())
        of, little = dtype(f"uint{width}"), not w.module.is_big_endian  # lane 0 is the first bit in memory
        later = next((c for c in conjuncts(condition) if little and c.op == "gt" and c.args[0] is numbers), None)
        others = [c for c in conjuncts(condition) if c is not later]
        holds = self.value(logical_and(*others) if later is not None and others else condition)
        if width > lanes:
            none = constant(0, holds.dtype)
            holds = w.shuffle_pair(holds, none, [min(i, lanes) for i in range(width)])
        bits = w.convert("bitcast", holds, of)
        if later is not None and others and later.args[1].op == "broadcast":
            bits = w.binary("and", bits, self._bits_after(self.value(later.args[1].args[0]), of))
        count = extend(w, w.intrinsic("cttz" if little else "ctlz", of, [bits, constant(0, BOOL)]), e.dtype)
        return count if width == lanes else w.intrinsic("smin", e.dtype, [count, constant(lanes, e.dtype)])

    def _bits_after(self, last: Value, of: DType) -> Value:
        """The bits of a number from the one after `last` on; all of them if that is negative."""
        w, most = self.w, constant(of.bits - 1, last.dtype)
        shift = extend(w, w.intrinsic("umin", last.dtype, [last, most]), of)
        some = w.binary("shl", constant(-2, of), shift)
        return w.select(w.compare("slt", last, 0), constant(-1, of), some)

    def _combine_lanes(self, op: str, v: Value) -> Value:
        """Half on half, until one lane is left: see `ir.expr.combine_lanes`."""
        w, of, lanes = self.w, v.dtype, v.dtype.lanes
        if op in _LANES_IN_ANY_ORDER and lanes > 1:
            return w.intrinsic(f"vector.reduce.{_LANES_IN_ANY_ORDER[op]}", of.scalar, [v])
        if lanes % 2 or lanes == 2:
            last = w.extract(v, lanes - 1)
            first = w.extract(v, 0) if lanes == 2 else self._combine_lanes(op, w.shuffle(v, range(lanes - 1)))
            return rounded(w, LLVM_OPS[op](w, of.scalar, [first, last]))
        half = lanes // 2
        parts = [w.shuffle(v, range(half)), w.shuffle(v, range(half, lanes))]
        return self._combine_lanes(op, rounded(w, LLVM_OPS[op](w, of.with_lanes(half), parts)))

    def _call(self, e: Expr) -> Value:
        if e.value.kind == "intrin":
            raise BuildError(
                "no rule lowers it for llvm",
                asked=f"intrinsic {e.value.name}",
                legal=f"register_intrin_lowering({e.value.name!r}, 'llvm', f=...)",
            )
        if e.value.kind != "packed":
            return rounded(self.w, call_outside(self.w, e, [self.value(a) for a in e.args]))
        args: list[Value | tuple[str, Expr, Sequence[Value]]] = []
        for a in e.args:
            if a.op == "view":
                address = self.memory.address(a.value, self.index(a.args[0]))
                args.append((address, a, [self.index(n) for n in a.args[1:]]))
            else:
                args.append(self.value(a))
        return packed_call(self.w, e, args, e is not self._unused)

    # -- choice -------------------------------------------------------------------------------
    def _shortcut(self, e: Expr, left: Expr, then: Expr, otherwise: Expr) -> Value:
        """`and` / `or`: the right side runs only if needed when it reads memory."""
        if touches_memory(e.args[1]):
            return self._choose(e, left, then, otherwise)
        return self.w.binary(e.op, self.value(e.args[0]), self.value(e.args[1]))

    def _choose(self, e: Expr, condition: Expr, then: Expr, otherwise: Expr) -> Value:
        is_known = condition.op in COMPARISONS and {then, otherwise} <= {*condition.args}  # the condition needs both
        if is_known or (not touches_memory(then) and not touches_memory(otherwise)):
            return self.w.select(self.value(condition), self.value(then), self.value(otherwise))
        if condition.op == "broadcast":
            condition = condition.args[0]
        for shared in needed_by_both(e) if e.op == "if_then_else" else ():
            if touches_memory(shared) and not is_index(shared):
                self.value(shared)  # else whichever side is taken computes it anew, and so on in what it is made of
        holds = self.value(condition)
        if condition.dtype.lanes == 1:
            return self._branch(holds, e.dtype, lambda: self.value(then), lambda: self.value(otherwise))
        with self.masked(holds):
            a = self.value(then)
        inverse = self.w.binary("xor", holds, 1)
        with self.masked(inverse):
            b = self.value(otherwise)
        return self.w.select(holds, a, b)

    def _branch(self, holds: Value, of: DType, *arms: Callable[[], Value]) -> Value:
        """What one of two functions emits, of which one runs."""
        w = self.w
        labels = [w.label(wish) for wish in ("then", "else", "joined")]
        w.branch(holds.ref, labels[0], labels[1])
        found: list[str] = []
        for label, arm in zip(labels, arms, strict=False):
            w.start(label)
            with w.scope():
                result = arm()
            found.append(f"[ {result.ref}, %{w.block} ]")
            w.jump(labels[2])
        w.start(labels[2])
        return w.fresh(f"phi {register_type(of)} {', '.join(found)}", of)

    # -- memory -------------------------------------------------------------------------------
    def _load(self, e: Expr) -> Value:
        if len(e.args) != 1:
            raise BuildError(
                f"{e.value.name} is indexed by {len(e.args)} numbers", asked=repr(e), legal="flatten the buffers first"
            )
        index = e.args[0]
        at_once = not is_known(index) and self.memory.gathers_at_once(e.value)
        if self.mask is not None and (e.dtype.lanes == 1 or not at_once):
            # what no lane needs may be read, and may be read once before a loop
            if all(self._is_inside(x) or self._is_between(x) for x in post_order(e) if x.op == "load"):
                with self._unmasked():
                    return self.value(e)
            if e.dtype.lanes == 1:
                return self._load_if_any(e, self.mask)
        if e.dtype.lanes == 1:
            return self.memory.load(e.value, self.index(index))
        line = line_of(index)
        if line is None:
            pattern = pattern_of(index) if self.mask is None else None
            if pattern is not None:
                loaded = self.memory.load_pattern(e.value, self.index(pattern[0]), pattern[1])
                if loaded is not None:
                    return loaded
            return self.memory.gather(e.value, self.index(index), self.mask)
        first, stride, lanes = self.index(line[0]), line[1], e.dtype.lanes
        load = partial(self.memory.load_line, e.value, first, stride, lanes)
        if self.mask is None or not self.memory.asks_each_lane(e.value) or abs(stride) != 1 or e.value.strides:
            return load(self.mask)
        # where the whole vector lies in its buffer, what no lane needs may be read: lanes take as long as vectors there
        mask, count = self.mask, self.index(e.value.elements)
        least = first if stride > 0 else self.w.binary("sub", first, lanes - 1)
        begins, ends = self.w.compare("sge", least, 0), self.w.compare("sle", least, self.w.binary("sub", count, lanes))
        return self._branch(self.w.binary("and", begins, ends), e.dtype, lambda: load(None), lambda: load(mask))

    def _is_inside(self, e: Expr) -> bool:
        """Whether a load needs no condition to stay within its buffer."""
        n, places = e.value.elements, self.ranges.of(e.args[0])
        return is_const(n) and not e.value.strides and places.low >= 0 and places.high < int(n.value)

    def _is_between(self, e: Expr) -> bool:
        """Whether places on both sides of what is loaded have been, or it lies in what has: memory is there, and in a
        buffer as large, too."""
        whole = (x for x, mask in self._loaded if x.op == "load" and mask == _ref(None))
        sides = [sides_of(e.args[0], x.args[0]) for x in whole if is_as_large(e.value, x.value)]
        return any(before for before, _ in sides) and any(after for _, after in sides)

    def _load_if_any(self, e: Expr, mask: Value) -> Value:
        """Load a scalar that all lanes share, if one of them needs it."""
        w = self.w
        before = w.block
        with w.where_any(mask), self._unmasked():
            loaded, after = self.memory.load(e.value, self.index(e.args[0])), w.block
        kind, zero = register_type(e.dtype), constant(0, e.dtype)
        return w.fresh(f"phi {kind} [ {zero.ref}, %{before} ], [ {loaded.ref}, %{after} ]", e.dtype)

    # -- indices ------------------------------------------------------------------------------
    def index(self, e: Expr) -> Value:
        """`e`, an integer, in 64 bits."""
        if not is_index(e):
            return extend(self.w, self.value(e), INT64.with_lanes(e.dtype.lanes))
        found = self._indices.get(e)
        return found if found is not None else self._indices.remember(e, self._emit_index(e))

    def _emit_index(self, e: Expr) -> Value:
        of = INT64.with_lanes(e.dtype.lanes)
        if e.dtype.is_bool:
            return extend(self.w, self.value(e), of)
        match e.op:
            case "const":
                return constant(e.value, of)
            case "var":
                return extend(self.w, self._bound_to(e), of)
            case "cast":
                return self.index(e.args[0])
            case "broadcast":
                return self.w.splat(self.index(e.args[0]), of.lanes)
            case "ramp":
                base, stride = self.w.splat(self.index(e.args[0]), of.lanes), self.index(e.args[1])
                if stride.const is not None:
                    return self.w.binary("add", base, self.w.iota(of, int(stride.const)))
                return self.w.binary("add", base, self.w.binary("mul", self.w.iota(of), self.w.splat(stride, of.lanes)))
            case "select" | "if_then_else":
                return self.w.select(self.value(e.args[0]), self.index(e.args[1]), self.index(e.args[2]))
        args = [self.index(a) for a in e.args]
        if e.op in _DIVISIONS:
            return _DIVISIONS[e.op](self.w, *args, non_negative=all(self.ranges.of(a).non_negative for a in e.args))
        return LLVM_OPS[e.op](self.w, of, args)

    def _index_condition(self, e: Expr) -> Value:
        """A comparison or logic over index arithmetic."""
        if e.op in COMPARISONS and not e.args[0].dtype.is_bool:
            found = self._compare_lines(e) if e.dtype.lanes > 1 else None
            if found is not None:
                return found
            fits = e.dtype.lanes > 1 and all(map(self.ranges.fits, e.args))  # exact in the operands' own width
            return LLVM_OPS[e.op](self.w, e.dtype, [(self.value if fits else self.index)(a) for a in e.args])
        args = [self.value(a) for a in e.args]
        if e.op in LLVM_OPS:
            return LLVM_OPS[e.op](self.w, e.dtype, args)
        if e.op == "broadcast":
            return self.w.splat(args[0], e.dtype.lanes)
        if e.op in ("and", "or"):
            return self.w.binary(e.op, *args)
        return self.w.select(*args)

    def _compare_lines(self, e: Expr) -> Value | None:
        """A tail's mask, `ramp(b, 1) < n`, as `0, 1, 2, ... < n - b` in small integers.

        For both sides equally spaced: lane * (s - t) is compared with the distance of the bases,
        which is first cut off just outside the span of the left side.
        """
        left, right = line_of(e.args[0]), line_of(e.args[1])
        if left is None or right is None:
            return None
        w = self.w
        step, lanes = left[1] - right[1], e.dtype.lanes
        distance = w.binary("sub", self.index(right[0]), self.index(left[0]))
        if step == 0:
            return w.splat(LLVM_OPS[e.op](w, e.dtype.scalar, [constant(0, INT64), distance]), lanes)
        ends = sorted((0, step * (lanes - 1)))
        for bits in (8, 16, 32):
            small = dtype(f"int{bits}").with_lanes(lanes)
            if bits >= 256 // lanes and small.min < ends[0] and ends[1] < small.max:
                break
        else:
            return None
        cut = w.intrinsic("smax", INT64, [distance, constant(ends[0] - 1, INT64)])
        cut = w.intrinsic("smin", INT64, [cut, constant(ends[1] + 1, INT64)])
        limit = w.splat(extend(w, cut, small.scalar), lanes)
        return LLVM_OPS[e.op](w, e.dtype, [w.iota(small, step), limit])

    def _narrow(self, e: Expr) -> Value:
        """Index arithmetic as a value of its own type.

        A scalar is computed in 64 bits and cut. A vector of them would fill many registers, so it
        is computed in its own width wherever that gives the same bits.
        """
        if e.dtype.lanes == 1:
            return extend(self.w, self.index(e), e.dtype)
        if e.op in ("ramp", "broadcast"):
            return self._ramp_value(e) if e.op == "ramp" else self.w.splat(self.value(e.args[0]), e.dtype.lanes)
        if e.op == "select" or e.op == "if_then_else":
            return self.w.select(*(self.value(a) for a in e.args))
        same_type = all(a.dtype == e.dtype for a in e.args)
        exact = e.op != "cast" and same_type and all(map(self.ranges.fits, (e, *e.args)))
        if same_type and (e.op in _RING or exact):
            args = [self.value(a) for a in e.args]
            return self._usual(e, args) or LLVM_OPS[e.op](self.w, e.dtype, args)
        return extend(self.w, self.index(e), e.dtype)


# -- calls of functions from outside ------------------------------------------------------------------
# A C function and an intrinsic of LLVM are called as they are. A Python function is called through
#
#     i64 autosched.packed.NAME(ptr slots, ptr description)
#
# `slots` is an array of 8-byte numbers: the result, then each argument: a number as int64 or double, an array as its
# address, its lengths and its strides in elements. `description` is text that says what they are,
# `float64|int32,float32[2]`: the result (empty: unused), a number, an array of two dimensions. What comes back is 0, or
# the number of an exception that waits at the runtime; then the function around the call returns at once, with it.

_PURE = "nounwind willreturn memory(none)"
_FLOAT64 = dtype("float64")


def call_outside(w: Writer, e: Expr, args: Sequence[Value]) -> Value:
    """A call of a C function or an intrinsic of LLVM; of a vector, for each lane."""
    target: Callee = e.value
    lanes = e.dtype.lanes
    if lanes > 1 and target.kind == "llvm":
        vectors = [w.splat(a, lanes) for a in args]
        if _exists(target.name, register_type(e.dtype), tuple(register_type(a.dtype) for a in vectors)):
            return _call(w, target, e.dtype, vectors)
    if lanes > 1:
        of = e.dtype.scalar
        each = [[w.extract(a, i) if a.dtype.lanes > 1 else a for a in args] for i in range(lanes)]
        return w.concat([_call(w, target, of, lane) for lane in each], e.dtype)
    return _call(w, target, e.dtype, args)


def _call(w: Writer, target: Callee, of: DType, args: Sequence[Value]) -> Value:
    result, kinds = register_type(of), [register_type(a.dtype) for a in args]
    if target.kind == "llvm":
        if not _exists(target.name, result, tuple(kinds)):
            raise BuildError(
                f"LLVM has no such intrinsic with arguments ({', '.join(kinds)}) and result {result}",
                asked=f"call_llvm_intrin({str(of)!r}, {target.name!r}, ...)",
                legal="a name and types of LLVM's language reference, such as llvm.fma of three floats of one type",
            )
        text = f"call {result} @{target.name}({', '.join(map(typed, args))})"
        return w.op(text, of) if target.pure else w.fresh(text, of)
    operands = [f"{register_type(a.dtype)} {w.module.extension(a.dtype)}{a.ref}" for a in args]
    parameters = [f"{register_type(a.dtype)} {w.module.extension(a.dtype)}".rstrip() for a in args]
    pure = target.pure and HANDLE not in [a.dtype for a in args]
    result = f"{w.module.extension(of)}{result}"
    callee = w.module.declare(target.name, result, parameters, "nounwind")
    text = f"call {result} {callee}({', '.join(operands)}) nobuiltin {_PURE if pure else 'nounwind'}"
    return w.op(text, of) if pure else w.fresh(text, of)


@lru_cache(maxsize=256)
def _exists(name: str, result: str, kinds: tuple[str, ...]) -> bool:
    """True if LLVM knows an intrinsic of that name for these types: a module of its own is tried."""
    if not name.startswith("llvm."):
        return False
    parameters = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(kinds))
    source = f"define {result} @f({parameters}) {{\n  %r = call {result} @{name}({parameters})\n  ret {result} %r\n}}\n"
    try:
        llvm.parse_assembly(source, llvm.create_context()).verify()
    except RuntimeError:
        return False
    return True


def packed_call(w: Writer, e: Expr, args: Sequence[Value | tuple[str, Expr, Sequence[Value]]], used: bool) -> Value:
    """A call of a Python function. An array is (address, its `view`, lengths and strides)."""
    target: Callee = e.value
    slots: list[Value | str] = []
    words = []
    for a in args:
        if isinstance(a, Value) and a.dtype is HANDLE:
            slots.append(a.ref)
            words.append(str(HANDLE))
        elif isinstance(a, Value):
            wide = convert(w, a, _FLOAT64) if a.dtype.is_float else extend(w, a, INT64)
            slots.append(wide)
            words.append(str(a.dtype))
        else:
            address, view, numbers = a
            slots += [address, *numbers]
            words.append(f"{view.value.dtype}[{len(numbers) // 2}]")
    memory = w.alloca("slots", f"[{len(slots) + 1} x i64]", 8)
    for i, slot in enumerate(slots, 1):
        place = w.pointer(f"getelementptr i64, ptr {memory}, i64 {i}")
        w.do(f"store {f'ptr {slot}' if isinstance(slot, str) else typed(slot)}, ptr {place}, align 8")
    description = w.module.text(f"{e.dtype if used else ''}|{','.join(words)}")
    callee = w.module.declare(_quoted(PACKED_PREFIX + target.name), "i64", ["ptr", "ptr"], "nounwind")
    status = w.fresh(f"call i64 {callee}(ptr {memory}, ptr {description})", INT64)
    leave_if_failed(w, status)
    kind = _FLOAT64 if e.dtype.is_float else INT64
    raw = w.fresh(f"load {memory_type(kind)}, ptr {memory}, align 8", kind)
    if e.dtype.is_bool:
        return w.compare("ne", raw, 0)
    return convert(w, raw, e.dtype) if e.dtype.is_float or e.dtype.bits < 64 else Value(raw.ref, e.dtype)


def leave_if_failed(w: Writer, status: Value) -> None:
    """Return the status from the function that is being written, unless it is 0."""
    failed, goes_on = w.label("failed"), w.label("goes_on")
    w.branch(w.fresh(f"icmp ne {typed(status)}, {constant(0, INT64).ref}", BOOL).ref, failed, goes_on)
    w.start(failed)
    w.do(f"ret {typed(status)}")
    w.start(goes_on)


def _quoted(symbol: str) -> str:
    """A name as LLVM's assembly writes it, whatever is in it."""
    plain = "".join(chr(b) if chr(b).isalnum() or chr(b) in "_." else f"\\{b:02X}" for b in symbol.encode())
    return f'"{plain}"'
