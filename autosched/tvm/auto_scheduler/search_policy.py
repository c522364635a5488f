"""Ansor's search policies, as options of the one tuning loop, and its rules for sketches.

    PreloadCustomSketchRule(meet_condition_func, apply_func)

    meet_condition_func(policy, state, stage_id) -> PASS, APPLY or APPLY_AND_SKIP_REST
    apply_func(policy, state, stage_id)          -> [(state, number of the stage to go on with), ..]

Each state of the list is a sketch. Its steps are done to the schedule that the generator is at, so its trace and its
records are like any other. The stages from the number on are settled by the rule, with -1 all of them; rules of the
generator get those before. As Ansor does with finished sketches, loops that the rule gave no annotation get one: the
outermost is parallel (on GPU-style targets, work-items compute the elements), and a short innermost one is vectorized.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar

from autosched.errors import UsageError
from autosched.records import Record
from autosched.runtime.device import resolve_target, with_machine
from autosched.schedule.loop import leaf_extents
from autosched.schedule.stage import Stage
from autosched.space.default import bind_free_loops
from autosched.space.rules import Plan, Rule
from autosched.space.space import DEFAULT
from autosched.tvm.auto_scheduler.compute_dag import ComputeDAG
from autosched.tvm.auto_scheduler.cost_model import RandomModel, XGBModel
from autosched.tvm.auto_scheduler.loop_state import Base, State, StateObject, TraceState, in_order
from autosched.tvm.auto_scheduler.measure_record import RecordReader
from autosched.tvm.auto_scheduler.transform_step import Replay

_logger = logging.getLogger("auto_scheduler")

#: answers of a rule's condition
PASS, APPLY, APPLY_AND_SKIP_REST = 0, 1, 2
#: most iterations of an innermost loop that is vectorized
MOST_LANES = 64


class SearchCallback:
    """Base of preparations of a search."""


class PreloadMeasuredStates(SearchCallback):
    """Goes on from this package's records in a log: they are not measured again, and the model learns from them.

    Ansor's lines have another space; `SearchTask.apply_best` reads them.
    """

    def __init__(self, filename: str | PathLike[str] = "auto_scheduler_tuning.json") -> None:
        self.filename = str(filename)

    def records(self, key: str) -> list[Record]:
        """Return the records of a computation. Raises RecordError for a file that cannot be read."""
        states = [inp.state for inp, _ in RecordReader(self.filename)]
        ours = [state.record for state in states if isinstance(state, TraceState)]
        if len(ours) < len(states):
            _logger.warning(
                "%s: %d lines are Ansor's, and no points of this space", self.filename, len(states) - len(ours)
            )
        return [r for r in ours if r.key == key]


class PreloadCustomSketchRule(SearchCallback):
    """A rule that is asked before those of the generator."""

    PASS, APPLY, APPLY_AND_SKIP_REST = PASS, APPLY, APPLY_AND_SKIP_REST

    def __init__(
        self,
        meet_condition_func: Callable[..., Any],
        apply_func: Callable[..., Any],
        rule_name: str = "CustomSketchRule",
    ) -> None:
        if not callable(meet_condition_func) or not callable(apply_func):
            raise UsageError(
                "its condition and what it applies are no functions",
                asked=f"PreloadCustomSketchRule(rule_name={rule_name!r})",
                legal="functions of (policy, state, stage_id)",
            )
        self.meet_condition_func, self.apply_func, self.rule_name = meet_condition_func, apply_func, rule_name


class SearchPolicy:
    """Base of the policies. `model` is that of `autosched.tune`; without `measured`, no candidate is tried."""

    model = "xgb"
    measured = True
    seed = 0
    verbose = 1

    def __init__(self, task: Any, init_search_callbacks: Sequence[SearchCallback] | None = None) -> None:
        self.task = task
        self.preloaded: list[PreloadMeasuredStates] = []
        self.custom: list[PreloadCustomSketchRule] = []
        for callback in init_search_callbacks or ():
            if isinstance(callback, PreloadMeasuredStates):
                self.preloaded.append(callback)
            elif isinstance(callback, PreloadCustomSketchRule):
                self.custom.append(callback)
            else:
                raise UsageError(
                    f"{callback!r:.60} is none",
                    asked=f"{type(self).__name__}(init_search_callbacks=..)",
                    legal="PreloadMeasuredStates(log), PreloadCustomSketchRule(meet_condition_func, apply_func)",
                )

    @property
    def search_task(self) -> Any:
        """The task, as rules ask for it."""
        return self.task

    def rules(self) -> list[Rule]:
        """Return the rules that are asked before those of the generator."""
        return [r for c in self.custom for r in rules_of(c.rule_name, c.meet_condition_func, c.apply_func, self)]

    def set_verbose(self, verbose: int) -> None:
        """0: print nothing."""
        self.verbose = verbose


class EmptyPolicy(SearchPolicy):
    """No search: the default schedule, or the best record."""

    measured = False


class SketchPolicy(SearchPolicy):
    """Searches the generated space with a model: the default policy.

    `params` are those of Ansor's in `DEFAULT_PARAMS`. Searching works otherwise here: they change nothing, and a
    warning says so. Raises UsageError for a parameter that does not exist.
    """

    DEFAULT_PARAMS: ClassVar[dict[str, Any]] = {
        "eps_greedy": 0.05,
        "retry_search_one_round_on_empty": 1,
        "sample_init_min_population": 50,
        "sample_init_use_measured_ratio": 0.2,
        "evolutionary_search_population": 2048,
        "evolutionary_search_num_iters": 4,
        "evolutionary_search_mutation_prob": 0.85,
        "cpu_multi_level_tiling_structure": "SSRSRS",
        "gpu_multi_level_tiling_structure": "SSSRRSRS",
        "max_innermost_split_factor": 64,
        "max_vectorize_size": 16,
        "disable_change_compute_location": 0,
    }

    def __init__(
        self,
        task: Any,
        program_cost_model: Any = None,
        params: Mapping[str, Any] | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Sequence[SearchCallback] | None = None,
    ) -> None:
        super().__init__(task, init_search_callbacks)
        model = RandomModel() if program_cost_model is None else program_cost_model
        if not isinstance(model, (RandomModel, XGBModel)):
            raise UsageError(
                f"{model!r:.60} is no cost model",
                asked="SketchPolicy(program_cost_model=..)",
                legal='XGBModel(), RandomModel(); autosched.tune(.., model="FILE.py:CLASS") takes models of one\'s own',
            )
        self.preloaded += map(PreloadMeasuredStates, model.logs)
        self.model, self.seed, self.verbose = model.name, seed or 0, verbose
        unknown = sorted(set(params or {}) - set(self.DEFAULT_PARAMS))
        if unknown:
            raise UsageError(
                f"there is no parameter {unknown[0]!r}",
                asked="SketchPolicy(params=..)",
                legal=", ".join(self.DEFAULT_PARAMS),
            )
        changed = [name for name, value in (params or {}).items() if value != self.DEFAULT_PARAMS[name]]
        if changed:
            _logger.warning("SketchPolicy: %s change nothing here", ", ".join(changed))

    def generate_sketches(self, print_for_debug: bool = False) -> list[State]:
        """Return the sketches of the search, less the default schedule. Lengths that are open are expressions."""
        dag, w = self.task.compute_dag, self.task.workload
        target = with_machine(resolve_target(self.task.target))
        space = w.search_space(target, w.sizes_at(), "auto", self.rules())
        made = [s.schedule() for s in space.sketches if s.name != DEFAULT] or [space.sketches[0].schedule()]
        states = [State(StateObject(base=Base.of(s, dag)), dag) for s in made]
        if print_for_debug:
            print("\n\n".join(map(str, states)))
        return states


# -- rules of Ansor's, as rules of the generator -------------------------------------------------------


def rules_of(name: str, meet: Callable[..., Any], apply: Callable[..., Any], policy: Any) -> list[Rule]:
    """Return the rules of two functions of Ansor's kind, for the task of a policy."""
    dag: ComputeDAG = policy.search_task.compute_dag

    def asked(plan: Plan, stage: Stage) -> tuple[StateObject, int]:
        """The state that the schedule is in, and the number of the stage."""
        return StateObject(base=Base.of(plan.s, dag)), in_order(plan.s, dag).index(stage)

    def answer(plan: Plan, stage: Stage) -> Any:
        if not all(t in dag.tensors for t in plan.s.outputs):
            return PASS  # another task's
        found = meet(policy, *asked(plan, stage))
        if found not in (PASS, APPLY, APPLY_AND_SKIP_REST):
            raise UsageError(
                f"its condition answers {found!r:.60}",
                asked=f"rule {name} at stage {stage.name}",
                legal="PreloadCustomSketchRule.PASS, APPLY or APPLY_AND_SKIP_REST",
            )
        return found

    def applied(plan: Plan, stage: Stage) -> None:
        given, number = asked(plan, stage)
        ways = _checked(apply(policy, given, number))
        if any(state.base != given.base for state, _ in ways):
            raise UsageError("a state of its is of another program", legal="the state it is given, or a copy")
        state, following = ways[plan.choose(stage, "way", range(len(ways)))]
        _do(plan, dag, state, following, name, stage)

    about = f"{name}: {(apply.__doc__ or 'a rule of Ansor').strip().partition(chr(10))[0].rstrip('.')}"
    return [
        Rule(name, lambda plan, stage: answer(plan, stage) == APPLY_AND_SKIP_REST, applied, True, lambda *_: about),
        Rule(name, lambda plan, stage: answer(plan, stage) == APPLY, applied, False, lambda *_: about),
    ]


def _checked(found: Any) -> list[tuple[StateObject, int]]:
    """The answer of a rule. Raises UsageError where it is no list of states and numbers."""
    ways = []
    for pair in found if isinstance(found, Sequence) and not isinstance(found, str) else [None]:
        state, following = pair if isinstance(pair, Sequence) and len(pair) == 2 else (None, None)
        state = state.state_object if isinstance(state, State) else state
        if not isinstance(state, StateObject) or not isinstance(following, int):
            raise UsageError(
                f"it gives {found if pair is None else pair!r:.60}",
                legal="[(state, number of the stage to go on with), ..]; -1 is none",
            )
        ways.append((state, int(following)))
    if not ways:
        raise UsageError("it gives no state", legal="PASS, where there is nothing to do")
    return ways


def _do(plan: Plan, dag: ComputeDAG, state: StateObject, following: int, name: str, stage: Stage) -> None:
    """Do the steps of a state to the schedule."""
    live = Replay.on(in_order(plan.s, dag))
    live.run(state.transform_steps)
    last = live.stages.index(stage)
    if following >= last:
        raise UsageError(f"it goes on with stage {following}", legal=f"a stage before it: -1 to {last - 1}")
    settled = [x for x in live.stages[following + 1 :] if not x.is_placeholder and (x is stage or x not in plan.done)]
    for x in settled:
        plan.done[x] = name
        _annotate(plan, x)


def _annotate(plan: Plan, stage: Stage) -> None:
    """Give loops to threads and vectors, unless the rule did."""
    if stage.attach.kind != "root" or any(x.kind != "serial" or x.thread for x in stage.loops):
        return
    if plan.target.is_gpu_style:
        bind_free_loops(stage)
        return
    outer, inner = stage.loops[:1], stage.loops[1:]
    if outer and not outer[0].is_reduce:
        stage.parallel(outer[0])
    if not inner or inner[-1].is_reduce or any(x.attach.loop is inner[-1] for x in plan.s.stages):
        return
    length = leaf_extents(stage)[inner[-1]]
    if length.op == "const" and length.value <= MOST_LANES:
        stage.vectorize(inner[-1])
