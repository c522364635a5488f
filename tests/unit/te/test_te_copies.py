"""Copies of tensors and expressions are the same ones; other processes have none of them."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from autosched import create_schedule, te

A = te.placeholder((4,), name="A")
B = te.compute((4,), lambda i: A[i] + 1, name="B")


@pytest.mark.parametrize("x", [A, B, B.op, B.op.axis[0], A[0] + 1], ids=lambda x: type(x).__name__)
def test_a_copy_is_the_same(x) -> None:
    assert copy.copy(x) is copy.deepcopy(x) is x


@pytest.mark.parametrize("x", [A, B, A[0] + 1, create_schedule(B)], ids=lambda x: type(x).__name__)
def test_a_pickle_says_what_goes_in_its_place(x) -> None:
    with pytest.raises(TypeError, match="te.graph_to_json"):
        pickle.dumps(x)


def test_what_goes_in_its_place() -> None:
    data = json.loads(json.dumps(te.graph_to_json([A, B])))
    assert [t.name for t in te.graph_from_json(data)] == ["A", "B"]
