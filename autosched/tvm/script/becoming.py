"""Schedules of stages that become schedules of statements, where a call asks for what stages have no place for; and
back, where the function has stages again.

The function is read as its script says it. Blocks keep their names; a loop that a program holds stands for the one that
has become of it, and loops of one iteration that `get_loops` does not show are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from autosched.errors import AutoschedError, ScheduleError, with_line
from autosched.ir.expr import Expr, is_const
from autosched.ir.simplify import simplify
from autosched.ir.stmt import For, expressions
from autosched.schedule.stage import Loop
from autosched.tir.blocks import Block as BlockRV
from autosched.tir.blocks import BlockSchedule
from autosched.tir.module import IRModule
from autosched.tir.schedule import Schedule
from autosched.tvm.promotion import by_tvm_rules
from autosched.tvm.script.beginning import blockize
from autosched.tvm.script.calls import StageTrace
from autosched.tvm.script.parser import source_of, tree_of
from autosched.tvm.script.parts import Block
from autosched.tvm.script.reach import NotHere
from autosched.tvm.script.stages import NoStages, as_prim_func
from autosched.tvm.script.trees import LoopRV, Tree, TreeSchedule
from autosched.tvm.script.walking import everything, parts, path_to, substituted, with_other, with_parts_of

_UPDATE, _ROOT = "_update", BlockRV("root")


# -- to statements -------------------------------------------------------------------------------------------


def dissolved(sch: BlockSchedule, before: Any) -> tuple[TreeSchedule, dict[Any, LoopRV]]:
    """The schedule of statements that has the loops and blocks of one of stages, whose trace is `before`, and what has
    become of the loops. Raises ScheduleError."""
    function = sch.mod[sch.func_working_on]
    try:
        tree = tree_of(source_of(function.script(), {}))
        names = sorted({b.name for b in sch.get_child_blocks(_ROOT)})
        return _with_handles(sch, _renamed(tree, names), names, before)
    except (AutoschedError, NotHere, ValueError) as error:
        why = f"the loops of {function.name} cannot be taken as they stand: {getattr(error, 'why', error)}"
        raise ScheduleError(why, asked=with_line("tir.Schedule"), legal="blocks as script() prints them") from None


def _renamed(tree: Tree, names: Sequence[str]) -> Tree:
    """The update of a reduction goes by the name of its block."""
    said = {f"{name}{_UPDATE}": name for name in names}
    return replace(tree, body=_changed(tree.body, lambda b: replace(b, name=said.get(b.name, b.name))))


def _changed(s: Any, change: Callable[[Block], Block]) -> Any:
    inner = [_changed(c, change) for c in parts(s)]
    made = with_parts_of(s, () if isinstance(s, Block) else expressions(s), inner)
    return change(made) if isinstance(made, Block) else made


def _with_handles(
    sch: BlockSchedule, tree: Tree, names: Sequence[str], before: Any
) -> tuple[TreeSchedule, dict[Any, LoopRV]]:
    known: dict[Loop, Expr] = {}
    for name in names:
        around = _around(tree.body, name)
        known.update(zip(_all_loops(sch, name), (x.var for x in around), strict=True))
    shown, body = {x for name in names for x in sch.get_loops(BlockRV(name))}, tree.body
    handles: dict[Any, LoopRV] = {}
    for x, v in known.items():
        loop = next(s for s in everything(body) if isinstance(s, For) and s.var is v)
        if x not in shown and is_const(simplify(loop.extent), 1):
            body = with_other(body, loop, substituted(loop.body, {v: loop.start}))
        else:
            handles[x] = LoopRV(v)
    for outer, (inner, loops) in sch._inner.items():
        block, around = _block(body, inner.name), _around(body, inner.name)
        first = next(x for x in around if any(known[y] is x.var for y in loops))
        body = blockize(body, block, first, outer, f"{inner.name}_init")
    made = TreeSchedule.of_stages(sch, replace(tree, body=body), before)
    made.begin_with([BlockRV(name) for name in (*names, *sch._inner)])
    made.mark_again()
    return made, handles


def _all_loops(sch: BlockSchedule, name: str) -> list[Loop]:
    """The loops around a block, those that `get_loops` does not show among them."""
    hidden, inner = sch._whole, sch._inner
    try:
        sch._whole, sch._inner = {x.name for x in sch.schedule.stages}, {}
        return BlockSchedule.get_loops(sch, BlockRV(name))
    finally:
        sch._whole, sch._inner = hidden, inner


def _block(body: Any, name: str) -> Block:
    found = [s for s in everything(body) if isinstance(s, Block) and s.name == name]
    if len(found) != 1:
        raise NotHere(f"there are {len(found)} blocks {name}")
    return found[0]


def _around(body: Any, name: str) -> list[For]:
    return [s for s in path_to(body, _block(body, name)) or [] if isinstance(s, For)]


# -- to stages -----------------------------------------------------------------------------------------------


@by_tvm_rules
def staged(tree: TreeSchedule) -> tuple[BlockSchedule, dict[Any, Loop]] | None:
    """The schedule of stages that has the loops and blocks of one of statements, and what has become of the loops; None
    where there is none."""
    t = tree.tree
    try:
        function = as_prim_func(t.signature, t.body, t.attrs)
        made = BlockSchedule(IRModule({**tree.mod, tree.func_working_on: function}, tree.mod.attrs))
    except (NoStages, AutoschedError):
        return None
    made.work_on(tree.func_working_on)
    now: dict[Any, Loop] = {}
    for b in (s for s in everything(t.body) if isinstance(s, Block)):
        loops = [LoopRV(x.var) for x in _around(t.body, b.name)]
        theirs = made.get_loops(BlockRV(b.name))
        if len(loops) != len(theirs):
            return None
        now.update(zip(loops, theirs, strict=True))
    return made, now


Schedule.statements = SimpleNamespace(
    fits=TreeSchedule.fits,
    made=TreeSchedule,
    EDITS=TreeSchedule.EDITS,
    dissolved=dissolved,
    staged=staged,
    trace=lambda before, held: StageTrace(before, held.trace),
)
