"""Calls that no schedule allows, by primitive. Each raises ScheduleError from a line of its own."""

from __future__ import annotations

from error_cases import Cases
from scan_programs import running_sum

from autosched import te
from autosched.ir.calls import call_extern, call_packed
from autosched.schedule import Schedule, create_schedule


def schedule() -> Schedule:
    """A[n, m] -> B = A + 1 -> C = B * 2 -> S, sums of C's rows; and T = A * 3, another output."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2, name="C")
    k = te.reduce_axis((0, m), name="k")
    s = te.compute((n,), lambda i: te.sum(c[i, k], axis=k), name="S")
    t = te.compute((n, m), lambda i, j: a[i, j] * 3, name="T")
    return create_schedule([s, t])


def fixed() -> Schedule:
    """The same, of a workload."""
    return create_schedule(list(schedule().outputs), fixed_arguments=True)


def totals(weights: bool = False, in_a_step: bool = False) -> Schedule:
    """A[8] -> T, sums of the elements up to each place, with weights that depend on it; or such sums of a state."""
    a, k = te.placeholder((8,), name="A"), te.reduce_axis((0, 8), name="k")
    if not in_a_step:
        body = lambda j: te.sum(a[k] * (j.astype("float32") if weights else 1.0), axis=k, where=k <= j)  # noqa: E731
        return create_schedule(te.compute((8,), body, name="T"))
    state = te.placeholder((3, 8), name="state")
    first = te.compute((1, 8), lambda _, i: a[i], name="first")
    total = te.compute((3, 8), lambda t, j: te.sum(state[t - 1, k], axis=k, where=k <= j), name="T")
    update = te.compute((3, 8), lambda t, i: total[t, i] * 0.5, name="U")
    return create_schedule(te.scan(first, update, state, name="S"))


def tuples() -> Schedule:
    """A[n, m] -> T.v0, T.v1 = argmax of A's rows -> U = T.v1 + 1."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    _, value = te.compute((n,), lambda i: te.argmax(a[i, k], axis=k), name="T")
    return create_schedule(te.compute((n,), lambda i: value[i] + 1, name="U"))


def doubly_read() -> Schedule:
    """A[8, 8] -> B, a sum with the transpose -> C, B moved by one."""
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + a[j, i], name="B")
    c = te.compute((8, 8), lambda i, j: te.if_then_else(j > 0, b[i, j - 1], 0.0), name="C")
    return create_schedule(c)


def several_sums() -> Schedule:
    """X[8, 8] -> P, Q: sums of rows; R: sums of rows that begin at 1; T: of X and P; V: of part of a row; W: of rows of 4."""
    x = te.placeholder((8, 8), name="X")
    made = []
    for name, n, options in [
        ("P", 8, {}),
        ("Q", 8, {}),
        ("R", 8, {"init": 1}),
        ("V", 8, {"where": True}),
        ("W", 4, {}),
    ]:
        k = te.reduce_axis((0, n), name="k")
        given = {"where": k > 2} if "where" in options else options
        made.append(te.compute((8,), lambda i: te.sum(x[i, k], axis=k, **given), name=name))  # noqa: B023
    k = te.reduce_axis((0, 8), name="k")
    made.append(te.compute((8,), lambda i: te.sum(x[i, k] + made[0][k], axis=k), name="T"))
    return create_schedule(made)


def several_maps() -> Schedule:
    """X[8, 8] -> P, Q, one more and one less than that; R: of X and P; S: sums of rows; V: a column."""
    x, k = te.placeholder((8, 8), name="X"), te.reduce_axis((0, 8), name="k")
    p = te.compute((8, 8), lambda i, j: x[i, j] + 1, name="P")
    q = te.compute((8, 8), lambda i, j: x[i, j] - 1, name="Q")
    r = te.compute((8, 8), lambda i, j: x[i, j] * p[j, i], name="R")
    sums = te.compute((8,), lambda i: te.sum(x[i, k], axis=k), name="S")
    return create_schedule([p, q, r, sums, te.compute((8,), lambda i: x[i, 0], name="V")])


def window() -> Schedule:
    """A[10, 10] -> W[8, 8], sums of three rows and columns of it, of which those further right count more."""
    a, p, q = te.placeholder((10, 10), name="A"), te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 3), "q")
    return create_schedule(te.compute((8, 8), lambda i, j: te.sum(a[i + p, j + q] * q, axis=[p, q]), name="W"))


def ten_elements() -> Schedule:
    """D[10] = E[10] * 2, and their sum Z."""
    e = te.placeholder((10,), name="E")
    d = te.compute((10,), lambda i: e[i] * 2, name="D")
    k = te.reduce_axis((0, 10), name="k")
    return create_schedule([d, te.compute((), lambda: te.sum(d[k], axis=k), name="Z")])


def scanned() -> Schedule:
    """X[n, m] -> S, along whose rows a step looks aside (through M), and T, along whose it does not."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="X")
    states = [te.placeholder((n, m), name=name) for name in ("s", "t")]
    inits = [te.compute((1, m), lambda _, i: x[0, i], name=name) for name in ("S0", "T0")]
    middle = te.compute((n, m), lambda t, i: states[0][t - 1, m - 1 - i] * 2, name="M")
    step = te.compute((n, m), lambda t, i: middle[t, i] + x[t, i], name="S1")
    aside = te.scan(inits[0], step, states[0], name="S")
    straight = te.compute((n, m), lambda t, i: states[1][t - 1, i] + aside[t, i], name="T1")
    total = te.scan(inits[1], straight, states[1], name="T")
    return create_schedule(te.compute((m, n), lambda i, j: total[j, i], name="Z"))


def running() -> Schedule:
    """X[n, m] -> S, all sums of its rows."""
    return create_schedule(running_sum())


def heated(back: tuple[int, ...] = (1,), begin: int = 1, sums: bool = False, opaque: bool = False) -> Schedule:
    """R[8] -> L, four times moved along a row, or all summed up, of which the last is read."""
    row, state = te.placeholder((8,), name="R"), te.placeholder((5, 8), name="state")
    first, k = te.compute((begin, 8), lambda _, i: row[i], name="first"), te.reduce_axis((0, 8), "k")

    def move(t: te.Expr, i: te.Expr) -> te.Expr:
        if sums:
            return te.sum(state[t - 1, k], axis=k)
        return te.max(*(state[t - n, te.max(i - 1, 0)] for n in back)) if len(back) > 1 else state[t - back[0], i]

    times = te.scan(first, te.compute((5, 8), move, name="step"), state, name="all")
    if opaque:
        return create_schedule(te.extern((8,), [times], lambda i, o: call_packed("f", i[0], o[0]), name="E"))
    return create_schedule(te.compute((8,), lambda i: times[4, i], name="L"))


def turned() -> Schedule:
    """R[5] -> L, where a step reads earlier times at a place that depends on the time, too."""
    row, state = te.placeholder((5,), name="R"), te.placeholder((5, 5), name="state")
    first = te.compute((1, 5), lambda _, i: row[i], name="first")
    step = te.compute((5, 5), lambda t, i: state[t - 1, t - 1] + i, name="step")
    times = te.scan(first, step, state, name="all")
    return create_schedule(te.compute((5,), lambda i: times[4, i], name="L"))


def counted() -> Schedule:
    """X[n, m] -> H, how often each value from 0 to 6 is in a row."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), "uint8", name="X")
    y = te.compute((n, m), lambda i, j: x[i, j] % 7, name="Y")
    k = te.reduce_axis((0, m), "k")
    return create_schedule(te.scatter_reduce((n, 7), lambda i: (y[i, k], te.const(1, "int32")), k, name="H"))


def opaque() -> Schedule:
    """B = A + 1 -> E = a te.extern of B -> F = E * 2."""
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    e = te.extern((8,), [b], lambda ins, outs: call_packed("f", ins[0], outs[0]), name="E")
    return create_schedule(te.compute((8,), lambda i: e[i] * 2, name="F"))


def addition() -> te.TensorIntrin:
    """c[i] = a[i] + 1, eight at a time, by a C function."""
    a = te.placeholder((8,), name="a")
    c = te.compute((8,), lambda i: a[i] + 1, name="c")
    return te.decl_tensor_intrin(
        c.op, lambda ins, outs: call_extern("void", "add1", outs[0].access_ptr("w"), ins[0].access_ptr("r"))
    )


def tensorized() -> Schedule:
    """B's columns eight at a time."""
    s = schedule()
    _, inner = s["B"].split("j", factor=8)
    s["B"].tensorize(inner, addition())
    return s


def chain(readers: int = 1) -> Schedule:
    """B[i] = sums of A's rows, then C = B + 0, C_1 = B + 1 ... for each of the readers"""
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    return create_schedule([te.compute((n,), lambda i: b[i] + x, name="C") for x in range(readers)])  # noqa: B023


def scatter_and_reader() -> Schedule:
    """X[n] -> H, how often each remainder of 7 is in X -> C = H + 1."""
    n = te.var("n")
    x = te.placeholder((n,), "uint8", name="X")
    k = te.reduce_axis((0, n), "k")
    h = te.scatter_reduce((7,), lambda: (x[k] % 7, te.const(1, "int32")), k, name="H")
    return create_schedule(te.compute((7,), lambda i: h[i] + 1, name="C"))


def nine_elements() -> Schedule:
    a = te.placeholder((9,), name="A")
    return create_schedule(te.compute((9,), lambda i: a[i] + 1, name="B"))


def stencil() -> Schedule:
    """A[n] -> B = A + 1 -> C, sums of neighbours."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    return create_schedule(te.compute((n - 1,), lambda i: b[i] + b[i + 1], name="C"))


def two_outputs() -> Schedule:
    """A[n] -> B = A + 1, an output -> C = B + 1, another."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    return create_schedule([b, te.compute((n,), lambda i: b[i] + 1, name="C")])


def sums_from_an_element() -> Schedule:
    """A[n, n] -> B, the first element of a row and its sum."""
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    return create_schedule(te.compute((n,), lambda i: te.sum(a[i, k], axis=k, init=a[i, 0]), name="B"))


def products_of_bytes(square: bool = False) -> Schedule:
    """Sums of products of a matrix with another one, or with itself."""
    a, b = (te.placeholder((8, 6), "int8", name=x) for x in "AB")
    k = te.reduce_axis((0, 6), "k")
    right = a if square else b
    body = lambda i, j: te.sum(a[i, k].astype("int32") * right[j, k].astype("int32"), axis=k)  # noqa: E731
    return create_schedule(te.compute((8, 8), body, name="C"))


CASES: Cases = {
    "names": {
        "no such stage": lambda s: s["blur"].parallel("i"),
        "no such stage but a near one": lambda s: s["c"].parallel("i"),
        "a tensor of another program": lambda s: s[te.placeholder((4,), name="X")].parallel("i"),
        "no such size": lambda s: s["C"].split("i", factor=s.size("height")),
        "nothing for a stage": lambda s: s[None].parallel("i"),
        "no such loop": lambda s: s["C"].parallel("x"),
        "no such loop but a near one": lambda s: (s["C"].split("i", factor=4), s["C"].parallel("i.inne")),
        "a loop of another stage": lambda s: s["C"].parallel(s["B"].loops[0]),
        "an axis of another stage": lambda s: s["C"].parallel(s["B"].op.axis[0]),
        "a loop that is gone": lambda s: (gone := s["C"].loops[0], s["C"].split(gone, factor=4), s["C"].parallel(gone)),
        "a number for a loop": lambda s: s["C"].parallel(0),
        "split an extern": (opaque, lambda s: s["E"].split("i", factor=4)),
    },
    "split": {
        "split with factor and nparts": lambda s: s["C"].split("i", factor=4, nparts=2),
        "split with neither": lambda s: s["C"].split("i"),
        "split by zero": lambda s: s["C"].split("i", factor=0),
        "split by text": lambda s: s["C"].split("i", factor="8"),
        "split by a fraction": lambda s: s["C"].split("i", nparts=2.5),
        "split by too much": lambda s: s["C"].split("i", factor=2**40),
        "split by an element": lambda s: s["C"].split("i", factor=s["B"].tensor[0, 0]),
        "split by a loop variable": lambda s: s["C"].split("i", factor=s["C"].loops[1].var),
        "split by another schedules knob": lambda s: s["C"].split("i", factor=schedule().define_knob("f", [2])),
        "split a parallel loop": lambda s: (s["C"].parallel("i"), s["C"].split("i", factor=4)),
        "split a bound loop": lambda s: (s["C"].bind("i", "blockIdx.x"), s["C"].split("i", factor=4)),
        "split with an unknown tail": lambda s: s["C"].split("i", factor=4, tail="round_off"),
        "split with a tail and without conditions": lambda s: s["C"].split(
            "i", factor=4, tail="shift_inwards", disable_predication=True
        ),
        "split an output that does not divide rounding up": (
            ten_elements,
            lambda s: s["D"].split("i", factor=4, tail="round_up"),
        ),
        "split a reduction that does not divide rounding up": (
            ten_elements,
            lambda s: s["Z"].split("k", nparts=3, tail="round_up"),
        ),
        "split with a promise that is not kept": (
            ten_elements,
            lambda s: s["D"].split("i", factor=3, disable_predication=True),
        ),
        "split a reduction shifting inwards": lambda s: s["S"].split("k", factor=4, tail="shift_inwards"),
        "split a reduction under a mask": lambda s: s["S"].split("k", factor=4, tail="predicate"),
        "split a part shifting inwards": lambda s: s["C"].split(
            s["C"].split("i", factor=4)[0], factor=2, tail="shift_inwards"
        ),
        "split an input": lambda s: s["A"].split("i", factor=4),
    },
    "tile": {
        "tile one loop": lambda s: s["C"].tile("i", "i", 4, 4),
        "tile by nothing": lambda s: s["C"].tile("i", "j", 4, -1),
    },
    "split_into": {
        "split into one": lambda s: s["C"].split_into("i", 4),
        "split into two open parts": lambda s: s["C"].split_into("i", None, 4, None),
        "split into too few": (nine_elements, lambda s: s["B"].split_into("i", 2, 4)),
        "split into a parallel loop": lambda s: (s["C"].parallel("i"), s["C"].split_into("i", None, 4)),
    },
    "reverse_compute_at": {
        "reverse compute at inside a reduction": (chain, lambda s: s["C"].reverse_compute_at(s["B"], "k")),
        "reverse compute at a stage with two readers": (
            lambda: chain(2),
            lambda s: s["C"].reverse_compute_at(s["B"], "i"),
        ),
        "reverse compute at of a stencil": (stencil, lambda s: s["C"].reverse_compute_at(s["B"], "i")),
        "reverse compute at what is not read": lambda s: s["T"].reverse_compute_at(s["B"], "i"),
        "reverse compute at after marking a loop": lambda s: (
            s["C"].parallel("i"),
            s["C"].reverse_compute_at(s["B"], "i"),
        ),
        "reverse compute at a vectorized loop": lambda s: (
            s["B"].vectorize("i"),
            s["C"].reverse_compute_at(s["B"], "i"),
        ),
        "reverse compute at an output": (two_outputs, lambda s: s["C"].reverse_compute_at(s["B"], "i")),
        "reverse compute at with something computed there": lambda s: (
            s["B"].compute_at(s["C"], "i"),
            s["C"].reverse_compute_at(s["B"], "i"),
        ),
        "reverse compute at a scatter": (scatter_and_reader, lambda s: s["C"].reverse_compute_at(s["H"], "place0")),
        "reverse compute at a decomposed reduction": (
            chain,
            lambda s: (s["B"].decompose_reduction("i"), s["C"].reverse_compute_at(s["B"], "i")),
        ),
    },
    "reverse_compute_inline": {
        "reverse compute inline of a reader of inputs": lambda s: s["B"].reverse_compute_inline(),
        "reverse compute inline into a reduction": (chain, lambda s: s["C"].reverse_compute_inline()),
    },
    "decompose_reduction": {
        "decompose no reduction": lambda s: s["C"].decompose_reduction("i"),
        "decompose twice": lambda s: (s["S"].decompose_reduction("k"), s["S"].decompose_reduction("i")),
        "decompose inside a reduce loop": lambda s: s["S"].decompose_reduction(s["S"].split("k", factor=4)[1]),
        "decompose outside what it begins with": (sums_from_an_element, lambda s: s["B"].decompose_reduction("i")),
        "split a loop of initial values": lambda s: (
            s["S"].reorder("k", "i"),
            s["S"].split(*s["S"].decompose_reduction("k"), factor=4),
        ),
        "rfactor after decomposing": lambda s: (s["S"].decompose_reduction("i"), s.rfactor("S", "k")),
        "cache write after decomposing": lambda s: (s["S"].decompose_reduction("i"), s.cache_write("S", "local")),
        "decompose a scatter": (counted, lambda s: s["H"].decompose_reduction("i")),
    },
    "cache_padding": {
        "cache the padding of no border": lambda s: s["C"].cache_padding(),
        "cache the padding of an input": lambda s: s["A"].cache_padding(),
    },
    "compact_reduction": {
        "compact what has no condition": lambda s: s["S"].compact_reduction(),
        "compact a reduction that is cut": lambda s: (s["S"].split("k", factor=4), s["S"].compact_reduction()),
    },
    "inline_reduction": {
        "write out no reduction": lambda s: s["C"].inline_reduction(),
        "write out a scatter": (counted, lambda s: s["H"].inline_reduction()),
        "nest what is combined in an order": (tuples, lambda s: s["T"].inline_reduction(nested=True)),
        "write out a sum of as many terms as there are": lambda s: s["S"].inline_reduction(),
        "write out a sum that is cut": (ten_elements, lambda s: (s["Z"].split("k", 5), s["Z"].inline_reduction())),
        "write out an unrolled sum": (ten_elements, lambda s: (s["Z"].unroll("k"), s["Z"].inline_reduction())),
        "write out a decomposed sum": (
            ten_elements,
            lambda s: (s["Z"].decompose_reduction("k"), s["Z"].inline_reduction()),
        ),
    },
    "reindex": {
        "reindex what is not read": lambda s: s.reindex("S", "A"),
        "reindex what is read at two places": (doubly_read, lambda s: s.reindex("B", "A")),
        "reindex what a condition guards": (doubly_read, lambda s: s.reindex("C", "B")),
        "reindex in a scan": (scanned, lambda s: s.reindex("S1", "X")),
    },
    "offset_bytes": {
        "offset bytes of a sum of something else": lambda s: s.offset_bytes("S", "C"),
        "offset bytes of what is no factor": (products_of_bytes, lambda s: s.offset_bytes("C", "C")),
        "offset bytes of both factors": (lambda: products_of_bytes(square=True), lambda s: s.offset_bytes("C", "A")),
        "offset bytes twice": (products_of_bytes, lambda s: (s.offset_bytes("C", "B"), s.offset_bytes("C", "A"))),
        "offset bytes after decomposing": (
            products_of_bytes,
            lambda s: (s["C"].decompose_reduction("k"), s.offset_bytes("C", "B")),
        ),
        "offset bytes of a scan": (scanned, lambda s: s.offset_bytes("S1", "X")),
    },
    "compute_with": {
        "share loops with oneself": lambda s: s["T"].compute_with("T", "i"),
        "share loops with what is needed": lambda s: s["S"].compute_with("B", "i"),
        "share loops of an input": lambda s: s["T"].compute_with("A", "i"),
        "share a loop that is not there": lambda s: s["T"].compute_with("S", "j"),
        "share lanes": lambda s: (s["S"].vectorize("i"), s["T"].compute_with("S", "i")),
        "share loops twice": lambda s: (s["T"].compute_with("S", "i"), s["T"].compute_with("B", "i")),
        "share loops of a guest": lambda s: (s["T"].compute_with("S", "i"), s["B"].compute_with("T", "i")),
        "share loops from elsewhere": lambda s: (s["C"].compute_at("S", "i"), s["T"].compute_with("C", "i")),
        "share loops of a scatter": (counted, lambda s: s["H"].compute_with("H", "place0")),
        "share loops of a scan": (scanned, lambda s: s["S1"].compute_with("S1", "t")),
    },
    "block_time": {
        "block what is no scan": lambda s: s.block_time("S", 2),
        "block the time of an output": (running, lambda s: s.block_time("S", 2)),
        "block one step": (heated, lambda s: s.block_time("all", 1)),
        "block more steps than there are": (heated, lambda s: s.block_time("all", 5)),
        "block steps that are cut": (heated, lambda s: (s["step"].split("i", 4), s.block_time("all", 2))),
        "block steps that are marked": (heated, lambda s: (s["step"].vectorize("i"), s.block_time("all", 2))),
        "block what is read at other times": (scanned, lambda s: s.block_time("T", 2)),
        "block what an extern reads": (lambda: heated(opaque=True), lambda s: s.block_time("all", 2)),
        "block a scan that begins with two": (lambda: heated(begin=2), lambda s: s.block_time("all", 2)),
        "block steps that look back by two": (lambda: heated(back=(2,)), lambda s: s.block_time("all", 2)),
        "block steps that look back twice": (lambda: heated(back=(1, 2)), lambda s: s.block_time("all", 2)),
        "block steps that turn rows into times": (turned, lambda s: s.block_time("all", 2)),
        "block steps that sum up": (lambda: heated(sums=True), lambda s: s.block_time("all", 3)),
    },
    "separate_reduction": {
        "separate a spatial loop": (window, lambda s: s.separate_reduction("W", "i")),
        "separate the only reduce loop": lambda s: s.separate_reduction("S", "k"),
        "separate what has weights": (window, lambda s: s.separate_reduction("W", "q")),
        "separate after a split": (window, lambda s: (s["W"].split("p", 2), s.separate_reduction("W", "q"))),
        "separate what is marked": (window, lambda s: (s["W"].unroll("p"), s.separate_reduction("W", "q"))),
        "separate a decomposed sum": (
            window,
            lambda s: (s["W"].decompose_reduction("p"), s.separate_reduction("W", "q")),
        ),
        "separate two axes in pieces": (window, lambda s: s.separate_reduction("W", "q", factor=2)),
        "separate in pieces of symbolic length": lambda s: s.separate_reduction("S", "k", factor=2),
        "separate a scatter": (counted, lambda s: s.separate_reduction("H", s["H"].loops[-1])),
        "separate a scan": (scanned, lambda s: s.separate_reduction("S1", "t")),
    },
    "running_reduction": {
        "run over sums of rows": lambda s: s.running_reduction("S"),
        "run over windows": (window, lambda s: s.running_reduction("W")),
        "run over what is no reduction": lambda s: s.running_reduction("C"),
        "run after a split": (totals, lambda s: (s["T"].split("k", 2), s.running_reduction("T"))),
        "run over what is marked": (totals, lambda s: (s["T"].unroll("k"), s.running_reduction("T"))),
        "run with weights": (lambda: totals(weights=True), lambda s: s.running_reduction("T")),
        "run over a scatter": (counted, lambda s: s.running_reduction("H")),
        "run over a step": (scanned, lambda s: s.running_reduction("S1")),
        "run in a step": (lambda: totals(in_a_step=True), lambda s: s.running_reduction("T")),
    },
    "reduce_together": {
        "reduce one alone": (several_sums, lambda s: s.reduce_together("P", [])),
        "reduce one twice": (several_sums, lambda s: s.reduce_together("P", ["P"])),
        "reduce what begins elsewhere": (several_sums, lambda s: s.reduce_together("P", ["R"])),
        "reduce what depends": (several_sums, lambda s: s.reduce_together("P", ["T"])),
        "reduce other points": (several_sums, lambda s: s.reduce_together("P", ["V"])),
        "reduce fewer points": (several_sums, lambda s: s.reduce_together("P", ["W"])),
        "reduce together after a split": (
            several_sums,
            lambda s: (s["P"].split("k", factor=2), s.reduce_together("P", ["Q"])),
        ),
        "reduce together what is marked": (several_sums, lambda s: (s["Q"].unroll("k"), s.reduce_together("P", ["Q"]))),
        "copy one of two places and name the third": (
            several_sums,
            lambda s: s.cache_read("X", "local", ["P"], only=1),
        ),
        "copy the cast of what is not cast": lambda s: s.cache_read("A", "local", ["B"], cast=True),
        "copy one place of two readers": (several_sums, lambda s: s.cache_read("X", "local", ["P", "Q"], only=0)),
    },
    "compute_together": {
        "compute one alone": (several_maps, lambda s: s.compute_together("P", [])),
        "compute one twice": (several_maps, lambda s: s.compute_together("P", ["P"])),
        "compute what depends": (several_maps, lambda s: s.compute_together("P", ["Q", "R"])),
        "compute a reduction beside": (several_maps, lambda s: s.compute_together("V", ["S"])),
        "compute other elements": (several_maps, lambda s: s.compute_together("P", ["V"])),
        "compute together after a split": (
            several_maps,
            lambda s: (s["P"].split("i", factor=2), s.compute_together("P", ["Q"])),
        ),
        "compute together what is marked": (
            several_maps,
            lambda s: (s["Q"].parallel("i"), s.compute_together("P", ["Q"])),
        ),
        "compute together what is inside": (
            several_maps,
            lambda s: (s["P"].compute_at(s["R"], "i"), s.compute_together("P", ["Q"])),
        ),
    },
    "tuples": {
        "cache write of one of two": (tuples, lambda s: s.cache_write(s["T"].op.output(1), "local")),
        "cache write of two stages": (tuples, lambda s: s.cache_write([s["T"].tensor, s["U"].tensor], "local")),
        "cache read of an output that is not there": (tuples, lambda s: s.cache_read("T", "local", ["U"], output=2)),
        "cache read for a reader of the other": (tuples, lambda s: s.cache_read(s["T"].op.output(0), "local", ["U"])),
    },
    "specialize": {
        "specialize by a loop": lambda s: s["C"].specialize(s["C"].loops[0].var < 4),
        "specialize by nothing": lambda s: s["C"].specialize(te.const(1) == 1),
        "specialize by a size": lambda s: s["C"].specialize(s.size("n") * 2),
        "specialize an input": lambda s: s["A"].specialize(s.size("n") == 2),
        "specialize a scan": (scanned, lambda s: s["S"].specialize(s.size("n") == 2)),
    },
    "rolling_buffer": {
        "roll an output": lambda s: s["T"].rolling_buffer(),
        "roll an input": lambda s: s["A"].rolling_buffer(),
        "roll a step of a scan": (scanned, lambda s: s["M"].rolling_buffer()),
    },
    "set_store_predicate": {
        "store by an element": lambda s: s["C"].set_store_predicate(s["B"].tensor[0, 0] < 1),
        "store by a loop of another stage": lambda s: s["C"].set_store_predicate(s["B"].loops[0].var < 1),
        "store by a number": lambda s: s["C"].set_store_predicate(s["C"].loops[0].var + 1),
        "store by no condition": lambda s: s["C"].set_store_predicate(["near", ["loop", "i"], 1]),
        "store some of a scan": (scanned, lambda s: s["S"].set_store_predicate(s["S"].loops[0].var < 1)),
        "store by a tuple of loops": lambda s: s["C"].set_store_predicate(["loop", "i", "j", "k"]),
    },
    "transform_layout": {
        "transform an output of a workload": (fixed, lambda s: s["T"].transform_layout(lambda i, j: [j, i])),
        "transform an input of a workload": (fixed, lambda s: s["A"].transform_layout(lambda i, j: [j, i])),
        "transform and pad an output": lambda s: s["T"].transform_layout(lambda i, j: [j // 4, i, j % 4]),
        "transform and pad with no number": lambda s: s["T"].transform_layout(
            lambda i, j: [j // 4, i, j % 4], pad_value=float("inf")
        ),
        "transform and pad a tuple": (
            tuples,
            lambda s: s["T"].transform_layout(lambda i: [i // 4, i % 4], pad_value=0),
        ),
        "transform indices that have other names": lambda s: s["T"].transform_layout(lambda i, *, j, k: [i, j, k]),
        "transform after a split": lambda s: (
            s["B"].split("i", factor=4),
            s["B"].transform_layout(lambda i, j: [j, i]),
        ),
        "transform with an index too few": lambda s: s["B"].transform_layout(lambda i: [i]),
        "transform into nothing": lambda s: s["B"].transform_layout(lambda i, j: None),
        "transform and lose an index": lambda s: s["B"].transform_layout(lambda i, j: [i, j // 4]),
        "transform with other factors": lambda s: s["B"].transform_layout(lambda i, j: [i, j // 4, j % 3]),
        "transform two elements into one": lambda s: s["B"].transform_layout(lambda i, j: [i * 4 + j]),
        "transform by a product": lambda s: s["B"].transform_layout(lambda i, j: [i * j, j]),
        "transform with an offset": lambda s: s["B"].transform_layout(lambda i, j: [i + 1, j]),
        "transform by what is not known": lambda s: (
            w := te.var("w"),
            s["B"].transform_layout(lambda i, j: [i // w, j, i % w]),
        ),
        "transform what an extern reads": (opaque, lambda s: s["B"].transform_layout(lambda i: [i // 4, i % 4])),
        "transform a scan": (scanned, lambda s: s["S"].transform_layout(lambda t, i: [i, t])),
    },
    "fuse": {
        "fuse nothing": lambda s: s["C"].fuse(),
        "fuse loops apart": lambda s: (s["C"].split("j", factor=4), s["C"].fuse("i", "j.inner")),
        "fuse spatial and reduce": lambda s: s["S"].fuse("i", "k"),
        "fuse a vectorized loop": lambda s: (s["C"].vectorize("j"), s["C"].fuse("i", "j")),
    },
    "reorder": {"reorder with a loop given twice": lambda s: s["C"].reorder("i", "j", "i")},
    "parallel": {
        "parallel over a reduction": lambda s: s["S"].parallel("k"),
        "parallel over an input": lambda s: s["A"].parallel("i"),
    },
    "vectorize": {
        "vectorize a loop with a producer in it": lambda s: (s["B"].compute_at(s["C"], "j"), s["C"].vectorize("j"))
    },
    "unroll": {"unroll an input": lambda s: s["A"].unroll("i")},
    "bind": {
        "bind to no axis": lambda s: s["C"].bind("i", "threadIdx.w"),
        "bind a reduction": lambda s: s["S"].bind("k", "blockIdx.x"),
        "bind two loops to one axis": lambda s: (s["C"].bind("i", "threadIdx.x"), s["C"].bind("j", "threadIdx.x")),
    },
    "pragma": {
        "pragma that is unknown": lambda s: s["C"].pragma("i", "tensor_cores"),
        "pragma for a reduction": lambda s: s["S"].pragma("i", "streaming_store"),
        "split a loop with a pragma": lambda s: (s["C"].pragma("i", "streaming_store"), s["C"].split("i", 4)),
        "pragma that belongs to other threads": lambda s: s["C"].pragma("i", "parallel_launch_point"),
        "pragma of strides for threads": lambda s: s["C"].pragma("i", "parallel_stride_pattern"),
        "pragma with code": lambda s: s["C"].pragma("i", "import_c", "int f(void);"),
        "pragma without its value": lambda s: s["C"].pragma("i", "auto_unroll_max_step"),
        "pragma with a value that is none of its": lambda s: s["C"].pragma("i", "loop_partition_hint", 2),
        "pragma with a value that it does not take": lambda s: s["C"].pragma("i", "streaming_store", 7),
    },
    "compute_at": {
        "compute an output that nothing reads": lambda s: s["T"].compute_at(s["S"], "i"),
        "compute at a stage that comes before": lambda s: s["C"].compute_at(s["B"], "i"),
        "compute at itself": lambda s: s["C"].compute_at(s["C"], "i"),
        "compute at a stage that does not use it": lambda s: s["B"].compute_at(s["T"], "i"),
        "compute at an input": lambda s: s["B"].compute_at(s["A"], "i"),
        "compute at a vectorized loop": lambda s: (
            s["C"].split("j", factor=8),
            s["C"].vectorize("j.inner"),
            s["B"].compute_at(s["C"], "j.inner"),
        ),
        "compute an input at a loop": lambda s: s["A"].compute_at(s["B"], "i"),
    },
    "store_at": {
        "store an output at a loop": lambda s: s["T"].store_at(s["S"], "i"),
        "store at a stage that does not use it": lambda s: s["B"].store_at(s["T"], "i"),
        "store at no such loop": lambda s: s["B"].store_at(s["C"], "y"),
    },
    "compute_inline": {
        "inline an output": lambda s: s["T"].compute_inline(),
        "inline a reduction": lambda s: (s.cache_write("S", "local"), s["S.local"].compute_inline()),
        "inline an input": lambda s: s["A"].compute_inline(),
        "inline into an extern": (opaque, lambda s: s["B"].compute_inline()),
    },
    "compute_root": {"compute an input at the root": lambda s: s["A"].compute_root()},
    "set_scope": {
        "no such scope": lambda s: s["B"].set_scope("register"),
        "scope of an input": lambda s: s["A"].set_scope("local"),
        "scope of an output": lambda s: s["S"].set_scope("local"),
    },
    "cache_write": {
        "cache write of an input": lambda s: s.cache_write("A", "local"),
        "cache write to no scope": lambda s: s.cache_write("C", "registers"),
        "cache write after splitting the reduction": lambda s: (
            s["S"].split("k", factor=4),
            s.cache_write("S", "local"),
        ),
        "cache write after shifting inwards": lambda s: (
            s["C"].split("j", factor=4, tail="shift_inwards"),
            s.cache_write("C", "local"),
        ),
        "cache write after marking a loop": lambda s: (s["C"].parallel("i"), s.cache_write("C", "local")),
        "cache write after computing something there": lambda s: (
            s["B"].compute_at(s["C"], "i"),
            s.cache_write("C", "local"),
        ),
    },
    "cache_read": {
        "cache read for a stage that does not read": lambda s: s.cache_read("A", "local", ["C"]),
        "cache read that nothing reads": lambda s: s.cache_read("T", "local"),
        "cache read twice for one reader": lambda s: (
            s.cache_read("A", "local", ["B"]),
            s.cache_read("A", "local", ["B"]),
        ),
        "cache read to no scope": lambda s: s.cache_read("A", "texture", ["B"]),
    },
    "rfactor": {
        "rfactor of a spatial loop": lambda s: s.rfactor("S", "i"),
        "rfactor of no reduction": lambda s: s.rfactor("C", "j"),
        "rfactor of a marked loop": lambda s: (
            s["S"].split("k", 4),
            s["S"].unroll("k.inner"),
            s.rfactor("S", s["S"].loops[1]),
        ),
        "rfactor after computing something there": lambda s: (s["C"].compute_at(s["S"], "k"), s.rfactor("S", "k")),
        "rfactor to no place": lambda s: s.rfactor("S", "k", factor_axis=2),
        "rfactor to an unknown place": lambda s: s.rfactor("S", "k", factor_axis=s.define_knob("at", [1])),
    },
    "scan": {
        "split of a scans time": (scanned, lambda s: s["T"].split("T.idx", 4)),
        "split of a steps time": (scanned, lambda s: s["T1"].split("t", 4)),
        "split of the time of what a step reads": (scanned, lambda s: s["M"].split("t", 4)),
        "fuse of a scans time": (scanned, lambda s: s["T"].fuse("T.idx", "T.i1")),
        "parallel of a scans time": (scanned, lambda s: s["T"].parallel("T.idx")),
        "bind of a scans time": (scanned, lambda s: s["T"].bind("T.idx", "blockIdx.x")),
        "vectorize of a scan": (scanned, lambda s: s["T"].vectorize("T.i1")),
        "shift inwards of a scan": (scanned, lambda s: s["T"].split("T.i1", 4, tail="shift_inwards")),
        "compute at of an update": (scanned, lambda s: s["T1"].compute_at(s["Z"], "i")),
        "compute at of an init": (scanned, lambda s: s["T0"].compute_at(s["Z"], "i")),
        "compute at outside the step": (scanned, lambda s: s["M"].compute_at(s["Z"], "i")),
        "store at outside the step": (
            scanned,
            lambda s: (s["M"].compute_at(s["S1"], "i"), s["M"].store_at(s["S"], "S.i1")),
        ),
        "compute inline of an update": (scanned, lambda s: s["T1"].compute_inline()),
        "compute inline of a scan": (scanned, lambda s: s["T"].compute_inline()),
        "set scope of an update": (scanned, lambda s: s["T1"].set_scope("local")),
        "cache write of a scan": (scanned, lambda s: s.cache_write("T", "local")),
        "cache read of an update by its scan": (scanned, lambda s: s.cache_read("T1", "local", ["T"])),
        "env threads of no scan": lambda s: s["C"].env_threads([te.thread_axis("threadIdx.x")]),
        "env threads that do not exist": (scanned, lambda s: s["S"].env_threads(["threadIdx.q"])),
    },
    "prefetch": {
        "prefetch what is not read": lambda s: s["T"].prefetch("B", "i", 1),
        "prefetch nothing ahead": lambda s: s["C"].prefetch("B", "i", 0),
        "prefetch for an input": lambda s: s["A"].prefetch("B", "i", 1),
    },
    "storage_align": {
        "storage align of an output": lambda s: s["S"].storage_align("i", 8),
        "storage align of an input": lambda s: s["A"].storage_align("i", 8),
        "storage align along no axis": lambda s: (s["C"].split("j", factor=8), s["C"].storage_align("j.outer", 8)),
        "storage align along a reduction": lambda s: s[s.cache_write("S", "local")].storage_align("k.c", 8),
        "storage align to nothing": lambda s: s["C"].storage_align("i", 0),
        "storage align with a negative offset": lambda s: s["C"].storage_align("i", 8, -1),
        "storage align of an update": (scanned, lambda s: s["S1"].storage_align("t", 8)),
        "storage align of a scan": (scanned, lambda s: s["S"].storage_align("S.i1", 8)),
    },
    "scatter": {
        "vectorize of points": (counted, lambda s: s["H"].vectorize("k")),
        "parallel of points": (counted, lambda s: s["H"].parallel("k")),
        "bind of places": (counted, lambda s: s["H"].bind("place0", "threadIdx.x")),
        "fuse of places and rows": (counted, lambda s: s["H"].fuse("i", "place0")),
        "compute at places": (counted, lambda s: s["Y"].compute_at(s["H"], "place0")),
        "cache write of a scatter": (counted, lambda s: s.cache_write("H", "local")),
        "rfactor behind the places": (counted, lambda s: s.rfactor("H", "k", factor_axis=2)),
    },
    "double_buffer": {
        "double buffer an output": lambda s: s["T"].double_buffer(),
        "double buffer an input": lambda s: s["A"].double_buffer(),
    },
    "tensorize": {
        "tensorize by an unknown name": lambda s: s["B"].tensorize("j", "gemm_8x8"),
        "tensorize a computation of two": (tuples, lambda s: s["T"].tensorize("k", addition())),
        "tensorize around a marked loop": lambda s: (s["B"].vectorize("j"), s["B"].tensorize("i", addition())),
        "tensorize an input": lambda s: s["A"].tensorize("i", addition()),
        "split a tensorized loop": (tensorized, lambda s: s["B"].split("j.inner", factor=2)),
        "vectorize a tensorized loop": (tensorized, lambda s: s["B"].vectorize("j.inner")),
        "unroll a tensorized loop": (tensorized, lambda s: s["B"].unroll("j.inner")),
    },
    "create_group": {
        "a group of nothing": lambda s: s.create_group(s["B"].tensor, s["B"].tensor),
        "a group of a stage that is not there": lambda s: s.create_group("X", "A"),
    },
    "define_knob": {
        "a knob without values": lambda s: s.define_knob("f", []),
        "a knob with other values": lambda s: (s.define_knob("f", [1, 2]), s.define_knob("f", [1, 3])),
        "a knob called like the schedule": lambda s: s.define_knob("s", [1, 2]),
        "a knob with a value twice": lambda s: s.define_knob("f", [1, 2, 1]),
        "a knob beyond 32 bits": lambda s: s.define_knob("f", [1, 2**31]),
    },
    "define_split": {
        "a split by no policy": lambda s: s.define_split("tile", 512, policy="powers"),
        "a split of a size into factors": lambda s: s.define_split("tile", s["C"].op.axis[0]),
        "a split whose filter rejects everything": lambda s: s.define_split(
            "tile", 512, num_outputs=3, filter=lambda x: x.size[-1] > 512
        ),
        "a split whose filter raises": lambda s: s.define_split("tile", 512, filter=lambda x: x.size[2] > 4),
        "a split into no number of loops": lambda s: s.define_split("tile", 512, num_outputs=0),
        "a split defined in two ways": lambda s: (s.define_split("tile", 512), s.define_split("tile", 256)),
    },
    "define_reorder": {
        "an order of one loop twice": lambda s: s.define_reorder("order", ["i", "i"], "all"),
        "an order of an interval that is not there": lambda s: s.define_reorder(
            "order", ["i", "j"], "interval_all", interval=(1, 3)
        ),
    },
    "define_annotate": {"marks by no policy": lambda s: s.define_annotate("marks", ["i", "j"], "vectorise")},
    "among": {
        "rows of values that a knob has not": lambda s: s.among(
            [s.define_knob("f", [1, 2]), s.define_knob("g", [1, 2])], [(1, 2), (2, 3)]
        ),
        "rows of an unknown knob": lambda s: s.among(["f"], [(1,)]),
        "a filter of something unknown": lambda s: (
            s.define_split("tile", 512),
            s.multi_filter(["tile", "tail"], lambda x, y: True),
        ),
    },
    "choose": {
        "a choice of nothing": lambda s: s.choose("f", []),
        "a choice of objects": lambda s: s.choose("f", [s["C"], s["B"]]),
        "a choice with other options": lambda s: (s.choose("f", [1, 2]), s.choose("f", [1, 3])),
    },
    "constrain": {"a constraint that is none": lambda s: s.constrain(s.define_knob("f", [1, 2]) + 1)},
}
