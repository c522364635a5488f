"""Python expressions, evaluated on their syntax trees: names, calls, arithmetic, indices, tuples, comprehensions.

Nothing is compiled or executed, and nothing is reached but through names in scope. What Python would ask for a truth
value (`and`, `or`, `not`, `a < b < c`, `a if c else b`) becomes an expression of the program where its operands are.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from autosched.ir.expr import Expr, const, if_then_else, logical_and, logical_not, logical_or

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}
#: builtins that read or run something, or leave the evaluation
_WITHHELD = frozenset("eval exec compile open input breakpoint exit quit __import__ globals locals vars".split())
_BUILTINS = {n: getattr(builtins, n) for n in dir(builtins) if not n.startswith("_") and n not in _WITHHELD}


class NoValue(Exception):
    """An expression that has no value; `node` is the part to blame."""

    def __init__(self, node: ast.AST, why: str) -> None:
        super().__init__(why)
        self.node, self.why = node, why


class Evaluator:
    """Evaluates expressions; `look_up` gives the value of a name, or raises KeyError."""

    def __init__(self, look_up: Callable[[str], Any]) -> None:
        self._look_up = look_up

    def __call__(self, node: ast.expr) -> Any:
        """The value. Raises NoValue, or what a call in it raises."""
        visit = getattr(self, f"_{type(node).__name__}", None)
        if visit is None:
            raise NoValue(node, f"{ast.unparse(node)} is no expression that can be read")
        return visit(node)

    def _Constant(self, node: ast.Constant) -> Any:
        if node.value is ...:
            raise NoValue(node, "a part of the text was left out where it was printed")
        return node.value

    def _Name(self, node: ast.Name) -> Any:
        try:
            return self._look_up(node.id)
        except KeyError:
            if node.id not in _BUILTINS:
                raise NoValue(node, f"no name {node.id!r}") from None
            return _BUILTINS[node.id]

    def _Attribute(self, node: ast.Attribute) -> Any:
        if node.attr.startswith("__"):
            raise NoValue(node, f"{node.attr} is Python's own")
        found = getattr(self(node.value), node.attr)
        return const(0) if found is None and node.attr == "elem_offset" else found  # of memory from its beginning on

    def _Call(self, node: ast.Call) -> Any:
        function = self(node.func)
        options: dict[str, Any] = {}
        for k in node.keywords:
            options.update({k.arg: self(k.value)} if k.arg else self(k.value))
        return function(*self._items(node.args), **options)

    def _items(self, nodes: Sequence[ast.expr]) -> list[Any]:
        found: list[Any] = []
        for n in nodes:
            found += self(n.value) if isinstance(n, ast.Starred) else [self(n)]
        return found

    def _Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self._items(node.elts))

    def _List(self, node: ast.List) -> Any:
        return self._items(node.elts)

    def _Set(self, node: ast.Set) -> Any:
        return set(self._items(node.elts))

    def _Dict(self, node: ast.Dict) -> Any:
        return {self(k): self(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}

    def _Subscript(self, node: ast.Subscript) -> Any:
        return self(node.value)[self(node.slice)]

    def _Slice(self, node: ast.Slice) -> Any:
        return slice(*(None if part is None else self(part) for part in (node.lower, node.upper, node.step)))

    def _BinOp(self, node: ast.BinOp) -> Any:
        return _BINARY[type(node.op)](self(node.left), self(node.right))

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self(node.operand)
        if isinstance(node.op, ast.Not):
            return logical_not(value) if isinstance(value, Expr) else not value
        return _UNARY[type(node.op)](value)

    def _Compare(self, node: ast.Compare) -> Any:
        found: Any = True
        left = self(node.left)
        for op, other in zip(node.ops, node.comparators, strict=True):
            right = self(other)
            step = _BINARY[type(op)](left, right)
            if not isinstance(step, Expr) and not isinstance(found, Expr):
                if not step:
                    return step
                found = step
            else:
                found = step if found is True else logical_and(found, step)
            left = right
        return found

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        settles = isinstance(node.op, ast.Or)
        found: Any = not settles
        for operand in node.values:
            value = self(operand)
            if isinstance(value, Expr) or isinstance(found, Expr):
                found = (logical_or if settles else logical_and)(found, value)
            elif bool(value) is settles:
                return value
            else:
                found = value
        return found

    def _IfExp(self, node: ast.IfExp) -> Any:
        condition = self(node.test)
        if isinstance(condition, Expr):
            return if_then_else(condition, self(node.body), self(node.orelse))
        return self(node.body if condition else node.orelse)

    def _JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(map(self, node.values))

    def _FormattedValue(self, node: ast.FormattedValue) -> str:
        form = "" if node.format_spec is None else self(node.format_spec)
        value = self(node.value)
        spelled: dict[int, Callable[[Any], str]] = {115: str, 114: repr, 97: ascii}
        return format(spelled[node.conversion](value) if node.conversion in spelled else value, form)

    def _inside(self, names: Mapping[str, Any]) -> Evaluator:
        return Evaluator(lambda name: names[name] if name in names else self._look_up(name))

    def _Lambda(self, node: ast.Lambda) -> Any:
        named = [a.arg for a in node.args.args]

        def function(*args: Any) -> Any:
            if len(args) != len(named):
                raise TypeError(f"{len(args)} arguments for {ast.unparse(node)}")
            return self._inside(dict(zip(named, args, strict=True)))(node.body)

        return function

    def _each(self, generators: Sequence[ast.comprehension]) -> Iterator[Evaluator]:
        if not generators:
            yield self
            return
        first, *rest = generators
        for item in self(first.iter):
            inner = self._inside(dict(bound(first.target, item)))
            if all(inner(condition) for condition in first.ifs):
                yield from inner._each(rest)

    def _ListComp(self, node: ast.ListComp) -> Any:
        return [inner(node.elt) for inner in self._each(node.generators)]

    def _GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        return (inner(node.elt) for inner in self._each(node.generators))

    def _DictComp(self, node: ast.DictComp) -> Any:
        return {inner(node.key): inner(node.value) for inner in self._each(node.generators)}


def bound(target: ast.expr, value: Any) -> Iterator[tuple[str, Any]]:
    """The names of `target = value`, with what each is then. Raises NoValue for what is no name."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List):
        values = list(value)
        star = next((k for k, part in enumerate(target.elts) if isinstance(part, ast.Starred)), None)
        if star is not None:
            many = len(values) - len(target.elts) + 1
            values[star : star + many] = [values[star : star + many]]
        for part, one in zip(target.elts, values, strict=True):
            yield from bound(part.value if isinstance(part, ast.Starred) else part, one)
    else:
        raise NoValue(target, f"{ast.unparse(target)} is no name")
