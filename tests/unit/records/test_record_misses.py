"""Why records do not apply: the reasons, and their order."""

from __future__ import annotations

import json
from dataclasses import replace

from autosched.cli import main
from autosched.records import Record, misses

ARGS = [{"name": "x", "shape": ["n"], "dtype": "float32"}]
MINE = {"args": ARGS, "key": "k", "target_kind": "llvm", "device": "mine", "sizes": {"n": 8}}


def record(**changes) -> Record:
    made = {
        "workload": {"name": "w", "key": "k", "params": {}, "args": ARGS, "sizes": {"n": 8}}, "target": "llvm",
        "sketch": "s", "trace": [], "knobs": {}, "status": "ok", "samples": (1e-3,), "verified": "full",
        "device": {"name": "mine"},
    }  # fmt: skip
    return Record(**(made | changes))


def reasons(r: Record, **asked) -> tuple[str, ...]:
    (found,) = misses([r], **(MINE | asked))
    return found.reasons


def test_each_reason() -> None:
    other = record().workload
    assert reasons(record()) == ()
    assert reasons(record(device={"name": "yours"})) == ("device is yours, not mine",)
    assert reasons(record(target="opencl -x")) == ("target is opencl, not llvm",)
    assert reasons(record(status="timeout", samples=())) == ("trial failed: timeout",)
    assert reasons(record(verified="no")) == ("unverified output",)
    assert reasons(record(workload=other | {"sizes": {"n": 9}})) == ("sizes are n 9",)
    assert reasons(record(workload=other | {"sizes": {"n": 9}}), sizes=None) == ()
    changed = other | {"key": "l"}
    assert reasons(record(workload=changed | {"args": [ARGS[0] | {"dtype": "int8"}]})) == (
        "program differs: x is int8, not float32",
    )
    assert reasons(record(workload=changed | {"args": [ARGS[0] | {"shape": ["n", "2"]}]})) == (
        "program differs: x is [n, 2], not [n]",
    )
    assert reasons(record(workload=changed | {"args": []})) == ("program differs: 0 arguments, not 1",)
    assert reasons(record(workload=changed | {"args": "?"})) == ("program differs: 0 arguments, not 1",)
    assert reasons(record(workload=changed)) == ("program differs: its definition is another, with the same arguments",)


def test_the_nearest_come_first_and_those_alike_are_one_line() -> None:
    far = record(workload=record().workload | {"key": "l"}, target="opencl", samples=(1e-6,))
    near = [record(device={"name": "yours"}, samples=(s,)) for s in (2e-3, 1e-3, 3e-3)]
    found = misses([far, *near, record(status="predicted", samples=())], **MINE)
    assert [(m.count, m.fastest.seconds) for m in found] == [(3, 1e-3), (1, 1e-6)]
    assert len(found[1].reasons) == 2


def test_the_command(tmp_path, capsys) -> None:
    words = ["show", "box_blur", "--why", "--target", "llvm", "--records", str(tmp_path)]
    assert main(words) == 0
    assert "there is no record of the name 'box_blur'" in capsys.readouterr().out
    tuned = ["tune", "box_blur", "--target", "llvm", "--size", "height=16", "--size", "width=16", "--trials", "2"]
    assert main([*tuned, "--records", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(words) == 0
    assert "nothing is in the way" in capsys.readouterr().out
    assert main([*words, "--param", "channels=1", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert all(
        "program differs: image is [height, width, 3], not [height, width, 1]" in g["reasons"][0]
        for g in data["groups"]
    )
    assert data["provenance"]["kind"] == "default"


def test_no_line_is_lost_that_other_versions_wrote() -> None:
    odd = replace(record(), workload={"name": "w", "key": "z", "params": {}, "sizes": {}})
    assert reasons(odd) == ("program differs: 0 arguments, not 1",)
