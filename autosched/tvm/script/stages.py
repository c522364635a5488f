"""Scripts as stages: a block that writes one buffer over its whole domain is an operation.

    for i_0, i_1 in T.grid(2, 4):                     B = te.compute((8,), lambda i: A[i] + 1.0)
        with T.block("B"):                            s[B].split_into("i", 2, 4)
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            B[vi] = A[vi] + 1.0

The loops around a block become the calls that make them: splits and fusions by the bindings of the axes, `reorder`,
marks, and `compute_at` for a block inside the loops of a later one. What a block computes is taken from its body alone,
so that the loops may compute it in any order, and as much of it as is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from autosched.errors import AutoschedError
from autosched.ir.expr import Expr, as_expr, compare, const, is_const, make, var, variables
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import Buffer, For, Let, Seq, Store
from autosched.ir.visit import conjuncts, post_order, rewrite, substitute
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.schedule.stage import Loop, Stage
from autosched.te.reduction import BUILT_IN, Combiner, Reduction
from autosched.te.tensor import ComputeOp, IterVar, PlaceholderOp, Tensor
from autosched.tir.module import PrimFunc
from autosched.tir.remarks import plain
from autosched.tvm.script.parts import Block, BlockAxis, Handle, Signature


class NoStages(Exception):
    """The reason why a script is not made of stages."""


@dataclass(eq=False)
class Leaf:
    """A block that computes, and the loops around it."""

    block: Block
    loops: list[For]
    init: Leaf | None = None  #: the block that begins the reduction, where that is a block of its own
    stores: list[Store] = field(default_factory=list)
    #: axis of the block -> axis of the operation
    axes: dict[Expr, IterVar] = field(default_factory=dict)
    stage: Stage | None = None
    own: set[Expr] = field(default_factory=set)  #: the variables of loops around no later block
    made: dict[For, Loop] = field(default_factory=dict)  #: loop of the script -> loop of the schedule
    conditions: list[Expr] = field(default_factory=list)  #: of `T.where`, that no split has explained yet

    @property
    def buffers(self) -> list[Buffer]:
        """What it stores to."""
        return [x.buffer for x in self.stores]

    @property
    def name(self) -> str:
        """The block's name, of a reduction in two blocks without what tells them apart."""
        base = self.block.name.removesuffix("_update")
        return base if self.init is not None and self.init.block.name == f"{base}_init" else self.block.name

    def refuse(self, why: str) -> NoStages:
        return NoStages(f"{self.block.where}: {why}")


def as_prim_func(signature: Signature, body: Any, attrs: dict[str, Any]) -> PrimFunc:
    """Return a function of stages. Raises NoStages."""
    leaves: list[Leaf] = []
    _collect(body, [], leaves)
    if not leaves:
        raise NoStages("it has no block")
    leaves = _with_inits(leaves)
    owner = {x: leaf for leaf in leaves for x in leaf.loops}
    for leaf in leaves:
        leaf.own = {x.var for x in leaf.loops if owner[x] is leaf}
    an = Analyzer()
    made: dict[Buffer, Tensor] = {}
    written = {b for leaf in leaves for b in leaf.buffers}
    for name, p in signature.params.items():
        if isinstance(p, Handle):
            raise NoStages(f"no buffer is matched to {name}")
        if isinstance(p, Buffer):
            if p.strides or p.scope != "global":
                raise NoStages(f"{p.name} has strides or a scope of its own")
            if p not in written:
                made[p] = PlaceholderOp(p.name, p.shape, [p.dtype]).output_tensor
    for leaf in leaves:
        twice = next((b for b in leaf.buffers if b in made), None)
        if twice is not None:
            raise leaf.refuse(f"{twice.name} is written by two blocks")
        made.update(zip(leaf.buffers, _operation(leaf, made, an).outputs, strict=True))
    params = signature.params.values()
    args = tuple(made[p] if isinstance(p, Buffer) else p for p in params)
    outputs = [made[p] for p in params if isinstance(p, Buffer) and p in written]
    read = {t for leaf in leaves for t in made[leaf.buffers[0]].op.input_tensors}
    kept = [[made[b] for b in leaf.buffers] for leaf in leaves]  # what nobody reads is computed, too
    outputs += [tensors[0] for tensors in kept if read.isdisjoint(tensors) and not set(tensors) & {*outputs}]
    try:
        s = create_schedule(outputs)
        for leaf in leaves:
            leaf.stage = s[made[leaf.buffers[0]]]
            if leaf.stage.name != leaf.name:
                raise leaf.refuse(f"there are two blocks {leaf.name}")
            scopes = {b.scope for b in leaf.buffers}
            if len(scopes) != 1:
                raise leaf.refuse("it stores to memory of several scopes")
            if scopes != {"global"}:
                leaf.stage.set_scope(*scopes)
            _align(leaf)
        for leaf in reversed(leaves):
            _schedule(s, leaf, leaves, an)
        s.verify()
    except AutoschedError as error:
        raise NoStages(f"{error.asked}: {error.why}") from None
    begun = {leaf.name: leaf.init.block.name for leaf in leaves if leaf.init is not None}
    named = {name: first for name, first in begun.items() if first != f"{name}_init"}
    return PrimFunc(args, s, attrs, _remarks(signature, leaves), named)


def _remarks(signature: Signature, leaves: Sequence[Leaf]) -> dict[tuple[str, str], dict[str, Any]]:
    """The annotations of blocks and loops that ask nothing of them."""
    found = {}
    for leaf in leaves:
        found[leaf.name, ""] = {k: plain(v) for k, v in leaf.block.attrs.items() if k != "buffer_dim_align"}
        for x, loop in leaf.made.items():
            found[leaf.name, loop.name] = dict(signature.remarks.get(x.var, {}))
    return {place: kept for place, kept in found.items() if kept}


def _align(leaf: Leaf) -> None:
    """`T.block_attr({"buffer_dim_align": [[buffer, dimension, factor, offset]]})`"""
    stage = leaf.stage
    assert stage is not None
    for said in leaf.block.attrs.get("buffer_dim_align", ()):
        parts = list(said) if isinstance(said, (list, tuple)) else []
        numbers = [simplify(as_expr(n)) for n in parts]
        if len(numbers) != 4 or any(n.op != "const" for n in numbers) or numbers[1].value >= len(stage.axis):
            raise leaf.refuse(f"buffer_dim_align is a list of [buffer, dimension, factor, offset], and not {said!r}")
        stage.storage_align(stage.axis[int(numbers[1].value)], *(int(n.value) for n in numbers[2:]))


def _collect(s: Any, loops: list[For], found: list[Leaf]) -> None:
    """The blocks that compute, in order."""
    if isinstance(s, For):
        _collect(s.body, [*loops, s], found)
    elif isinstance(s, Seq):
        for part in s.stmts:
            _collect(part, loops, found)
    elif isinstance(s, Block):
        inside = s.body.stmts if isinstance(s.body, Seq) else (s.body,)
        if not s.axes and not loops and s.init is None and s.predicate is None:
            for part in inside:  # the root block
                _collect(part, loops, found)
            return
        if not s.axes:  # it is about the loops themselves
            s.axes = [BlockAxis(x.var, "spatial", x.start, simplify(x.start + x.extent), x.var) for x in loops]
        leaf = Leaf(s, loops)
        leaf.stores = _stores(leaf, s.body)
        found.append(leaf)
    else:
        raise NoStages(f"{type(s).__name__.lower()} stands outside of all blocks")


def _stores(leaf: Leaf, body: Any) -> list[Store]:
    """The stores of a block, each to a buffer of its own and at the same place, as if they happened at once."""
    values: dict[Expr, Expr] = {}
    while isinstance(body, Let):
        values[body.var] = substitute(body.value, values)
        body = body.body
    inside = body.stmts if isinstance(body, Seq) else (body,)
    found = [x for x in inside if isinstance(x, Store)]
    if not found or len(found) != len(inside):
        raise leaf.refuse("it does more than store values")
    stored: set[Buffer] = set()
    for x in found:
        if x.buffer in stored or x.indices != found[0].indices:
            raise leaf.refuse(f"it stores to {x.buffer.name} twice, or to several places")
        if any(e.op == "load" and e.value in stored for e in post_order(x.value)):
            raise leaf.refuse(f"what it stores to {x.buffer.name} depends on what it has stored before")
        stored.add(x.buffer)
    return [replace(x, value=substitute(x.value, values)) for x in found]


def _with_inits(leaves: list[Leaf]) -> list[Leaf]:
    """Blocks that only begin a reduction become part of the block that goes on with it."""
    done: list[Leaf] = []
    for leaf in leaves:
        before = next((x for x in done if x.buffers == leaf.buffers), None)
        reduces = any(a.kind == "reduce" for a in leaf.block.axes) and leaf.block.init is None
        if before is not None and reduces and not any(a.kind == "reduce" for a in before.block.axes):
            leaf.init = before
            done.remove(before)
        done.append(leaf)
    return done


# -- operations ------------------------------------------------------------------------------------------


def _operation(leaf: Leaf, made: dict[Buffer, Tensor], an: Analyzer) -> ComputeOp:
    block, out = leaf.block, leaf.buffers[0]
    places = _places(leaf, an)
    for a in block.axes:
        if a.kind == "reduce":
            leaf.axes[a.var] = IterVar(_name_of(leaf, a), simplify(a.stop - a.start), "reduce", a.start)
        elif a.kind != "spatial":
            raise leaf.refuse(f"its axis {a.var.value.name} is {a.kind}")
    mapping = {v: axis.var for v, axis in leaf.axes.items()}

    def tensor_reads(e: Expr) -> Expr:
        def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
            if e.op in ("address", "view"):
                raise leaf.refuse(f"it hands out the memory of {e.value.name}")
            if e.op != "load":
                return None
            if e.value not in made:
                raise leaf.refuse(f"it reads {e.value.name}, which is not computed before")
            if len(args) != made[e.value].ndim:
                raise leaf.refuse(f"it reads {e.value.name} by {len(args)} indices")
            return made[e.value](*args)

        return rewrite(substitute(e, mapping), change)

    reduced = [leaf.axes[a.var] for a in block.axes if a.kind == "reduce"]
    if reduced:
        bodies = _reduction(leaf, reduced, tensor_reads)
    else:
        if block.init is not None:
            raise leaf.refuse("it has T.init and no reduce axis")
        bodies = [tensor_reads(x.value) for x in leaf.stores]
    strange = [v for e in bodies for v in variables(e) if v.value.role in ("loop", "let") and v not in mapping.values()]
    if strange:
        raise leaf.refuse(f"it depends on {strange[0].value.name}, which is none of its axes")
    op = ComputeOp(leaf.name, out.shape, places, bodies)
    for t, b in zip(op.outputs, leaf.buffers, strict=True):
        t.name = b.name
    return op


def _name_of(leaf: Leaf, a: BlockAxis) -> str:
    """The name of the one loop of its own that makes an axis; else that of the axis."""
    terms = a.binding.args if a.binding.op == "add" else (a.binding,)
    own = [v for v in variables(a.binding) if v in leaf.own]
    return str(own[0].value.name if len(own) == 1 and own[0] in terms else a.var.value.name)


def _places(leaf: Leaf, an: Analyzer) -> list[IterVar]:
    """The axes of the operation, one for each dimension of the buffer."""
    store, out = leaf.stores[0], leaf.buffers[0]
    if any(list(b.shape) != list(out.shape) for b in leaf.buffers):
        raise leaf.refuse("it stores to buffers of several shapes")
    known = {a.var: a for a in leaf.block.axes if a.kind == "spatial"}
    if len(store.indices) != len(out.shape):
        raise leaf.refuse(f"it stores to {out.name} by {len(store.indices)} indices")
    made = []
    for k, (index, extent) in enumerate(zip(store.indices, out.shape, strict=True)):
        if is_const(index, 0) and is_const(extent, 1):
            made.append(IterVar(f"ax{k}", extent))
            continue
        a = known.get(index)
        if a is None or index in leaf.axes:
            raise leaf.refuse(f"{index!r}, where it stores, is none of its axes")
        if not is_const(a.start, 0) or not an.prove(compare("eq", a.stop, extent)):
            raise leaf.refuse(
                f"{index.value.name} runs over {a.start!r} to {a.stop!r}, {out.name} has {extent!r} of them"
            )
        made.append(IterVar(_name_of(leaf, a), extent))
        leaf.axes[index] = made[-1]
    for v, a in known.items():
        if v not in leaf.axes:
            if not is_const(simplify(a.stop - a.start), 1):
                raise leaf.refuse(f"it stores at the same place for all {v.value.name}")
            leaf.axes[v] = IterVar(_name_of(leaf, a), const(1))
    return made


def _reduction(leaf: Leaf, axes: list[IterVar], tensor_reads: Callable[[Expr], Expr]) -> list[Expr]:
    """`B[i] = B[i] + x` as a reduction; of several buffers, as one of tuples."""
    first = _first_values(leaf)
    stores = leaf.stores
    own = [make("load", x.value.dtype, x.indices, x.buffer) for x in stores]
    sources = [_source(leaf, x.value, me) for x, me in zip(stores, own, strict=True)]
    if any(e.op == "load" and e.value in leaf.buffers for source in sources for e in post_order(source)):
        raise leaf.refuse("a step reads twice what it stores to")
    types = [x.value.dtype for x in stores]
    symbols = {op: name for name, op in BUILT_IN.items()}
    if len(stores) == 1 and stores[0].value.op in symbols and own[0] in stores[0].value.args:
        reduction = Reduction(symbols[stores[0].value.op], tuple(axes))
        rest = () if first[0] is reduction.identity(types)[0] else (tensor_reads(first[0]),)
        return [make("reduce", types[0], (tensor_reads(sources[0]), const(True), *rest), reduction)]
    left, right = ([var(f"{side}{k}", of) for k, of in enumerate(types)] for side in "xy")
    if len(set(sources)) != len(sources):
        raise leaf.refuse("two of its steps take in the same value")
    parts = {**dict(zip(own, left, strict=True)), **dict(zip(sources, right, strict=True))}
    results = [rewrite(x.value, lambda e, args: parts.get(e)) for x in stores]
    if any(not variables(e) <= {*left, *right} or any(n.op == "load" for n in post_order(e)) for e in results):
        raise leaf.refuse("its step depends on more than what it stores to and one value for each")
    if any(e.op != "const" for e in first):
        raise leaf.refuse("its reduction of its own begins with what is no number")
    combiner = Combiner(leaf.name, tuple(left), tuple(right), tuple(results), tuple(first))
    args = (*map(tensor_reads, sources), const(True))
    return [make("reduce", of, args, Reduction(combiner, tuple(axes), k)) for k, of in enumerate(types)]


def _source(leaf: Leaf, value: Expr, own: Expr) -> Expr:
    """What a step takes in: the other operand, or the other choice."""
    among = value.args[1:] if value.op in ("select", "if_then_else") else value.args
    if own not in among or len(among) != 2 or (value.op not in ("select", "if_then_else", *BUILT_IN.values())):
        raise leaf.refuse("its step is no sum, product, minimum, maximum or choice of what it stores to")
    return among[1] if among[0] is own else among[0]


def _first_values(leaf: Leaf) -> list[Expr]:
    """Where a reduction begins, for each of its buffers."""
    at = leaf.stores[0].indices
    if leaf.init is not None:
        _places(leaf.init, Analyzer())
        begin = leaf.init.stores
        here = dict(zip(begin[0].indices, at, strict=True))
    else:
        init = leaf.block.init
        begin = [x for x in (init.stmts if isinstance(init, Seq) else (init,)) if isinstance(x, Store)]
        here = {}
        if any(x.indices != at for x in begin):
            raise leaf.refuse("T.init stores elsewhere")
    known = {x.buffer: substitute(x.value, here) for x in begin}
    if set(known) != set(leaf.buffers):
        raise leaf.refuse("nothing says where its reduction begins")
    return [known[b] for b in leaf.buffers]


# -- loops -------------------------------------------------------------------------------------------------


def _schedule(s: Schedule, leaf: Leaf, leaves: Sequence[Leaf], an: Analyzer) -> None:
    """The calls that make the loops around a block. Blocks after it have theirs."""
    assert leaf.stage is not None
    mine = {loop: host for host in leaves for loop in host.loops}  # the last block inside a loop owns it
    own = [x for x in leaf.loops if mine[x] is leaf]
    shared = leaf.loops[: len(leaf.loops) - len(own)]
    if any(mine[x] is leaf for x in shared):
        raise leaf.refuse("the loops around it belong to several blocks by turns")
    found = _loops(leaf, leaf.stage, own, shared, an)
    if not shared:
        _without_spare(leaf.stage, found)
    if len(found) > 1:
        leaf.stage.reorder(*(found[x] for x in own if x in found))
    _with_units(leaf.stage, own, found)
    leaf.made = found
    if shared:
        host = mine[shared[-1]]
        at = host.made.get(shared[-1])
        if at is None or host.stage is None:
            raise leaf.refuse(f"the loop {shared[-1].var.value.name} around it is of one iteration")
        leaf.stage.compute_at(host.stage, at)
    if leaf.init is not None:
        common = [x for x in leaf.init.loops if x in leaf.loops]
        inner = [x for x in own if x not in common and x in found]
        if not inner:
            raise leaf.refuse("there is no loop around it to begin the reduction before")
        leaf.stage.decompose_reduction(found[inner[0]])
        assert leaf.stage.init is not None
        for x, loop in zip(leaf.init.loops[len(common) :], leaf.stage.init.loops.values(), strict=False):
            _mark(leaf.stage, x, loop)
    for x, loop in found.items():
        _mark(leaf.stage, x, loop)


def _without_spare(stage: Stage, found: dict[For, Loop]) -> None:
    """Fuse loops of one iteration that the script does not have with one that it has."""
    for spare in [x for x in stage.loops if x not in found.values()]:
        kept = next((x for x, loop in found.items() if loop.is_reduce == spare.is_reduce), None)
        if kept is not None:
            stage.reorder(spare, found[kept], *(x for x in stage.loops if x not in (spare, found[kept])))
            found[kept] = stage.fuse(spare, found[kept])


def _with_units(stage: Stage, own: Sequence[For], found: dict[For, Loop]) -> None:
    """Add the loops of one iteration that no axis is bound to."""
    for k, x in reversed(list(enumerate(own))):
        if x in found:
            continue
        inner = next((y for y in own[k + 1 :] if y in found), None)
        outer = next((y for y in reversed(own[:k]) if y in found), None)
        if inner is not None:
            found[x], found[inner] = stage.split(found[inner], nparts=1)
        elif outer is not None:
            found[outer], found[x] = stage.split(found[outer], factor=1)


def _mark(stage: Stage, x: For, loop: Loop) -> None:
    if x.kind == "thread":
        stage.bind(loop, x.thread)
    elif x.kind != "serial":
        getattr(stage, x.kind)(loop)
    for p in x.pragmas:
        name, _, value = p.partition("=")
        stage.pragma(loop, name, **({"pragma_value": int(value)} if value else {}))


def _loops(leaf: Leaf, stage: Stage, own: list[For], shared: list[For], an: Analyzer) -> dict[For, Loop]:
    """The loop of the schedule for each loop of the script."""
    by_var = {x.var: x for x in own}
    found: dict[For, Loop] = {}
    fused: dict[Expr, list[tuple[Expr, BlockAxis]]] = {}
    guards: list[Expr] = []
    if leaf.block.predicate is not None:
        leaf.conditions = [simplify(c) for c in conjuncts(leaf.block.predicate)]
    outside = {x.var: const(0) for x in shared}
    for a in leaf.block.axes:
        axis = leaf.axes[a.var]
        start = a.start if a.kind == "reduce" and not shared else const(0)
        part = simplify(substitute(a.binding, outside) - start) if shared or not is_const(start, 0) else a.binding
        if shared:
            part = simplify(part - substitute(part, {v: const(0) for v in by_var}))
        here = [v for v in variables(part) if v in by_var]
        if any(v.value.role == "loop" and v not in by_var and v not in outside for v in variables(part)):
            raise leaf.refuse(f"{a.var.value.name} is bound to what is no loop around it")
        if not here:
            if not shared and not is_const(simplify(a.stop - a.start), 1):
                raise leaf.refuse(f"{a.var.value.name} stays where it is")
            continue
        if axis not in stage.roots:
            continue  # of one iteration, and no dimension of the buffer
        loop = stage.roots[axis]
        guards.append(simplify(compare("lt", a.binding, a.stop)))
        digit = _digit(part)
        if digit is not None:
            fused.setdefault(digit[0], []).append((digit[1], a))
            continue
        found |= _split(leaf, stage, loop, part, by_var, None if shared else axis.extent, an)
    for whole, digits in fused.items():
        found |= _fuse(leaf, stage, whole, digits, by_var, guards, an)
    for x in own:
        if x not in found and not is_const(x.extent, 1):
            raise leaf.refuse(f"no axis is bound to the loop {x.var.value.name}")
    for c in leaf.conditions:
        if not any(c is g or an.prove(compare("eq", c, g)) for g in guards if g.op != "const"):
            raise leaf.refuse(f"T.where({c!r}) is not about the ends of its axes")
    return found


def _digit(part: Expr) -> tuple[Expr, Expr] | None:
    """What a binding is a digit of, and how many of it one step is: `f // 8 % 4` is of f, 8."""
    if part.op == "floormod":
        inner = part.args[0]
        return (inner.args[0], inner.args[1]) if inner.op == "floordiv" else (inner, const(1))
    return (part.args[0], part.args[1]) if part.op == "floordiv" else None


def _terms(leaf: Leaf, e: Expr) -> dict[Expr, Expr]:
    """A sum of loops: loop -> its factor."""
    if e.op == "add":
        left, right = (_terms(leaf, a) for a in e.args)
        if not left.keys() & right.keys():
            return {**left, **right}
    elif e.op == "mul":
        a, b = e.args if e.args[1].op == "const" else e.args[::-1]
        if b.op == "const":
            return {v: simplify(c * b) for v, c in _terms(leaf, a).items()}
    elif e.op == "var":
        return {e: const(1)}
    elif e.op == "cast":
        return _terms(leaf, e.args[0])
    raise leaf.refuse(f"{e!r} is no sum of loops")


def _split(
    leaf: Leaf, stage: Stage, loop: Loop, e: Expr, by_var: dict[Expr, For], extent: Expr | None, an: Analyzer
) -> dict[For, Loop]:
    """Split a loop into those of a sum like `i_0 * 4 + i_1`."""
    if e in by_var and is_const(by_var[e].extent, 1):
        return {by_var[e]: loop}
    ordered: list[For] = []
    weight: Expr = const(1)
    left = {v: c for v, c in _terms(leaf, e).items() if v not in by_var or not is_const(by_var[v].extent, 1)}
    while left:
        v = next((v for v, c in left.items() if is_const(simplify(c - weight), 0)), None)
        if v is None or v not in by_var:
            raise leaf.refuse(f"the loops of {e!r} overlap, or leave gaps")
        del left[v]
        ordered.insert(0, by_var[v])
        weight = simplify(weight * by_var[v].extent)
    if not ordered:
        return {}
    if extent is not None and not an.prove(compare("ge", weight, extent)):
        raise leaf.refuse(f"{e!r} covers {weight!r} of {extent!r}")
    if len(ordered) == 1:
        return {ordered[0]: loop}
    factors = [x.extent.value if x.extent.op == "const" else None for x in ordered]
    if None in factors[1:]:
        raise leaf.refuse(f"the length of an inner loop of {e!r} is no number")
    for k in range(
        len(ordered) - 1, 1, -1
    ):  # the loops before that one are splits of a loop that has an end of its own
        upper: Expr = const(0)
        for x in ordered[:k]:
            upper = upper * x.extent + x.var
        bound = next((c for c in leaf.conditions if c.op == "lt" and is_const(simplify(c.args[0] - upper), 0)), None)
        if bound is not None:
            leaf.conditions.remove(bound)
            outer, inner = stage.split(loop, factor=prod(factors[k:]))  # type: ignore[type-var]
            lower = stage.split_into(inner, *factors[k:]) if k < len(ordered) - 1 else (inner,)
            found = dict(zip(ordered[k:], lower, strict=True))
            return {**_split(leaf, stage, outer, simplify(upper), by_var, bound.args[1], an), **found}
    made = stage.split_into(loop, *factors)
    return dict(zip(ordered, made, strict=True))


def _fuse(
    leaf: Leaf,
    stage: Stage,
    whole: Expr,
    digits: list[tuple[Expr, BlockAxis]],
    by_var: dict[Expr, For],
    guards: list[Expr],
    an: Analyzer,
) -> dict[For, Loop]:
    """Fuse the axes that are digits of one number, and split that into the loops that it is a sum of."""
    lower: Expr = const(1)
    ordered: list[BlockAxis] = []
    left = list(digits)
    while left:
        d = next((d for d in left if is_const(simplify(d[0] - lower), 0)), None)
        if d is None:
            raise leaf.refuse(f"axes are no digits of {whole!r}")
        left.remove(d)
        ordered.insert(0, d[1])
        lower = simplify(lower * (d[1].stop - d[1].start))
    loops = [stage.roots[leaf.axes[a.var]] for a in ordered]
    rest = [x for x in stage.loops if x not in loops]
    if len(loops) > 1:
        stage.reorder(*loops, *rest)
        loop = stage.fuse(*loops)
    else:
        loop = loops[0]
    guards.append(simplify(compare("lt", whole, lower)))
    return _split(leaf, stage, loop, whole, by_var, lower, an)
