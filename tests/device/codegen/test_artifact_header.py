"""Artifacts whose header was changed and sealed again: refused where the header is read, whatever was changed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from autosched import build, create_schedule, te
from autosched.codegen import compile_function
from autosched.codegen.artifact import Artifact, checksum_of, dump_header
from autosched.errors import AutoschedError, BuildError
from autosched.lowering import lower_structure
from autosched.runtime.module import Module

VALUES: list[Any] = [
    None, True, 0, -1, 2**70, 1.5, "", "x", "a\0b", "../x", [], [1], {}, {"a": 1}, [["size", "n"]], ["size", "n"],
    ["size", "m"], ["add", 1], [None],
]  # fmt: skip


def artifacts() -> list[Artifact]:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    kernel = create_schedule(b)
    outer, inner = kernel[b].split("i", factor=32)
    kernel[b].bind(outer, "blockIdx.x")
    kernel[b].bind(inner, "threadIdx.x")
    made = [build(create_schedule(b), "llvm", args=[a, b]).artifacts()[0]]
    for s, target in ((create_schedule(b), "c"), (kernel, "opencl"), (kernel, "cuda")):
        structure = lower_structure(s, [a, b], target)
        made.append(compile_function(structure.bind(), structure.target))
    return made


def places(x: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for k in x if isinstance(x, dict) else range(len(x)) if isinstance(x, list) else ():
        yield from places(x[k], (*path, k))


def changed(header: dict[str, Any], path: tuple[Any, ...], value: Any, drop: bool) -> dict[str, Any]:
    result = inner = copy.deepcopy(header)
    for k in path[:-1]:
        inner = inner[k]
    if drop and isinstance(inner, dict):
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return result


def sealed(header: dict[str, Any], code: bytes) -> bytes:
    return dump_header(header | {"sha256": checksum_of(header, code)}) + b"\n" + code


def test_a_resealed_header_is_read_or_refused() -> None:
    rng = random.Random(1)
    made = artifacts()
    loaded = refused = 0
    for turn in range(2000):
        a = made[turn % len(made)]
        line, _, code = a.to_bytes().partition(b"\n")
        header = json.loads(line)
        del header["sha256"]
        path = rng.choice([p for p in places(header) if p[0] not in ("format", "v")])
        data = sealed(changed(header, path, rng.choice(VALUES), rng.random() < 0.2), code)
        try:
            (found,) = Artifact.from_bytes(data, "here")
            if found.kind == "llvm":
                Module.of([found])
            loaded += 1
        except AutoschedError:
            refused += 1
    assert refused > 1000
    assert loaded > 20  # some changes are to what is for people, or leave what is as good


@pytest.mark.parametrize("index", range(1, 4))
def test_source_that_is_no_text(index: int) -> None:
    a = artifacts()[index]
    line, _, code = a.to_bytes().partition(b"\n")
    header = json.loads(line)
    del header["sha256"]
    with pytest.raises(BuildError, match="not a usable artifact"):
        Artifact.from_bytes(sealed(header, b"\xff" + code[1:]), "here")


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("text", [5, None, ["x"], {}], ids=repr)
def test_texts_are_text(index: int, text: object) -> None:
    line, _, code = artifacts()[index].to_bytes().partition(b"\n")
    header = json.loads(line)
    del header["sha256"]
    with pytest.raises(BuildError, match="its header.texts is not an object of strings"):
        Artifact.from_bytes(sealed({**header, "texts": {**header["texts"], "source": text}}, code), "here")


def test_untouched_artifacts_are_read() -> None:
    for a in artifacts():
        assert Artifact.from_bytes(a.to_bytes(), "here") == [a]
    assert Module.of([artifacts()[0]])(np.zeros(3, "float32")).tolist() == [1, 1, 1]
