"""The loops that schedules stand for, as text: the seeds' schedules, and one schedule after every pass."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import seed_programs
from roundtrip import assert_roundtrip

from autosched import te
from autosched.errors import UsageError
from autosched.ir.printer import format_function
from autosched.lowering import PASSES, lower, lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor

Golden = Callable[..., None]


@pytest.mark.parametrize("name", seed_programs.BLURS)
def test_box_blur(name: str, golden: Golden) -> None:
    blur = seed_programs.box_blur()
    s = seed_programs.BLURS[name](blur)
    golden(str(lower(s, blur.args, name="box_blur")), f"box_blur_{name}")
    assert_roundtrip(s, blur.args)


def test_box_blur_on_a_gpu(golden: Golden) -> None:
    blur = seed_programs.box_blur()
    s = seed_programs.all_the_toys_gpu(blur)
    golden(str(lower(s, blur.args, name="box_blur", target="opencl")), "box_blur_all_the_toys_gpu")
    assert_roundtrip(s, blur.args, "opencl")


def test_storage_and_compute_order_are_chosen_apart(golden: Golden) -> None:
    """The storage is [j, i] in both; only the second computes it in the order of its input."""
    texts = []
    for make in (seed_programs.stored_transposed, seed_programs.stored_transposed_computed_in_order):
        a, b, c = seed_programs.copied_twice()
        s = make(a, b, c)
        texts.append(str(lower(s, [a, c])))
        golden(texts[-1], make.__name__)
        assert_roundtrip(s, [a, c])
    for text in texts:
        assert "allocate B.global: float32[20, 10]" in text
        assert "B.global[j.c, i.c] = A[i.c, j.c]" in text
        assert "C[i, j] = B.global[j, i]" in text
    assert texts[0].index("for (j.c,") < texts[0].index("for (i.c,")
    assert texts[1].index("for (i.c,") < texts[1].index("for (j.c,")


def clamped_rows() -> tuple[list[Tensor], Schedule]:
    """B = A + 1 in a buffer, then C = B plus its left neighbour, eight lanes at a time."""
    n = te.var("n")
    a = te.placeholder((n, 20), "int32", name="A")
    b = te.compute((n, 20), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, 20), lambda i, j: b[i, j] + b[i, te.max(j - 1, 0)], name="C")
    s = create_schedule(c)
    _, inner = s[c].split("j", factor=s.define_knob("lanes", [4, 8]))
    s[c].vectorize(inner)
    s[c].parallel("i")
    return [a, c], s


@pytest.mark.parametrize("name", PASSES)
def test_after_each_pass(name: str, golden: Golden) -> None:
    args, s = clamped_rows()
    golden(format_function(lower_structure(s, args, "llvm", "rows").after(name, {"lanes": 8})), f"rows_after_{name}")


def test_an_unknown_pass() -> None:
    args, s = clamped_rows()
    with pytest.raises(UsageError, match=r"no pass 'optimise'\n  passes in order: structure, bind_knobs"):
        lower_structure(s, args, "llvm").after("optimise")


def test_lower_is_a_function_and_a_package() -> None:
    import autosched

    args, s = clamped_rows()
    assert str(autosched.lower(s, args)) == str(autosched.lowering.lower(s, args)) == str(lower(s, args))
    assert str(lower(s, args).function.name) == "main"


def test_lowering_twice_gives_the_same_text() -> None:
    texts = set()
    for _ in range(3):
        blur = seed_programs.box_blur()
        texts.add(format_function(lower_structure(seed_programs.all_the_toys(blur), blur.args, "llvm").bind()))
    assert len(texts) == 1


#: lowers the programs that the letters of its argument name, of which a hyphen forgets all so far; prints the last one
HISTORY = """
import gc, sys
from autosched import te
from autosched.lowering import lower
from autosched.schedule import create_schedule

n = te.var("n")
made, kept = {}, []
for letter in sys.argv[1]:
    if letter == "-":
        made.clear(), kept.clear(), gc.collect()
        continue
    if letter not in made:
        p, q = (3, 5) if letter == "a" else (5, 3)
        a = te.placeholder((n,), name="a")
        made[letter] = a, te.compute((n,), lambda i: a[i * (n // p) * (n // q) % n], name="b")
    kept.append(lower(create_schedule(made[letter][1].op), made[letter]))
print(kept[-1])
"""


def test_the_text_does_not_depend_on_what_was_lowered_before() -> None:
    """Quotients of one size that another program made first, or that were made again after they had been forgotten."""
    texts = set()
    for history in ("a", "aa", "ba", "b-a", "ab-a"):
        run = [sys.executable, "-c", HISTORY, history]
        texts.add(subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert len(texts) == 1 and "i*(n//3)*(n//5)" in texts.pop()
