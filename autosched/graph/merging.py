"""A program for a device as one artifact: the sources of its kernels in one, and launch after launch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.codegen.artifact import Artifact
from autosched.codegen.c_program import c_name
from autosched.codegen.signature import Param, Signature
from autosched.errors import BuildError
from autosched.graph.linking import bytes_of, check
from autosched.graph.program import Place, Program
from autosched.ir.dims import evaluate_dim
from autosched.ir.dtype import dtype
from autosched.target import Target


def merge_launches(program: Program, target: Target) -> Artifact:
    """The function of a program of kernels for OpenCL: `NAME(inputs.., weights.., outputs..)`.

    Each weight is a parameter, an array that may stay on the device. What lives between calls are buffers of the
    device; those that are never needed together are one. `meta["calls"]` has the number of the call of each launch.

    Raises BuildError for kernels that do not fit together, and where one reads a part of what another wrote.
    """
    check(program, "opencl")
    given = next((k for k in program.kernels if k.meta.get("options")), None)
    if given is not None:
        why = f"{given.signature.name} is compiled with options of its own: {' '.join(given.meta['options'])}"
        raise BuildError(why, asked=f"merging {program.name}", legal="kernels that are generated")
    sources = _Sources()
    names = [sources.add(k, c_name(k.signature.name)) for k in program.kernels]
    weights = _weight_params(program)
    signature = Signature(program.name, (*program.inputs, *weights, *program.outputs), ())
    begins = {"input": 0, "weight": len(program.inputs), "output": len(program.inputs) + len(weights)}
    values = _Values(program)
    buffers = values.buffers()
    launches: list[dict[str, Any]] = []
    calls: list[int] = []
    loops: dict[tuple[int, int], int] = {}
    for number, call in enumerate(program.calls):
        kernel = program.kernels[call.kernel]

        def placed(kind: str, which: Any, number: int = number, places: Sequence[Place] = call.places) -> list[Any]:
            if kind == "device":
                return ["device", buffers.of[values.inner[number, which]]]
            if kind != "param":
                return [kind, evaluate_dim(which, {}) if kind == "shared" else which]
            place = places[which]
            if place.kind == "arena":
                return ["device", buffers.of[values.outer[number, which]]]
            return ["param", begins[place.kind] + place.number]

        for launch in kernel.meta["launches"]:
            if evaluate_dim(launch.get("when", 1), {}) <= 0:
                continue
            plain = {k: [evaluate_dim(d, {}) for d in launch[k]] for k in ("grid", "block")}
            args = [placed(kind, which) for kind, which in launch["args"]]
            shared = evaluate_dim(launch["shared_bytes"], {})
            name = names[call.kernel][launch["name"]]
            merged = {"name": name, **plain, "shared_bytes": shared, "args": args}
            if "loop" in launch:
                which, *span = launch["loop"]
                merged["loop"] = [loops.setdefault((number, which), len(loops)), *(evaluate_dim(d, {}) for d in span)]
            launches.append(merged)
            calls.append(number)
    meta = {
        "launches": launches,
        "device": [{"name": f"b{i}", "dtype": "uint8", "elements": n} for i, n in enumerate(buffers.sizes)],
        "index_bound": max([0, *(evaluate_dim(k.meta["index_bound"], {}) for k in program.kernels)]),
        "calls": calls,
    }
    source = sources.text()
    return Artifact("opencl", str(target), signature, source.encode(), {"source": source}, meta)


def _weight_params(program: Program) -> list[Param]:
    """A parameter for each weight, as kernels see it."""
    seen: dict[int, Param] = {}
    for call in program.calls:
        params = program.kernels[call.kernel].signature.params
        for p, place in zip(params, call.places, strict=True):
            if place.kind == "weight":
                seen.setdefault(place.number, p)
    unused = [Param("", str(dtype(w.dtype.name)), w.shape, False) for w in program.weights]
    found = [seen.get(i, p) for i, p in enumerate(unused)]
    return [Param(f"weight{i}", p.dtype, p.shape, False) for i, p in enumerate(found)]


# -- memory -------------------------------------------------------------------------------------------


@dataclass
class _Buffers:
    """The bytes of each buffer, and the buffer of each value."""

    sizes: list[int]
    of: dict[int, int]


class _Values:
    """What lives in the arena, or inside of one call: bytes, the first and the last call.

    outer: (call, number of the argument) -> value; inner: (call, number of the kernel's own buffer) -> value
    """

    def __init__(self, program: Program) -> None:
        self.values: list[list[int]] = []
        self.outer: dict[tuple[int, int], int] = {}
        self.inner: dict[tuple[int, int], int] = {}
        present: dict[int, int] = {}  # offset in the arena -> the value that is there
        for number, call in enumerate(program.calls):
            kernel = program.kernels[call.kernel]
            ours = [
                (i, place.number, bytes_of(p), p.is_output)
                for i, (p, place) in enumerate(zip(kernel.signature.params, call.places, strict=True))
                if place.kind == "arena"
            ]
            for i, at, size, is_output in ours:
                if not is_output:
                    self.outer[number, i] = self._read(program, number, present.get(at), size)
            read = {at for _, at, _, is_output in ours if not is_output}
            for i, at, size, is_output in ours:
                if is_output:
                    self.outer[number, i] = self._write(present, number, at, size, at in read)
            for j, b in enumerate(kernel.meta["device"]):
                size = max(evaluate_dim(b["elements"], {}), 0) * dtype(b["dtype"]).bytes
                self.inner[number, j] = self._new(size, number)

    def _new(self, size: int, call: int) -> int:
        self.values.append([size, call, call])
        return len(self.values) - 1

    def _read(self, program: Program, call: int, value: int | None, size: int) -> int:
        if size == 0:
            return self._new(0, call)
        if value is None or self.values[value][0] < size:
            raise BuildError(
                "it reads memory that no call before it wrote as a whole",
                asked=f"{program.name}: call {call}, {program.kernels[program.calls[call].kernel].signature.name}",
                legal="on a device an intermediate begins where one was written",
            )
        self.values[value][2] = call
        return value

    def _write(self, present: dict[int, int], call: int, at: int, size: int, in_place: bool) -> int:
        if size == 0:
            return self._new(0, call)
        value = present[at] if in_place else self._new(size, call)
        self.values[value][0] = max(size, self.values[value][0])
        self.values[value][2] = call
        for offset in [o for o, v in present.items() if o < at + size and at < o + self.values[v][0]]:
            del present[offset]
        present[at] = value
        return value

    def buffers(self) -> _Buffers:
        """A buffer for each value: the largest first, each in the smallest that is free while it lives."""
        found = _Buffers([], {})
        times: list[list[tuple[int, int]]] = []
        for i in sorted(range(len(self.values)), key=lambda i: -self.values[i][0]):
            size, first, last = self.values[i]
            free = [b for b, ts in enumerate(times) if all(last < a or z < first for a, z in ts)]
            if free:
                b = free[-1]  # they were made from the largest to the smallest
            else:
                b = len(times)
                found.sizes.append(max(size, 1))
                times.append([])
            times[b].append((first, last))
            found.of[i] = b
        return found


# -- sources ------------------------------------------------------------------------------------------

_DEFINED = re.compile(r"(\w+)\s*\(")


class _Sources:
    """Definitions of several sources, each distinct one once."""

    def __init__(self) -> None:
        self._items: list[str] = []
        self._present: set[str] = set()
        self._functions: dict[str, str] = {}
        self._pragmas: dict[str, str] = {}
        self._names: set[str] = set()

    def text(self) -> str:
        return "\n\n".join(self._items) + "\n"

    def add(self, kernel: Artifact, prefix: str) -> Mapping[str, str]:
        """Add a source; returns the names that its kernels have now."""
        launched = {launch["name"] for launch in kernel.meta["launches"]}
        items = list(_items(kernel.code.decode()))
        own = {name: name if name.startswith(prefix) else f"{prefix}_{name}" for name in sorted(launched)}
        renamed = {name: self._free(wish) for name, wish in own.items()}
        defined = {name: item for item in items if (name := _function_of(item)) and name not in launched}
        other: dict[str, str] = {}  # helpers that another source has under these names, with other texts
        while found := next((n for n, item in defined.items() if n not in other and self._clashes(n, item, other)), ""):
            other[found] = self._free(f"{prefix}_{found}")  # whoever calls it has another text now
        self._functions.update({name: item for name, item in defined.items() if name not in other})
        for item in items:
            self._put(_replaced(item, other), launched, renamed)
        return renamed

    def _clashes(self, name: str, item: str, other: Mapping[str, str]) -> bool:
        return self._functions.get(name, item) != _replaced(item, other)

    def _free(self, wish: str) -> str:
        name, count = wish, 1
        while name in self._names:
            count += 1
            name = f"{wish}_{count}"
        self._names.add(name)
        return name

    def _put(self, item: str, launched: set[str], renamed: Mapping[str, str]) -> None:
        name = _function_of(item)
        if name in launched:  # a parameter may have the name of the kernel
            self._items.append(re.sub(rf"\bvoid {name}\(", f"void {renamed[name]}(", item, count=1))
        elif item.startswith("#pragma"):
            about = " ".join(item.split()[:3])
            if self._pragmas.get(about) != item:
                self._items.append(item)
            self._pragmas[about] = item
        elif item not in self._present:
            self._present.add(item)
            self._items.append(item)


def _replaced(item: str, names: Mapping[str, str]) -> str:
    return re.sub("|".join(rf"\b{n}\b" for n in names), lambda m: names[m[0]], item) if names else item


def _function_of(item: str) -> str:
    """The name of the function that the text defines; empty for other text."""
    if item.startswith("#") or not item.endswith("}"):
        return ""
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)\)?|//.*", "", item[: item.index("{")])
    found = _DEFINED.search(head)
    return found[1] if found else ""


def _items(source: str) -> Iterator[str]:
    """Definitions and directives at file scope: `#if` up to its `#endif`, text up to its last brace or semicolon."""
    lines: list[str] = []
    conditions = braces = 0
    for line in source.splitlines():
        if not line.strip() and not lines:
            continue
        lines.append(line)
        code = line.partition("//")[0].strip()
        conditions += code.startswith("#if")
        conditions -= code.startswith("#endif")
        braces += code.count("{") - code.count("}")
        ended = (
            not code.endswith("\\") if code.startswith("#") or lines[0].startswith("#") else code.endswith((";", "}"))
        )
        if conditions == 0 and braces == 0 and ended:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)
