"""Kernels that measure a machine: streams through memory, and multiply-adds in registers.

They are LLVM assembly, compiled and run like any program of ours, but on an OpenMP team, since each thread
has a part of its own to do. Nothing optimises them, so that what is written is what runs. Each takes
an array of 64-bit words: source, destination, bytes for each thread, the distance between the
threads' parts, and how many rounds to make.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["CHAINS", "UNROLLED", "kernels"]

#: vectors that one step of a stream moves
UNROLLED = 8
#: independent multiply-adds of one step, for CPUs with 16 and with 32 vector registers: more than
#: latency times throughput, which is 8 to 10 on today's cores
CHAINS = {16: 12, 32: 24}

_HEAD = """\
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
"""

_LAUNCH = """\
define void @{name}(ptr %args, i32 %threads) {{
  call void @GOMP_parallel(ptr @{name}.worker, ptr %args, i32 %threads, i32 0)
  ret void
}}
define internal void @{name}.worker(ptr %args) {{
entry:
  %number = call i32 @omp_get_thread_num()
  %thread = zext i32 %number to i64
  %from.all = load ptr, ptr %args
  %to.at = getelementptr i64, ptr %args, i64 1
  %to.all = load ptr, ptr %to.at
  %bytes.at = getelementptr i64, ptr %args, i64 2
  %bytes = load i64, ptr %bytes.at
  %stride.at = getelementptr i64, ptr %args, i64 3
  %stride = load i64, ptr %stride.at
  %rounds.at = getelementptr i64, ptr %args, i64 4
  %rounds = load i64, ptr %rounds.at
  %offset = mul i64 %thread, %stride
  %from = getelementptr i8, ptr %from.all, i64 %offset
  %to = getelementptr i8, ptr %to.all, i64 %offset
{before}
  br label %round
round:
  %r = phi i64 [ 0, %entry ], [ %r.next, %round.end ]
{round}
  br label %step
step:
  %i = phi i64 [ 0, %round ], [ %i.next, %step ]
{step}
  %i.next = add i64 %i, {stride}
  %more = icmp ult i64 %i.next, %bytes
  br i1 %more, label %step, label %round.end
round.end:
{after}
  %r.next = add i64 %r, 1
  %again = icmp ult i64 %r.next, %rounds
  br i1 %again, label %round, label %done
done:
  ret void
}}
"""


def kernels(vector_bytes: int, registers: int) -> str:
    """LLVM assembly of `read`, `copy`, `stream`, `float32` and `float64`.

    `copy` stores as a program does, `stream` past the caches. The last two do `CHAINS[registers]`
    multiply-adds a step, and a step for each byte of theirs.
    """
    vector = f"<{vector_bytes // 8} x i64>"
    parts = [_HEAD, _read(vector, vector_bytes)]
    parts += [_copy("copy", vector, vector_bytes, ""), _copy("stream", vector, vector_bytes, ", !nontemporal !0")]
    for name, of, size in (("float32", "float", 4), ("float64", "double", 8)):
        parts.append(_multiply_adds(name, f"<{vector_bytes // size} x {of}>", of, CHAINS[registers]))
    return "\n".join([*parts, "!0 = !{i32 1}", ""])


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def _read(vector: str, size: int) -> str:
    sums = [f"%sum.{k} = phi {vector} [ zeroinitializer, %round ], [ %sum.{k}.next, %step ]" for k in range(UNROLLED)]
    step = []
    for k in range(UNROLLED):
        step += [
            f"%at.{k} = getelementptr i8, ptr %from, i64 %i",
            f"%address.{k} = getelementptr i8, ptr %at.{k}, i64 {k * size}",
            f"%value.{k} = load {vector}, ptr %address.{k}, align {size}",
            f"%sum.{k}.next = or {vector} %sum.{k}, %value.{k}",
        ]
    after = [f"store volatile {vector} %sum.{k}.next, ptr %to, align 8" for k in range(UNROLLED)]
    return _LAUNCH.format(
        name="read", before="", round="", step=_lines(sums + step), stride=UNROLLED * size, after=_lines(after)
    )


def _copy(name: str, vector: str, size: int, hint: str) -> str:
    step = []
    for k in range(UNROLLED):
        step += [
            f"%at.{k} = getelementptr i8, ptr %from, i64 %i",
            f"%address.{k} = getelementptr i8, ptr %at.{k}, i64 {k * size}",
            f"%value.{k} = load {vector}, ptr %address.{k}, align {size}",
        ]
    for k in range(UNROLLED):
        step += [
            f"%into.{k} = getelementptr i8, ptr %to, i64 %i",
            f"%target.{k} = getelementptr i8, ptr %into.{k}, i64 {k * size}",
            f"store {vector} %value.{k}, ptr %target.{k}, align {size}{hint}",
        ]
    return _LAUNCH.format(name=name, before="", round="", step=_lines(step), stride=UNROLLED * size, after="")


def _multiply_adds(name: str, vector: str, of: str, chains: int) -> str:
    """Chains `x = x*a + b`, with `a` and `b` read from memory, so that nothing is known of them."""
    mangled = f"v{vector[1:].partition(' ')[0]}f{32 if of == 'float' else 64}"
    before = [
        f"%a = load {vector}, ptr %from.all, align 64",
        "%b.at = getelementptr i8, ptr %from.all, i64 64",
        f"%b = load {vector}, ptr %b.at, align 64",
    ]
    step = [f"%x.{k} = phi {vector} [ %b, %round ], [ %x.{k}.next, %step ]" for k in range(chains)]
    call = f"call {vector} @llvm.fmuladd.{mangled}"
    step += [f"%x.{k}.next = {call}({vector} %x.{k}, {vector} %a, {vector} %b)" for k in range(chains)]
    after = [f"store volatile {vector} %x.{k}.next, ptr %to, align 8" for k in range(chains)]
    text = _LAUNCH.format(name=name, before=_lines(before), round="", step=_lines(step), stride=1, after=_lines(after))
    return f"declare {vector} @llvm.fmuladd.{mangled}({vector}, {vector}, {vector})\n{text}"
