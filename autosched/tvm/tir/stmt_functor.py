"""`tvm.tir.stmt_functor`: visiting and rewriting lowered programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched.tvm._missing import missing
from autosched.tvm.tir import functor
from autosched.tvm.tir.functor import post_order_visit, substitute
from autosched.tvm.tir.nodes import matcher

__all__ = ["ir_transform", "post_order_visit", "substitute"]


def ir_transform(
    stmt: Any,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Sequence[str] | None = None,
) -> Any:
    """See `autosched.tvm.tir.functor.ir_transform`; `only_enable` names kinds of nodes, `["tir.For"]`."""
    return functor.ir_transform(stmt, preorder, postorder, matcher(only_enable))


__getattr__ = missing(
    "tir.stmt_functor", globals(), {"renew_defs": "functions may share variables; there is nothing to renew"}
)
