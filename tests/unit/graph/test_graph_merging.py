"""Programs for devices: sources in one, and buffers for what lives in the arena."""

from __future__ import annotations

from typing import Any

import pytest

from autosched.codegen.artifact import Artifact
from autosched.codegen.signature import Param, Signature
from autosched.errors import BuildError
from autosched.graph.memory import padded
from autosched.graph.merging import merge_launches
from autosched.graph.program import Call, Place, Program
from autosched.runtime.launch import LaunchPlan
from autosched.target import Target

TARGET = Target.parse("opencl")
_HEAD = """\
#pragma OPENCL FP_CONTRACT {contract}

#ifndef INDEX_T  // a comment
#if 1
#define INDEX_T int
#endif
#endif

typedef INDEX_T index_t;

#define twice(x) \\
  ((x) + (x))

inline float helper(float a) {{ return {helper}; }}
inline float same(float a) {{
  if (a > 0) {{ return a; }}
  return helper(a);
}}

__kernel __attribute__((reqd_work_group_size(4, 1, 1)))
void {launch}(__global const float* restrict x, __global float* restrict {launch}) {{
  {launch}[get_global_id(0)] = same(helper(x[get_global_id(0)]));
}}
"""


def kernel(name: str, n: int = 4, contract: str = "ON", helper: str = "a", device: int = 0, when: Any = 1) -> Artifact:
    """A kernel of one launch, whose helper has that text, and `device` floats of its own."""
    source = _HEAD.format(contract=contract, helper=helper, launch="y")
    args: list[Any] = [["param", 0], ["param", 1], *([["device", 0]] if device else [])]
    launch = {"name": "y", "grid": [n, 1, 1], "block": [4, 1, 1], "shared_bytes": 0, "args": args, "when": when}
    own = [{"name": "t", "dtype": "float32", "elements": device}] if device else []
    params = (Param("x", "float32", (n,), False), Param("y", "float32", (n,), True))
    meta = {"launches": [launch], "device": own, "index_bound": n}
    return Artifact("opencl", "opencl", Signature(name, params, ()), source.encode(), {"source": source}, meta)


def chain(kernels: list[Artifact], ends: list[Place], of: list[int], arena: int = 4096) -> Program:
    params = [Param(n, "float32", (4096,), n == "out") for n in ("data", "out")]
    calls = tuple(Call(k, (a, b)) for k, a, b in zip(of, ends, ends[1:], strict=False))
    return Program("net", (params[0],), (params[1],), (), tuple(kernels), calls, arena)


def at(offset: int) -> Place:
    return Place("arena", offset)


IN, OUT = Place("input", 0), Place("output", 0)


def test_what_sources_share_is_there_once_and_what_differs_under_names_of_its_own() -> None:
    kernels = [kernel("net_a"), kernel("net_b"), kernel("net_c", helper="a * 2"), kernel("net_d", contract="OFF")]
    merged = merge_launches(chain(kernels, [IN, at(0), at(64), at(0), OUT], [0, 1, 2, 3]), TARGET)
    source = merged.code.decode()
    assert [x["name"] for x in merged.meta["launches"]] == ["net_a_y", "net_b_y", "net_c_y", "net_d_y"]
    for once in ("typedef INDEX_T index_t;", "#ifndef INDEX_T", "#define twice", "float helper(", "float same("):
        assert source.count(once) == 1, once
    assert "float net_c_helper(float a) { return a * 2; }" in source
    assert source.count("net_c_helper(") == 3  # defined, called by the helper that calls it, and by the kernel
    assert source.count("net_c_same(") == 2  # which has another text now
    assert source.index("FP_CONTRACT ON") < source.index("net_c_y") < source.index("FP_CONTRACT OFF")
    assert source.count("FP_CONTRACT") == 2
    assert source.count("restrict y)") == 4  # a parameter keeps the name that its kernel had
    assert all(source.count(brace) == source.count(other) for brace, other in ("{}", "()"))


def test_loops_of_the_host_stay_apart() -> None:
    """Each call has one of its own, also two calls of one kernel."""
    stepped = kernel("net_a")
    (launch,) = stepped.meta["launches"]
    launch["args"].append(["step", 0])
    stepped.meta["launches"] = [{**launch, "loop": [0, 1, 3]}]
    merged = merge_launches(chain([stepped, kernel("net_b")], [IN, at(0), at(64), OUT], [0, 0, 1]), TARGET)
    assert [x.get("loop") for x in merged.meta["launches"]] == [[0, 1, 3], [1, 1, 3], None]
    order = [(number, x.step) for number, x in LaunchPlan.of(merged).in_order({})]
    assert order == [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3), (2, 0)]


def buffers(merged: Artifact) -> tuple[list[int], list[list[int]]]:
    """The bytes of buffers, and those of each launch."""
    sizes = [b["elements"] for b in merged.meta["device"]]
    return sizes, [[n for kind, n in x["args"] if kind == "device"] for x in merged.meta["launches"]]


def test_values_that_do_not_meet_share_a_buffer() -> None:
    kernels = [kernel("net_a", 16), kernel("net_b", 16, device=100)]
    merged = merge_launches(chain(kernels, [IN, at(0), at(64), at(0), OUT], [0, 1, 0, 0]), TARGET)
    sizes, used = buffers(merged)
    first, (read, made, own) = used[0][0], used[1]
    assert read == first and len({read, made, own}) == 3
    assert sizes[own] == 400 and sizes.count(64) == 2
    assert used[2][0] == made and used[3] == [used[2][1]]


def test_a_value_in_place_of_another_is_in_its_buffer() -> None:
    kernels = [kernel("net_a", 16)]
    _, used = buffers(merge_launches(chain(kernels, [IN, at(0), at(0), OUT], [0, 0, 0]), TARGET))
    assert used == [[0], [0, 0], [0]]


def test_nothing_has_a_place_and_changes_no_other() -> None:
    kernels = [kernel("net_a", 16), kernel("net_none", 0)]
    p = chain(kernels, [IN, at(0), OUT], [0, 0])
    between = Call(1, (at(0), at(0)))
    merged = merge_launches(
        Program(p.name, p.inputs, p.outputs, (), p.kernels, (p.calls[0], between, p.calls[1]), 64), TARGET
    )
    _, used = buffers(merged)
    assert used[0] == used[2]


@pytest.mark.parametrize(
    "ends",
    [[at(0), OUT], [IN, at(0), at(32), at(0), OUT], [IN, at(0), at(padded(16) * 4), OUT]],
    ids=["never written", "written over", "fits"],
)
def test_only_what_is_whole_is_read(ends: list[Place]) -> None:
    p = chain([kernel("net_a", 16)], ends, [0] * (len(ends) - 1))
    if ends[-2] == at(256):
        merge_launches(p, TARGET)
        return
    if len(ends) > 2:  # what was written first is gone in part
        p = Program(p.name, p.inputs, p.outputs, (), p.kernels, (*p.calls[:2], Call(0, (at(0), OUT))), 4096)
    with pytest.raises(BuildError, match="no call before it wrote as a whole"):
        merge_launches(p, TARGET)


def test_launches_that_never_run_are_left_out() -> None:
    merged = merge_launches(chain([kernel("net_a", when=0), kernel("net_b")], [IN, at(0), OUT], [0, 1]), TARGET)
    assert [x["name"] for x in merged.meta["launches"]] == ["net_b_y"] and merged.meta["calls"] == [1]


def test_kernels_with_options_of_their_own_are_refused() -> None:
    own = kernel("net_a")
    own.meta["options"] = ["-DX=1"]
    with pytest.raises(BuildError, match="options of its own: -DX=1"):
        merge_launches(chain([own], [IN, OUT], [0]), TARGET)
