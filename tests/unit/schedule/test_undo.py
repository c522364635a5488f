"""Undoing one instruction of a schedule: what is left still computes the reference, or there is a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autosched import te
from autosched.lowering.bounds import inferred_ranges
from autosched.schedule import Schedule, create_schedule
from autosched.schedule.undo import Undone, knobs_of, undo_knob, undoable, ways_to_undo
from autosched.te.tensor import Tensor


def matmul(n: int = 32) -> tuple[Schedule, list[Tensor]]:
    a, b = (te.placeholder((n, n), name=name) for name in "ab")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return create_schedule(c), [a, b, c]


def stencil() -> tuple[Schedule, list[Tensor]]:
    a = te.placeholder((64, 48), name="a")
    b = te.compute((64, 48), lambda y, x: a[y, x] * 2, name="b")
    c = te.compute((62, 48), lambda y, x: b[y, x] + b[y + 2, x], name="c")
    return create_schedule(c), [a, c]


def lines(u: Undone, knobs: dict[str, int] | None = None) -> list[str]:
    assert u.trace is not None, u.refused
    return [line.strip() for line in u.trace.as_python(knobs=knobs).splitlines()[1:]]


def undo(s: Schedule, args: list[Tensor], kind: str, way: str = "", option: str = "", last: bool = False) -> Undone:
    at = [p for p, i in enumerate(s.trace) if i.kind == kind][-1 if last else 0]
    found = {u.way: u for u in ways_to_undo(s.trace, at, args, option=option)}
    return found[way]


def chain() -> tuple[Schedule, list[Tensor]]:
    """a -> b -> c -> d, each element by element."""
    a = te.placeholder((8, 8), name="a")
    b = te.compute((8, 8), lambda y, x: a[y, x] + 1, name="b")
    c = te.compute((8, 8), lambda y, x: b[y, x] * 2, name="c")
    d = te.compute((8, 8), lambda y, x: c[y, x] + 3, name="d")
    return create_schedule(d), [a, d]


def cube() -> tuple[Schedule, list[Tensor]]:
    a = te.placeholder((4, 5, 6), name="a")
    b = te.compute((4, 5, 6), lambda i, j, k: a[i, j, k] + 1, name="b")
    return create_schedule(b), [a, b]


def row() -> tuple[Schedule, list[Tensor]]:
    a = te.placeholder((4096,), name="a")
    b = te.compute((4096,), lambda x: a[x] + 1, name="b")
    return create_schedule(b), [a, b]


Program = Callable[[], tuple[Schedule, list[Tensor]]]
#: what each shows -> the program, and calls that are undone one at a time
UNDONE: dict[str, tuple[Program, Callable[[Schedule], object]]] = {
    "of a split the outer loop is the whole, or the inner one": (
        stencil,
        lambda s: (
            s["c"].split("y", factor=8),
            s["c"].reorder("y.outer", "x", "y.inner"),
            s["c"].parallel("y.outer"),
            s["c"].unroll("y.inner"),
        ),
    ),
    "marks stay on loops that are short all the same": (
        stencil,
        lambda s: (s["c"].split("x", factor=16), s["c"].split("x.inner", factor=8), s["c"].vectorize("x.inner.inner")),
    ),
    "a longer loop is not vectorized": (row, lambda s: (s["b"].split("x", factor=16), s["b"].vectorize("x.inner"))),
    "names made later follow: y.outer.outer is y.outer where y.outer is y": (
        stencil,
        lambda s: (
            s["c"].split("y", factor=4),
            s["c"].split("y.outer", factor=2),
            s["c"].fuse("y.inner", "x"),
            s["c"].parallel("y.outer.outer"),
        ),
    ),
    "a tile that lost one loop is a split": (
        stencil,
        lambda s: (s["c"].split("y", factor=8), s["c"].tile("y.inner", "x", 2, 16), s["c"].vectorize("x.inner")),
    ),
    "of a fusion one loop is split in its place": (
        stencil,
        lambda s: (s["c"].fuse("y", "x"), s["c"].split("y.x.fused", factor=4)),
    ),
    "of a fusion all loops are reordered in its place": (
        cube,
        lambda s: (s["b"].fuse("i", "j"), s["b"].reorder("k", "i.j.fused"), s["b"].parallel("i.j.fused")),
    ),
    "another fusion keeps what it can": (cube, lambda s: (s["b"].fuse("i", "j"), s["b"].fuse("i.j.fused", "k"))),
    "a cache goes with all that was said of it": (
        matmul,
        lambda s: (
            s.cache_write("c", "local"),
            s["c"].split("j", factor=8),
            s["c.local"].compute_at(s["c"], "j.outer"),
            s["c.local"].vectorize("j.c"),
            s["c"].vectorize("j.inner"),
        ),
    ),
    "and with the layout it had, which is all that split and reorder before it say": (
        matmul,
        lambda s: (
            s["c"].split("j", factor=8),
            s["c"].reorder("j.outer", "i", "j.inner"),
            s.cache_write("c", "global"),
            s["c"].parallel("i"),
        ),
    ),
    "a cache of a cache reads the first one's source": (
        matmul,
        lambda s: (
            s.cache_read("a", "global", ["c"]),
            s.cache_read("a.global", "local", ["c"]),
            s["a.global.local"].compute_at(s["c"], "i"),
        ),
    ),
    "a cache that took the loops gives them back": (
        matmul,
        lambda s: (
            s["c"].split("i", factor=4),
            s.cache_write("c", "local", keep_loops=True),
            s["c.local"].parallel("i.outer"),
            s["c"].vectorize("j"),
        ),
    ),
    "what was computed at a loop that is gone is computed around it": (
        stencil,
        lambda s: (
            s["c"].split("y", factor=8),
            s["c"].reorder("y.outer", "x", "y.inner"),
            s["b"].compute_at(s["c"], "y.inner"),
        ),
    ),
    "what moves to the root is not unrolled there": (
        lambda: matmul(128),
        lambda s: (
            s.cache_write("c", "local"),
            s["c"].split("i", factor=4),
            s["c.local"].compute_at(s["c"], "i.outer"),
            s["c.local"].unroll("i.c"),
        ),
    ),
    "of an rfactor the partial results go": (
        matmul,
        lambda s: (
            s["c"].split("k", factor=8),
            s.rfactor("c", "k.inner"),
            s["c.rf"].reorder("k.outer", "k.inner"),
            s["c.rf"].vectorize("k.inner"),
            s["c"].unroll("k.inner.v"),
        ),
    ),
    "an option is undone alone": (
        stencil,
        lambda s: (s["c"].split("x", factor=16, tail="shift_inwards"), s["c"].vectorize("x.inner")),
    ),
    "inits of a decomposed reduction follow": (
        matmul,
        lambda s: (
            s["c"].split("j", factor=8),
            s["c"].reorder("j.outer", "k", "j.inner"),
            s["c"].decompose_reduction("k"),
            s["c"].vectorize("j.inner.init"),
        ),
    ),
    "what needs it is named": (
        stencil,
        lambda s: (s["c"].split("y", factor=8), s["c"].reorder("y.outer", "x", "y.inner"), s["c"].fuse("y.outer", "x")),
    ),
    "a stage takes its producers to the root: c is computed before d, and b, which it needs, not inside d": (
        chain,
        lambda s: (s["b"].compute_at(s["d"], "y"), s["c"].compute_at(s["d"], "y")),
    ),
    "what does not hold together is refused": (
        stencil,
        lambda s: (s["c"].split("y", factor=8), s["b"].compute_at(s["c"], "y.outer"), s["b"].rolling_buffer()),
    ),
    "what read a stage that is gone reads what it read": (
        matmul,
        lambda s: (s.cache_read("a", "global", ["c"]), s.cache_read("a", "local", ["a.global"])),
    ),
}


def outcome(s: Schedule, u: Undone) -> str:
    """What is left, from which instructions it comes, and which are lost; or why not."""
    if u.trace is None:
        return f"    refused: {u.refused}"
    rows = [*lines(u), *(f"lost: {s.trace[p].as_python()}" for p in u.lost), f"from {u.origin}"]
    return "\n".join(f"    {row}" for row in rows)


def test_what_is_left(golden: Callable[..., None]) -> None:
    texts = []
    for title, (program, calls) in UNDONE.items():
        s, args = program()
        calls(s)
        texts.append(f"== {title}\n")
        for at, option in undoable(s.trace):
            for u in ways_to_undo(s.trace, at, args, option=option, extents=extents):
                how = "".join(f", {x}" for x in (u.way, option) if x)
                texts.append(f"without {s.trace[at].as_python()}{how}:\n{outcome(s, u)}\n")
    golden("\n".join(texts), "undone")


# -- knobs -------------------------------------------------------------------------------------------
def test_knobs_that_nothing_uses_any_more_are_left_out() -> None:
    s, args = stencil()
    rows = s.define_knob("rows", [2, 4])
    s.constrain(rows <= 4, "rows fit")
    s.choose("way", ["a", "b"])
    s["c"].split("y", factor=rows)
    s["c"].vectorize("x")
    assert knobs_of(s.trace) == {"rows": [3]}
    assert lines(undo(s, args, "split", "outer")) == ['s["c"].vectorize("x")']
    kept = undo(s, args, "vectorize")
    assert lines(kept, {"rows": 4}) == ["rows = 4", 's["c"].split("y", factor=rows)']


def test_a_knob_becomes_a_number() -> None:
    s, args = stencil()
    rows = s.define_knob("rows", [2, 4])
    s.constrain(rows <= 4, "rows fit")
    s["c"].split("y", factor=rows * 2)
    s["b"].split("y", factor=rows)
    u = undo_knob(s.trace, "rows", args)
    assert lines(u) == ['s["c"].split("y", factor=(1 * 2))', 's["b"].split("y", factor=1)']
    assert u.origin == (2, 3)


def test_a_number_that_a_primitive_does_not_take_is_refused() -> None:
    s, args = stencil()
    ahead = s.define_knob("ahead", [2, 4])
    s["c"].prefetch("a", "y", ahead)
    u = undo_knob(s.trace, "ahead", args, value=-1)
    assert u.trace is None
    assert u.refused


def extents(s: Schedule) -> dict[Any, Any]:
    return {loop: found.extent for loop, found in inferred_ranges(s).items()}


def test_marks_of_a_stage_that_was_inlined_later_stay() -> None:
    s, args = stencil()
    _, inner = s["b"].split("x", nparts=2)
    s["b"].unroll(inner)
    s["b"].compute_inline()
    assert {lines(u)[-1] for u in ways_to_undo(s.trace, 0, args, extents=extents)} == {'s["b"].compute_inline()'}
