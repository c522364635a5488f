"""`tir.Schedule` of a function whose blocks are no stages: its loops and blocks as they stand.

Loops are split, fused, reordered and marked, blocks moved, copied for and inlined (`tree_blocks`), where that is proved
to change nothing; any other call is refused with the reason why the function has no stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

from autosched.errors import ScheduleError, UsageError, with_line
from autosched.ir.expr import Expr, as_expr, compare, const, is_const, var, variables
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import For, Function, Store
from autosched.tir.blocks import Block as BlockRV
from autosched.tir.blocks import BlockSchedule
from autosched.tir.module import IRModule
from autosched.tvm.script.calls import Name, TreeTrace, recorded
from autosched.tvm.script.independence import Meets, check_any_order, check_independent
from autosched.tvm.script.inlining import pruned
from autosched.tvm.script.parts import Block, Signature
from autosched.tvm.script.privacy import with_own_memory
from autosched.tvm.script.statements import Reason, as_function, dissolved
from autosched.tvm.script.tree_blocks import TreeBlocks
from autosched.tvm.script.tree_edits import TreeEdits
from autosched.tvm.script.walking import (
    everything,
    guarded,
    nest_of,
    only,
    outermost_blocks,
    parts,
    path_to,
    substituted,
    with_other,
)

_MARKS = ("parallel", "vectorize", "thread")
_LEGAL = "calls about loops, compute_at, cache_read and their like; or blocks that store one value each"


@dataclass(frozen=True)
class LoopRV:
    """A loop of a function of statements, by its variable."""

    var: Expr

    @property
    def name(self) -> str:
        return str(self.var.value.name)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Tree:
    """A function as it was read: what its text says, before blocks are dissolved."""

    name: str
    signature: Signature
    body: Any
    attrs: dict[str, Any]
    why: str

    def function(self) -> Function:
        """The function of statements, which knows the tree that it came from."""
        made = as_function(self.name, self.signature, self.body, self.attrs, self.why)
        return replace(made, attrs={**made.attrs, "stages": Reason(made.attrs["stages"].text, self)})


class TreeSchedule(TreeBlocks, TreeEdits):
    """A schedule of a function of statements. Functions beside it in a module stay as they are."""

    @staticmethod
    def fits(mod: Any) -> bool:
        """Whether the function that is worked on first, `main` or the first one, was read into a tree."""
        return _tree_of(_first(mod)[1]) is not None

    def __init__(self, mod: Any, *, seed: int | None = None, debug_mask: str | int = "none", **options: Any) -> None:
        self._module = (
            mod if isinstance(mod, IRModule) else IRModule(dict(mod) if isinstance(mod, Mapping) else {"main": mod})
        )
        self._working, function = _first(mod)
        found = _tree_of(function)
        assert found is not None
        self._tree = replace(found, attrs={k: v for k, v in function.attrs.items() if k != "stages"})
        self._trace = TreeTrace([])
        self._names: dict[Any, Name] = {}
        self._given: list[tuple[BlockRV, list[LoopRV]]] = []

    @classmethod
    def of_stages(cls, sch: BlockSchedule, tree: Tree, before: Any) -> TreeSchedule:
        """A schedule of a function that had stages until now, and of its loops and blocks as a tree."""
        made: TreeSchedule = object.__new__(cls)
        made._module, made._working, made._tree = sch.mod, sch.func_working_on, tree
        made._trace, made._names, made._given = TreeTrace([], before), {}, []
        return made

    def begin_with(self, blocks: Sequence[BlockRV]) -> None:
        """Let a trace tell of the loops that there are by the blocks inside."""
        around = ((b, self._around(self._block_of(b))) for b in blocks)
        self._given = [(b, [LoopRV(x.var) for x in way if isinstance(x, For)]) for b, way in around]

    @property
    def tree(self) -> Tree:
        """The function as it is now."""
        return self._tree

    # -- what there is ----------------------------------------------------------------------------
    @property
    def mod(self) -> IRModule:
        """The module as it is now. Later calls do not change it."""
        return IRModule({**dict(self._module), self._working: self._tree.function()}, self._module.attrs)

    @property
    def func_working_on(self) -> str:
        return self._working

    @property
    def trace(self) -> TreeTrace:
        return self._trace

    @property
    def schedule(self) -> Any:
        return self._refuse("sch.schedule", f"it has no stages: {self._tree.why}")

    def why_no_stages(self) -> str:
        """What a call that only stages have a place for is told."""
        return f"{self._tree.name} has no stages: {self._tree.why}"

    def copy(self) -> tuple[TreeSchedule, None]:
        """Return a copy. Its loops are those of this one, which None says."""
        made: TreeSchedule = object.__new__(TreeSchedule)
        made.__dict__.update(self.__dict__)
        made._trace, made._names = TreeTrace([*self._trace.calls], self._trace.before), dict(self._names)
        return made, None

    def work_on(self, func_name: str) -> None:
        """Schedule the function of that name: only the one that is worked on already."""
        if func_name != self._working:
            why = f"{self._working} is a function of statements, and is scheduled alone"
            raise UsageError(why, asked=f"work_on({func_name!r})", legal="tir.Schedule(mod[name])")

    def get(self, handle: Any) -> Any:
        """Return the block, or the loop, as a statement."""
        if isinstance(handle, BlockRV):
            return self._block_of(handle)
        return self._loop(handle) if isinstance(handle, LoopRV) else handle

    @recorded
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """Return the block of that name. Raises ScheduleError if there is none, or several."""
        if func_name is not None:
            self.work_on(func_name)
        block = BlockRV(str(name))
        self._block_of(block)
        return block

    @recorded
    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        """Return the loops around a block, inside the block that it is in, outermost first."""
        return [LoopRV(s.var) for s in self._around(self._block_of(block)) if isinstance(s, For)]

    @recorded
    def get_child_blocks(self, block_or_loop: Any) -> list[BlockRV]:
        """Return the blocks directly inside a block or a loop, in order."""
        within = self._tree.body if _is_root(block_or_loop) else self.get(block_or_loop)
        inner = parts(within) if isinstance(within, (Block, For)) else (within,)
        return [BlockRV(b.name) for s in inner for b in outermost_blocks(s)]

    def get_output_blocks(self, scope_block: BlockRV | str = "root") -> list[BlockRV]:
        """Return the blocks inside another one that write to buffers which are not allocated there, in order."""
        scope = self._block_of(scope_block)
        inner = list(everything(scope.body))
        own = {b for s in (scope, *inner) if isinstance(s, Block) for b in s.buffers}
        own.update([] if scope_block != "root" and not _is_root(scope_block) else self._tree.signature.buffers)
        return [
            BlockRV(b.name)
            for b in inner
            if isinstance(b, Block) and any(isinstance(s, Store) and s.buffer not in own for s in everything(b.body))
        ]

    # -- loops ------------------------------------------------------------------------------------
    @recorded
    def split(
        self,
        loop: LoopRV,
        factors: Sequence[Any],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Replace a loop by several, outermost first; None among the factors is what the others leave."""
        old, asked = self._plain(loop, "split"), f"split({loop.name}, {list(factors)})"
        sizes = self._sizes(old, factors, asked)
        made = [var(f"{loop.name}_{k}") for k in range(len(sizes))]
        index: Expr = made[0]
        for v, n in zip(made[1:], sizes[1:], strict=True):
            index = index * n + v
        total: Expr = const(1)
        for n in sizes:
            total = total * n
        body = substituted(old.body, {old.var: index})
        if not self._an.prove(compare("eq", total, old.extent)) and not disable_predication:
            if not self._an.prove(compare("ge", total, old.extent)):
                self._refuse(asked, f"they cover {simplify(total)!r} of {old.extent!r} iterations", "one factor None")
            body = guarded(body, compare("lt", index, old.extent))
        for v, n in zip(reversed(made), reversed(sizes), strict=True):
            body = For(v, const(0), n, "serial", body)
        self._replace(old, body)
        return [LoopRV(v) for v in made]

    def _sizes(self, old: For, factors: Sequence[Any], asked: str) -> list[Expr]:
        given = [None if f is None else simplify(as_expr(f)) for f in factors]
        known = [f for f in given if f is not None]
        if len(given) - len(known) > 1 or not given:
            self._refuse(asked, "one factor at most is None", "a number for each other factor")
        if any(f.op == "const" and f.value < 1 for f in known):
            self._refuse(asked, "a loop has one iteration at least", "positive factors")
        inner = prod(known, start=const(1))
        rest = simplify((old.extent + inner - 1) // inner)
        return [rest if f is None else f for f in given]

    @recorded
    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Replace loops, each directly inside the one before, by one."""
        asked = f"fuse({', '.join(x.name for x in loops)})"
        if not loops:
            self._refuse(asked, "no loop is given", "one loop at least")
        old = [self._plain(x, "fuse") for x in loops]
        for outer, inner in pairwise(old):
            if only(outer.body) is not inner:
                self._refuse(asked, f"{inner.var.value.name} is not alone directly inside {outer.var.value.name}")
            if any(x.var in variables(inner.extent) for x in old):
                self._refuse(asked, f"the length of {inner.var.value.name} depends on a loop outside")
        fused = var("_".join([*(x.name for x in loops), "fused"]))
        mapping: dict[Expr, Expr] = {}
        left: Expr = fused
        for x in reversed(old[1:]):
            mapping[x.var], left = left % x.extent, left // x.extent
        mapping[old[0].var] = left
        whole = simplify(prod((x.extent for x in old), start=const(1)))
        self._replace(old[0], For(fused, const(0), whole, "serial", substituted(old[-1].body, mapping)))
        return LoopRV(fused)

    @recorded
    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Put loops, each directly inside another, into this order, where that changes no result."""
        asked = f"reorder({', '.join(x.name for x in ordered_loops)})"
        old = [self._loop(x) for x in ordered_loops]
        if len(set(old)) != len(old) or not old:
            self._refuse(asked, "each loop once", "several loops around one block")
        nest = next((nest_of(x) for x in old if all(y in nest_of(x) for y in old)), None)
        if nest is None:
            return self._refuse(asked, "they are not one inside the other, each alone")  # type: ignore[no-any-return]
        outer = nest[0]
        nest = nest[: 1 + max(nest.index(x) for x in old)]
        order = iter(old)
        new = [next(order) if x in old else x for x in nest]
        for k, x in enumerate(new):
            later = {y.var for y in new[k:]}
            if later & {*variables(x.start), *variables(x.extent)}:
                self._refuse(asked, f"the range of {x.var.value.name} depends on a loop that would be inside")
        try:
            check_any_order(dissolved(outer), [x.var for x in nest])  # type: ignore[arg-type]
        except Meets as why:
            self._refuse(asked, str(why))
        body = nest[-1].body
        for x in reversed(new):
            body = replace(x, body=body)
        self._replace(outer, body)

    @recorded
    def parallel(self, loop: LoopRV) -> None:
        """Run the iterations on several threads."""
        self._mark(loop, "parallel")

    @recorded
    def vectorize(self, loop: LoopRV) -> None:
        """Run the iterations as lanes of vectors."""
        self._mark(loop, "vectorize")

    @recorded
    def unroll(self, loop: LoopRV) -> None:
        """Write the iterations out."""
        self._replace(self._plain(loop, "unroll"), replace(self._plain(loop, "unroll"), kind="unroll"))

    @recorded
    def bind(self, loop: LoopRV, thread_axis: Any) -> None:
        """Run the iterations on work-items."""
        self._mark(loop, "thread", "vthread" if str(thread_axis).startswith("vthread") else str(thread_axis))

    @recorded
    def add_unit_loop(self, block_or_loop: Any) -> LoopRV:
        """Add a loop of one iteration just outside a loop or a block."""
        old, made = self.get(block_or_loop), var("u")
        self._replace(old, For(made, const(0), const(1), "serial", old))
        return LoopRV(made)

    def _mark(self, loop: LoopRV, kind: str, thread: str = "") -> None:
        self._marked(self._plain(loop, kind), kind, thread, f"{'bind' if thread else kind}({loop.name})")

    def mark_again(self) -> None:
        """Give iterations of marked loops memory of their own: that of stages is as much as a loop needs of it."""
        for v in [s.var for s in everything(self._tree.body) if isinstance(s, For) and s.kind in _MARKS]:
            old = self._loop(LoopRV(v))
            plain = replace(old, kind="serial", thread="")
            self._replace(old, plain)
            self._marked(plain, old.kind, old.thread, f"{old.kind} {v.value.name}")

    def _marked(self, old: For, kind: str, thread: str, asked: str) -> None:
        made = old
        try:
            check_independent(dissolved(old))  # type: ignore[arg-type]
        except Meets as why:
            made = with_own_memory(self._tree.body, self._tree.signature, old, kind, thread)
            try:
                check_independent(dissolved(made))  # type: ignore[arg-type]
            except Meets:
                self._refuse(asked, str(why), "a loop whose iterations do not meet")
        body = with_other(self._tree.body, old, replace(made, kind=kind, thread=thread))
        self._now(pruned(body, self._tree.signature) if made is not old else (body, self._tree.signature))

    # -- the tree -----------------------------------------------------------------------------------
    @property
    def _an(self) -> Analyzer:
        return Analyzer()

    def _loop(self, loop: Any) -> For:
        if not isinstance(loop, LoopRV):
            self._refuse(f"{loop!r}", "it is no loop", "loops as get_loops(block) returns them")
        found = [s for s in everything(self._tree.body) if isinstance(s, For) and s.var is loop.var]
        if not found:
            self._refuse(loop.name, "the loop was split or fused", "get_loops(block): the loops that there are now")
        return found[0]

    def _plain(self, loop: Any, verb: str) -> For:
        found = self._loop(loop)
        if found.kind != "serial" or found.pragmas:
            self._refuse(f"{verb}({loop.name})", f"it is marked: {found.kind}", "a loop without marks")
        kept = self._tree.signature.remarks.get(found.var)
        if kept and verb in ("split", "fuse"):
            self._refuse(f"{verb}({loop.name})", f"it is annotated: {', '.join(kept)}", "unannotate(loop, key) first")
        if verb in ("split", "fuse") and not is_const(found.start, 0):
            self._refuse(f"{verb}({loop.name})", f"it begins at {found.start!r}", "a loop from 0 on")
        return found

    def _block_of(self, block: BlockRV | str) -> Block:
        name = block.name if isinstance(block, BlockRV) else str(block)
        found = [s for s in everything(self._tree.body) if isinstance(s, Block) and s.name == name]
        if name == "root" and not found:
            return Block("root", "", body=self._tree.body)
        if len(found) != 1:
            self._refuse(f"get_block({name!r})", f"{len(found) or 'no'} blocks of that name")
        return found[0]

    @staticmethod
    def _handle(v: Expr) -> LoopRV:
        return LoopRV(v)

    def _around(self, target: Any) -> list[Any]:
        """What a statement is in, up to the block around it."""
        path = path_to(self._tree.body, target) or []
        last = max((k for k, s in enumerate(path) if isinstance(s, Block)), default=-1)
        return path[last + 1 :]

    def _replace(self, old: Any, new: Any) -> None:
        self._tree = replace(self._tree, body=with_other(self._tree.body, old, new))

    def _refuse(self, asked: str, why: str, legal: str = "") -> Any:
        raise ScheduleError(why, asked=with_line(asked), legal=legal or _LEGAL) from None

    # -- names of handles ------------------------------------------------------------------------------
    def _name_of(self, handle: Any) -> Name:
        return self._names.setdefault(handle, Name(f"{'b' if isinstance(handle, BlockRV) else 'l'}{len(self._names)}"))

    def _named(self, a: Any) -> Any:
        if isinstance(a, (list, tuple)):
            return type(a)(map(self._named, a))
        if isinstance(a, BlockRV):
            return self._names.get(a, a.name)
        if isinstance(a, LoopRV) and a not in self._names:
            block, loops = next((b, loops) for b, loops in self._given if a in loops)
            self.trace.calls.insert(0, ("get_loops", (block.name,), {}, tuple(map(self._name_of, loops))))
        return self._names[a] if isinstance(a, LoopRV) else a


def _functions(mod: Any) -> dict[str, Any]:
    return dict(mod) if isinstance(mod, Mapping) else {"main": mod}


def _first(mod: Any) -> tuple[str, Any]:
    functions = _functions(mod)
    name = "main" if "main" in functions else next(iter(functions), "main")
    return str(name), functions.get(name)


def _tree_of(function: Any) -> Tree | None:
    reason = function.attrs.get("stages") if isinstance(function, Function) else None
    found: Tree | None = getattr(reason, "tree", None)
    return found


def _is_root(x: Any) -> bool:
    return isinstance(x, BlockRV) and x.name == "root"
