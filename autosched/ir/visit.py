"""Walks over expressions, and rewriting, without recursion: a chain of inlined stages is a thousand levels deep."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from autosched.ir.bits import reinterpret
from autosched.ir.dtype import INT32, INT64
from autosched.ir.expr import (
    BUILD,
    OPS,
    RESULT_BOOL,
    Expr,
    broadcast,
    call,
    cast,
    const,
    convert_pair,
    fold,
    make,
    ramp,
    variables,
)
from autosched.ir.node import remembered

T = TypeVar("T", bound=Hashable)


def reached(first: Iterable[T], further: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Things, those that `further` gives of each, and so on: each once, before it is asked where it leads.

    >>> sorted(reached([4], lambda n: [n - 1, n // 2] if n else []))
    [0, 1, 2, 3, 4]
    """
    waiting = list(first)
    seen = set(waiting)
    while waiting:
        x = waiting.pop()
        yield x
        for y in further(x):
            if y not in seen:
                seen.add(y)
                waiting.append(y)


def needed_first(wanted: Iterable[T], needs: Callable[[T], Iterable[T]]) -> list[T]:
    """Things and all that they need, each after what it needs.

    >>> needed_first(["cake"], lambda x: {"cake": ["dough", "icing"], "dough": ["flour"]}.get(x, []))
    ['flour', 'dough', 'icing', 'cake']
    """
    order: list[T] = []
    seen: set[T] = set()
    stack = [(x, False) for x in reversed(list(wanted))]
    while stack:
        x, is_ready = stack.pop()
        if is_ready:
            order.append(x)
        elif x not in seen:
            seen.add(x)
            stack.append((x, True))
            stack += [(y, False) for y in reversed(list(needs(x)))]
    return order


def post_order(roots: Expr | Iterable[Expr]) -> list[Expr]:
    """Every distinct node below `roots`, arguments before their users."""
    seen: set[Expr] = set()
    order: list[Expr] = []
    stack: list[Expr | None] = [roots] if isinstance(roots, Expr) else list(roots)[::-1]
    while stack:
        node = stack.pop()
        if node is None:  # all below the next one is done
            order.append(stack.pop())  # type: ignore[arg-type]
        elif node not in seen:
            seen.add(node)
            if node.args:
                stack += (node, None)
                stack += node.args[::-1]
            else:
                order.append(node)
    return order


def pre_order(roots: Expr | Iterable[Expr]) -> list[Expr]:
    """Every distinct node below `roots`, users before their arguments."""
    seen: dict[Expr, None] = {}
    stack: list[Expr] = [roots] if isinstance(roots, Expr) else list(roots)[::-1]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen[node] = None
            stack += node.args[::-1]
    return list(seen)


def contains(roots: Expr | Iterable[Expr], *ops: str) -> bool:
    """Return whether a node below `roots`, or one of them, is made by one of these operators."""
    waiting = [roots] if isinstance(roots, Expr) else list(roots)
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if node.op in ops:
            return True
        if node.args:
            new = [a for a in node.args if a not in seen]
            seen.update(new)
            waiting += new
    return False


@remembered
def reads(e: Expr) -> tuple[Expr, ...]:
    """The elements of tensors that an expression reads, each one once, in the order of `post_order`."""
    return tuple(x for x in post_order(e) if x.op == "read")


def needed_by_both(e: Expr) -> list[Expr]:
    """What an `if_then_else` needs whichever side it takes, arguments first."""

    def needed(side: Expr) -> set[Expr]:
        return {*reached([side], lambda e: e.args[:1] if e.op == "if_then_else" else e.args)}

    _, then, otherwise = e.args
    both = needed(then) & needed(otherwise)
    return [node for node in post_order(e) if node in both and node.args] if both else []


def values_below(roots: Expr | Iterable[Expr]) -> Iterator[Expr]:
    """Every distinct node below `roots` that is no index arithmetic: loads, calls and what is made of them.

    Quick, as most of a program is indices; in no particular order.
    """
    seen = {e for e in ([roots] if isinstance(roots, Expr) else roots) if not e.index}
    stack = list(seen)
    while stack:
        node = stack.pop()
        yield node
        for a in node.args:
            if not a.index and a not in seen:
                seen.add(a)
                stack.append(a)


def rebuild(e: Expr, args: tuple[Expr, ...]) -> Expr:
    """`e` with other arguments, folding again what they make constant or trivial."""
    if all(a is b for a, b in zip(args, e.args, strict=True)):
        return e
    op = e.op
    if op in BUILD:
        return BUILD[op](*args)
    if op == "cast":
        if e.index and args[0].op == "const" and not e.dtype.min <= args[0].value <= e.dtype.max:
            return make(op, e.dtype, args)  # index arithmetic does not wrap
        return cast(e.dtype.scalar, args[0])
    if op == "call":
        args = tuple([cast(old.dtype.scalar, a) for a, old in zip(args, e.args, strict=True)])
        return make(op, e.dtype.with_lanes(max((a.dtype.lanes for a in args), default=1)), args, e.value)
    if op in ("load", "read"):
        return make(op, e.dtype.with_lanes(max((a.dtype.lanes for a in args), default=1)), args, e.value)
    if op == "broadcast":
        return broadcast(args[0], e.dtype.lanes)
    if op == "ramp":
        return ramp(args[0], args[1], e.dtype.lanes)
    if op in ("reduce", "scatter", "combine_lanes", "dot", "to_line", "address", "view"):
        return make(op, e.dtype, args, e.value)
    if op == "reinterpret":
        return reinterpret(e.dtype.scalar, args[0])
    if op == "ldexp":
        return call(op, *args)
    if op in OPS and OPS[op].arity == 2:
        args = convert_pair(*args)
    lanes = args[0].dtype.lanes
    of = e.dtype.scalar.with_lanes(lanes) if op in RESULT_BOOL else args[0].dtype
    return fold(op, of, args) if OPS[op].kind != "math" else make(op, of, args)


def in_place_of(v: Expr, x: Expr) -> Expr:
    """`x` in the type of the variable that it replaces: what is computed from that keeps its type.

    Index arithmetic does not wrap, and neither does this cast of it. An index that is a value (a read, say)
    stays as wide as it was made.
    """
    if x.dtype.scalar is v.dtype.scalar or not x.index or v.dtype.scalar not in (INT32, INT64):
        return x
    if x.op == "const" and v.dtype.min <= x.value <= v.dtype.max:
        return const(x.value, v.dtype)
    if x.op == "ramp":
        return make("ramp", v.dtype.with_lanes(x.dtype.lanes), tuple([in_place_of(v, a) for a in x.args]))
    return make("cast", v.dtype.with_lanes(x.dtype.lanes), (x,))


def substitute(e: Expr, mapping: dict[Expr, Expr]) -> Expr:
    """`e` with variables replaced, everywhere at once.

    Index arithmetic in place of a variable takes on its type: where it meets values, their common type is to be
    what it was.
    """
    mentioned = mapping.keys()
    if mentioned.isdisjoint(variables(e)):
        return e
    done: dict[Expr, Expr] = {v: in_place_of(v, x) for v, x in mapping.items()}
    stack: list[Expr] = [e]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        todo = [a for a in node.args if a not in done and not mentioned.isdisjoint(variables(a))]
        if todo:
            stack += todo[::-1]
            continue
        stack.pop()
        done[node] = rebuild(node, tuple([done.get(a, a) for a in node.args]))
    return done[e]


def rewrite(
    root: Expr, change: Callable[[Expr, tuple[Expr, ...]], Expr | None], done: dict[Expr, Expr] | None = None
) -> Expr:
    """`root` with every node replaced by `change(node, its new arguments)`, arguments first.

    Where `change` returns None the node stays, with its new arguments. Every distinct node is changed
    once; `done` keeps the results for further roots.

    >>> from autosched.ir.expr import var
    >>> x, y = var("x"), var("y")
    >>> rewrite(x * 2 + x, lambda e, args: y if e is x else None)
    y*2 + y
    """
    if done is None:
        done = {}
    stack = [root]
    while stack:
        e = stack[-1]
        if e in done:
            stack.pop()
            continue
        missing = [a for a in e.args if a not in done]
        if missing:
            stack += missing[::-1]
            continue
        stack.pop()
        args = tuple([done[a] for a in e.args])
        found = change(e, args)
        done[e] = found if found is not None else rebuild(e, args) if args else e
    return done[root]


def conjuncts(condition: Expr) -> list[Expr]:
    """The parts of a conjunction, `likely` taken off."""
    if condition.op == "likely":
        return conjuncts(condition.args[0])
    if condition.op == "and":
        return [c for a in condition.args for c in conjuncts(a)]
    return [condition]
