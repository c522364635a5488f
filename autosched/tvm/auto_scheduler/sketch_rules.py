"""Rules of Ansor's kind, as rules of this package's generator.

    meet_condition_func(policy, state, stage_id) -> PASS, APPLY or APPLY_AND_SKIP_REST
    apply_func(policy, state, stage_id)          -> [(state, number of the stage to go on with), ..]

Each state of the list is a sketch. Its steps are done to the schedule that the generator is at, so its trace and its
records are like any other. The stages from the number on are settled by the rule, with -1 all of them; rules of the
generator get those before. As Ansor does with finished sketches, loops that the rule gave no annotation get one: the
outermost is parallel (on GPU-style targets, work-items compute the elements), and a short innermost one is vectorized.

Ansor leaves stages that are computed element by element as they are until all sketches are made, so a rule finds the
readers of its stage untouched. Here such a reader waits for the rule: what lies between is inlined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched.errors import UsageError
from autosched.schedule.loop import leaf_extents
from autosched.schedule.stage import Stage
from autosched.space.default import bind_free_loops
from autosched.space.rules import Plan, Rule
from autosched.tvm.auto_scheduler.compute_dag import ComputeDAG
from autosched.tvm.auto_scheduler.loop_state import Base, State, StateObject, in_order
from autosched.tvm.auto_scheduler.transform_step import Replay

#: answers of a rule's condition
PASS, APPLY, APPLY_AND_SKIP_REST = 0, 1, 2
#: most iterations of an innermost loop that is vectorized
MOST_LANES = 64


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

    def ahead(plan: Plan, stage: Stage) -> Stage | None:
        """The stage before this one, less stages computed element by element, that the rule is for."""
        if stage.reduce_axis or answer(plan, stage) != PASS:
            return None
        order = in_order(plan.s, dag)
        for other in reversed(order[: order.index(stage)]):
            if other.is_placeholder:
                continue
            if other in plan.done:
                return None
            if answer(plan, other) == APPLY_AND_SKIP_REST:
                return other
            if other.reduce_axis:
                return None
        return None

    def applied_ahead(plan: Plan, stage: Stage) -> None:
        chosen = ahead(plan, stage)
        assert chosen is not None
        order = in_order(plan.s, dag)
        for x in order[order.index(chosen) + 1 : order.index(stage)]:  # as Ansor's first rule does
            if not x.is_placeholder and not x.is_output and x.attach.kind == "root":
                x.compute_inline()
        applied(plan, chosen)
        _annotate(plan, stage)

    about = f"{name}: {(apply.__doc__ or 'a rule of Ansor').strip().partition(chr(10))[0].rstrip('.')}"
    return [
        Rule(name, lambda plan, stage: answer(plan, stage) == APPLY_AND_SKIP_REST, applied, True, lambda *_: about),
        Rule(name, lambda plan, stage: answer(plan, stage) == APPLY, applied, False, lambda *_: about),
        Rule(name, lambda plan, stage: ahead(plan, stage) is not None, applied_ahead, True, lambda *_: about),
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
