"""Features of candidates for cost models: expressions over knobs and sizes, read off the structure.

    names.py   every feature, and its meaning
    sites.py   stores and the loops around them
    work.py    arithmetic and accesses over all stores; vectors, registers and written-out code; tasks and work-groups
    memory.py  footprints, traffic and reuse for each level of caches; intermediates

The costs of all stores of the lowered sketch are added up. Beside the sums stand the surroundings of the *main* store,
which has the most loops. Quantities span many orders of magnitude, so most are given as log2(1 + x).

Footprints follow Ansor's per-store features (Zheng et al., OSDI 2020, appendix B), computed symbolically as in Felix
(Zhao et al., ASPLOS 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.ir.evaluate import Plan
from autosched.ir.expr import Expr, as_expr, const
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer
from autosched.lowering.pipeline import Structure
from autosched.lowering.simplify_stmt import enter_loop
from autosched.space.features.memory import Footprints, Machine, memory_features
from autosched.space.features.names import FEATURE_NAMES, FEATURE_VERSION, FEATURES, PLAIN
from autosched.space.features.registers import register_features
from autosched.space.features.sites import Site, nests_of
from autosched.space.features.tasks import parallel_features
from autosched.space.features.work import arithmetic_of, work_features

__all__ = ["FEATURES", "FEATURE_NAMES", "FEATURE_VERSION", "Features", "Machine", "extract"]

_IS_PLAIN = np.array([name in PLAIN for name in FEATURE_NAMES])
#: Above this, numbers say nothing but "far too many", and their squares would leave float64.
_LARGEST = 1e30
#: Values with which it is told which stores have most of the arithmetic, and the share of the most that counts as much.
_USUAL_KNOB, _USUAL_SIZE, _MOST_WORK = 8, 1024, 0.3


@dataclass(frozen=True)
class Features:
    """The expressions, ready for batches."""

    columns: tuple[Expr, ...]
    plan: Plan

    @staticmethod
    def of(columns: tuple[Expr, ...]) -> Features:
        return Features(columns, Plan(columns, np.float64))

    def evaluate(self, env: dict[Expr, Any], n: int) -> np.ndarray:
        """float64 [n, columns] for the assignments in `env`."""
        table = np.empty((n, len(self.columns)))
        for j, value in enumerate(self.plan.evaluate(env)):
            table[:, j] = value
        np.clip(table, 0, _LARGEST, out=table)
        return np.where(_IS_PLAIN, table, np.log2(1 + table))


def _main(sites: Sequence[Site], outputs: set[Buffer]) -> Site:
    """The store with the most loops of those that most of the arithmetic is in, whatever the values of knobs are."""
    plan = Plan(tuple(s.iterations for s in sites), np.float64)
    often = plan.evaluate({v: _USUAL_KNOB if v.value.role == "knob" else _USUAL_SIZE for v in plan.variables})
    work = [max(0.0, float(n)) * (1 + arithmetic_of(s)) for n, s in zip(often, sites, strict=True)]
    heavy = [s for s, each in zip(sites, work, strict=True) if each >= _MOST_WORK * max(work)]
    return max(heavy, key=lambda s: (len(s.loops), s.store.buffer in outputs))


def extract(structure: Structure) -> Features:
    """The feature expressions of a sketch."""
    root = nests_of(structure.function.body)
    sites = root.sites
    if not sites:  # nothing but calls of functions from outside
        return Features.of(tuple(const(0) for _ in FEATURE_NAMES))
    an = Analyzer()
    for size in structure.function.sizes:  # of arrays that have elements, which is what places in them are found by
        an.assume_nonneg(an.poly(size) - 1)
    for site in sites:
        for loop in site.loops:
            enter_loop(loop, an)
    outputs = {structure.function.params[i] for i in structure.function.outputs}
    out = max(sites, key=lambda s: (s.store.buffer in outputs, len(s.loops)))
    main = _main(sites, outputs)
    machine, prints = Machine.of(structure.target), Footprints(an)
    found: dict[str, Any] = work_features(sites, main, outputs, an, machine)
    found |= memory_features(root, main, structure.function.body, prints, machine, found)
    found |= register_features(sites, main, machine, prints)
    found |= parallel_features(root, main, out, structure.function.body, prints, machine)
    return Features.of(tuple(as_expr(found[name]) for name in FEATURE_NAMES))
