"""Artifacts and signatures: what is stored, what is refused, and what LLVM must never be told."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import numpy as np
import pytest

from autosched.codegen import compile_function, text_of
from autosched.codegen.artifact import Artifact, Signature
from autosched.codegen.llvm import MOST_LINES_OF_COPIES, MOST_LINES_OF_SLP, host, optimised, target_machine
from autosched.codegen.llvm_text import Scoped
from autosched.codegen.signature import dim_of, evaluate_dim, format_dim
from autosched.errors import BuildError, TargetError
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, const, make, maximum, minimum, select, truncdiv, truncmod, var
from autosched.ir.stmt import Buffer, For, Function, Store, load
from autosched.target import Target


def stencil(extra: int = 0) -> Function:
    """out[y, x] = a[y, x] + a[y + 2, x + 1] + extra, rows in parallel."""
    h, w = var("height", role="size"), var("width", role="size")
    a = Buffer("a", (h + 2, w + 1), dtype("float32"))
    out = Buffer("out", (h, w), dtype("float32"))
    y, x = var("y", role="loop"), var("x", role="loop")
    value = load(a, y * (w + 1) + x) + load(a, (y + 2) * (w + 1) + x + 1) + const(float(extra), "float32")
    body = For(y, const(0), h, "parallel", For(x, const(0), w, "serial", Store(out, (y * w + x,), value)))
    return Function("stencil", (a, out), (h, w), body, (1,))


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return compile_function(stencil(), Target.parse("llvm"))


# -- dimensions and signatures --------------------------------------------------------------------


def test_dimensions_are_data() -> None:
    """A shape expression over sizes, as JSON, means what the expression means."""
    h, w = var("h", role="size"), var("w", role="size")
    cases: list[tuple[Expr, str, int]] = [
        (const(4), "4", 4),
        (h + 2, "h + 2", 12),
        ((h + 2) * w, "(h + 2) * w", 36),
        (h // 4 - w % 2, "(h // 4) - (w % 2)", 1),
        (truncdiv(h, 4), "div(h, 4)", 2),
        (truncmod(h, 4), "mod(h, 4)", 2),
        (minimum(h, w), "min(h, w)", 3),
        (maximum(h, w), "max(h, w)", 10),
        (make("neg", h.dtype, (h,)), "-h", -10),
        (make("cast", dtype("int64"), (h,)), "h", 10),
    ]
    for e, text, value in cases:
        dim = json.loads(json.dumps(dim_of(e)))
        assert (format_dim(dim), evaluate_dim(dim, {"h": 10, "w": 3})) == (text, value)


def test_a_dimension_must_be_arithmetic() -> None:
    h = var("h", role="size")
    with pytest.raises(BuildError, match="'select' cannot stand in the shape"):
        dim_of(select(h > 2, h, const(1)))


def test_signature_round_trip(artifact: Artifact) -> None:
    signature = artifact.signature
    assert str(signature) == "stencil(a: float32[height + 2, width + 1], out: float32[height, width])"
    assert Signature.from_json(json.loads(json.dumps(signature.to_json()))) == signature
    assert [p.name for p in signature.inputs] == ["a"]
    assert [p.name for p in signature.outputs] == ["out"]


@pytest.mark.parametrize(
    "break_it",
    [
        lambda d: d.pop("sizes"),
        lambda d: d["params"][0].pop("shape"),
        lambda d: d["params"][0].update(dtype="float31"),
        lambda d: d["params"][0].update(is_output="yes"),
        lambda d: d["params"][0].update(shape=[["size", "depth"]]),
        lambda d: d["params"][0].update(shape=[["pow", 2, 3]]),
        lambda d: d["params"][0].update(shape=[["add", 2]]),
        lambda d: d["params"][0].update(shape=[True]),
        lambda d: d["params"][0].update(shape=[[]]),
        lambda d: d.update(name=7),
    ],
)
def test_malformed_signatures_are_refused(artifact: Artifact, break_it) -> None:
    data = artifact.signature.to_json()
    break_it(data)
    with pytest.raises(ValueError):
        Signature.from_json(data)


def test_sizes_are_read_off_shapes(artifact: Artifact) -> None:
    """From a dimension that is a size alone, and from a shifted one when it is all there is."""
    a, out = np.empty((12, 9)), np.empty((10, 8))
    assert artifact.signature.resolve([a, out]) == {"height": 10, "width": 8}
    assert artifact.signature.resolve([a, None]) == {"height": 10, "width": 8}


def test_sizes_are_solved_for() -> None:
    n, m = var("n", role="size"), var("m", role="size")
    shapes = (n * 2 + 1, 7 - m)
    signature = Signature.of(Function("f", (Buffer("a", shapes, dtype("int8")),), (n, m), Store, ()))  # type: ignore[arg-type]
    assert signature.resolve([np.empty((9, 4))]) == {"n": 4, "m": 3}
    with pytest.raises(BuildError, match="'n' cannot be read off"):
        signature.resolve([np.empty((8, 4))])


def test_sizes_of_windows_are_read_off_outputs() -> None:
    """A length of two sizes tells one where another array tells the other; the message says what is missing."""
    n, m, k = (var(name, role="size") for name in "nmk")
    shapes = [("x", (n * m,)), ("y", (n - k * 2 + 1,)), ("z", (n,))]
    params = tuple(Buffer(name, shape, dtype("int8")) for name, shape in shapes)
    signature = Signature.of(Function("f", params, (n, m, k), Store, (1, 2)))  # type: ignore[arg-type]
    x, y, z = (np.empty(length, "int8") for length in (60, 7, 12))
    assert signature.resolve([x, y, z]) == {"n": 12, "m": 5, "k": 3}
    with pytest.raises(BuildError, match="'m' cannot be read off") as found:
        signature.resolve([x[:0], y[:0], z[:0]])
    assert "pass the outputs" not in str(found.value)
    with pytest.raises(BuildError, match="pass the outputs as well"):
        signature.resolve([x, None, None])


# -- files ----------------------------------------------------------------------------------------


def test_file_round_trip(artifact: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "stencil.artifact"
    artifact.save(path)
    assert Artifact.load(path) == artifact
    assert [p.name for p in tmp_path.iterdir()] == ["stencil.artifact"]  # no temporary file stays
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode  # who may read other files may read this one


def test_damaged_files_are_refused(artifact: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "stencil.artifact"
    artifact.save(path)
    whole = path.read_bytes()
    end_of_header = whole.index(b"\n")
    damaged = {
        "empty": b"",
        "text": b"hello\n",
        "no code": whole[:end_of_header],
        "torn": whole[:-1],
        "longer": whole + b"x",
        "other version": whole.replace(b'"v":1', b'"v":9', 1),
        "not an object": b"[1]\n",
        "code bit": whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:],
        "header bit": whole.replace(b'"is_output":true', b'"is_output":fals', 1),
        "header value": whole.replace(b'"name":"out"', b'"name":"tuo"', 1),
        "binary": bytes(range(256)),
    }
    for what, data in damaged.items():
        path.write_bytes(data)
        with pytest.raises(BuildError, match="not a usable artifact") as caught:
            Artifact.load(path)
        assert str(path) in str(caught.value), what


def test_a_failed_save_leaves_the_old_file(artifact: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "stencil.artifact"
    artifact.save(path)
    broken = Artifact("llvm", "llvm", artifact.signature, b"", {}, {"not json": object()})
    with pytest.raises(TypeError):
        broken.save(path)
    assert Artifact.load(path) == artifact
    assert len(list(tmp_path.iterdir())) == 1


# -- code -----------------------------------------------------------------------------------------


def test_equal_functions_have_equal_code(artifact: Artifact) -> None:
    """The digest finds candidates that differ in nothing that matters."""
    assert compile_function(stencil(), Target.parse("llvm")).digest == artifact.digest
    assert compile_function(stencil(1), Target.parse("llvm")).digest != artifact.digest


def test_what_is_known_is_not_compiled(artifact: Artifact) -> None:
    asked: list[str] = []
    again = compile_function(stencil(), Target.parse("llvm"), lambda identity: not asked.append(identity))
    assert asked == [artifact.identity] == [again.identity] and again.code == b""
    unknown = compile_function(stencil(), Target.parse("llvm"), lambda identity: False)
    assert unknown.code == artifact.code
    others = [
        compile_function(stencil(1), Target.parse("llvm")),
        compile_function(stencil(), Target.parse("llvm -mcpu=x86-64")),
    ]
    assert len({a.identity for a in [artifact, *others]}) == 3


def test_c_is_another_program_under_other_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compiled where it runs, by the compiler and with the flags of the environment."""
    artifact = compile_function(stencil(), Target.parse("c"))
    before = artifact.identity
    monkeypatch.setenv("CFLAGS", "-O1")
    assert artifact.identity != before
    monkeypatch.delenv("CFLAGS")
    assert artifact.identity == before


def test_texts(artifact: Artifact) -> None:
    assert "define internal void @stencil.body" in artifact.texts["source"]
    assert "attributes #0" in text_of(artifact, "llvm")
    assert "stencil_packed_time:" in text_of(artifact, "asm")
    with pytest.raises(BuildError, match="legal: source, llvm, asm"):
        text_of(artifact, "cuda")


def test_what_llvm_must_not_be_told(artifact: Artifact) -> None:
    """No address arithmetic on integers, and no promise that overflow or NaN cannot happen."""
    words = set(artifact.texts["source"].replace(",", " ").split())
    assert not words & {"inttoptr", "ptrtoint", "nsw", "nuw", "fast", "nnan", "ninf", "reassoc", "exact", "inbounds"}
    assert {"noalias", "readonly", "contract", "!alias.scope", "!noalias"} <= words


def test_buffers_do_not_alias_in_parallel_loops() -> None:
    """LLVM vectorises the outlined loop without first comparing addresses at run time."""
    h, w = var("h", role="size"), var("w", role="size")
    c, out = Buffer("c", (h,), dtype("float32")), Buffer("out", (h, w), dtype("float32"))
    y, x = var("y", role="loop"), var("x", role="loop")
    inner = For(x, const(0), w, "serial", Store(out, (y * w + x,), load(c, y)))
    function = Function("f", (c, out), (h, w), For(y, const(0), h, "parallel", inner), (1,))
    text = text_of(compile_function(function, Target.parse("llvm")), "llvm")
    body = text.partition("@f.y.0.range(")[2].partition("\n}")[0]
    assert "store <" in body
    assert "memcheck" not in body


def test_names_survive() -> None:
    """Loops and buffers keep their names in the generated code."""
    n = var("n", role="size")
    out, y = Buffer("blur x", (n,), dtype("float32")), var("blur.y.inner", role="loop")
    body = For(y, const(0), n, "serial", Store(out, (y,), const(1.0, "float32")))
    text = compile_function(Function("my.kernel-1", (out,), (n,), body, (0,)), Target.parse("llvm")).texts["source"]
    assert "%blur.y.inner = phi" in text
    assert "%blur_x" in text
    assert "define signext i32 @my_kernel_1(" in text


def test_target_options() -> None:
    old = compile_function(stencil(), Target.parse("llvm -mcpu=x86-64 -mattr=+avx"))
    assert (old.meta["cpu"], old.meta["features"]) == ("x86-64", "+avx")
    host = compile_function(stencil(), Target.parse("llvm -mattr=-fma"))
    assert host.meta["features"].endswith(",-fma")
    with pytest.raises(TargetError, match="neither"):
        compile_function(stencil(), Target.parse("llvm -mattr=avx2"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("-mcpu=abacus", "'abacus' is not a recognized processor"),
        ("-mattr=+beads", "beads' is not a recognized feature"),
    ],
)
def test_unknown_cpus_are_refused(options: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    """LLVM itself would write to standard error and later abort."""
    with pytest.raises(TargetError, match=words):
        compile_function(stencil(), Target.parse(f"llvm {options}"))
    assert not capfd.readouterr().err


def test_scoped_memory_forgets_what_does_not_dominate() -> None:
    known: Scoped[str, int] = Scoped()
    known.remember("outer", 1)
    mark = known.mark()
    known.remember("inner", 2)
    known.remember("outer", 3)
    known.forget(mark)
    assert dict(known) == {"outer": 1}  # what an inner block made is not there after it


def test_scalars_are_joined_in_short_texts_only() -> None:
    machine = target_machine(*host())
    loads = "\n".join(f"%p{i} = getelementptr float, ptr %a, i64 {i}\n%x{i} = load float, ptr %p{i}" for i in range(4))
    sums = "\n".join(f"%y{i} = fadd float %x{i}, 1.0\nstore float %y{i}, ptr %p{i}" for i in range(4))
    text = f"define void @f(ptr noalias %a) {{\n{loads}\n{sums}\nret void\n}}\n"
    assert "<4 x float>" in str(optimised(text, machine))
    assert "<4 x float>" not in str(optimised(text + ";\n" * MOST_LINES_OF_SLP, machine))


def test_loops_are_copied_in_short_texts_only() -> None:
    machine = target_machine(*host())
    text = """define void @f(ptr noalias %a, ptr noalias %b, i64 %n) {
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %p = getelementptr double, ptr %a, i64 %i
  %x = load double, ptr %p
  %j = srem i64 %i, 7
  %q = getelementptr double, ptr %b, i64 %j
  %y = load double, ptr %q
  %z = fdiv double %x, %y
  store volatile double %z, ptr %q
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 96
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
    short, long = (str(optimised(text + ";\n" * n, machine)).count("fdiv") for n in (0, MOST_LINES_OF_COPIES))
    assert (long, short > 1) == (1, True)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is counted on Linux")
def test_compiling_keeps_no_memory() -> None:
    """llvmlite does not free its pass managers by itself: 24 KB for an empty module, 130 KB for a small kernel."""
    machine = target_machine(*host())

    def resident_pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    def compile_many(n: int) -> int:
        for _ in range(n):
            optimised("define i32 @f(i32 %x) {\n  ret i32 %x\n}\n", machine)
        return resident_pages()

    before = compile_many(50)
    assert (compile_many(300) - before) * resource.getpagesize() < 300 * 8 * 1024
