"""Records as somebody might have edited them: damaged in bytes or in structure, each with a checksum that fits."""

from __future__ import annotations

import copy
import json
import random
import zlib
from collections.abc import Iterator
from typing import Any

from autosched import te
from autosched.records import Record, encode
from autosched.schedule.primitive import PRIMITIVES
from autosched.schedule.primitives.marks import PRAGMAS
from autosched.schedule.schedule import create_schedule
from autosched.space.workload import Workload


def programs() -> list[tuple[Workload, list[list[Any]]]]:
    """Small workloads, and traces that are right for each."""
    n, m = 21, 18
    a, b = te.placeholder((n, m), "float32", name="a"), te.placeholder((m, n), "float32", name="b")
    k = te.reduce_axis((0, m), name="k")
    product = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    image = te.placeholder((n, m), "uint8", name="image")
    wide = te.compute((n, m), lambda y, x: image[y, x].astype("uint16") * 3, name="wide")
    blur = te.compute(
        (n, m - 2), lambda y, x: ((wide[y, x] + wide[y, x + 1] + wide[y, x + 2]) // 9).astype("uint8"), name="blur"
    )
    of_product = Workload("product", (a, b, product))
    of_blur = Workload("blur", (image, blur))
    return [(of_product, [_tiles(product), _panels(product)]), (of_blur, [_inlined(blur), _attached(blur)])]


def _tiles(c: Any) -> list[Any]:
    s = create_schedule(c)
    i, inner = s["c"].split("i", factor=4)
    j, lane = s["c"].split("j", factor=8, tail="predicate")
    s["c"].reorder(i, j, "k", inner, lane)
    s["c"].unroll(inner)
    s["c"].vectorize(lane)
    s["c"].parallel(i)
    return s.trace.to_json()


def _panels(c: Any) -> list[Any]:
    s = create_schedule(c)
    s.cache_write("c", "local")
    j, lane = s["c"].split("j", factor=8)
    s["c"].vectorize(lane)
    s["c.local"].compute_at(s["c"], j)
    _, inner = s["c.local"].split("k.c", factor=3)
    s["c.local"].unroll(inner)
    s.cache_read("b", "global", ["c.local"])
    return s.trace.to_json()


def _inlined(blur: Any) -> list[Any]:
    s = create_schedule(blur)
    s["wide"].compute_inline()
    _, lane = s["blur"].split("x", factor=8, tail="shift_inwards")
    s["blur"].vectorize(lane)
    s["blur"].parallel("y")
    return s.trace.to_json()


def _attached(blur: Any) -> list[Any]:
    s = create_schedule(blur)
    y, inner = s["blur"].split("y", factor=5)
    s["wide"].store_at(s["blur"], y)
    s["wide"].compute_at(s["blur"], inner)
    s["wide"].split("x", factor=4, tail="round_up")
    s["blur"].parallel(y)
    return s.trace.to_json()


def record_of(w: Workload, trace: list[Any], device: dict[str, Any], target: str = "llvm", **changes: Any) -> Record:
    """A record of a trace that claims to be verified, on this device."""
    described = {"name": w.name, "key": w.key, "params": {}, "args": w.describe_args(), "sizes": {}}
    given = {"sketch": "mine", "knobs": {}, "status": "ok", "samples": (1e-3,), "verified": "full", **changes}
    return Record(workload=described, target=target, device=device, trace=trace, **given)


def mutations(w: Workload, traces: list[list[Any]], device: dict[str, Any], seed: int) -> Iterator[bytes]:
    """Lines without end, each a record that was damaged in some way; those that are no record any more among them."""
    rng = random.Random(seed)
    while True:
        record = record_of(w, copy.deepcopy(rng.choice(traces)), device)
        if rng.random() < 0.2:
            body = bytearray(encode(record)[:-18].encode())
            for _ in range(rng.randint(1, 4)):
                body[rng.randrange(len(body))] = rng.choice(b'0123456789abcijkxy".,[]{}:-_')
            yield sealed(bytes(body) + b"}")
        else:
            data = json.loads(encode(record))
            del data["crc"]
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                _mutate(data, rng)
            yield sealed(json.dumps(data, sort_keys=True, separators=(",", ":")).encode())


def sealed(body: bytes) -> bytes:
    """An object's text with the checksum that fits."""
    return body[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(body)


def _mutate(data: dict[str, Any], rng: random.Random) -> None:
    trace = data["trace"]
    what = rng.random()
    if what < 0.35 or not trace:
        trace.insert(rng.randint(0, len(trace)), _instruction(trace, rng))
    elif what < 0.45:
        del trace[rng.randrange(len(trace))]
    elif what < 0.55:
        a, b = rng.randrange(len(trace)), rng.randrange(len(trace))
        trace[a], trace[b] = trace[b], trace[a]
    elif what < 0.6:
        trace.insert(rng.randint(0, len(trace)), copy.deepcopy(rng.choice(trace)))
    elif what < 0.95:
        _change(rng.choice(trace), trace, rng)
    else:
        data["samples"] = [rng.choice([1e-12, 1e-9, 1.0])]


def _change(instruction: list[Any], trace: list[Any], rng: random.Random) -> None:
    """Another argument, or another option."""
    if isinstance(instruction[-1], dict) and rng.random() < 0.5:
        options = instruction[-1]
        name = rng.choice(["factor", "nparts", "tail", "disable_predication", "pragma_value", "output"])
        options[name] = _value(name, rng)
        if rng.random() < 0.5:
            options.pop(rng.choice(list(options)))
        return
    at = rng.randrange(len(instruction))
    old = instruction[at]
    if at == 0:
        instruction[0] = rng.choice(list(PRIMITIVES))
    elif isinstance(old, int):
        instruction[at] = rng.choice([0, 1, 2, 3, 5, 7, 16, -1, 2**31])
    elif isinstance(old, str):
        instruction[at] = rng.choice(_names(trace))


def _value(option: str, rng: random.Random) -> Any:
    if option == "tail":
        return rng.choice(["guard", "predicate", "round_up", "shift_inwards", "auto"])
    return rng.choice([True, False]) if option == "disable_predication" else rng.choice([0, 1, 2, 3, 5, 7, 16])


def _instruction(trace: list[Any], rng: random.Random) -> list[Any]:
    """One of any primitive, with arguments of the right kinds."""
    kind = rng.choice(list(PRIMITIVES))
    made = [kind, rng.choice(_STAGES)]
    for wanted in (k.name for k in PRIMITIVES[kind].kinds):
        made.append(_argument(kind, wanted, trace, rng))
    given = {
        name: _value(name, rng)
        for name in PRIMITIVES[kind].options
        if name in ("factor", "tail") and rng.random() < 0.6
    }
    return [*made, given] if given else made


_STAGES = ("a", "b", "c", "c.local", "b.global", "image", "wide", "blur")
_LOOPS = (
    "i",
    "j",
    "k",
    "y",
    "x",
    "i.outer",
    "i.inner",
    "j.outer",
    "j.inner",
    "k.outer",
    "k.inner",
    "y.outer",
    "y.inner",
)
_LOOPS = (*_LOOPS, "x.outer", "x.inner", "i.c", "j.c", "k.c", "k.c.inner", "k.c.outer")


def _names(trace: list[Any]) -> list[str]:
    """What instructions may mention."""
    return [*_STAGES, *_LOOPS, *PRAGMAS, "local", "global", "shared"]


def _argument(kind: str, wanted: str, trace: list[Any], rng: random.Random) -> Any:
    match wanted:
        case "name" if kind == "pragma":
            return rng.choice(list(PRAGMAS))
        case "name" if PRIMITIVES[kind].of_schedule or kind == "set_scope":
            return rng.choice(["local", "global"])
        case "name":
            return rng.choice(_STAGES)
        case "names":
            return [rng.choice(_STAGES)]
        case "loop" | "axis":
            return rng.choice(_LOOPS)
        case "predicate":
            return [rng.choice(["lt", "ge", "eq"]), ["loop", rng.choice(_LOOPS)], rng.randint(0, 5)]
        case "mapping":
            return [["axis", "1"], ["axis", "0"]]
    return rng.choice([1, 2, 3, 5, 8])
