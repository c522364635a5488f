"""Random ONNX graphs, compiled and compared with the official reference evaluator; campaigns are `testing.graphs`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from autosched.testing.graphs import GraphCase, main, shrunk


@pytest.mark.parametrize("seed", range(20))
def test_a_random_graph_agrees_with_the_reference(seed: int) -> None:
    GraphCase.draw(seed, "c" if seed % 8 == 7 else "llvm").check()


def test_a_seed_is_a_graph() -> None:
    one, same = GraphCase.draw(11, "llvm"), GraphCase.draw(11, "llvm")
    assert one.proto == same.proto and str(one) == str(same)
    again = GraphCase.from_json(one.to_json())
    assert again.proto == one.proto and again.fingerprint == one.fingerprint
    assert all(np.array_equal(x, same.inputs()[name]) for name, x in one.inputs().items())


def test_a_failing_graph_becomes_one_node() -> None:
    """Whatever fails for a kind of node is left with that node and what it needs."""
    case = next(c for c in (GraphCase.draw(s, "llvm") for s in range(100)) if " MatMul(" in c.fingerprint)
    assert len(case.proto.graph.node) > 2
    small = shrunk(case, lambda c: "MatMul(" in c.fingerprint)
    assert [n.op_type for n in small.proto.graph.node] == ["MatMul"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "0:2", "--backend", "llvm", "--failures", str(tmp_path)]) == 0
    assert "2 passed (2 on llvm)" in capsys.readouterr().out
