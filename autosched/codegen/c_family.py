"""Lowered functions to C-like device source: kernels, and the data that tells a host to run them.

    Launch          one kernel: arguments, thread indices, body
    Allocate        outside a launch: a buffer on the device that launches share
    If              outside a launch: a condition on sizes, which the host asks
    everything else inside a launch: statements of C (`c_statements`)

The dialect (`dialects`) says how one language spells the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from autosched.codegen.artifact import Artifact
from autosched.codegen.c_scalar import Expressions
from autosched.codegen.c_statements import Statements
from autosched.codegen.c_text import INDEX, Names
from autosched.codegen.dialects import CUDA, OPENCL, OPENCL_OF_CPUS, Dialect
from autosched.codegen.index_range import IndexRanges
from autosched.codegen.pocl import part_regions
from autosched.codegen.signature import Dim, Signature, dim_of
from autosched.codegen.storage import accesses
from autosched.errors import BuildError
from autosched.ir import stmt as S
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, const, logical_and, logical_not
from autosched.ir.visit import post_order
from autosched.target import Target

_HALF = "float16"


@dataclass(frozen=True)
class Program:
    """Source text and how a host runs it; all of it plain data.

    `launches`, in order: `name`, `grid` and `block` (three dimensions each, in work-groups and
    work-items), `shared_bytes` of each work-group, and `args`: `["param", i]`, `["device", i]`,
    `["size", name]` or `["shared", bytes]`; one with `when` is for calls whose sizes make that 1.
    `device` buffers: `name`, `dtype`, `elements`.
    `index_bound`: below 2^31, `index_t` may be 32 bits wide.
    """

    source: str
    launches: list[dict[str, Any]]
    device: list[dict[str, Any]]
    index_bound: Dim


def compile_opencl(function: S.Function, target: Target) -> Artifact:
    """OpenCL C for a function of launches.

    Raises BuildError for what cannot be expressed, and for a constant work-group or shared memory
    beyond the limits of `target`, as far as those are known.
    """
    _check_types(function, target)
    native_half = bool(target.limits.get("fp16", 0))
    dialect = OPENCL_OF_CPUS if target.is_cpu else OPENCL
    return _artifact(function, target, emit_program(function, dialect, native_half, target.strict), dialect)


def compile_cuda(function: S.Function, target: Target) -> Artifact:
    """CUDA C++ for a function of launches; raises what `compile_opencl` raises.

    The source includes no header. Halves are 16 bits in memory and floats in registers, like those of an
    OpenCL device without half precision.
    """
    return _artifact(function, target, emit_program(function, CUDA, strict=target.strict), CUDA)


def _artifact(function: S.Function, target: Target, program: Program, dialect: Dialect) -> Artifact:
    for launch in program.launches:
        _check_limits(launch, target)
    return Artifact(
        kind=target.kind,
        target=str(target),
        signature=Signature.of(function),
        code=program.source.encode(),
        texts={"source": program.source},
        meta={
            "launches": program.launches,
            "device": program.device,
            "index_bound": program.index_bound,
            **({"strict": True} if target.strict else {}),
            **({"anywhere": True} if dialect.vectors is not None and dialect.vectors.anywhere else {}),
        },
    )


def emit_program(function: S.Function, dialect: Dialect, native_half: bool = False, strict: bool = False) -> Program:
    """All kernels of `function` in one source.

    `native_half`: whether the device computes in half precision. `strict`: no multiply-add is contracted. Raises
    BuildError.
    """
    return _Emitter(function, dialect, native_half, strict).program()


def _check_types(function: S.Function, target: Target) -> None:
    """Raise BuildError for float64 on a device that has none, naming what holds or computes it."""
    if target.limits.get("fp64") != 0:
        return
    for s in S.walk(function.body):
        holds = isinstance(s, S.Store | S.Allocate) and s.buffer.dtype.scalar == "float64"
        if holds or any(e.dtype.scalar == "float64" for e in post_order(S.expressions(s))):
            where = f" for {s.buffer.name}" if isinstance(s, S.Store | S.Allocate) else ""
            raise BuildError(
                f"it computes in float64{where}, which the device does not have",
                asked=f"{function.name} for {target}",
                legal="float32 or integers, or a device with fp64: `autosched doctor` lists them",
            )


def _check_limits(launch: dict[str, Any], target: Target) -> None:
    """Raise BuildError for constants beyond the limits of the device; sizes are checked by each call."""
    block, shared = launch["block"], launch["shared_bytes"]
    threads = math.prod(block) if all(isinstance(extent, int) for extent in block) else 0
    for what, value, key in (
        (f"a work-group of {threads} work-items", threads, "max_threads_per_block"),
        (f"{shared} bytes of shared memory for each work-group", shared, "shared_memory_bytes"),
    ):
        limit = target.limits.get(key)
        if limit is not None and isinstance(value, int) and value > limit:
            raise BuildError(
                f"it asks for {what}, and the device allows {limit}",
                asked=f"kernel {launch['name']!r}",
                legal="use smaller tiles, or bind fewer loops to threads",
            )


@dataclass
class _Emitter:
    function: S.Function
    dialect: Dialect
    native_half: bool
    strict: bool
    ranges: IndexRanges = field(init=False)
    kernels: list[str] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)
    device: dict[S.Buffer, tuple[Expr, ...]] = field(default_factory=dict)  #: and when there are launches that use it
    loops: list[S.For] = field(default_factory=list)  #: those that the host runs, one after the other
    names: Names = field(init=False)
    x: Expressions = field(init=False)

    def __post_init__(self) -> None:
        self.ranges = IndexRanges(v.name for v in self.function.sizes)
        self.names = Names(self.dialect)
        self.x = Expressions(self.dialect, self.ranges, self.native_half)

    def program(self) -> Program:
        for buffer in self.function.params:
            self.ranges.note_product(buffer.shape)
            for extent, stride in zip(buffer.shape, buffer.strides, strict=False):  # their sum is an offset
                self.ranges.note_product([const(buffer.ndim), extent, stride])
        for launch, when, loop in self._launches(self.function.body, (), None):
            self._kernel(launch, when, loop)
        device = [
            {
                "name": b.name,
                "dtype": str(b.dtype),
                "elements": ["mul", dim_of(logical_and(*when)), dim_of(b.elements)] if when else dim_of(b.elements),
            }
            for b, when in self.device.items()
        ]
        return Program(self._source(), self.launches, device, self.ranges.peak_dim())

    def _launches(
        self, s: S.Stmt, when: tuple[Expr, ...], loop: S.For | None
    ) -> Iterator[tuple[S.Launch, tuple[Expr, ...], S.For | None]]:
        """Yield the launches in order, each with its conditions, and the host's loop that it is in; note device buffers
        on the way."""
        match s:
            case S.Launch():
                yield s, when, loop
            case S.Seq(stmts=stmts):
                for child in stmts:
                    yield from self._launches(child, when, loop)
            case S.Produce(body=body):
                yield from self._launches(body, when, loop)
            case S.If(condition=condition, then=then, otherwise=otherwise):
                yield from self._launches(then, (*when, condition), loop)
                if otherwise is not None:
                    yield from self._launches(otherwise, (*when, logical_not(condition)), loop)
            case S.For(body=body) if loop is None:
                self.loops.append(s)
                yield from self._launches(body, when, s)
            case S.Allocate(buffer=buffer, body=body) if buffer.scope == "global":
                self.device[buffer] = when
                self.ranges.note_product(buffer.shape)
                yield from self._launches(body, when, loop)
            case _:
                what = f"buffer {s.buffer.name!r}" if isinstance(s, S.Allocate | S.Store) else type(s).__name__
                raise BuildError(
                    f"{what} is not inside a kernel",
                    asked=f"{self.dialect.name} code for {self.function.name!r}",
                    legal="bind a loop of every stage to blockIdx.x or threadIdx.x",
                )

    # -- one kernel ---------------------------------------------------------------------------
    def _kernel(self, launch: S.Launch, when: tuple[Expr, ...], loop: S.For | None) -> None:
        name = self.names.declare(launch.name)
        names = Names(self.dialect)  # a parameter may hide its kernel: `y` computes y
        self.x.variables.clear()
        self.x.buffers.clear()
        roots = S.all_expressions(launch.body)
        nodes = post_order(roots)
        params, args = self._parameters(launch, nodes, names)
        if loop is not None and any(e is loop.var for e in nodes):
            self.ranges.bind_loop(loop.var, loop.start, loop.extent)
            self.x.variables[loop.var] = names.declare(loop.var.name), INDEX
            params.append(f"const {INDEX} {self.x.variables[loop.var][0]}")
            args.append(["step", 0])
        body, statements = Statements(self.x, names), launch.body
        if self.dialect.of_kernels.regions_preamble:
            statements, body.of_each_item = part_regions(launch.body)
        with names.scope():
            body.depth = 1
            params += self._shared(launch, names, body, args)
            self._thread_indices(launch, nodes, names, body)
            body.emit(statements)
        head = f"void {name}({', '.join(params)}) {{"
        block = [dim_of(e) for e in launch.block]
        qualifiers = [self.dialect.of_kernels.qualifier]
        if all(isinstance(b, int) for b in block):
            qualifiers.append(self.dialect.of_kernels.block_attribute.format(**dict(zip("xyz", block, strict=True))))
        self.kernels.append("\n".join([" ".join(qualifiers), head, *body.lines, "}"]))
        for grid_extent, block_extent in zip(launch.grid, launch.block, strict=True):
            self.ranges.note_product((grid_extent, block_extent))
        self.launches.append(
            {
                "name": name,
                "grid": [dim_of(e) for e in launch.grid],
                "block": block,
                "shared_bytes": dim_of(sum((b.elements * b.dtype.bytes for b in _shared_buffers(launch)), const(0))),
                "args": args,
                **({"when": dim_of(logical_and(*when))} if when else {}),
                **({"loop": [self.loops.index(loop), dim_of(loop.start), dim_of(loop.extent)]} if loop else {}),
            }
        )

    def _parameters(self, launch: S.Launch, nodes: list[Expr], names: Names) -> tuple[list[str], list[list[Any]]]:
        """C declarations and host arguments of the buffers and sizes that the kernel mentions."""
        written, read = accesses(launch.body, nodes)
        texts: list[str] = []
        args: list[list[Any]] = []
        d = self.dialect
        for kind, buffers in (("param", self.function.params), ("device", self.device)):
            for position, buffer in enumerate(buffers):
                if buffer in written or buffer in read:
                    self.x.buffers[buffer] = names.declare(buffer.name)
                    const = "" if buffer in written else "const "
                    pointer = d.pointer_type(d.global_scope, const + d.storage_name(buffer.dtype)) + f" {d.restrict}"
                    texts.append(f"{pointer} {self.x.buffers[buffer]}")
                    args.append([kind, position])
        computed = [s for s in S.walk(launch.body) if not isinstance(s, S.Allocate)]  # extents are the host's
        mentioned = set(post_order([e for s in computed for e in S.expressions(s)]))
        for size in self.function.sizes:
            if size in mentioned:
                self.x.variables[size] = names.declare(size.name), INDEX
                texts.append(f"const {INDEX} {self.x.variables[size][0]}")
                args.append(["size", size.name])
        return texts, args

    def _shared(self, launch: S.Launch, names: Names, body: Statements, args: list[list[Any]]) -> list[str]:
        """Declare shared memory at the top of the kernel; where its size is symbolic, as an argument."""
        texts, kernels = [], self.dialect.of_kernels
        for buffer in _shared_buffers(launch):
            name = self.x.buffers[buffer] = names.declare(buffer.name)
            self.ranges.note_product(buffer.shape)
            if buffer.elements.op == "const":
                body.line(f"{kernels.shared_scope} {body.array(buffer, name, int(buffer.elements.value))};")
            else:
                words = {"type": self.dialect.storage_name(buffer.dtype), "name": name}
                texts.append(kernels.shared_parameter.format(**words))
                if kernels.shared_declaration:
                    body.line(kernels.shared_declaration.format(**words))
                args.append(["shared", dim_of(buffer.elements * buffer.dtype.bytes)])
        return texts

    def _thread_indices(self, launch: S.Launch, nodes: list[Expr], names: Names, body: Statements) -> None:
        extents = dict(zip(S.THREAD_TAGS, (*launch.grid, *launch.block), strict=True))
        used = [n for n in nodes if n.op == "var" and n.value.role == "thread"]
        for tag in S.THREAD_TAGS:
            variables = [v for v in used if v.value.name == tag]
            if variables:
                name = names.declare(tag)
                body.line(f"const {INDEX} {name} = {self.dialect.of_kernels.thread_index[tag]};")
                for v in variables:
                    self.x.variables[v] = name, INDEX
                    self.ranges.bind_index(v, extents[tag])

    # -- the whole text -----------------------------------------------------------------------
    def _source(self) -> str:
        d = self.dialect
        exprs = post_order(S.all_expressions(self.function.body))
        types = {e.dtype.scalar for e in exprs} | {b.dtype for b in (*self.function.params, *self.device)}
        head = [d.strict if self.strict else d.contract, d.preamble]
        if "float64" in types:
            head.append(d.float64_preamble)
        if _HALF in types and self.native_half:
            head.append(d.float16_preamble)
        head += [half.preamble for of, half in d.halves.items() if of in types and self.x.half(dtype(of))]
        if d.vectors and any(e.dtype.lanes > 1 for e in exprs):
            head.append(d.vectors.preamble)
        if any(kind == "shared" for launch in self.launches for kind, _ in launch["args"]):
            head.append(d.of_kernels.shared_preamble)
        if any(word in kernel for word in ("each_item(", "pocl_barrier(") for kernel in self.kernels):
            head.append(d.of_kernels.regions_preamble)
        index = [
            "#ifndef INDEX_T  // the host defines it as long when an offset might not fit in an int",
            f"#define INDEX_T {d.types['int32']}",
            "#endif",
            f"typedef INDEX_T {INDEX};",
        ]
        index += filter(None, [d.of_kernels.index_preamble])
        helpers = ["\n".join(self.x.helpers.definitions())] if self.x.helpers.definitions() else []
        helpers = d.defined("\n".join([*helpers, *self.kernels])) + helpers
        return "\n\n".join(["\n".join(filter(None, head)), "\n".join(index), *helpers, *self.kernels]) + "\n"


def _shared_buffers(launch: S.Launch) -> list[S.Buffer]:
    """The shared buffers, each once: unrolled loops and branches may allocate one in several places."""
    found = (s.buffer for s in S.walk(launch.body) if isinstance(s, S.Allocate) and s.buffer.scope == "shared")
    return list(dict.fromkeys(found))
