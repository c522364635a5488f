"""Passes of users, options and instruments: each has its effect on what is lowered, or says why it cannot."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched import te, tvm
from autosched.errors import UsageError
from autosched.ir.stmt import Allocate, For, Function, Store, walk
from autosched.lowering.pipeline import PASSES, lower_structure
from autosched.tir.module import IRModule
from autosched.tvm import tir
from autosched.tvm.instrument import PassTimingInstrument, PrintAfterAll, PrintBeforeAll, pass_instrument
from autosched.tvm.tir.stmt_functor import ir_transform
from autosched.tvm.transform import (
    OPTIONAL,
    OPTIONS,
    PHASES,
    TVM_NAMES,
    PassContext,
    Sequential,
    choose_unrolled,
    function_pass,
    module_pass,
)


def program():
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] + 1, name="b")
    return autosched.create_schedule(b), [a, b]


def lowered(s, args, **context) -> Function:
    with PassContext(**context):
        return lower_structure(s, args, "llvm").bind()


def loops(f: Function) -> list[tuple[str, int]]:
    return [(x.kind, x.extent.value) for x in walk(f.body) if isinstance(x, For)]


def plus_one_more(f, mod, ctx):
    """Every stored value is one larger."""

    def change(node):
        return Store(node.buffer, node.indices, node.value + 1) if isinstance(node, Store) else None

    return f.with_body(ir_transform(f.body, None, change))


def test_the_names_are_those_of_the_pipeline() -> None:
    assert set(OPTIONAL) <= set(PASSES)
    assert set(PHASES.values()) <= set(PASSES)
    assert {name for names in TVM_NAMES.values() for name in names} <= set(PASSES)


@pytest.mark.parametrize("phase", [0, 1, 2, 3])
@pytest.mark.parametrize("vector", [False, True])
def test_a_pass_runs_in_every_phase(phase: int, vector: bool) -> None:
    s, args = program()
    if vector:
        s["b"].vectorize(s["b"].split("i", factor=8)[1])
    seen = []

    @function_pass(opt_level=0)
    def more(f, mod, ctx):
        seen.append(f)
        return plus_one_more(f, mod, ctx)

    with PassContext(config={"tir.add_lower_pass": [(phase, more)]}):
        module = autosched.build(s, args=args)
    x = np.arange(64, dtype="float32")
    assert len(seen) == 1
    assert np.array_equal(module(x), x + 2)
    assert np.array_equal(autosched.build(s, args=args)(x), x + 1)


def test_phases_see_what_the_built_in_passes_left() -> None:
    a = te.placeholder((8, 8), name="a")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1, name="b")
    s = autosched.create_schedule(b)
    s[b].unroll("j")
    seen = {}

    def looker(phase):
        @function_pass(opt_level=0, name=f"look{phase}")
        def look(f, mod, ctx):
            stores = [x for x in walk(f.body) if isinstance(x, Store)]
            seen[phase] = len(stores), len(stores[0].indices)
            return f

        return phase, look

    lowered(s, [a, b], config={"tir.add_lower_pass": [looker(k) for k in range(4)]})
    assert seen == {0: (1, 2), 1: (1, 1), 2: (8, 1), 3: (8, 1)}


def test_levels_and_names_decide_which_passes_of_users_run() -> None:
    ran = []

    def step(level: int, called: str):
        @function_pass(opt_level=level, name=called)
        def note(f, mod, ctx):
            ran.append(called)
            return f

        return 0, note

    config = {"tir.add_lower_pass": [step(0, "low"), step(3, "high"), step(3, "wanted"), step(0, "unwanted")]}
    s, args = program()
    lowered(s, args, opt_level=2, required_pass=["wanted"], disabled_pass=["unwanted"], config=config)
    assert ran == ["low", "wanted"]


def test_passes_in_a_sequence_and_over_a_module() -> None:
    s, args = program()
    module = autosched.lower(s, args).mod
    calls = []

    @module_pass(opt_level=0)
    def note(mod, ctx):
        calls.append(list(mod))
        return mod

    @function_pass(opt_level=0)
    class Twice:
        def __init__(self, times: int) -> None:
            self.times = times

        def transform_function(self, f, mod, ctx):
            for _ in range(self.times):
                f = plus_one_more(f, mod, ctx)
            return f

    changed = Sequential([note, Twice(2)])(module)
    assert calls == [["main"]]
    assert "b[i] = a[i] + T.float32(1) + T.float32(1) + T.float32(1)" in changed.script()
    assert isinstance(changed, IRModule)


# -- options ------------------------------------------------------------------------------------------


def vectorized():
    s, args = program()
    s["b"].vectorize(s["b"].split("i", factor=8)[1])
    return s, args


@pytest.mark.parametrize(
    "context",
    [
        {"config": {"tir.disable_vectorize": True}},
        {"disabled_pass": ["tir.VectorizeLoop"]},
        {"disabled_pass": ["vectorize"]},
    ],
)
def test_without_vectors(context) -> None:
    s, args = vectorized()
    assert loops(lowered(s, args)) == [("serial", 8)]
    assert loops(lowered(s, args, **context)) == [("serial", 8), ("serial", 8)]


def test_without_shared_storage() -> None:
    a = te.placeholder((64,), name="a")
    t = [a]
    for k in range(4):
        t.append(te.compute((64,), lambda i, p=t[-1]: p[i] + 1, name=f"t{k}"))
    s = autosched.create_schedule(t[-1])

    def buffers(**context) -> int:
        return len([x for x in walk(lowered(s, [a, t[-1]], **context).body) if isinstance(x, Allocate)])

    assert buffers() == 2
    assert buffers(config={"tir.disable_storage_rewrite": True}) == 3
    assert buffers(disabled_pass=["tir.StorageRewrite"]) == 3


def test_loops_to_write_out() -> None:
    s, args = program()
    s["b"].split("i", factor=4)
    assert loops(lowered(s, args)) == [("serial", 16), ("serial", 4)]
    assert loops(lowered(s, args, config={"tir.UnrollLoop": {"auto_max_step": 4}})) == [("serial", 16)]
    assert loops(lowered(s, args, config={"tir.UnrollLoop": {"auto_max_step": 64}})) == []
    assert loops(lowered(s, args, config={"tir.UnrollLoop": {"auto_max_extent": 4}})) == [("serial", 16)]
    s["b"].unroll("i.inner")
    assert loops(lowered(s, args)) == [("serial", 16)]
    kept = [("serial", 16), ("serial", 4)]
    assert loops(lowered(s, args, config={"tir.UnrollLoop": {"explicit_unroll": False}})) == kept
    assert loops(lowered(s, args, disabled_pass=["tir.UnrollLoop"])) == kept


def test_no_more_written_out_loops_in_one_another_than_allowed() -> None:
    s, args = program()
    s["b"].split("i", factor=4)
    body = lower_structure(s, args, "llvm").function.body
    marked = [x.kind for x in walk(choose_unrolled(body, 64, max_depth=1)) if isinstance(x, For)]
    assert marked == ["serial", "unroll"]


@pytest.mark.parametrize("name", OPTIONAL)
def test_programs_are_right_without_any_pass_that_may_be_left_out(name: str) -> None:
    n = te.var("n")
    a = te.placeholder((n, 12), name="a")
    b = te.compute((n, 12), lambda i, j: a[te.max(i - 1, 0), j] * 2, name="b")
    c = te.compute((n, 12), lambda i, j: b[i, j] + a[i, j], name="c")
    s = autosched.create_schedule(c)
    _, ii, jo, ji = s[c].tile("i", "j", 4, 8)
    s[c].vectorize(ji)
    s[c].unroll(ii)
    s[b].compute_at(s[c], jo)
    with PassContext(disabled_pass=[name]):
        module = autosched.build(s, args=[a, c])
    for rows in (1, 4, 7):
        x = np.random.default_rng(rows).random((rows, 12), dtype="float32")
        assert np.array_equal(module(x), te.reference([a, c], [x])[0])


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"tir.unroll_loop": {}}, "there is no option 'tir.unroll_loop'"),
        ({"tir.instrument_bound_checkers": True}, "there is no option"),
        ({"tir.UnrollLoop": {"max": 3}}, "no option 'max'"),
        ({"tir.disable_vectorize": "yes"}, "it is not True or False"),
        ({"tir.noalias": False}, "generated code relies on it"),
        ({"tir.add_lower_pass": [(4, None)]}, "is not a pair of a phase"),
        ({"tir.add_lower_pass": [(1, len)]}, "is not a pass: decorate it"),
    ],
)
def test_options_that_cannot_be(config, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        PassContext(config=config)


def test_passes_that_cannot_be_left_out() -> None:
    for name, why in (("flatten", "relies on what flatten does"), ("tir.Nonsense", "there is no pass")):
        with pytest.raises(UsageError, match=why):
            PassContext(disabled_pass=[name])


def test_defaults_of_options_are_legal() -> None:
    assert [key for key, option in OPTIONS.items() if option.check(option.default)] == []


# -- instruments --------------------------------------------------------------------------------------


def test_times_of_passes() -> None:
    s, args = program()
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        lower_structure(s, args, "llvm").bind()
        text = timing.render()
    assert [line.split(":")[0] for line in text.splitlines()] == list(PASSES[1:])
    assert all(seconds >= 0 for _, _, seconds in timing.times)


def test_printing_around_passes(capsys: pytest.CaptureFixture[str]) -> None:
    s, args = program()
    with PassContext(instruments=[PrintBeforeAll(), PrintAfterAll()]):
        lower_structure(s, args, "llvm").bind()
    text = capsys.readouterr().out
    assert text.index("Before Running Pass: flatten") < text.index("After Running Pass: flatten")
    assert "b[i] = a[i] + T.float32(1)" in text


def test_an_instrument_of_one_s_own() -> None:
    events = []

    @pass_instrument
    class Watch:
        def enter_pass_ctx(self):
            events.append("enter")

        def exit_pass_ctx(self):
            events.append("exit")

        def should_run(self, mod, info):
            return info.name not in ("vectorize", "flatten")

        def run_before_pass(self, mod, info):
            events.append(info.name)

    s, args = vectorized()
    f = lowered(s, args, instruments=[Watch()])
    assert events[0] == "enter" and events[-1] == "exit"
    assert "vectorize" not in events and "partition" in events
    assert loops(f) == [("serial", 8), ("serial", 8)]  # no vectors; flattened all the same, since it must be


def test_contexts_nest_and_end() -> None:
    outer = PassContext(opt_level=1)
    with outer:
        with PassContext(opt_level=3):
            assert PassContext.current().opt_level == 3
        assert PassContext.current() is outer
    assert PassContext.current().config == {}


def test_storage_flatten_takes_what_tvm_s_took() -> None:
    s, args = program()
    module = tvm.lower(s, args, simple_mode=True)
    flat = [tir.transform.StorageFlatten(*given)(module)["main"] for given in ((), (64,), (64, True))]
    assert all(len(x.indices) == 1 for f in flat for x in walk(f.body) if isinstance(x, Store))


def test_what_does_nothing_is_removed() -> None:
    s, args = program()
    f = tvm.lower(s, args, simple_mode=True)["main"]
    i, b = tir.Var("i", "int32"), f.params[1]
    idle, kept = tir.Evaluate(tir.const(0)), tir.Evaluate(tir.call_extern("int32", "beep", i))
    nothing = [
        idle,
        tir.For(i, 0, 8, tir.ForKind.SERIAL, idle),
        tir.For(i, 0, 0, tir.ForKind.SERIAL, kept),
        tir.IfThenElse(i < 3, idle, tir.SeqStmt([idle, idle])),
        tir.BufferStore(b, tir.BufferLoad(b, [i]), [i]),
        tir.LetStmt(i, tir.const(3), tir.SeqStmt([idle])),
        Allocate(b, idle),
    ]
    beeps = tir.IfThenElse(tir.call_extern("int32", "beep", 1) < 3, idle, None)
    for given, count in (([*nothing, f.body], 0), ([*nothing, kept, f.body], 1), ([beeps, f.body], 1)):
        module = tvm.IRModule({"main": f.with_body(tir.SeqStmt(given))})
        made = tir.transform.RemoveNoOp()(module)["main"].body
        stmts = made.stmts if isinstance(made, tir.SeqStmt) else (made,)
        assert len(stmts) == count + 1 and repr(stmts[-1]) == repr(f.body)
    empty = tir.transform.RemoveNoOp()(tvm.IRModule({"main": f.with_body(nothing[1])}))["main"]
    x, y = np.ones(64, "float32"), np.ones(64, "float32")
    tvm.build(tvm.IRModule({"main": f.with_body(tir.SeqStmt([empty.body, f.body]))}), target="llvm")(x, y)
    np.testing.assert_array_equal(y, 2)
