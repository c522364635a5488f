"""Stages that TVM's programs put at a vectorized loop: they are computed at the loop outside, for all lanes.

s[C].vectorize(x)                    for y:                       in TVM, each lane computes its own element of P
    s[P].compute_at(s[C], x)   ->        P[all x] = ..
                                         C[all x] = g(P[all x])
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from autosched.errors import Illegal
from autosched.ir.attached import attach
from autosched.schedule.kinds import leaf
from autosched.schedule.stage import Loop, Stage
from autosched.tvm.attributes import of_tvm

_compute_at, _vectorize = Stage.compute_at, Stage.vectorize


def _lanes(stage: Any, scope: Any) -> Loop | None:
    """The loop that is meant, in a program of TVM's; of what is none, the primitive says so."""
    if not isinstance(stage, Stage) or stage.schedule not in of_tvm:
        return None
    try:
        return leaf(stage, scope)
    except Illegal:
        return None


def _put_outside(stage: Stage, lanes: Loop) -> Any:
    """Compute a stage at the next loop outside that is no vector, at the root where there is none."""
    consumer = lanes.stage
    around = consumer.loops[: consumer.loops.index(lanes)]
    while around and around[-1].kind == "vectorize":
        around.pop()
    return _compute_at(stage, consumer, around[-1]) if around else stage.compute_root()


@wraps(_compute_at)
def compute_at(self: Stage, parent: Any, scope: Any) -> Any:
    loop = _lanes(parent, scope)
    if loop is not None and loop.kind == "vectorize":
        return _put_outside(self, loop)
    return _compute_at(self, parent, scope)


@wraps(_vectorize)
def vectorize(self: Stage, var: Any) -> Any:
    loop = _lanes(self, var)
    if loop is not None:
        for stage in self.schedule.attached_at(loop):
            _put_outside(stage, loop)
    return _vectorize(self, var)


attach(Stage, compute_at=compute_at, vectorize=vectorize)
