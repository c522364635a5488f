"""Schedules that are consistent and still cannot become a program, by the part of lowering that says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from error_cases import Cases
from scan_programs import running_sum

import autosched
from autosched import te
from autosched.ir.builder import create as ir_builder
from autosched.ir.calls import call_intrin, register_intrin_lowering
from autosched.ir.expr import Expr
from autosched.ir.stmt import Buffer, Function, Stmt
from autosched.lowering import lower, lower_structure
from autosched.lowering.versions import guarded
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor

Program = tuple[list[Tensor], Schedule]


def program() -> Program:
    """A[n, m] -> B = A + 1 -> C, sums of neighbours in a row of B."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] + b[i, te.max(j - 1, 0)], name="C")
    return [a, c], create_schedule(c)


def sums() -> Program:
    """A[n, m] -> S, the sums of its rows."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    c = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="S")
    return [a, c], create_schedule(c)


def of_eight(fcompute: Callable[[Tensor], Callable[..., object]]) -> Program:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), fcompute(a), name="B")
    return [a, b], create_schedule(b)


def opaque_of_eight(body: Callable[[Sequence[Buffer], Sequence[Buffer]], Stmt]) -> Program:
    a = te.placeholder((8,), name="A")
    b = te.extern((8,), [a], body, name="B")
    return [a, b], create_schedule(b)


def llvm(args: list[Tensor], s: Schedule, **options: object) -> Function:
    return lower_structure(s, args, "llvm", **options).bind()


def opencl(args: list[Tensor], s: Schedule) -> Function:
    return lower_structure(s, args, "opencl").bind()


def size_in_no_argument() -> Program:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: a[i] + te.min(m, 3).astype("float32"), name="C")
    return [a, c], create_schedule(c)


def length_as_a_number() -> Program:
    count = te.var("count")
    a = te.placeholder((8,), name="A")
    b = te.compute((count,), lambda i: a[i], name="B")
    k = te.reduce_axis((0, count), name="k")
    c = te.compute((1,), lambda i: te.sum(b[k], axis=k), name="C")
    return [count, a, c], create_schedule(c)


def scanned() -> Program:
    args = running_sum()
    return args, create_schedule(args)


def sums_of_which_each_is_read_twice() -> Program:
    (a, total), _ = sums()
    c = te.compute(total.shape, lambda i: total[i] + total[te.max(i - 1, 0)], name="C")
    return [a, total, c], create_schedule(c)


def square() -> Program:
    a = te.placeholder((4, 4), name="A")
    b = te.compute((4, 4), lambda i, j: a[i, j] + 1, name="B")
    return [a, b], create_schedule(b)


def padded_before_an_extern() -> Program:
    a = te.placeholder((4, 6), name="A")
    b = te.compute((4, 6), lambda i, j: a[i, j] + 1, name="B")

    def last_of_each_row(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        ib = ir_builder()
        data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 4, name="i") as i:
            result[i] = data[i * 6 + 5]
        return ib.get()

    s = create_schedule(te.extern((4,), [b], last_of_each_row, name="C"))
    s[b].storage_align("i", 8)
    return [a, s["C"].tensor], s


def round_and_round(e: Expr) -> Expr:
    return call_intrin("float32", "round_and_round", e.args[0] + 1)


def unknown_intrinsic() -> Program:
    return of_eight(lambda a: lambda i: call_intrin("float32", "erf_of_the_third_kind", a[i]))


def intrinsic_that_goes_round() -> Program:
    register_intrin_lowering("round_and_round", "llvm", f=round_and_round)
    return of_eight(lambda a: lambda i: call_intrin("float32", "round_and_round", a[i]))


def triangle_of_work_items(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
    ib = ir_builder()
    data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    item = te.thread_axis("threadIdx.x")
    with ib.for_range(0, 8, name="i") as i:
        ib.scope_attr(item, "thread_extent", i + 1)
        result[item.var] = data[item.var]
    return ib.get()


def triangle_of_storage(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
    ib = ir_builder()
    data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, 8, name="i") as i:
        row = ib.allocate("float32", (i + 1,), name="row")
        row[i] = data[i]
        result[i] = row[i]
    return ib.get()


def step_that_looks_aside() -> Program:
    n, m = te.var("n"), te.var("m")
    x, state = te.placeholder((n, m), name="X"), te.placeholder((n, m), name="state")
    first = te.compute((1, m), lambda _, i: x[0, i], name="first")
    step = te.compute((n, m), lambda t, i: state[t - 1, m - 1 - i] * 2 + x[t, i], name="step")
    total = te.scan(first, step, state, name="S")
    out = te.compute((n, m), lambda t, i: total[t, i] * 2, name="out")
    return [x, out], create_schedule(out)


def step_in_two_stages_that_looks_aside() -> Program:
    return step_in_two_stages(lambda i, m: m - 1 - i)


def step_in_two_stages(place: Callable[[te.Expr, te.Expr], te.Expr] = lambda i, m: i) -> Program:
    n, m = te.var("n"), te.var("m")
    x, state = te.placeholder((n, m), name="X"), te.placeholder((n, m), name="state")
    first = te.compute((1, m), lambda _, i: x[0, i], name="first")
    middle = te.compute((n, m), lambda t, i: state[t - 1, place(i, m)] * 2, name="middle")
    step = te.compute((n, m), lambda t, i: middle[t, i] + x[t, i], name="step")
    total = te.scan(first, step, state, name="S")
    out = te.compute((n, m), lambda t, i: total[t, i] * 2, name="out")
    return [x, out], create_schedule(out)


def bind_items(s: Schedule, *stages: str) -> None:
    for name in stages:
        group, item = s[name].split("i", factor=4)
        s[name].bind(group, "blockIdx.x")
        s[name].bind(item, "threadIdx.x")


def plain(of: Callable[[], Program]) -> Function:
    args, s = of()
    return lower_structure(s, args, "llvm", "f").bind()


def exact() -> Function:
    args, s = program()
    s["C"].split("j", factor=4, disable_predication=True)
    return lower_structure(s, args, "llvm", "f").bind()


def rows_knob(s: Schedule) -> None:
    s["C"].split("i", factor=s.define_knob("rows", [2, 4]))


CASES: Cases = {
    "arguments": {
        "an input is missing": lambda args, s: llvm(args[1:], s),
        "the arguments of another program": lambda args, s: llvm(program()[0], s),
        "an argument that no stage computes": lambda args, s: llvm(
            [args[0], te.compute(args[1].shape, lambda i, j: args[1][i, j] + 1, name="stranger"), args[1]], s
        ),
        "an output is missing": lambda args, s: llvm(args[:1], s),
        "an argument is computed by each work item": lambda args, s: (
            s["C"].bind("i", "threadIdx.x"),
            s["B"].compute_at("C", "i"),
            opencl([args[0], s["B"].tensor, args[1]], s),
        ),
        "an argument with no room for whole tiles": lambda args, s: (
            s["B"].split("j", factor=8, tail="round_up"),
            llvm([args[0], s["B"].tensor, args[1]], s),
        ),
        "an argument is given twice": lambda args, s: llvm([*args, args[0]], s),
        "a size is in no argument": (size_in_no_argument, llvm),
        "a number is given twice": lambda args, s: llvm([alpha := te.var("alpha", "float32"), *args, alpha], s),
        "a number that is computed": lambda args, s: llvm([te.var("alpha", "float32") + 1, *args], s),
        "a length as a number": (length_as_a_number, llvm),
        "an update of a scan among the arguments": (scanned, lambda args, s: llvm([*args, s["step"].tensor], s)),
        "iterations that sum up one argument": (
            sums_of_which_each_is_read_twice,
            lambda args, s: (s["C"].parallel("i"), s["S"].compute_at(s["C"], "i"), llvm(args, s)),
        ),
    },
    "knobs": {
        "a knob without a value": lambda args, s: (rows_knob(s), llvm(args, s)),
        "a function with an open knob": lambda args, s: (rows_knob(s), autosched.build(lower(s, args).function)),
        "a knob that is not there": lambda args, s: lower_structure(s, args, "llvm").bind({"rows": 2}),
        "a value the knob does not have": lambda args, s: (
            rows_knob(s),
            lower_structure(s, args, "llvm").bind({"rows": 3}),
        ),
        "values that break a constraint": lambda args, s: (
            rows := s.define_knob("rows", [2, 4]),
            columns := s.define_knob("columns", [2, 4]),
            s["C"].tile("i", "j", rows, columns),
            s.constrain(rows * columns <= 8, "a tile of more than 8 elements"),
            lower_structure(s, args, "llvm").bind({"rows": 4, "columns": 4}),
        ),
        "a factor that comes out as zero": lambda args, s: (
            s["C"].split("i", factor=s.define_knob("rows", [1, 4]) // 2),
            lower_structure(s, args, "llvm").bind({"rows": 1}),
        ),
    },
    "vectors": {
        "vectorize a loop of unknown extent": lambda args, s: (s["C"].vectorize("j"), llvm(args, s)),
        "unroll a loop of unknown extent": lambda args, s: (s["C"].unroll("j"), llvm(args, s)),
        "unroll too much": lambda args, s: (s["C"].split("j", factor=10_000), s["C"].unroll("j.inner"), llvm(args, s)),
    },
    "reductions": {
        "shift inwards inside the reduction": (
            sums,
            lambda args, s: (
                s["S"].split("i", factor=4, tail="shift_inwards"),
                s["S"].reorder("k", "i.outer", "i.inner"),
                llvm(args, s),
            ),
        ),
        "shift inwards of elements that are set once": (
            sums,
            lambda args, s: (
                s["S"].split("i", factor=4, tail="auto"),
                s["S"].decompose_reduction("i.outer"),
                llvm(args, s),
            ),
        ),
        "shift inwards across threads": (
            sums,
            lambda args, s: (
                s["S"].split("i", factor=4, tail="shift_inwards"),
                s["S"].parallel("i.outer"),
                llvm(args, s),
            ),
        ),
        "shift inwards across lanes": (
            sums,
            lambda args, s: (
                s["S"].split("i", nparts=4, tail="shift_inwards"),
                s["S"].vectorize("i.outer"),
                llvm(args, s),
            ),
        ),
    },
    "storage": {"storage whose size depends on a loop": (lambda: opaque_of_eight(triangle_of_storage), llvm)},
    "scans": {
        "a bound axis along which a step looks aside": (
            step_that_looks_aside,
            lambda args, s: (
                s["out"].bind("t", "blockIdx.x"),
                s["S"].compute_at(s["out"], "t"),
                s["S"].set_scope("global"),
                s["step"].bind("i", "threadIdx.x"),
                opencl(args, s),
            ),
        ),
        "work-groups that meet between kernels": (
            step_in_two_stages_that_looks_aside,
            lambda args, s: (
                bind_items(s, "first", "step"),
                s["middle"].set_scope("shared"),
                opencl(args, s),
            ),
        ),
        "work items that change places": (
            scanned,
            lambda args, s: (
                s["first"].bind("i", "threadIdx.x"),
                s["step"].bind(s["step"].split("i", factor=4)[1], "threadIdx.x"),
                opencl(args, s),
            ),
        ),
        "a shared part that reads the state": (
            scanned,
            lambda args, s: (
                bind_items(s, "first", "step"),
                s.cache_read("state", "shared", ["step"]),
                opencl(args, s),
            ),
        ),
        "a shared part of a step whose state is private": (
            step_in_two_stages,
            lambda args, s: (
                s["out"].split("i", factor=2),
                s["out"].bind("i.inner", "threadIdx.x"),
                s["S"].compute_at(s["out"], "i.inner"),
                s["middle"].set_scope("shared"),
                opencl(args, s),
            ),
        ),
    },
    "binds": {
        "a buffer for a stranger": lambda args, s: llvm(
            args, s, binds={te.placeholder((4,), name="X"): te.decl_buffer((4,), name="X")}
        ),
        "a shape for a buffer": lambda args, s: llvm(args, s, binds={args[0]: (4, 4)}),
        "a buffer of another rank": lambda args, s: llvm(args, s, binds={args[0]: te.decl_buffer((4,), name="A")}),
        "a buffer of another type": lambda args, s: llvm(
            args, s, binds={args[0]: te.decl_buffer(args[0].shape, "int32", "A")}
        ),
        "a buffer whose rows overlap": (
            square,
            lambda args, s: llvm(args, s, binds={args[1]: te.decl_buffer((4, 4), name="B", strides=[1, 1])}),
        ),
        "a stride that no argument shows": lambda args, s: llvm(
            args, s, binds={(b := s["B"].tensor): te.decl_buffer(b.shape, b.dtype, "B", strides=[te.var("row"), 1])}
        ),
    },
    "versions": {
        "a version for what is no size": lambda args, s: guarded(
            [(te.var("rows") < 8, plain(program))], plain(program)
        ),
        "versions of different programs": lambda args, s: guarded(
            [((fallback := plain(program)).sizes[0] < 8, plain(sums))], fallback
        ),
        "versions of which none takes all sizes": lambda args, s: guarded(
            [((strict := exact()).sizes[0] < 8, strict)], strict
        ),
    },
    "calls": {
        "an extern that counts the elements of padded memory": (padded_before_an_extern, llvm),
        "an intrinsic without a rule": (unknown_intrinsic, llvm),
        "an intrinsic whose rules go round": (intrinsic_that_goes_round, llvm),
    },
    "gpu": {
        "bind on a cpu": lambda args, s: (s["C"].bind("i", "blockIdx.x"), llvm(args, s)),
        "virtual threads of unknown number": lambda args, s: (s["C"].bind("j", "vthread"), opencl(args, s)),
        "parallel on a gpu": lambda args, s: (s["C"].parallel("i"), opencl(args, s)),
        "local storage between kernels": lambda args, s: (s["B"].set_scope("local"), opencl(args, s)),
        "private storage of unknown size": lambda args, s: (
            s["C"].bind("i", "threadIdx.x"),
            s["B"].compute_at(s["C"], "i"),
            opencl(args, s),
        ),
        "a private stage spread over work items": lambda args, s: (
            s["C"].bind("i", "threadIdx.x"),
            s["B"].compute_at(s["C"], "i"),
            s["B"].bind("j", "threadIdx.y"),
            opencl(args, s),
        ),
        "a stage in a kernel spread over work groups": lambda args, s: (
            s["C"].bind("i", "blockIdx.x"),
            s["B"].compute_at(s["C"], "i"),
            s["B"].bind("j", "blockIdx.y"),
            opencl(args, s),
        ),
        "a barrier that some work items miss": lambda args, s: (
            bind_items(s, "C"),  # 4 work-items
            s["B"].compute_at(s["C"], "i.inner"),
            s["B"].set_scope("shared"),
            s["B"].split("j", factor=8),
            s["B"].bind("j.inner", "threadIdx.x"),  # 8 work-items
            opencl(args, s),
        ),
        "store at outside a shared stage": lambda args, s: (
            s["C"].bind("i", "blockIdx.x"),
            s["C"].split("j", factor=4),
            s["B"].compute_at(s["C"], "j.outer"),
            s["B"].store_at(s["C"], "i"),
            s["C"].bind("j.inner", "threadIdx.x"),
            opencl(args, s),
        ),
        "a reduction by a group with loops inside": (
            sums,
            lambda args, s: (
                s["S"].split("k", factor=8),
                s["S"].bind("k.inner", "threadIdx.x"),
                s["S"].reorder("k.outer", "k.inner", "i"),
                opencl(args, s),
            ),
        ),
        "a launch whose size depends on a loop": (lambda: opaque_of_eight(triangle_of_work_items), opencl),
    },
}
