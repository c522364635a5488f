"""Copies of tensors and expressions are the same ones; other processes have none of them, and schedules of their own."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from autosched import create_schedule, te
from autosched.schedule import replay

A = te.placeholder((4,), name="A")
B = te.compute((4,), lambda i: A[i] + 1, name="B")


@pytest.mark.parametrize("x", [A, B, B.op, B.op.axis[0], A[0] + 1], ids=lambda x: type(x).__name__)
def test_a_copy_is_the_same(x) -> None:
    assert copy.copy(x) is copy.deepcopy(x) is x


@pytest.mark.parametrize("x", [A, B, A[0] + 1], ids=lambda x: type(x).__name__)
def test_a_pickle_says_what_goes_in_its_place(x) -> None:
    with pytest.raises(TypeError, match="te.graph_to_json"):
        pickle.dumps(x)


def test_what_goes_in_its_place() -> None:
    data = json.loads(json.dumps(te.graph_to_json([A, B])))
    assert [t.name for t in te.graph_from_json(data)] == ["A", "B"]


def test_a_schedule_is_pickled_with_its_program() -> None:
    s = create_schedule(B)
    outer, inner = s[B].split("i", factor=2)
    s[B].vectorize(inner)
    again = pickle.loads(pickle.dumps(s))
    assert again.trace.as_python() == s.trace.as_python()
    assert again.outputs[0] is not B and repr(again["B"]) == repr(s[B])
    assert again["B"].loops[0].name == outer.name and again.fixed_arguments == s.fixed_arguments
    record = replay(s.trace, [A, B], trusted=False)
    assert pickle.loads(pickle.dumps(record)).fixed_arguments


def test_a_copy_of_a_schedule_goes_its_own_way() -> None:
    s = create_schedule(B)
    other = copy.copy(s)
    other[B].split("i", factor=2)
    assert len(s[B].loops) == 1 and len(other[B].loops) == 2
