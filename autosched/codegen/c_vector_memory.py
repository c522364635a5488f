"""Where vectors of the C family lie in memory: what may be one access, and from which others the rest is taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

from autosched.codegen.c_scalar import Expressions
from autosched.codegen.dialects import NotVector, Vectors
from autosched.codegen.lanes import as_ramp
from autosched.codegen.storage import constant_bytes
from autosched.codegen.together import windows
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, is_const
from autosched.ir.simplify import known_multiples, to_poly
from autosched.ir.stmt import Buffer, Store

#: Bytes to whose multiple shared arrays are aligned at least: four floats.
SHARED_ALIGNMENT = 16
#: Vectors from which elements at known distances are taken, at most; those of more are loaded one by one.
MOST_NEAR = 4


def array_alignment(buffer: Buffer, vectors: Vectors) -> int:
    """The alignment of a shared or private array in bytes: never so large that it wastes memory."""
    size = constant_bytes(buffer)
    whole = min(vectors.widest_access, size & -size) if size else 1
    return max(whole, SHARED_ALIGNMENT) if buffer.scope == "shared" else whole


class VectorMemory:
    """Accesses of whole vectors, in the spelling of a dialect."""

    def __init__(self, scalars: Expressions) -> None:
        self.x = scalars
        self.dialect = scalars.dialect
        self._multiples: dict[Expr, int] = {}  #: sizes, of which a number that divides them is known

    @property
    def d(self) -> Vectors:
        """The language's spelling of vectors. Raises NotVector where it has none."""
        if self.dialect.vectors is None:
            raise NotVector
        return self.dialect.vectors

    @contextmanager
    def given(self, condition: Expr) -> Iterator[None]:
        """Emit statements where a condition holds."""
        outer, self._multiples = self._multiples, self._multiples | dict(known_multiples(condition))
        try:
            yield
        finally:
            self._multiples = outer

    def _place(self, index: Expr, width: int) -> int | None:
        """How far an index is behind a multiple of `width`; None where that is not known."""
        terms = to_poly(index).terms
        if any(c * prod(self._multiples.get(x, 1) for x in term) % width for term, c in terms.items() if term):
            return None
        return terms.get((), 0) % width

    def aligned(self, buffer: Buffer, index: Expr, lanes: int) -> str:
        """A template for the whole vector as one access of memory, or nothing where its address may not be a
        multiple of its width.

        `vload` and `vstore` promise nothing of alignment: PoCL makes an access of each lane of them, and arrays of
        sums that are accessed so stay in memory. Where vectors may lie anywhere, memory of arguments does, too: it may
        be the host's.
        """
        width = lanes * buffer.dtype.bytes
        on_chip = buffer.scope in ("shared", "local")
        if self.d.anywhere and not on_chip:
            return ""
        most = array_alignment(buffer, self.d) if on_chip else self.d.widest_access
        widest = min(width, self.d.widest_access) if self.d.joins else width
        if lanes & (lanes - 1) or widest > most:
            return ""
        line, whole = as_ramp(index), widest // buffer.dtype.bytes
        if line is None or self._place(line[0], whole) != 0:
            return ""
        if buffer.scope == "shared" and any(d.op != "const" for d in buffer.shape):
            return ""  # an argument of the kernel: the host says where it lies
        memory = self._memory(buffer, lanes)
        is_qualified = memory["scope"] and buffer.scope != "local"
        qualified = self.d.aligned.replace("{scope} ", f"{memory['scope']} " if is_qualified else "")
        return qualified.replace("{type}", memory["type"])

    def _memory(self, buffer: Buffer, lanes: int) -> dict[str, str]:
        """The qualifier of a buffer's memory, and the type of so many elements there."""
        of = dtype("uint8" if buffer.dtype.is_bool else buffer.dtype).with_lanes(lanes)
        kernels = self.dialect.kernels
        scopes = {"local": self.dialect.private_scope, "shared": kernels.shared_scope if kernels else ""}
        return {"scope": scopes.get(buffer.scope, self.dialect.global_scope), "type": self.dialect.type_name(of)}

    def pointer(self, buffer: Buffer, index: Expr, lanes: int) -> str:
        line = as_ramp(index)
        if (
            not self.d.fits(lanes, buffer.dtype.bytes)
            or index.dtype.lanes != lanes
            or line is None
            or not is_const(line[1], 1)
        ):
            raise NotVector
        return self.x.pointer(buffer, line[0])

    # -- expressions --------------------------------------------------------------------------
    def _written(self, buffer: Buffer, index: Expr, lanes: int, value: str) -> str:
        pointer = self.pointer(buffer, index, lanes)
        aligned = self.aligned(buffer, index, lanes)
        if aligned:
            return f"{aligned.format(pointer=pointer)} = {value}"
        return self.d.store.format(x=value, pointer=pointer, lanes=lanes, **self._memory(buffer, lanes))

    def _anywhere(self, buffer: Buffer, places: Sequence[int]) -> tuple[list[int], int]:
        """Where vectors begin that hold all elements at `places`, and how long they are. They reach no farther than
        the first and the last element. Raises NotVector."""
        most = min(max(places) - min(places) + 1, len(places))
        width = max((n for n in self.d.lanes if n <= most and self.d.fits(n, buffer.dtype.bytes)), default=0)
        parts = windows(places, width, max(places)) if width else []
        if not 0 < len(parts) <= MOST_NEAR:
            raise NotVector
        return parts, width

    def _at_multiples(self, buffer: Buffer, base: Expr, places: Sequence[int]) -> tuple[list[int], int]:
        """The same for vectors at multiples of their width. They may reach beyond the last element of an argument, but
        not beyond its memory, of which devices give whole vectors. Raises NotVector."""
        if max(places) - min(places) >= MOST_NEAR * len(places):
            raise NotVector
        bytes = buffer.dtype.bytes
        widths = [n for n in self.d.lanes if n * bytes <= self.d.widest_access and n <= len(places) and not n & (n - 1)]
        width = max(widths, default=1)
        place = self._place(base, width)
        ends = buffer.scope in ("shared", "local") and (constant_bytes(buffer) or 1) % (width * bytes)
        if width == 1 or place is None or ends:
            raise NotVector
        first = (place + min(places)) // width * width - place
        return [*range(first, max(places) + 1, width)], width

    def lies_apart(self, s: Store) -> bool:
        """Whether the lanes of a store are written one by one, after all of them were computed."""
        line = as_ramp(s.indices[0])
        if s.buffer.dtype.is_bool or self.x.half(s.buffer.dtype) or s.value.dtype.lanes == 1:
            return False
        return s.indices[0].dtype.lanes > 1 and (line is None or not is_const(line[1], 1))
