"""What cannot be exported says why, and what can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages import without_line

import autosched
from autosched import te
from autosched.codegen.artifact import Artifact
from autosched.codegen.signature import Param, Signature
from autosched.errors import AutoschedError
from autosched.exporting.exports import export
from autosched.exporting.interface import Interface, named
from autosched.ir.buffers import decl_buffer
from autosched.ir.calls import call_packed
from autosched.ir.functions import register_func
from autosched.runtime.kernel import UnavailableKernel
from autosched.runtime.module import Module
from autosched.space.workload import Workload
from autosched.target import Target

N = te.var("n")
A = te.placeholder((N,), name="a")
Y = te.compute((N,), lambda i: A[i] * 2, name="y")
W = Workload("doubled", (A, Y))


def module(kind: str, **meta: Any) -> Module:
    """A module that nobody runs."""
    s = Signature("f", (Param("a", "float32", (4,), False), Param("y", "float32", (4,), True)), ())
    facts = {"entry": "f", "launches": [], "device": [], "index_bound": 0, "cpu": "", "features": "", "triple": ""}
    artifact = Artifact(kind, kind, s, b"", {"source": ""}, {**facts, **meta})
    unable = UnavailableKernel(s, AutoschedError("no"))
    return Module(artifact, Target.parse(kind), kernel=unable)


def with_argument(**changes: Any) -> object:
    s = Signature("f", (Param("a", "float32", (4,), False, **changes),), ())
    return Interface.of(Artifact("c", "c", s, b""), Target("c"), {}, "")


@register_func("test_export.f", override=True)
def in_python(x: float) -> float:
    return x


CALLS = te.compute((4,), lambda i: call_packed("test_export.f", i.astype("float32"), dtype="float32"), name="calls")

CASES: dict[str, Callable[[], object]] = {
    "a target without files": lambda: export(module("cuda"), "folder"),
    "options of a module": lambda: export(module("c"), "folder", "llvm"),
    "sizes of a module": lambda: export(module("c"), "folder", sizes={"n": 4}),
    "a kernel of somebody's": lambda: export(module("opencl", options=["-O3"]), "folder"),
    "a function in Python": lambda: export(autosched.create_schedule(CALLS), "folder", "llvm"),
    "several functions": lambda: export({"f": autosched.create_schedule(Y), "g": autosched.create_schedule(Y)}, "x"),
    "no such size": lambda: export(W, "folder", sizes={"m": 4}),
    "a size of zero": lambda: export(W, "folder", sizes={"n": 0}),
    "a size in text": lambda: export(W, "folder", sizes={"n": "4"}),  # type: ignore[dict-item]
    "sizes in a list": lambda: export(W, "folder", sizes=[4]),  # type: ignore[arg-type]
    "sizes of a schedule": lambda: export(autosched.create_schedule(Y), "folder", sizes={"n": 4}),
    "what is none": lambda: export(5, "folder"),  # type: ignore[arg-type]
    "no path": lambda: export(module("c"), 5),  # type: ignore[arg-type]
    "an argument with strides": lambda: with_argument(strides=(2,)),
    "an argument that broadcasts": lambda: with_argument(broadcasts=True),
    "an argument that is a size": lambda: with_argument(is_size=True),
    "a function that checks": lambda: export(
        autosched.build(autosched.create_schedule(Y), "llvm", bounds_check=True), "folder"
    ),
    "a buffer with strides": lambda: export(
        autosched.build(
            autosched.create_schedule(Y), args=[A, Y], binds={A: decl_buffer((N,), name="a", strides=[te.var("s")])}
        ),
        "folder",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_exported(case: str, golden: Callable[..., None], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AutoschedError) as caught:
        CASES[case]()
    golden(without_line(caught.value))
    assert not list(tmp_path.iterdir())


def test_words_give_way_to_the_name_of_the_function() -> None:
    text = '#include <n.h>\n// n\nint n = 1; /* n\n n */ call("n %d\\"n", \'n\', n, \0, \0n, x.n, n_);'
    assert named(text, "n") == (
        '#include <n.h>\n// n\nint n_here = 1; /* n\n n */ call("n %d\\"n", \'n\', n_here, n, nn, x.n_here, n_);'
    )
