"""A small program for every primitive, and how to draw it: what `experiments/primitives.py` makes pages of."""

from __future__ import annotations

from dataclasses import dataclass

from drawn.pictures import Kind, Memory, Order, Space, Time


@dataclass(frozen=True)
class Example:
    """`before` makes a schedule `s`; `call` is the call that is shown, and what it needs beside it.

    tensors: arguments of `lower`
    drawn:   the kind of picture before and after
    after:   the pass whose result is drawn and printed; empty: the loops that the schedule says
    about:   what to see there
    """

    primitive: str
    before: str
    call: str
    tensors: str
    drawn: tuple[Kind, Kind]
    after: str = ""
    target: str = "llvm"
    sizes: tuple[dict[str, int], ...] = ({},)  #: of the calls that are drawn; the first is drawn before, too
    about: str = ""
    title: str = ""  #: of a second example of a primitive


def _line(n: int) -> str:
    return f"""
A = te.placeholder(({n},), name="A")
B = te.compute(({n},), lambda i: A[i] + 1, name="B")
s = create_schedule(B)
"""


def _grid(h: int, w: int) -> str:
    return f"""
A = te.placeholder(({h}, {w}), name="A")
B = te.compute(({h}, {w}), lambda y, x: A[y, x] + 1, name="B")
s = create_schedule(B)
"""


_CHAIN = """
A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i] + 1, name="B")
C = te.compute((8,), lambda i: B[i] * 2, name="C")
s = create_schedule(C)
"""
_WINDOW = """
A = te.placeholder((10,), name="A")
B = te.compute((10,), lambda y: A[y] * 2, name="B")
C = te.compute((8,), lambda y: B[y] + B[y + 1] + B[y + 2], name="C")
s = create_schedule(C)
"""
_ROWS = """
A = te.placeholder((10, 2), name="A")
B = te.compute((10, 2), lambda y, x: A[y, x] * 2, name="B")
C = te.compute((8, 2), lambda y, x: B[y, x] + B[y + 1, x] + B[y + 2, x], name="C")
s = create_schedule(C)
outer, inner = s[C].split("y", factor=4)
s[B].compute_at(s[C], inner)
"""
_PAIR = """
A = te.placeholder((4, 4), name="A")
B = te.compute((4, 4), lambda y, x: A[y, x] + 1, name="B")
C = te.compute((4, 4), lambda y, x: A[y, x] * 2, name="C")
s = create_schedule([B, C])
"""
_SUM = """
A = te.placeholder((3, 8), name="A")
k = te.reduce_axis((0, 8), name="k")
B = te.compute((3,), lambda i: te.sum(A[i, k], axis=k), name="B")
s = create_schedule(B)
"""
_COPY = """
A = te.placeholder((4, 8), name="A")
B = te.compute((4, 8), lambda i, j: A[i, j], name="B")
C = te.compute((4, 8), lambda i, j: B[i, j] + 1, name="C")
s = create_schedule(C)
"""


def _same(kind: Kind) -> tuple[Kind, Kind]:
    return kind, kind


#: page -> its title, and its examples in order
PAGES: dict[str, tuple[str, list[Example]]] = {
    "loops": (
        "Loops: split, join, reorder",
        [
            Example(
                "split",
                _line(10),
                'outer, inner = s[B].split("i", factor=4)',
                "A, B",
                (Space("B", ("i",)), Space("B", ("i.outer", "i.inner"))),
                about="Four does not divide ten: the last block has two iterations that do nothing.",
            ),
            Example(
                "split",
                _line(10),
                's[B].split("i", factor=4, tail="shift_inwards")',
                "A, B",
                (Space("B", ("i",)), Space("B", ("i.outer", "i.inner"))),
                title="A tail that is shifted inwards",
                about="The last block moves back, so that it is full: elements 6 and 7 are computed twice, and no "
                "condition is left.",
            ),
            Example(
                "tile",
                _grid(8, 8),
                'yo, xo, yi, xi = s[B].tile("y", "x", 4, 4)',
                "A, B",
                _same(Order("B")),
            ),
            Example(
                "split_into",
                _line(24),
                's[B].split_into("i", 2, None, 4)',
                "A, B",
                (Space("B", ("i",)), Space("B", ("i.0", "i.1", "i.2"))),
            ),
            Example(
                "fuse",
                _grid(3, 4),
                's[B].fuse("y", "x")',
                "A, B",
                (Space("B", ("y", "x")), Space("B", ("y.x.fused",))),
                about="One long loop can be given to threads in equal parts where two short ones cannot.",
            ),
            Example("reorder", _grid(6, 6), 's[B].reorder("x", "y")', "A, B", _same(Order("B"))),
        ],
    ),
    "place": (
        "Place: where a stage is computed, and how long it is kept",
        [
            Example(
                "compute_at",
                _WINDOW,
                's[B].compute_at(s[C], "y")',
                "A, C",
                _same(Time(("A", "B", "C"))),
                about="Before, all of `B` is stored, and read long after. Afterwards it has three elements, computed "
                "just before they are read, and most of them three times.",
            ),
            Example(
                "store_at",
                _ROWS,
                "s[B].store_at(s[C], outer)",
                "A, C",
                _same(Time(("A", "B", "C"))),
                about="In each block of four rows, an iteration computes the one row that those before have not. It "
                "takes the place of the oldest: `B` has room for one window.",
            ),
            Example("compute_inline", _CHAIN, "s[B].compute_inline()", "A, C", _same(Time(("A", "B", "C")))),
            Example(
                "compute_root",
                _WINDOW + 's[B].compute_at(s[C], "y")\n',
                "s[B].compute_root()",
                "A, C",
                _same(Time(("A", "B", "C"))),
            ),
            Example("compute_with", _PAIR, 's[C].compute_with(s[B], "y")', "A, B, C", _same(Time(("A", "B", "C")))),
            Example(
                "reverse_compute_at",
                _CHAIN + 'outer, inner = s[B].split("i", factor=4)\n',
                "s[C].reverse_compute_at(s[B], outer)",
                "A, C",
                _same(Time(("A", "B", "C"))),
            ),
            Example(
                "reverse_compute_inline",
                _CHAIN + 'outer, inner = s[B].split("i", factor=4)\ns[B].parallel(outer)\n',
                "s[C].reverse_compute_inline()",
                "A, C",
                _same(Order("C", way=False)),
                about="`C` takes over the loops of `B`, with the mark that they have.",
            ),
        ],
    ),
    "marks": (
        "Marks: how a loop runs",
        [
            Example("parallel", _grid(6, 8), 's[B].parallel("y")', "A, B", _same(Order("B"))),
            Example(
                "vectorize",
                _grid(6, 8),
                'outer, inner = s[B].split("x", factor=4)\ns[B].vectorize(inner)',
                "A, B",
                _same(Order("B")),
            ),
            Example(
                "unroll",
                _grid(4, 8),
                'outer, inner = s[B].split("x", factor=4)\ns[B].unroll(inner)',
                "A, B",
                _same(Order("B", by_statement=True)),
                after="unroll",
                about="Here colours are statements of the program: four copies, each with a constant in place of the "
                "loop's variable.",
            ),
            Example(
                "bind",
                _grid(6, 8),
                'yo, xo, yi, xi = s[B].tile("y", "x", 3, 4)\n'
                's[B].bind(yo, "blockIdx.y")\ns[B].bind(xo, "blockIdx.x")\ns[B].bind(xi, "threadIdx.x")',
                "A, B",
                _same(Order("B")),
                target="opencl",
                about="Two by two work-groups of four work-items; each stores three elements, one below the other.",
            ),
            Example(
                "bind",
                _line(16) + 'v, t = s[B].split("i", nparts=2)\ns[B].bind(t, "threadIdx.x")\n',
                's[B].bind(v, "vthread")',
                "A, B",
                _same(Order("B", way=False, by_statement=True)),
                target="opencl",
                after="inject_vthreads",
                title="Virtual threads",
                about="Each work-item does the work of two, statement by statement: colours are statements here.",
            ),
            Example(
                "tensorize",
                """
from autosched.ir.builder import create
from autosched.ir.stmt import Buffer, Stmt

A = te.placeholder((4, 8), name="A")
B = te.compute((4, 8), lambda y, x: A[y, x] * 2, name="B")
s = create_schedule(B)

a = te.placeholder((4,), name="a")
b = te.compute((4,), lambda i: a[i] * 2, name="b")


def four(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
    ib = create()
    ib.emit(outs[0].vstore(0, ins[0].vload(0, "float32x4") * 2))
    return ib.get()


double = te.decl_tensor_intrin(b.op, four, name="double")
outer, inner = s[B].split("x", factor=4)
""",
                "s[B].tensorize(inner, double)",
                "A, B",
                _same(Order("B")),
                after="lower_intrinsics",
                about="The intrinsic here is one store of a vector. Lowering proves that it does what the loop does.",
            ),
            Example(
                "prefetch",
                _grid(4, 8),
                's[B].prefetch(A, "y", 1)',
                "A, B",
                _same(Time(("A", "B"))),
                about="Diamonds are elements that are asked for while the row before is worked on.",
            ),
            Example(
                "specialize",
                """
n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1, name="B")
s = create_schedule(B)
outer, inner = s[B].split("i", factor=4)
""",
                "s[B].specialize(n % 4 == 0)",
                "A, B",
                _same(Order("B", by_statement=True)),
                sizes=({"n": 12}, {"n": 10}),
                about="Colours are statements: a call with `n` = 12 takes the version without conditions, one with "
                "`n` = 10 the other.",
            ),
            Example(
                "pragma",
                _grid(4, 4),
                's[B].pragma("x", "auto_unroll_max_step", 4)',
                "A, B",
                _same(Order("B", by_statement=True)),
                after="unroll",
            ),
        ],
    ),
    "storage": (
        "Storage: where and how a stage is stored",
        [
            Example("set_scope", _CHAIN, 's[B].set_scope("local")', "A, C", _same(Time(("A", "B", "C")))),
            Example(
                "storage_align",
                _COPY,
                's[B].storage_align("i", 8, 1)',
                "A, C",
                _same(Memory("B", 8)),
                about="The elements of one column no longer lie a multiple of eight apart.",
            ),
            Example(
                "transform_layout",
                _COPY,
                "s[B].transform_layout(lambda i, j: [j // 4, i, j % 4])",
                "A, C",
                _same(Memory("B", 8)),
            ),
            Example(
                "double_buffer",
                """
A = te.placeholder((6, 4), name="A")
B = te.compute((6, 4), lambda i, j: A[i, j] + 1, name="B")
C = te.compute((6, 4), lambda i, j: B[i, 3 - j] * 2, name="C")
s = create_schedule(C)
s[B].compute_at(s[C], "i")
""",
                "s[B].double_buffer()",
                "A, C",
                _same(Time(("B", "B.0", "B.1", "C"))),
            ),
            Example(
                "rolling_buffer",
                _ROWS,
                "s[B].rolling_buffer()",
                "A, C",
                _same(Time(("A", "B", "C"))),
            ),
            Example(
                "set_store_predicate",
                _line(10) + 'outer, inner = s[B].split("i", factor=4, tail="shift_inwards")\n',
                "s[B].set_store_predicate(te.any(outer.var < 2, inner.var >= 2))",
                "A, B",
                _same(Space("B", ("i.outer", "i.inner"))),
                about="The last block is shifted inwards; the condition keeps it from storing elements 6 and 7 again.",
            ),
        ],
    ),
    "new-stages": (
        "New stages: caches, partial results, other reductions",
        [
            Example(
                "cache_read",
                """
A = te.placeholder((4, 4), name="A")
B = te.compute((4, 4), lambda i, j: A[j, i] + 1, name="B")
s = create_schedule(B)
""",
                'copy = s.cache_read(A, "local", [B])',
                "A, B",
                _same(Time(("A", "A.local", "B"))),
            ),
            Example(
                "reindex",
                """
A = te.placeholder((4, 4), name="A")
B = te.compute((4, 4), lambda i, j: A[j, i] + 1, name="B")
s = create_schedule(B)
""",
                "copy = s.reindex(B, A)",
                "A, B",
                _same(Time(("A", "A.reindex", "B"))),
            ),
            Example(
                "cache_write",
                _grid(4, 4) + 's[B].reorder("x", "y")\n',
                'cache = s.cache_write(B, "local")',
                "A, B",
                _same(Time(("B.local", "B"))),
                about="The cache has the layout of the loops: it is stored from one end to the other.",
            ),
            Example(
                "cache_padding",
                """
n = 6
A = te.placeholder((n,), name="A")
k = te.reduce_axis((0, 3), name="k")
padded = te.constant_exterior(A, 0.0)
B = te.compute((n,), lambda i: te.sum(padded[i + k - 1], axis=k), name="B")
s = create_schedule(B)
""",
                "s[B].cache_padding()",
                "A, B",
                _same(Time(("A", "A.padded", "B"))),
            ),
            Example(
                "rfactor",
                _SUM + 'outer, inner = s[B].split("k", factor=4)\n',
                "partial = s.rfactor(B, inner)",
                "A, B",
                _same(Time(("B.rf", "B"))),
                about="`B.rf` holds four sums for each element of `B`, which vectors can compute side by side.",
            ),
            Example(
                "decompose_reduction",
                """
A = te.placeholder((6, 4), name="A")
k = te.reduce_axis((0, 4), name="k")
B = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="B")
s = create_schedule(B)
outer, inner = s[B].split("i", factor=3)
s[B].reorder(outer, "k", inner)
""",
                "s[B].decompose_reduction(outer)",
                "A, B",
                _same(Time(("B",))),
            ),
            Example(
                "inline_reduction",
                """
A = te.placeholder((8,), name="A")
k = te.reduce_axis((0, 3), name="k")
B = te.compute((6,), lambda i: te.sum(A[i + k], axis=k), name="B")
s = create_schedule(B)
""",
                "s[B].inline_reduction()",
                "A, B",
                _same(Time(("A", "B"))),
            ),
            Example(
                "compact_reduction",
                """
A = te.placeholder((4,), name="A")
k = te.reduce_axis((0, 4), name="k")
B = te.compute((8,), lambda i: te.sum(A[k], axis=k, where=(i - k) % 2 == 0), name="B")
s = create_schedule(B)
""",
                "s[B].compact_reduction()",
                "A, B",
                _same(Space("B", ("i", "k"))),
            ),
            Example(
                "offset_bytes",
                """
A = te.placeholder((2, 4), "int8", name="A")
W = te.placeholder((4, 3), "int8", name="W")
k = te.reduce_axis((0, 4), name="k")
B = te.compute((2, 3), lambda i, j: te.sum(A[i, k].astype("int32") * W[k, j].astype("int32"), axis=k), name="B")
s = create_schedule(B)
""",
                "s.offset_bytes(B, W)",
                "A, W, B",
                _same(Time(("W.offset", "B.offset", "B"))),
            ),
        ],
    ),
    "together": (
        "Together: several reductions, or one in two steps",
        [
            Example(
                "reduce_together",
                """
A = te.placeholder((8,), name="A")
k, m = te.reduce_axis((0, 8), name="k"), te.reduce_axis((0, 8), name="m")
B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
C = te.compute((1,), lambda i: te.max(A[m], axis=m), name="C")
s = create_schedule([B, C])
""",
                "s.reduce_together(B, [C])",
                "A, B, C",
                _same(Time(("A", "B.all.v0", "B.all.v1", "B", "C"))),
            ),
            Example(
                "compute_together",
                """
A = te.placeholder((9,), name="A")
B = te.compute((8,), lambda i: te.min(A[i], A[i + 1]), name="B")
C = te.compute((8,), lambda i: te.max(A[i], A[i + 1]), name="C")
s = create_schedule([B, C])
""",
                "s.compute_together(B, [C])",
                "A, B, C",
                _same(Time(("A", "B", "C"))),
            ),
            Example(
                "separate_reduction",
                """
A = te.placeholder((5, 5), name="A")
p, q = te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 3), name="q")
B = te.compute((3, 3), lambda y, x: te.sum(A[y + p, x + q], axis=[p, q]), name="B")
s = create_schedule(B)
""",
                's.separate_reduction(B, "q")',
                "A, B",
                _same(Time(("B.first", "B"))),
                about="A result adds three sums of the first pass in place of nine elements. The larger the window and "
                "the more results share a sum, the more that saves.",
            ),
            Example(
                "running_reduction",
                """
A = te.placeholder((6,), name="A")
k = te.reduce_axis((0, 6), name="k")
B = te.compute((6,), lambda j: te.sum(A[k], axis=k, where=k <= j), name="B")
s = create_schedule(B)
""",
                "s.running_reduction(B)",
                "A, B",
                _same(Time(("B.running.first", "B.running.step", "B"))),
                about="Each result adds one element to the one before, in place of all that it is the sum of: of n "
                "elements, n additions in place of n * n / 2.",
            ),
            Example(
                "block_time",
                """
A = te.placeholder((8,), name="A")
state = te.placeholder((5, 8), name="state")
first = te.compute((1, 8), lambda _, i: A[i], name="first")
step = te.compute((5, 8), lambda t, i: state[t - 1, te.max(i - 1, 0)] + state[t - 1, i], name="step")
times = te.scan(first, step, state, name="times")
B = te.compute((8,), lambda i: times[4, i], name="B")
s = create_schedule(B)
""",
                """early = s.block_time(times, 2)[0]
tile, _ = s["step"].split("i", factor=4)
s[early].compute_at(s["step"], tile)""",
                "A, B",
                _same(Time(("step.1", "step", "times"))),
                about="A block takes two steps. Each tile of four places first computes what it needs of the step "
                "before, five places, while they are in a near cache; the place that two tiles need is computed twice.",
            ),
        ],
    ),
}
