"""`te.trace`: values seen by a Python function while the program runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched.errors import UsageError
from autosched.ir.calls import call_packed
from autosched.ir.expr import Expr, as_expr
from autosched.ir.functions import get_global_func, register_func

DEFAULT_ACTION = "tvm.default_trace_action"


def _print(*values: Any) -> None:
    print(list(values))


register_func(DEFAULT_ACTION, _print)


def trace(args: Sequence[object], trace_action: str = DEFAULT_ACTION) -> Expr:
    """The last of `args`, which are all given to a Python function whenever it is computed.

    `trace_action` is the name of a function of `register_func`; the default prints them. What it
    returns, unless that is None, takes the value's place. Only where Python can be called: on target
    `llvm`, in the interpreter and in `te.reference`. Loops keep their order if they are not parallel.

        B = te.compute(A.shape, lambda i: te.trace([i, A[i]]) + 1)         prints [0, 2.5], [1, ...
    """
    if not isinstance(args, (list, tuple)) or not args:
        raise UsageError("there is nothing to trace", asked=f"te.trace({args!r})", legal="te.trace([i, A[i]])")
    get_global_func(trace_action)
    values = [as_expr(a) for a in args]
    name = f"trace.{trace_action}"

    def action(*given: Any) -> Any:
        found = get_global_func(trace_action)(*given)
        return given[-1] if found is None else found

    register_func(name, action, override=True)
    return call_packed(name, *values, dtype=values[-1].dtype)
