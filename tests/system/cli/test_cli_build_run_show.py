"""`build`, `run` and `show`, with the real compiler on small workloads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.cli.images import read_image, write_image
from autosched.records import Record, RecordLog, default_path
from autosched.runtime.device import describe_device
from autosched.runtime.module import Module
from autosched.space.loading import find_workload
from autosched.space.space import template_space
from autosched.space.workload import Workload
from autosched.target import Target

Cli = Callable[..., Any]


HALVES = """
from autosched import te, template, workload


@workload
def double():
    a = te.placeholder((64,), name="a")
    return a, te.compute((64,), lambda i: a[i] * 2.0, name="b")


@template(double, target="llvm")
def halves(s):
    way, width = s.choose("way", ["few", "all", "no"]), s.define_knob("width", [1, 2, 4, 8])
    if way == "few":
        s.constrain(width <= 2, "few")
    s["b"].split("i" if way != "no" else "nothing", factor=width)
"""


def noise(*shape: int, dtype: str = "uint8") -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 250, shape).astype(dtype)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """The only record of `brighten`: as if tuning had found rows=4."""
    target, sizes = Target.parse("llvm"), {"height": 24, "width": 32}
    workload: Workload = find_workload("brighten")()
    sketch = template_space(workload, target, sizes).sketches[0]
    made = Record(
        workload={"name": "brighten", "key": workload.key, "params": {}, "args": [], "sizes": sizes},
        target="llvm",
        device=describe_device(target),
        sketch=sketch.name,
        trace=sketch.trace,
        knobs={"rows": 4},
        status="ok",
        samples=(1e-6,),
        verified="full",
        id="0123456789abcdef",
    )
    RecordLog(default_path("brighten", "llvm", tmp_path / "records")).append(made)
    return made


# -- build ----------------------------------------------------------------------------------------
def test_build_without_records_says_so(cli: Cli) -> None:
    done = cli("build", "brighten")
    assert done.status == 0, done.err
    assert "no record of this workload: the default schedule" in done.out
    assert "signature brighten(image: uint8[height, width, 3], brighter: uint8[height, width, 3])" in done.out
    assert "a call takes" in done.out
    assert "at height=24 width=32" in done.out


def test_build_uses_the_record_and_saves(cli: Cli, record: Record, tmp_path: Path) -> None:
    done = cli("build", "brighten", "-o", "b.artifact", "--json")
    assert done.status == 0, done.err
    assert done.data["provenance"]["record"] == record.id
    assert done.data["provenance"]["knobs"] == {"rows": 4}
    assert done.data["seconds"] > 0
    image = noise(5, 6, 3)
    np.testing.assert_array_equal(Module.load(tmp_path / "b.artifact")(image), image + 1)


def test_build_of_a_workload_without_inputs_is_not_timed_unless_sizes_are_given(cli: Cli) -> None:
    done = cli("build", "total")
    assert done.status == 0
    assert "not timed" in done.out
    assert "--size rows=" in done.err
    done = cli("build", "total", "--size", "rows=8", "--json")
    assert done.data["sizes"] == {"rows": 8}
    assert done.data["seconds"] > 0


def test_build_by_file_and_function(cli: Cli) -> None:
    file = Path(__file__).parent / "search_spaces" / "brighten.py"
    assert cli("build", f"{file}:total", "--size", "rows=2").status == 0
    done = cli("build", f"{file}:totl")
    assert done.status == 2
    assert "brighten, total" in done.err


def test_build_refuses_a_place_that_is_none_before_it_compiles(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*args: object, **options: object) -> None:
        raise AssertionError("it was compiled")

    monkeypatch.setattr("autosched.cli.build.build", build)
    for place in ("missing/b.artifact", "."):
        done = cli("build", "brighten", "-o", place)
        assert done.status == 2
        assert "no place for a file" in done.err


@pytest.mark.parametrize("words", [["build", "brighten"], ["show", "brighten"], ["run", "brighten"], ["records"]])
def test_a_folder_of_records_that_does_not_exist_is_refused(cli: Cli, words: list[str]) -> None:
    done = cli(*words, "--records", "recrods")
    assert done.status == 4
    assert "--records recrods: there is no such folder" in done.err


# -- show -----------------------------------------------------------------------------------------
def test_show_the_schedule(cli: Cli, record: Record) -> None:
    done = cli("show", "brighten")
    assert done.status == 0
    assert done.out.startswith("def schedule(s):\n    rows = 4\n")
    assert 's["brighter"].parallel("y.outer")' in done.out
    assert done.err.startswith(
        "brighten(channels=3, dtype='uint8') for llvm: record 0123456789abcdef, bands at rows=4, 1.00 us when measured"
    )
    assert cli("show", "brighten", "--schedule").out == done.out


def test_show_loops_after_any_pass(cli: Cli, record: Record) -> None:
    structure = cli("show", "brighten", "--after", "structure").out
    assert "parallel (y.outer, 0, " in structure
    assert "rows" in structure
    bound = cli("show", "brighten", "--loops").out
    assert "rows" not in bound
    assert bound == cli("show", "brighten", "--after", "simplify").out
    wrong = cli("show", "brighten", "--after", "simplfy")
    assert wrong.status == 2
    assert "structure, bind_knobs, apply_pragmas, simplify" in wrong.err


def test_show_code(cli: Cli) -> None:
    assert "define" in cli("show", "brighten", "--source").out
    assert "define" in cli("show", "brighten", "--llvm").out
    assert ".text" in cli("show", "brighten", "--what", "asm").out


def test_show_assembly_with_its_hot_loop_marked(cli: Cli) -> None:
    listing, hot = cli("show", "brighten", "--asm").out, cli("show", "brighten", "--hot").out
    comment = listing[0]
    assert listing.startswith(f"{comment} hot loop: ")
    assert [line for line in listing.splitlines() if line.startswith("/*|*/")] == hot.splitlines()[
        -hot.count("/*|*/") :
    ]
    data = cli("show", "brighten", "--hot", "--json").data
    assert data["text"].rstrip() == hot.rstrip()
    assert data["hot_loop"]["counts"]["loads"] > 0


def test_show_says_how_long_each_pass_takes(cli: Cli) -> None:
    lines = cli("show", "brighten", "--passes", "--json").data["text"].splitlines()
    names = [line.split(":")[0] for line in lines]
    assert names[0] == "bind_knobs" and names[-1] == "verify" and "vectorize" in names
    assert all("us (" in line for line in lines)


def test_show_opencl_source_only(cli: Cli) -> None:
    assert "__kernel" in cli("show", "brighten", "--target", "opencl", "--source").out
    done = cli("show", "brighten", "--target", "opencl", "--asm")
    assert done.status == 2
    assert "--source" in done.err


def test_show_json(cli: Cli, record: Record) -> None:
    data = cli("show", "brighten", "--after", "vectorize", "--json").data
    assert data["what"] == "loops"
    assert data["after"] == "vectorize"
    assert data["provenance"]["record"] == record.id
    assert "brighter[" in data["text"]


def test_show_records(cli: Cli, record: Record) -> None:
    done = cli("show", "brighten", "--what", "records")
    assert done.status == 0
    assert record.id in done.out
    other = cli("show", "brighten", "--param", "channels=1", "--what", "records")
    assert other.out == "no records\n"


def test_show_space(cli: Cli, tmp_path: Path) -> None:
    assert cli("show", "brighten", "--space").out == "bands  4 valid of 4 points\n"
    file = tmp_path / "halves.py"
    file.write_text(HALVES)
    done = cli("show", str(file), "--space")
    few, all_, left_out, total = done.out.splitlines()
    assert few == "halves[way=few]  2 valid of 4 points" and all_ == "halves[way=all]  4 valid of 4 points"
    assert left_out.startswith("halves[way=no]") and "left out: " in left_out and "nothing" in left_out
    assert total == "in all           6 valid of 8 points"
    data = cli("show", str(file), "--space", "--json").data
    assert (data["points"], data["valid"], len(data["sketches"]), len(data["untraced"])) == (8, 6, 2, 1)
    assert data["sketches"][0] == {"name": "halves[way=few]", "points": 4, "valid": 2, "failure": ""}


# -- run ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("rgb.png", (5, 6, 3), "uint8"),
        ("grey.png", (5, 6, 1), "uint8"),
        ("la.png", (5, 6, 2), "uint8"),
        ("rgba.png", (5, 6, 4), "uint8"),
        ("grey16.png", (5, 6, 1), "uint16"),
        ("dot.png", (1, 1, 3), "uint8"),
        ("line.png", (1, 9, 1), "uint8"),
        ("deep.npy", (4, 3, 5), "int64"),
    ],
)
def test_run_follows_the_image(cli: Cli, tmp_path: Path, name: str, shape: tuple[int, ...], dtype: str) -> None:
    image = noise(*shape, dtype=dtype)
    write_image(name, image)
    done = cli("run", "brighten", name, "--verify", "--json")
    assert done.status == 0, done.err
    assert done.data["verified"] == "full"
    assert done.data["workload"] == f"brighten(channels={shape[2]}, dtype={dtype!r})"
    result = read_image(done.data["output"])
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, image + np.dtype(dtype).type(1))


def test_run_on_the_photograph(cli: Cli, tmp_path: Path) -> None:
    done = cli("run", "box_blur", "-o", "blurred.png", "--verify")
    assert done.status == 0, done.err
    assert "china.jpg: 427 x 640, 3 channels of uint8" in done.out
    assert "blurred.png: written; a call takes" in done.out
    assert "verified against the reference" in done.out
    assert read_image("blurred.png").shape == (427, 640, 3)


def test_run_names_its_output_after_the_input(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_image("in/a.bmp", noise(3, 4, 3))
    assert cli("run", "brighten", "in/a.bmp", "--json").data["output"] == "a.brighten.png"
    assert (tmp_path / "a.brighten.png").is_file()


def test_run_on_opencl(cli: Cli) -> None:
    write_image("a.png", noise(5, 6, 3))
    done = cli("run", "brighten", "a.png", "-o", "b.png", "--target", "opencl", "--verify")
    assert done.status == 0, done.err
    np.testing.assert_array_equal(read_image("b.png"), read_image("a.png") + 1)


GREY = """
from autosched import te, workload

@workload
def grey(channels: int = 3, dtype: str = "uint8"):
    h, w = te.var("h"), te.var("w")
    image = te.placeholder((h, w, channels), dtype, name="image")
    r, g, b = (lambda y, x, c=c: image[y, x, c].astype("float32") for c in range(3))
    level = lambda y, x, c: (0.299 * r(y, x) + 0.587 * g(y, x) + 0.114 * b(y, x) + 0.5).astype("uint8")
    return image, te.compute((h, w, 1), level, name="grey")
"""


@pytest.mark.parametrize(("off_by", "status"), [(0, 0), (1, 0), (2, 5)])
def test_run_allows_one_step_where_a_float_became_a_pixel(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off_by: int, status: int
) -> None:
    (tmp_path / "grey.py").write_text(GREY)
    write_image("a.png", noise(50, 60, 3) // 2)
    right = Workload.reference
    monkeypatch.setattr(Workload, "reference", lambda self, inputs: [x + np.uint8(off_by) for x in right(self, inputs)])
    done = cli("run", "grey.py:grey", "a.png", "-o", "b.png", "--verify")
    assert done.status == status, done.err
    assert cli("run", "grey.py:grey", "a.png", "-o", "c.png", "--verify", "--target", "llvm -strict").status == (
        5 if off_by else 0
    )


def test_a_wrong_result_is_status_5_and_not_written(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_image("a.png", noise(5, 6, 3))
    monkeypatch.setattr(Workload, "reference", lambda self, inputs: [inputs[0] + np.uint8(2)])
    done = cli("run", "brighten", "a.png", "--verify")
    assert done.status == 5
    assert "the result is wrong: 90 of 90 elements differ" in done.err
    assert [p.name for p in tmp_path.glob("*.png")] == ["a.png"]


@pytest.mark.parametrize(
    ("words", "status", "parts"),
    [
        (["brighten", "missing.png"], 2, ["image missing.png", "No such file"]),
        (["brighten", "empty.png"], 2, ["the file is empty"]),
        (["brighten", "a.png", "-o", "b.xyz"], 2, ["'.xyz'", ".png, .jpg"]),
        (["brighten", "a.png", "-o", "no/b.png"], 2, ["folder does not exist"]),
        (
            ["brighten", "a.png", "--param", "channels=1"],
            2,
            ["the image is 5 x 6 x 3 of uint8", "uint8[height, width, 1]"],
        ),
        (["total", "a.png"], 2, ["the image is 5 x 6 of uint8"]),
        (["brighten", "a.png", "--target", "opencl -device=nosuch"], 6, ["no OpenCL device matches"]),
    ],
)
def test_what_cannot_be_run(cli: Cli, tmp_path: Path, words: list[str], status: int, parts: list[str]) -> None:
    write_image("a.png", noise(5, 6, 3))
    (tmp_path / "empty.png").touch()
    done = cli("run", *words)
    assert done.status == status
    for part in parts:
        assert part in done.err
    assert "Traceback" not in done.err
