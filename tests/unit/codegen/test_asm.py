"""The hot loop of a listing: flow graphs, ranks, counts, and the marks in the text."""

from __future__ import annotations

import random
import shutil
import subprocess

import pytest

from autosched import build, create_schedule, te
from autosched.codegen.asm import Counts, Loop, hot_loop, loops, marked, readable
from autosched.codegen.asm_instructions import X86, Instruction
from autosched.errors import BuildError

MATMUL = """\
	.text
C.body:                                 # @C.body
# %bb.0:                                # %entry
	xorl	%eax, %eax
	vxorps	%xmm7, %xmm7, %xmm7
.LBB0_1:                                # %i.outer.loop
                                        # =>This Loop Header: Depth=1
	movq	%rsi, %rbx
	movq	$-128, %r11
	.p2align	4
.LBB0_2:                                # %k.loop
                                        #   Parent Loop BB0_1 Depth=1
                                        # =>  This Inner Loop Header: Depth=2
	vbroadcastss	-512(%rdi,%r11,4), %zmm8
	vmovups	(%rbx), %zmm9
	.p2align	4
	vfmadd231ps	%zmm8, %zmm9, %zmm7     # zmm7 = (zmm9 * zmm8) + zmm7
	vfmadd231ps	(%rsi,%r11,4){1to16}, %zmm9, %zmm6
	vfmadd231ps	64(%rsp), %zmm9, %zmm5  # 64-byte Folded Reload
	vmovups	%zmm4, 128(%rsp)                # 64-byte Spill
	prefetcht0	256(%rbx)
	addq	$256, %rbx                      # imm = 0x100
	incq	%r11
	jne	.LBB0_2
# %bb.3:                                # %k.done
                                        #   in Loop: Header=BB0_1 Depth=1
	vmovups	%zmm7, (%rdx)
	vmovups	%zmm6, 64(%rdx)
	incq	%rax
	cmpq	$16, %rax
	jne	.LBB0_1
	retq
.Lfunc_end0:
	.size	C.body, .Lfunc_end0-C.body
"""

ARM = """\
C.body:                                 // @C.body
// %bb.0:                               // %entry
	mov	x8, xzr
.LBB0_1:                                // %k.loop
                                        // =>This Inner Loop Header: Depth=1
	ldr	q3, [sp, #16]                   // 16-byte Folded Reload
	ld1r	{ v5.4s }, [x14], #4
	ldp	q27, q26, [x16, #32]
	ldr	s25, [x15, #256]
	fmla	v21.4s, v26.4s, v25.s[0]
	fmla	v24.4s, v27.4s, v5.4s
	fadd	v1.2s, v1.2s, v2.2s
	zip1	v2.4s, v2.4s, v3.4s
	str	q2, [x9], #16
	mov	v4.16b, v5.16b
	add	x13, x13, #256
	cmp	x13, #4, lsl #12                // =16384
	b.ne	.LBB0_1
// %bb.2:                               // %k.done
	cbz	x0, .LBB0_4
// %bb.3:
	bl	exp
.LBB0_4:
	ret
"""

SCALAR_AND_BORDER = """\
f:
.LBB0_1:                                # %x.border.2
	vpaddw	%zmm1, %zmm2, %zmm3
	vpaddw	%zmm1, %zmm2, %zmm3
	jne	.LBB0_1
# %bb.2:
.LBB0_3:                                # %x.loop
	addl	(%rdi), %eax
	jne	.LBB0_3
	retq
"""


# -- whole listings -------------------------------------------------------------------------------
def test_the_marked_listing(golden):
    golden(marked(MATMUL, "x86_64"))


def test_the_hot_loop_alone_on_aarch64(golden):
    golden(marked(ARM, "aarch64", alone=True))


def test_loops_are_ranked_and_nested():
    inner, outer = loops(MATMUL, "x86_64")
    assert (inner.name, inner.depth, inner.innermost) == ("k.loop", 2, True)
    assert (outer.name, outer.depth, outer.innermost) == ("i.outer.loop", 1, False)
    assert outer.counts.fmas == 0, "what belongs to the loop inside does not count"
    assert outer.counts.stores == 2
    assert outer.counts.scalar == 2 + 2
    assert not set(inner.lines) & set(outer.lines)


def test_a_border_is_hot_only_where_there_is_nothing_else():
    assert hot_loop(SCALAR_AND_BORDER, "x86_64").name == "x.loop"
    assert hot_loop(SCALAR_AND_BORDER.replace("%x.loop", "%x.border"), "x86_64").name == "x.border.2"


def test_marks_are_comments_only():
    text = marked(MATMUL, "x86_64")
    code = [line.removeprefix("/*|*/").strip() for line in text.splitlines() if not line.startswith("# ")]
    assert code == [line.strip() for line in MATMUL.splitlines() if not line.startswith("# ")]
    first, last = hot_loop(MATMUL, "x86_64").lines[0], hot_loop(MATMUL, "x86_64").lines[-1]
    barred = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith("/*|*/")]
    assert f"lines {barred[0]} to {barred[-1]}," in text.splitlines()[0]
    assert barred[-1] - barred[0] == last - first


@pytest.mark.parametrize("text", ["", "\t.text\n", "f:\n\tmovl\t$1, %eax\n\tretq\n", "f:\n\tjmpq\t*%rax\n"])
def test_without_a_loop(text):
    assert loops(text, "x86_64") == []
    assert hot_loop(text, "x86_64") is None
    assert marked(text, "x86_64") == text


def test_an_unknown_machine_is_refused():
    with pytest.raises(BuildError, match="riscv64") as caught:
        hot_loop(MATMUL, "riscv64")
    assert "x86_64" in str(caught.value)
    assert readable("\tadd a0, a1  # " + "x" * 99, "riscv64").endswith("x" * 99)


def test_long_comments_are_cut():
    line = "\tvpshufb\t%zmm1, %zmm2, %zmm3    # " + "zmm3 = zmm2[0]," * 20
    cut = readable(line + "\n\tret\n", "x86_64")
    assert cut.splitlines()[0].endswith("...")
    assert len(cut.splitlines()[0]) < 100
    assert readable(MATMUL, "x86_64") == MATMUL


def test_irreducible_code_has_no_natural_loop():
    text = "f:\n\tje\t.L2\n.L1:\n\tincl\t%eax\n.L2:\n\tdecl\t%ebx\n\tjne\t.L1\n\tretq\n"
    assert loops(text, "x86_64") == []


# -- flow graphs against a definition ---------------------------------------------------------------
def _random_listing(rng: random.Random) -> tuple[str, list[list[int]]]:
    """A listing of blocks with random jumps, and what follows what."""
    n = rng.randint(2, 9)
    lines, follow = ["f:"], []
    for b in range(n):
        lines += [f".LBB0_{b}:", "\taddps\t%xmm0, %xmm1"]
        kind, target = rng.choice(["jmp", "jne", "none", "ret"]), rng.randrange(n)
        on = [b + 1] if b + 1 < n else []
        if kind == "ret":
            lines.append("\tretq")
            on = []
        elif kind != "none":
            lines.append(f"\t{kind}\t.LBB0_{target}")
            on = [target, *(on if kind == "jne" else [])]
        follow.append(on)
    return "\n".join(lines) + "\n", follow


def _reachable(follow: list[list[int]], without: int | None = None) -> set[int]:
    todo, seen = ([] if without == 0 else [0]), set()
    while todo:
        b = todo.pop()
        if b not in seen:
            seen.add(b)
            todo += [c for c in follow[b] if c != without]
    return seen


@pytest.mark.parametrize("seed", range(60))
def test_loops_are_the_natural_loops(seed):
    """A back edge leads to a block without which its source cannot be reached."""
    rng = random.Random(seed)
    for _ in range(20):
        text, follow = _random_listing(rng)
        reachable = _reachable(follow)
        edges = [(b, c) for b in reachable for c in follow[b] if c == b or b not in _reachable(follow, without=c)]
        found = loops(text, "x86_64")
        assert len(found) == len({header for _, header in edges})
        assert sum(len(loop.lines) for loop in found) == len({n for loop in found for n in loop.lines})


# -- single instructions ----------------------------------------------------------------------------
def counted(text: str) -> dict[str, int]:
    mnemonic, _, rest = text.partition(" ")
    code, _, remark = rest.partition("#")
    listing = f"f:\n.L0:\n\t{mnemonic}\t{code.strip()}{'  # ' + remark if remark else ''}\n\tjne\t.L0\n"
    found = hot_loop(listing, "x86_64").counts
    names = ("fmas", "arithmetic", "shuffles", "moves", "loads", "broadcasts", "stores", "gathers", "spills")
    names += ("reloads", "scalar", "calls", "prefetches")
    return {n: getattr(found, n) for n in names if getattr(found, n)} | {"bits": found.vector_bits}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vfmadd231ps %ymm8, %ymm10, %ymm2", {"fmas": 1, "bits": 256}),
        ("vfnmadd213sd (%rax), %xmm1, %xmm2", {"fmas": 1, "loads": 1, "bits": 64}),
        ("vpdpbusd (%rax){1to16}, %zmm1, %zmm2", {"fmas": 1, "loads": 1, "broadcasts": 1, "bits": 512}),
        ("vpmaddwd %ymm1, %ymm2, %ymm3", {"fmas": 1, "bits": 256}),
        ("vaddps %zmm1, %zmm2, %zmm3 {%k1} {z}", {"arithmetic": 1, "bits": 512}),
        ("vmulss %xmm1, %xmm2, %xmm3", {"arithmetic": 1, "bits": 32}),
        ("vpabsd %xmm1, %xmm2", {"arithmetic": 1, "bits": 128}),
        ("vpcmpgtb %ymm1, %ymm2, %k1", {"arithmetic": 1, "bits": 0}),
        ("addps .LCPI0_0(%rip), %xmm1", {"arithmetic": 1, "loads": 1, "bits": 128}),
        ("vxorps %xmm0, %xmm0, %xmm0", {"moves": 1, "bits": 128}),
        ("vmovaps %ymm0, %ymm1", {"moves": 1, "bits": 256}),
        ("vmovdqu8 (%rax), %zmm1 {%k1} {z}", {"loads": 1, "bits": 512}),
        ("vmovntps %zmm1, (%rax)", {"stores": 1, "bits": 512}),
        ("vmovss %xmm0, (%rax,%rbx,4)", {"stores": 1, "bits": 32}),
        ("vpmovzxbw 3(%rax), %ymm1", {"shuffles": 1, "loads": 1, "bits": 256}),
        ("vpmovwb %zmm1, (%rax)", {"shuffles": 1, "stores": 1, "bits": 512}),
        ("vpackuswb %ymm0, %ymm1, %ymm2", {"shuffles": 1, "bits": 256}),
        ("vpermt2ps %zmm0, %zmm1, %zmm2", {"shuffles": 1, "bits": 512}),
        ("vinserti64x4 $1, %ymm3, %zmm4, %zmm3", {"shuffles": 1, "bits": 512}),
        ("vbroadcastss %xmm0, %ymm0", {"shuffles": 1, "bits": 256}),
        ("vbroadcastsd (%rax), %ymm0", {"loads": 1, "broadcasts": 1, "bits": 256}),
        ("vgatherdps (%rax,%zmm1,4), %zmm2 {%k1}", {"gathers": 1, "loads": 1, "bits": 512}),
        ("vmovups %zmm1, 64(%rsp) # 64-byte Spill", {"spills": 1, "bits": 512}),
        ("vaddps 64(%rsp), %zmm1, %zmm2 # 64-byte Folded Reload", {"arithmetic": 1, "reloads": 1, "bits": 512}),
        ("movq 8(%rsp), %rax # 8-byte Reload", {"reloads": 1, "bits": 0}),
        ("cmpq $7, 8(%rsp) # 8-byte Folded Reload", {"scalar": 1, "reloads": 1, "bits": 0}),
        ("movzbl (%rax), %ebx", {"loads": 1, "bits": 0}),
        ("movb %al, (%rcx,%rsi)", {"stores": 1, "bits": 0}),
        ("addl %eax, (%rcx)", {"scalar": 1, "loads": 1, "stores": 1, "bits": 0}),
        ("cmpl %eax, (%rcx)", {"scalar": 1, "loads": 1, "bits": 0}),
        ("incl (%rcx)", {"scalar": 1, "loads": 1, "stores": 1, "bits": 0}),
        ("leaq 3(%rax,%rbx), %rcx", {"scalar": 1, "bits": 0}),
        ("lock xaddq %rax, (%rdi)", {"scalar": 1, "loads": 1, "stores": 1, "bits": 0}),
        ("prefetcht0 (%rax)", {"prefetches": 1, "bits": 0}),
        ("callq _ZGVeN16v_expf@PLT", {"calls": 1, "bits": 0}),
        ("nopw (%rax)", {"bits": 0}),
    ],
)
def test_instructions(text, expected):
    assert counted(text) == expected


def test_counts_add_up():
    total = X86().count(Instruction(1, "vaddps", ("%ymm0", "%ymm1", "%ymm2"))) + Counts(loads=2, vector_bits=128)
    assert (total.arithmetic, total.loads, total.vector_bits, total.work) == (1, 2, 256, 32)


# -- what is compiled here ----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def module():
    n = 64
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = create_schedule(c)
    i, j = s[c].op.axis
    outer, inner = s[c].split(i, factor=2)
    block, lane = s[c].split(j, factor=8)
    s[c].reorder(outer, block, k, inner, lane)
    s[c].unroll(inner)
    s[c].vectorize(lane)
    return build(s)


def test_a_compiled_product_spends_its_time_on_multiplying(module):
    hot = module.hot_loop()
    assert isinstance(hot, Loop)
    assert hot.name.startswith("k.")
    assert hot.counts.spills == hot.counts.reloads == 0
    assert hot.counts.fmas or hot.counts.arithmetic
    assert hot.counts.loads
    assert hot.to_json()["counts"]["fmas"] == hot.counts.fmas


@pytest.mark.skipif(shutil.which("as") is None, reason="no assembler here")
def test_the_marked_listing_assembles(module, tmp_path):
    listing = tmp_path / "C.s"
    listing.write_text(marked(module.assembly, module.artifact.machine), encoding="utf-8")
    done = subprocess.run(["as", str(listing), "-o", str(tmp_path / "C.o")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
