"""Lowered functions to C: one source that a C program compiles and calls as it is.

    int32_t NAME(const T *restrict in, ..., T *restrict out, ..., int64_t size, ...)

Loops over CPU threads are OpenMP's, and plain loops for a compiler without it. Intermediates of
small constant size are arrays; the others lie in a workspace that NAME allocates once: one area for
the program and one for each thread. Then NAME is a wrapper around `NAME_body`, and `CProgram.packed`
has the entry points by which this library calls the same body with memory and threads of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from autosched.codegen import gcc
from autosched.codegen.artifact import Artifact
from autosched.codegen.c99 import C
from autosched.codegen.c_scalar import Expressions
from autosched.codegen.c_statements import Statements, has_vectors
from autosched.codegen.c_text import INDEX, Names
from autosched.codegen.dialects import Dialect, mentions
from autosched.codegen.index_range import IndexRanges
from autosched.codegen.signature import Signature, entry_points
from autosched.codegen.storage import (
    ALIGNMENT,
    Storage,
    accesses,
    constant_bytes,
    is_parallel,
    plan_storage,
    workspace_need,
)
from autosched.ir import stmt as S
from autosched.ir.expr import Expr, binary, const
from autosched.ir.ops import ACCESSES, COMPARISONS
from autosched.ir.visit import post_order
from autosched.target import Target

#: the texts of an artifact: as they are compiled here, and for any compiler, if that is something else
HERE, ANYWHERE = ("source", "inner"), ("c99", "c99_inner")
#: bytes, as a number or as C
Bytes = int | str


@dataclass(frozen=True)
class CProgram:
    """C source, and text to append to it for callers that bring memory and threads of their own.

    `packed` defines the entry points that `llvm_program` describes, with `name`_packed for NAME. It
    needs POSIX's clock; the source alone is C99. `inner`, of a program without sizes that needs a workspace
    or threads: a source with `name`_in in place of NAME, which has both from its caller, and `name`_bytes, which tells
    how large the workspace must be. `parallel`: whether there is a parallel loop.
    """

    name: str
    source: str
    packed: str
    inner: str
    parallel: bool


def text_for(target: Target, artifact: Artifact, inner: bool = False) -> str:
    """The source to hand out: as it is compiled here if the target names the CPU or the language, else C99. `inner`:
    the one without memory and threads of its own, if there is that."""
    vectors = bool(target.mcpu or target.std)
    return own_text(artifact, vectors) if inner else artifact.texts[_kind(artifact, vectors)[0]]


def own_text(artifact: Artifact, vectors: bool) -> str:
    """The source without memory and threads of its own, if there is that, else the whole; with vectors if asked."""
    whole, part = _kind(artifact, vectors)
    return artifact.texts.get(part, artifact.texts[whole])


def _kind(artifact: Artifact, vectors: bool) -> tuple[str, str]:
    return HERE if vectors or ANYWHERE[0] not in artifact.texts else ANYWHERE


def for_any_compiler(artifact: Artifact) -> bytes:
    """The code of an artifact without vectors, for a compiler that has none."""
    whole, packed = artifact.texts[HERE[0]], artifact.code.decode()
    return (artifact.texts.get(ANYWHERE[0], whole) + packed[len(whole) :]).encode()


def c_name(name: str) -> str:
    """The C function under which a function of this name is compiled: `main` becomes `main_`."""
    return Names(C).declare(name)


def prototype(signature: Signature, names: Names | None = None, suffix: str = "", more: Sequence[str] = ()) -> str:
    """`int32_t f(const float *restrict a, float *restrict b, int64_t n)`; a name with `suffix`, and `more` behind."""
    texts = ["".join(a) for a in declared(signature, names or Names(C))]
    return f"int32_t {c_name(signature.name)}{suffix}({', '.join([*texts, *more]) or 'void'})"


def declared(signature: Signature, names: Names) -> list[tuple[str, str]]:
    """The arguments of a function: type, up to the name, and name."""
    arrays = [(_pointer(p.dtype, p.is_output), names.declare(p.name)) for p in signature.params]
    return [*arrays, *(("int64_t ", names.declare(size)) for size in signature.sizes)]


def inner_prototypes(signature: Signature) -> tuple[str, str]:
    """Those of NAME_in and NAME_bytes: see `CProgram`."""
    names = Names(C)
    *_, workspace, threads = map(names.declare, [*(p.name for p in signature.params), "workspace", "threads"])
    run = prototype(signature, suffix="_in", more=(f"char *{workspace}", f"int64_t {threads}"))
    return run, f"int64_t {c_name(signature.name)}_bytes(int64_t {threads})"


def header(guard: str, signatures: Sequence[Signature], more: Sequence[str] = ()) -> str:
    """A C header that declares functions, with what each array is, and `more` declarations."""
    blocks = []
    for s in signatures:
        arrays = [f"{p}{', written' if p.is_output else ''}" for p in s.params]
        rules = [f"Needs {r}: {r.reason}." for r in s.requires]
        returns = "Returns 0, or -1 when there is no memory for intermediate results."
        told = [f"{s.name}: arrays lie in memory row by row, without gaps.", *arrays, *rules, returns]
        blocks.append("\n".join(["/* " + "\n   ".join(told) + " */", f"{prototype(s)};"]))
    return _HEADER.format(guard=guard, functions="\n\n".join([*blocks, *more]))


def emit_c(function: S.Function, strict: bool = False, dialect: Dialect = C) -> CProgram:
    """Emit C99, or GNU C, for a function of CPU loops. `strict` code asks compilers not to contract multiply-adds.

    Raises BuildError for what has no code.
    """
    return _Emitter(function, strict, dialect).program()


def _pointer(of: str, is_written: bool) -> str:
    return f"{'' if is_written else 'const '}{C.storage.get(of) or C.types[of]} *restrict "


#: gcc takes a condition that always holds for a mistake, and does not see that what reads an array
#: runs only where what filled it did

_HEADER = """\
#ifndef {guard}
#define {guard}

/* float16 is uint16_t (its bits), bool is uint8_t (0 or 1). Outputs share no memory with other arrays. */

#include <stdint.h>

#if defined(__cplusplus)
#define restrict __restrict
extern "C" {{
#endif

{functions}

#if defined(__cplusplus)
}}
#undef restrict
#endif

#endif
"""


class _HostStatements(Statements):
    """Statements of a CPU program: parallel loops, and buffers in the workspace, whose bytes are counted in C."""

    nothing: Bytes = 0

    def __init__(self, expressions: Expressions, names: Names, storage: Storage, workspace: str, threads: str) -> None:
        """`workspace` and `threads` are the C names of what the body gets from its caller."""
        super().__init__(expressions, names)
        self.storage = storage
        self.threads = threads
        self._base = workspace
        self._used: Bytes = 0
        self._in_parallel = False

    # -- parallel loops -----------------------------------------------------------------------
    @contextmanager
    def loop_block(self, s: S.For, head: str) -> Iterator[None]:
        """Threads share the outermost parallel loop; those inside run on one thread each."""
        if s.kind != "parallel" or self._in_parallel:
            with self.block(head):
                yield
            return
        extent = self.x.index(s.extent).text
        threads = self.threads
        clauses = f"schedule(dynamic, chunk_size({extent}, {threads})) num_threads(team_size({extent}, {threads}))"
        self.lines += ["#ifdef _OPENMP", f"#pragma omp parallel for {clauses}", "#endif"]
        outer = self._base, self._used
        self._in_parallel = True
        with self.block(head):
            area = workspace_need(s.body, self.storage, self, in_parallel=True)
            if area != 0:
                self._base = self.names.declare("area")
                start = self._address(outer[0], self.plus(outer[1], f"thread_number() * {_factor(area)}"))
                self.line(f"char *const {self._base} = {start};")
                self._used = 0
            yield
        self._base, self._used = outer
        self._in_parallel = False

    # -- buffers ------------------------------------------------------------------------------
    def allocate(self, s: S.Allocate) -> None:
        if s.buffer not in self.storage.in_workspace:
            elements = (constant_bytes(s.buffer) or 0) // s.buffer.dtype.bytes
            self.declare_array(s.buffer, elements, has_vectors(s.body, s.buffer))
            self._allow_unread(s)
            self.emit(s.body)
            return
        used = self._used
        with self.block():  # two pointers that are `restrict` in one block may not share memory
            body: S.Stmt = s
            while isinstance(body, S.Allocate) and body.buffer in self.storage.in_workspace:
                self._declare_pointer(body.buffer)
                self._allow_unread(body)
                body = body.body
            self.emit(body)
        self._used = used

    def _allow_unread(self, s: S.Allocate) -> None:
        """Suppress the warning about a buffer that is written and never read: an output that nobody asked for, say."""
        nodes = post_order(S.all_expressions(s.body))
        if not any(n.op in ACCESSES and n.value is s.buffer for n in nodes):
            self.line(f"(void){self.x.buffers[s.buffer]};")

    def _declare_pointer(self, buffer: S.Buffer) -> None:
        name = self.x.buffers[buffer] = self.names.declare(buffer.name)
        of, address = self.x.dialect.storage_name(buffer.dtype), self._address(self._base, self._used)
        self.line(f"{of} *restrict const {name} = ({of} *){address if ' ' not in address else f'({address})'};")
        self._used = self.plus(self._used, self.bytes_of(buffer))

    @staticmethod
    def _address(base: str, offset: Bytes) -> str:
        return base if offset == 0 else f"{base} + {offset}"

    def bytes_of(self, buffer: S.Buffer) -> Bytes:
        """Bytes of a buffer, a multiple of the alignment."""
        total: Expr = const(buffer.dtype.bytes)
        for extent in buffer.shape:
            total = binary("mul", total, extent)
        if total.op == "const":
            return -(-max(int(total.value), 0) // ALIGNMENT) * ALIGNMENT
        return f"padded({self.x.index(total).text})"

    def for_threads(self, area: Bytes) -> Bytes:
        return area if area == 0 else f"{self.threads} * {_factor(area)}"

    def larger(self, a: Bytes, b: Bytes) -> Bytes:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        if 0 in (a, b) or a == b:
            return b if a == 0 else a
        return f"{self.x.helpers.name('max', INDEX)}({a}, {b})"

    @staticmethod
    def plus(a: Bytes, b: Bytes) -> Bytes:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if 0 in (a, b):
            return b if a == 0 else a
        return f"{a} + {b}"


def _factor(a: Bytes) -> str:
    return f"({a})" if isinstance(a, str) and " + " in a else str(a)


class _Emitter:
    """One function and the text around it."""

    def __init__(self, function: S.Function, strict: bool, dialect: Dialect) -> None:
        self.function = function
        self.strict = strict
        self.signature = Signature.of(function)
        self.name = c_name(function.name)
        self.dialect = dialect
        self.x = Expressions(dialect, IndexRanges(v.name for v in function.sizes))
        self.names = Names(dialect)
        self.storage = plan_storage(function.body)
        self.params = {b: self.names.declare(b.name) for b in function.params}
        self.sizes = {v: self.names.declare(v.name) for v in function.sizes}
        self.x.buffers.update(self.params)
        self.x.variables.update((v, (name, INDEX)) for v, name in self.sizes.items())
        self.workspace, self.threads, self.memory = map(self.names.declare, ("workspace", "threads", "memory"))
        computed = [s for s in S.walk(function.body) if not isinstance(s, S.Allocate)]  # without extents of buffers
        self.nodes = post_order([e for s in computed for e in S.expressions(s)])
        for suffix in ("body", "workspace", "in", "bytes"):
            self.names.declare(f"{self.name}_{suffix}")

    def program(self) -> CProgram:
        body = _HostStatements(self.x, self.names, self.storage, self.workspace, self.threads)
        need = workspace_need(self.function.body, self.storage, body)
        stored, loaded = accesses(self.function.body, self.nodes)
        buffers = [b for b in self.function.params if b in stored | loaded]
        with self.names.scope():
            body.depth = 1
            body.emit(self.function.body)
        sizes = [v for v in self.function.sizes if v in set(self.nodes) or mentions(body.lines, self.sizes[v])]
        uses = [self.params[b] for b in buffers] + [self.sizes[v] for v in sizes]
        parallel = is_parallel(self.function.body)
        extra = ([self.workspace] if need != 0 else []) + ([self.threads] if parallel else [])
        if not extra:
            lines = [self._head(), *self._ignored(uses), *body.lines, "  return 0;", "}"]
            passed = [*self.params.values(), *self.sizes.values()]
            return self._finished(["\n".join(lines)], self.name, passed, None)
        takes = [f"{_pointer(b.dtype, b in stored)}{self.params[b]}" for b in buffers]
        takes += [f"int64_t {self.sizes[v]}" for v in sizes]
        takes += [{self.workspace: "char *", self.threads: "int64_t "}[name] + name for name in extra]
        ignored = [f"  (void){self.threads};  // without OpenMP"] if parallel else []
        text = "\n".join([f"static void {self.name}_body({', '.join(takes)}) {{", *ignored, *body.lines, "}"])
        measured = self._measured(need)
        functions = [text, *self._workspace(need, measured)]
        inner = self._source([*functions, self._inner(uses, extra, measured)]) if not self.sizes else ""
        texts = [*functions, self._wrapper(uses, extra, measured)]
        return self._finished(texts, f"{self.name}_body", [*uses, *extra], measured if need != 0 else None, inner)

    # -- the functions around the body --------------------------------------------------------
    def _head(self) -> str:
        """The public function up to its brace, with a comment about each argument."""
        arguments = [f"// {p}{' (output)' if p.is_output else ''}" for p in self.signature.params]
        returns = "// Returns 0, or -1 when there is no memory for intermediate results."
        return "\n".join([*arguments, returns, f"{prototype(self.signature)} {{"])

    def _ignored(self, used: list[str]) -> list[str]:
        """Statements that mention unused arguments, so that compilers do not warn."""
        return [f"  (void){name};" for name in (*self.params.values(), *self.sizes.values()) if name not in used]

    def _measured(self, need: Bytes) -> tuple[str, ...]:
        """The names that the size of the workspace depends on."""
        return tuple(name for name in (*self.sizes.values(), self.threads) if mentions([str(need)], name))

    def _workspace(self, need: Bytes, measured: tuple[str, ...]) -> list[str]:
        if need == 0:
            return []
        takes = ", ".join(f"int64_t {name}" for name in measured) or "void"
        return [f"static int64_t {self.name}_workspace({takes}) {{\n  return {need};\n}}"]

    def _wrapper(self, uses: list[str], extra: list[str], measured: tuple[str, ...]) -> str:
        """The public function: memory for the workspace, and all threads there are."""
        m, has_workspace = self.memory, self.workspace in extra
        lines = self._ignored([*uses, *(measured if has_workspace else ())])
        if self.threads in (*extra, *(measured if has_workspace else ())):
            lines.append(f"  const int64_t {self.threads} = max_threads();")
        if has_workspace:
            size = f"{self.name}_workspace({', '.join(measured)})"
            lines.append(f"  char *const {m} = malloc((size_t){size} + {ALIGNMENT});")
            lines.append(f"  if ({m} == NULL) return -1;")
        aligned = f"{m} + ({ALIGNMENT} - (uintptr_t){m} % {ALIGNMENT})"
        passed = [*uses, *(aligned if name == self.workspace else name for name in extra)]
        lines.append(f"  {self.name}_body({', '.join(passed)});")
        if has_workspace:
            lines.append(f"  free({m});")
        return "\n".join([self._head(), *lines, "  return 0;", "}"])

    def _inner(self, uses: list[str], extra: list[str], measured: tuple[str, ...]) -> str:
        """NAME_in and NAME_bytes: see `CProgram`."""
        run, need = inner_prototypes(self.signature)
        told = [f"// {p}{' (output)' if p.is_output else ''}" for p in self.signature.params]
        size = f"{self.name}_bytes(threads)"
        told.append(f"// Returns 0. `workspace` has {size} bytes, from a multiple of {ALIGNMENT} on.")
        unused = [f"  (void){name};" for name in (self.workspace, self.threads) if name not in extra]
        lines = [*self._ignored(uses), *unused, f"  {self.name}_body({', '.join([*uses, *extra])});", "  return 0;"]
        ignored = [] if self.threads in measured else [f"  (void){self.threads};"]
        size = f"  return {self.name}_workspace({', '.join(measured)});" if self.workspace in extra else "  return 0;"
        return "\n".join([*told, f"{run} {{", *lines, "}", "", f"{need} {{", *ignored, size, "}"])

    def _finished(
        self, texts: list[str], callee: str, passed: list[str], measured: tuple[str, ...] | None, inner: str = ""
    ) -> CProgram:
        """The program, with entry points that call `callee` with what `passed` names."""
        words = {name: f"args[{i}]" for i, name in enumerate(self.params.values())}
        words |= {name: f"sizes[{i}]" for i, name in enumerate(self.sizes.values())}
        words |= {self.workspace: "workspace", self.threads: "threads"}
        need = "0" if measured is None else f"{self.name}_workspace({', '.join(words[n] for n in measured)})"
        call = f"{callee}({', '.join(words[n] for n in passed)})"
        parallel = is_parallel(self.function.body)
        return CProgram(self.name, self._source(texts), entry_points(self.name, call, need), inner, parallel)

    def _source(self, functions: list[str]) -> str:
        """The whole file: definitions that the functions call, then the functions."""
        helpers = self.x.helpers.definitions()
        text = "\n".join([*helpers, *functions])
        defined = self.dialect.defined(text)
        vectors = self.dialect.vectors
        language = "C99" if vectors is None else f"GNU C, vectors of {vectors.register_bytes} bytes"
        head = [
            f"// {self.signature.name}: {language}. Compile with -fopenmp to run parallel loops on all cores, and gcc"
            " with",
            "// -fno-strict-aliasing: version 12 loses stores to buffers that share a workspace at -O3.",
        ]
        head += [C.strict] if self.strict else []
        # in front of headers: a function of theirs that is always inlined has to have the caller's options
        head += [
            x
            for text in gcc.pragmas(self.function.body, self.nodes, self.dialect.vectors is not None)
            for x in ("", text)
        ]
        head += ["", C.preamble]
        used = "\n".join([text, *defined])
        head += [f"#include <{h}.h>" for h, word in (("stdlib", "malloc"), ("string", "memcpy")) if word in used]
        if "omp_" in used:
            head += ["#ifdef _OPENMP", "#include <omp.h>", "#endif"]
        quiet = ["-Wmaybe-uninitialized"] if self.storage.on_stack else []
        compared = {n.args[0].dtype.scalar for n in self.nodes if n.op in COMPARISONS}
        quiet += ["-Wtype-limits"] if any(t.is_integer for t in compared) else []
        quiet += ["-Wbool-compare"] if any(t.is_bool for t in compared) else []
        quiet += ["-Wpsabi"] if vectors is not None else []  # vectors are passed to functions of this source alone
        if quiet:
            pragmas = [f'#pragma GCC diagnostic ignored "{warning}"' for warning in quiet]
            head += ["", "#if defined(__GNUC__) && !defined(__clang__)", *pragmas, "#endif"]
        externs = self._externs()
        index = [f"typedef int64_t {INDEX};"] if mentions([text], INDEX) else []
        blocks = ["\n".join(head), "\n".join(externs), *index, *defined, "\n".join(helpers), *functions]
        return "\n\n".join(b for b in blocks if b) + "\n"

    def _externs(self) -> list[str]:
        """Declarations of the functions from outside that no header declares."""
        found: dict[str, None] = {}
        for n in self.nodes:
            if n.op == "call" and n.value.kind == "extern" and not C.is_reserved(n.value.name):
                takes = ["void *" if a.dtype.kind == "handle" else self.x.type_name(a.dtype) for a in n.args]
                found[f"extern {self.x.type_name(n.dtype)} {n.value.name}({', '.join(takes) or 'void'});"] = None
        return list(found)
