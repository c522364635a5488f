"""Blocks of a tree over padded buffers: `pad_einsum`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autosched.ir.expr import Expr, compare, const, if_then_else, is_const, logical_and, make, minimum, var, variables
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import Buffer, For, Store, load, seq
from autosched.ir.visit import post_order, rewrite
from autosched.tvm.script.moving import Nest, nest_around, scope_of
from autosched.tvm.script.parts import Block, BlockAxis, Signature
from autosched.tvm.script.reach import NotHere, hands_out
from autosched.tvm.script.walking import with_other

_LEGAL = "a block that stores a sum of products, of elements at its axes"


@dataclass(frozen=True, eq=False)
class _Step:
    """What a block stores: a step of a sum, `buffer[axes] = buffer[axes] + term`, or a value, `buffer[axes] = term`."""

    nest: Nest
    store: Store
    term: Expr
    sizes: dict[Expr, Expr]  #: axis that gets longer -> its new extent

    @property
    def block(self) -> Block:
        return self.nest.block

    @property
    def loads(self) -> list[Expr]:
        return [e for e in post_order(self.term) if e.op == "load"]

    def dims(self, indices: Sequence[Expr]) -> dict[int, BlockAxis]:
        """The dimensions that get longer, and the axes that they are indexed by."""
        axes = {a.var: a for a in self.block.axes}
        return {d: axes[i] for d, i in enumerate(indices) if i in self.sizes}


def pad_einsum(
    body: Any, signature: Signature, block: Block, padding: Sequence[int], fresh: Callable[[str], str]
) -> tuple[Any, Signature]:
    """The tree in which the extents of a block are multiples of some numbers: it reads copies, filled up with zeros,
    and writes one, of which the elements that there were are copied. Raises NotHere unless zeros add nothing."""
    step = _step(body, block, padding)
    exchanged: dict[Buffer, Buffer] = {}
    before, after = list[Any](), list[Any]()
    for e in step.loads:
        found = step.dims(e.args)
        if found and e.value not in exchanged:
            exchanged[e.value] = made = _longer(step, e.value, found, fresh(f"{e.value.name}_pad"))
            before.append(_filled(made, e.value, found))
    written, found = step.store.buffer, step.dims(step.store.indices)
    if found:
        exchanged[written] = made = _longer(step, written, found, fresh(f"{written.name}_pad"))
        after.append(_taken_back(step, made))
    within, done = scope_of(body, block), seq(*before, _over(step, exchanged), *after)
    inner = with_other(body if within is None else within.body, step.nest.top, done)
    if within is None:
        return inner, replace(signature, buffers=[*signature.buffers, *exchanged.values()])
    held = replace(within, body=inner, buffers=[*within.buffers, *exchanged.values()])
    return with_other(body, within, held), signature


# -- what has to hold ---------------------------------------------------------------------------------------


def _step(body: Any, block: Block, padding: Sequence[int]) -> _Step:
    nest, store = nest_around(body, block), block.body
    if len(padding) != len(block.axes) or any(n < 1 for n in padding):
        raise NotHere(f"{list(padding)} are no factors for {len(block.axes)} axes", "a positive number for each axis")
    if not isinstance(store, Store) or hands_out(block) or block.predicate is not None:
        raise NotHere(f"{block.name} does more than store one value", _LEGAL)
    term = store.value
    if block.init is not None:
        own = load(store.buffer, *store.indices)
        others = [a for a in term.args if a is not own]
        if term.op != "add" or len(others) != 1 or not isinstance(block.init, Store):
            raise NotHere(f"{block.name} is no sum", _LEGAL)
        if block.init.indices != store.indices or any(e.op == "load" for e in post_order(block.init.value)):
            raise NotHere(f"first values of {block.name} differ from place to place", _LEGAL)
        (term,) = others
    an, sizes = Analyzer(), dict[Expr, Expr]()
    for a, n in zip(block.axes, padding, strict=True):
        longer = simplify((a.stop + (n - 1)) // n * n)
        if not an.prove(compare("eq", longer, a.stop)):
            sizes[a.var] = longer
    step = _Step(nest, store, term, sizes)
    _places_known(step)
    _plain_loops(step)
    _adds_nothing(step)
    return step


def _plain_loops(step: _Step) -> None:
    """Raise NotHere unless each axis that gets longer, or of a result that does, is a loop, which is nothing else."""
    needed = {*step.sizes, *(step.store.indices if step.dims(step.store.indices) else ())}
    for a in (a for a in step.block.axes if a.var in needed):
        if a.var not in step.sizes and is_const(a.start, 0) and is_const(a.stop, 1):
            continue
        loop = next((x for x in step.nest.loops if x.var is a.binding), None)
        name = a.var.value.name
        if loop is None or not is_const(a.start, 0) or not is_const(loop.start, 0):
            raise NotHere(f"{name} is no loop of its own", "pad_einsum before loops are split, fused or moved")
        if not Analyzer().prove(compare("eq", loop.extent, a.stop)):
            raise NotHere(f"{loop.var.value.name} does not have the {a.stop!r} iterations of {name}")
        if any(loop.var in variables(b.binding) for b in step.block.axes if b is not a):
            raise NotHere(f"{loop.var.value.name} is bound to two axes", "a loop for each axis")


def _places_known(step: _Step) -> None:
    """Raise NotHere unless longer axes are indices by themselves, and each dimension has one of them at most."""
    axes = {a.var for a in step.block.axes}
    at = step.store.indices
    if not set(at) <= axes or len(set(at)) != len(at):
        raise NotHere(f"{step.block.name} does not store at its axes", _LEGAL)
    if any(e.value is step.store.buffer for e in step.loads):
        raise NotHere(f"{step.block.name} reads {step.store.buffer.name}, which it writes", _LEGAL)
    seen: dict[Buffer, dict[int, BlockAxis]] = {}
    for e in step.loads:
        mixed = [i for i in e.args if i not in axes and variables(i) & step.sizes.keys()]
        if mixed:
            raise NotHere(f"{e.value.name} is read at {mixed[0]!r}, which is no axis", _LEGAL)
        if seen.setdefault(e.value, step.dims(e.args)) != step.dims(e.args):
            raise NotHere(f"{e.value.name} is read in two ways", _LEGAL)


def _adds_nothing(step: _Step) -> None:
    """Raise NotHere unless what is added is zero wherever a sum gets longer."""
    for a in step.block.axes:
        if a.var not in step.sizes or a.var in step.store.indices:
            continue
        zero = rewrite(
            step.term,
            lambda n, args, v=a.var: const(0, n.dtype) if n.op == "load" and v in args else None,  # type: ignore[misc]
        )
        if not _is_zero(zero):
            why = f"{step.block.name} would add {simplify(zero)!r} for each {a.var.value.name} more"
            raise NotHere(why, "a product of elements that are all indexed by it")


def _is_zero(e: Expr) -> bool:
    """Whether a value is zero, of whatever elements: infinite ones times zero are none."""
    e = simplify(e)
    if e.op == "const":
        return bool(e.value == 0)
    if e.op in ("cast", "neg"):
        return _is_zero(e.args[0])
    if e.op == "mul":
        return all(map(_is_zero, e.args)) or (e.dtype.is_integer and any(map(_is_zero, e.args)))
    return e.op in ("add", "sub") and all(map(_is_zero, e.args))


# -- the parts -----------------------------------------------------------------------------------------------


def _longer(step: _Step, buffer: Buffer, dims: Mapping[int, BlockAxis], name: str) -> Buffer:
    shape = tuple(step.sizes[dims[d].var] if d in dims else n for d, n in enumerate(buffer.shape))
    return Buffer(name, shape, buffer.dtype, buffer.scope)


def _filled(made: Buffer, buffer: Buffer, dims: Mapping[int, BlockAxis]) -> Any:
    """A nest that copies a buffer, and stores zeros behind what the block reads of it."""

    ends, an = dict[int, Expr](), Analyzer()
    for d, a in dims.items():  # a block may read less than its axes reach, under conditions
        enough = an.prove(compare("le", a.stop, buffer.shape[d]))
        ends[d] = a.stop if enough else an.simplify(minimum(a.stop, buffer.shape[d]))

    def store(*at: Expr) -> Store:
        inside = logical_and(*(compare("lt", at[d], end) for d, end in ends.items()))
        return Store(made, at, if_then_else(inside, load(buffer, *at), const(0, buffer.dtype)))

    return _nest(made.name, made.shape, store)


def _taken_back(step: _Step, made: Buffer) -> Any:
    """A nest that copies the elements that the block stored to before."""
    buffer, ends = step.store.buffer, {a.var: a.stop for a in step.block.axes}
    extents = [ends[i] for i in step.store.indices]
    return _nest(made.name, extents, lambda *at: Store(buffer, at, load(made, *at)))


def _nest(name: str, extents: Sequence[Expr], store: Callable[..., Store]) -> Any:
    loops = [var(f"i{k}", n.dtype, "loop") for k, n in enumerate(extents)]
    axes = [
        BlockAxis(var(f"v{k}", n.dtype, "loop"), "spatial", const(0, n.dtype), n, x)
        for k, (n, x) in enumerate(zip(extents, loops, strict=True))
    ]
    made: Any = Block(name, f'with T.block("{name}")', axes, body=store(*(a.var for a in axes)))
    for x, n in zip(reversed(loops), reversed(extents), strict=True):
        made = For(x, const(0, n.dtype), n, "serial", made)
    return made


def _over(step: _Step, exchanged: Mapping[Buffer, Buffer]) -> Any:
    """The nest of the block, over the longer axes and the buffers with room for them."""

    def moved(s: Store) -> Store:
        value = rewrite(s.value, change)
        return replace(s, buffer=exchanged.get(s.buffer, s.buffer), value=value)

    def change(n: Expr, args: tuple[Expr, ...]) -> Expr | None:
        return make("load", n.dtype, args, exchanged[n.value]) if n.op == "load" and n.value in exchanged else None

    block = step.block
    axes = [replace(a, stop=step.sizes.get(a.var, a.stop)) for a in block.axes]
    init = moved(block.init) if isinstance(block.init, Store) else None
    made: Any = replace(block, axes=axes, init=init, body=moved(step.store))
    longer = {a.binding: step.sizes[a.var] for a in block.axes if a.var in step.sizes}
    for x in reversed(step.nest.loops):
        made = replace(x, extent=longer.get(x.var, x.extent), body=made)
    return made
