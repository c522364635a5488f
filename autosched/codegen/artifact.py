"""Artifacts: compiled code with its signature, as one file of JSON and bytes."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from autosched.codegen.signature import Signature
from autosched.errors import BuildError, Fields, Form, is_integer
from autosched.ir.dims import check_dim
from autosched.ir.dtype import SCALAR_DTYPES
from autosched.places import write_whole

#: kinds of artifact whose code is text
SOURCES = ("c", "opencl", "cuda")
KINDS = ("llvm", "shared", *SOURCES)

_TEXT = Form("a text", lambda x: isinstance(x, str) and "\0" not in x)
_NAME = re.compile(r"[A-Za-z_$.][\w$.]*", re.ASCII)
_SYMBOL = Form("a symbol", lambda x: isinstance(x, str) and _NAME.fullmatch(x) is not None)


def _meta(s: Signature) -> Mapping[str, Form]:
    """What a runtime reads of `meta`, and how it must look; the rest is for people."""
    dim = Form("a dimension", lambda x: check_dim(x, s.sizes) is x)
    dims = Form("3 dimensions", lambda x: isinstance(x, list) and len(x) == 3 and all(map(dim.fits, x)))

    def is_argument(x: Any) -> bool:
        match x:
            case ["param" | "device" as which, place] if is_integer(place):
                return place >= 0 and (which == "device" or place < len(s.params))
            case ["size", str() as name]:
                return name in s.sizes
            case ["step", 0]:
                return True
            case ["shared", shared]:
                return dim.fits(shared)
            case ["scalar", [str() as of, int() | float()]]:
                return of in SCALAR_DTYPES
        return False

    arguments = Form.array(Form("what a kernel gets: [kind, which]", is_argument))

    def is_loop(x: Any) -> bool:
        match x:
            case [number, start, extent] if is_integer(number):
                return number >= 0 and dim.fits(start) and dim.fits(extent)
        return False

    launch = Fields(
        {
            "name": _TEXT, "grid": dims, "block": dims, "shared_bytes": dim, "args": arguments, "when": dim,
            "loop": Form("the host's loop: [number, start, extent]", is_loop),
        },
        ("when", "loop"),
    )  # fmt: skip
    memory = Fields({"name": _TEXT, "dtype": _TEXT, "elements": dim})
    texts = Form.array(_TEXT, "an array of texts")
    return {
        "entry": _SYMBOL,
        "parallel": Form.flag(),
        **dict.fromkeys(("mcpu", "cpu", "features", "triple", "llvm"), _TEXT),
        "symbols": Form.array(_SYMBOL, "an array of symbols"),
        "packed": texts,
        "objects": Form.array(Form.integer(0), "an array of sizes"),
        "options": Form("texts or null", lambda x: x is None or texts.fits(x)),
        "launches": Form.array(launch, "an array of launches"),
        "device": Form.array(memory, "an array of buffers"),
        "index_bound": dim,
        "anywhere": Form.flag(),
        "provenance": Form.object(),
    }


_NEEDED: Mapping[str, Sequence[str]] = {
    "llvm": ("entry", "cpu", "features", "triple"),
    "c": ("entry",),
    "shared": ("entry",),
    "opencl": ("launches", "device", "index_bound"),
    "cuda": ("launches", "device", "index_bound"),
}


def check_meta(kind: str, meta: Mapping[str, Any], signature: Signature) -> None:
    """Raise ValueError for a field of `meta` that is missing or malformed."""
    if kind not in KINDS:
        raise ValueError(f"its kind is {kind!r:.40}, not one of {', '.join(KINDS)}")
    forms = _meta(signature)
    Fields(forms, optional=forms.keys() - _NEEDED[kind]).check(meta, "meta")


_FORMAT = "autosched-artifact"
_VERSION = 1
_HEADER = Fields(
    {
        "format": Form.text(),
        "v": Form.integer(),
        "kind": Form.text(),
        "target": Form.text(),
        "signature": Form.object(),
        "texts": Form.object(Form.text(), "an object of strings"),
        "meta": Form.object(),
        "code_bytes": Form.integer(0),
    }
)


@dataclass(frozen=True)
class Artifact:
    """Machine code (or device source) with its signature.

    `kind` says which runtime loads it (`llvm`, `opencl`), `target` is `str(Target)`. `code` is what
    the runtime loads: an object file, or UTF-8 source. `texts` are readable forms that cost nothing
    to keep (always `source`); `codegen.text_of` makes the others. `meta` is JSON for the runtime.
    """

    kind: str
    target: str
    signature: Signature
    code: bytes
    texts: dict[str, str] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of the code: equal for two candidates that compiled to the same instructions."""
        return hashlib.sha256(self.code).hexdigest()

    @property
    def identity(self) -> str:
        """SHA-256 of everything that decides how the function runs: its program, launches, signature and processor.

        The program of `llvm` is its assembly before LLVM has seen it, so that this is known before
        anything is compiled; what is alike there becomes the same code.
        """
        program = self.texts["source"].encode() if self.kind == "llvm" else self.code
        # C is compiled where it runs, by what the environment says
        compiler = [os.environ.get(name, "") for name in ("CC", "CFLAGS", "LDFLAGS")] if self.kind == "c" else []
        facts = json.dumps([self.kind, self.meta, self.signature.to_json(), *compiler], sort_keys=True)
        return hashlib.sha256(facts.encode() + b"\n" + program).hexdigest()

    @property
    def objects(self) -> list[bytes]:
        """The object files that its code is: one, or those that `meta` has the sizes of."""
        ends = list(accumulate(self.meta.get("objects", [len(self.code)])))
        return [self.code[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    @property
    def machine(self) -> str:
        """The instruction set of machine code, such as `x86_64`; empty for source."""
        return str(self.meta.get("triple", "")).partition("-")[0]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically: readers see the old one or the whole new one."""
        Artifact.save_all([self], path)

    @staticmethod
    def save_all(artifacts: Sequence[Artifact], path: str | os.PathLike[str]) -> None:
        """Write several to one file, atomically."""
        data = b"".join(a.to_bytes() for a in artifacts)
        write_whole(Path(path), lambda out: out.write(data), parents=False)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Artifact:
        """Read what `save` wrote. Raises BuildError for a file that is not whole or not ours."""
        return Artifact.load_all(path)[0]

    @staticmethod
    def load_all(path: str | os.PathLike[str]) -> list[Artifact]:
        """Read what `save_all` wrote. Raises BuildError for a file that is not whole or not ours."""
        return Artifact.from_bytes(Path(path).read_bytes(), os.fspath(path))

    def to_bytes(self) -> bytes:
        """Return a line of JSON and the code. The bytes of several artifacts may be joined."""
        header = {
            "format": _FORMAT,
            "v": _VERSION,
            "kind": self.kind,
            "target": self.target,
            "signature": self.signature.to_json(),
            "texts": self.texts,
            "meta": self.meta,
            "code_bytes": len(self.code),
        }
        header["sha256"] = checksum_of(header, self.code)
        return dump_header(header) + b"\n" + self.code

    @staticmethod
    def from_bytes(data: bytes, origin: str) -> list[Artifact]:
        """Read artifacts that `to_bytes` wrote, one after the other. Raises BuildError, which names `origin`."""
        found: list[Artifact] = []
        try:
            while not found or data:
                artifact, data = _first(data)
                found.append(artifact)
        except (RecursionError, ValueError) as error:  # json.JSONDecodeError and UnicodeDecodeError are ValueErrors
            raise BuildError(
                f"not a usable artifact: {error}", asked=origin, legal="build it again with this version"
            ) from None
        return found


def _first(data: bytes) -> tuple[Artifact, bytes]:
    """The artifact at the beginning, and what follows it. Raises ValueError."""
    line, newline, code = data.partition(b"\n")
    header = json.loads(line)
    if not isinstance(header, dict) or not newline or header.get("format") != _FORMAT:
        raise ValueError("it does not start with an artifact header")
    if header.get("v") != _VERSION:
        raise ValueError(f"its format is version {header.get('v')!r}, this program reads {_VERSION}")
    claimed = header.pop("sha256", None)
    if not header.keys() <= _HEADER.fields.keys():
        raise ValueError("its header has the wrong fields")
    _HEADER.check(header, "its header")
    size = header["code_bytes"]
    code, rest = code[:size], code[size:]
    if size != len(code) or rest[:1] not in (b"", b"{"):
        raise ValueError(f"it holds {len(code) + len(rest)} bytes of code instead of {size}")
    if claimed != checksum_of(header, code):
        raise ValueError("its checksum does not match")
    artifact = Artifact(
        kind=header["kind"],
        target=header["target"],
        signature=Signature.from_json(header["signature"]),
        code=code,
        texts=header["texts"],
        meta=header["meta"],
    )
    check_meta(artifact.kind, artifact.meta, artifact.signature)
    if artifact.kind in SOURCES:
        code.decode()
    if sum(artifact.meta.get("objects", [size])) != size:
        raise ValueError("the sizes of its objects do not add up")
    return artifact, rest


def dump_header(header: dict[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode()


def checksum_of(header: dict[str, Any], code: bytes) -> str:
    return hashlib.sha256(dump_header(header) + b"\n" + code).hexdigest()
