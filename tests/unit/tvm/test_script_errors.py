"""What TVMScript says here, and what it does not: refused with its line, or with the reason why it is not scheduled."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent, indent

import pytest

from autosched.errors import ScheduleError, UsageError
from autosched.tvm import tir
from autosched.tvm.script import from_source
from autosched.tvm.script import tir as T

HEAD = '@T.prim_func\ndef f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), h: T.handle):\n'
MATCH = 'H = T.match_buffer(h, (8,), "float32")\n'

REFUSED = {
    "a name that is not there": "B[0] = C[0]",
    "an index too many": "B[0] = A[0, 1]",
    "a class in it": "class X: pass",
    "a loop over a list": "for i in [1, 2]:\n    B[i] = A[i]",
    "two names for one loop": "for i, j in T.serial(8):\n    B[i] = A[j]",
    "an axis outside of a block": "vi = T.axis.spatial(8, 0)",
    "an axis of no loop": 'with T.block("B"):\n    vi = T.axis.remap("S", [3])\n    B[vi] = 0.0',
    "one kind for two loops": "for i, j in T.grid(8, 8):\n    with T.block():\n"
    '        vi, vj = T.axis.remap("S", [i, j])\n        B[vi] = 0.0',
    "T.where outside of a block": "T.where(A[0] < 1)",
    "T.init outside of a block": "with T.init():\n    B[0] = 0.0",
    "a return of a value": "return 3",
    "a store to no buffer": "x = 3\nx[0] = 1",
    "a hardware axis that is none": 'for i in T.thread_binding(8, thread="threadIdx.w"):\n    B[i] = A[i]',
    "a buffer of no handle": "C = T.match_buffer(A, (8,))\nB[0] = C[0]",
    "a buffer that begins inside its memory": 'H = T.match_buffer(h, (8,), "float32", elem_offset=4)',
    "nothing opened": "with A:\n    B[0] = 0.0",
    "tensor cores": 'T.ptx_mma("m16n8k16")',
    "Python's own": "B[0] = A.__class__",
}


def test_what_is_not_read_is_refused_with_its_line(golden: Callable[..., None]) -> None:
    texts = []
    for title, body in REFUSED.items():
        has_match = "match_buffer(h" in body
        text = HEAD + indent((("" if has_match else MATCH) + body), "    ")
        with pytest.raises(UsageError) as raised:
            from_source(text)
        said = re.sub(r"<script \w+>", "SCRIPT", str(raised.value))
        assert "at SCRIPT:" in said, said
        texts.append(f"-- {title}\n" + re.sub(r"(names here|names): .*", r"\1: ..", said) + "\n")
    golden("\n".join(texts))


NO_STAGES = {
    "a condition in a block": "for i in range(8):\n    with T.block('B'):\n        vi = T.axis.spatial(8, i)\n"
    "        if vi > 3:\n            B[vi] = A[vi]",
    "two stores to one buffer": "for i in range(8):\n    with T.block('B'):\n        vi = T.axis.spatial(8, i)\n"
    "        B[vi] = A[vi]\n        B[vi] = H[vi]",
    "a store that depends on another": "for i in range(8):\n    with T.block('B'):\n        vi = T.axis.spatial(8, i)\n"
    "        B[vi] = A[vi]\n        H[vi] = B[vi] + A[vi]",
    "two blocks of one name": "for i in range(8):\n    with T.block('B'):\n        vi = T.axis.spatial(8, i)\n"
    "        B[vi] = A[vi]\nfor i in range(8):\n    with T.block('B'):\n        vi = T.axis.spatial(8, i)\n        H[vi] = A[vi]",
    "half of a buffer": "for i in range(4):\n    with T.block('B'):\n        vi = T.axis.spatial(4, i)\n        B[vi] = A[vi]",
    "backwards": "for i in range(8):\n    with T.block('B'):\n        vi = T.axis.spatial(8, i)\n        B[7 - vi] = A[vi]",
    "a loop too short": "for i in range(4):\n    with T.block('B'):\n        vi = T.axis.spatial(8, i)\n        B[vi] = A[vi]",
    "written twice": "for _ in range(2):\n    with T.block('B'):\n        vi = T.axis.spatial(8, 0)\n        B[vi] = A[vi]",
    "a condition of its own": "for i in range(8):\n    with T.block('B'):\n        vi = T.axis.spatial(8, i)\n"
    "        T.where(i != 3)\n        B[vi] = A[vi]",
    "read before it is written": "for i in range(8):\n    with T.block('B'):\n        vi = T.axis.spatial(8, i)\n"
    "        B[vi] = H[vi]\nfor i in range(8):\n    with T.block('H'):\n        vi = T.axis.spatial(8, i)\n        H[vi] = A[vi]",
    "a step that is no reduction": "for i, k in T.grid(8, 8):\n    with T.block('B'):\n"
    "        vi, vk = T.axis.remap('SR', [i, k])\n        with T.init():\n            B[vi] = 0.0\n"
    "        B[vi] = B[vi] - A[vk]",
    "no block": "for i in range(8):\n    B[i] = A[i]",
}


def test_what_is_not_scheduled_says_why(golden: Callable[..., None]) -> None:
    texts = []
    for title, body in NO_STAGES.items():
        f = from_source(HEAD + indent(MATCH + body, "    "))
        with pytest.raises(ScheduleError) as raised:
            tir.Schedule(f).rolling_buffer("B", 0)
        text = re.sub(r"  at \S+test_script_errors\.py:\d+", "", str(raised.value))
        texts.append(f"-- {title}\n" + re.sub(r"<script \w+>", "SCRIPT", text) + "\n")
    golden("\n".join(texts))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 3", "there is no function in it"),
        ("def f(:", "it is no Python"),
        ("@T.prim_func\ndef f(a): pass", "a has no type"),
        ('@T.prim_func\ndef f(a: "T.Buffer((4,), "): pass', "is no type"),
        (f"@T.prim_func\ndef f(a: '{'(' * 500}'): pass", "is no type"),
        (f"@T.prim_func\ndef f(a: '{'-' * 20000}1'): pass", "is no type"),
        ("@T.prim_func\ndef f(a: T.handle): pass", "no buffer is matched to it"),
        ("@T.prim_func\ndef f(a: 3): pass", "3 is no type of a parameter"),
        ("@I.ir_module\nclass M:\n    x = 3", "assign has no meaning here"),
    ],
)
def test_a_text_that_is_no_program_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        from_source(dedent(text))


def test_a_function_without_text_is_refused() -> None:
    with pytest.raises(UsageError, match="is no function"):
        T.prim_func(3)
    made = eval("lambda: 3")
    with pytest.raises(UsageError, match="does not have it"):
        T.prim_func(made)
