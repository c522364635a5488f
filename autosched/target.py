"""Targets of code generation: `Target("llvm -mcpu=znver3")`, `Target({"kind": "opencl"})`.

A target is data. The limits of an OpenCL device are asked of the device (`autosched.runtime`) and
merged in with `with_limits`; nothing here opens a device.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from autosched.errors import Malformed, TargetError, did_you_mean, expect, parse_json


@dataclass(frozen=True)
class Option:
    """One option of a kind: what it means, whether it is text, a positive number, a list or a flag, and what it may be
    (nothing: anything)."""

    meaning: str
    form: str = "text"
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """The facts that all targets of one kind share."""

    what: str
    keys: tuple[str, ...]
    options: dict[str, Option]
    #: whether loops are bound to work-groups and work-items rather than to CPU threads
    is_gpu_style: bool = False


#: What every kind takes: labels that programs read back. No code depends on them.
_LABELS = {
    "keys": Option("labels such as cpu,avx512 for programs that choose schedules by them", "list"),
    "libs": Option("labels of libraries, as TVM's operators read them", "list"),
    "model": Option("label of a product, such as raspberry-pi-4"),
    "tag": Option("a name for this target"),
}
_STRICT = Option("a*b+c rounds twice, as written and as NumPy does; without it, once where that is faster", "flag")
_CPU = {
    "threads": Option("CPU threads of a parallel loop, default all CPUs; num-cores is another name for it", "number"),
    "strict": _STRICT,
    "device": Option("label of a class of CPUs, such as arm_cpu"),
    **_LABELS,
}
_GPU = {
    "max_threads_per_block": Option("most work-items of a work-group, below the device's own limit", "number"),
    "max_shared_memory_per_block": Option("most bytes of shared memory of a work-group", "number"),
    "thread_warp_size": Option("work-items that run in step, default what the device says", "number"),
    "strict": _STRICT,
    **_LABELS,
}

KINDS: dict[str, Kind] = {
    "llvm": Kind(
        "this machine's CPU, through LLVM",
        ("cpu",),
        {
            "mcpu": Option("CPU name, default the host's"),
            "mattr": Option("features such as +avx2,-avx512f", "list"),
            "mtriple": Option("machine such as aarch64-linux-gnu, default this one"),
            **_CPU,
        },
    ),
    "c": Kind(
        "C source with OpenMP, compiled by the system's C compiler",
        ("cpu",),
        {
            "mcpu": Option("CPU name as the compiler knows it, default native"),
            "std": Option(
                "the language: gnu99 (default) has vectors, c99 is for any compiler", values=("gnu99", "c99")
            ),
            **_CPU,
        },
    ),
    "opencl": Kind(
        "an OpenCL device: a GPU, or the CPU through PoCL",
        ("opencl", "gpu"),
        {"device": Option("part of the device's or platform's name, or its index in `doctor`"), **_GPU},
        is_gpu_style=True,
    ),
    "cuda": Kind(
        "an NVIDIA GPU; its source can be had without one",
        ("cuda", "gpu"),
        {
            "arch": Option("what to compile for, such as sm_80; default the device's"),
            "device": Option("the device's number, default 0"),
            **_GPU,
        },
        is_gpu_style=True,
    ),
}

#: what a flag's value may be, and how it is kept: one that is off is left out
_ON, _OFF = "1", ""
_SWITCH = {"1": _ON, "true": _ON, "on": _ON, "0": _OFF, "false": _OFF, "off": _OFF}
#: spellings of the same option
_ALIASES = {"num-cores": "threads", "max-num-threads": "max_threads_per_block"}
#: option -> the device's limit of the same meaning, and how the two combine
_CAPS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "max_threads_per_block": ("max_threads_per_block", min),
    "max_shared_memory_per_block": ("shared_memory_bytes", min),
    "thread_warp_size": ("work_group_multiple", lambda asked, device: asked),
}


def cpu_count() -> int:
    """CPUs this process may run on, which a container may limit below the machine's."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no affinity
        return os.cpu_count() or 1


class TargetKind(str):
    """The kind of a target. It *is* its name (a `str`), and has it as `name`, too."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return str(self)

    @property
    def options(self) -> tuple[str, ...]:
        """The options that targets of this kind take."""
        return tuple(KINDS[self].options)


@dataclass(frozen=True, init=False)
class Target:
    """One kind of code for one kind of device.

    >>> Target("llvm -mcpu=znver3 -num-cores=4").num_threads
    4
    >>> Target({"kind": "llvm", "mcpu": "znver3"}) == Target("llvm -mcpu=znver3")
    True
    >>> with Target("opencl"):
    ...     print(Target.current())
    opencl
    >>> Target("llvm -strict") == Target("llvm", strict=True)
    True

    `options` are what the user wrote (`-mcpu=...`), as text; `limits` what the device reported:
    `max_threads_per_block`, `shared_memory_bytes`, `work_group_multiple`, `compute_units`. `host` is
    a label: this library's host code is Python. Raises TargetError for an unknown kind or option.
    """

    kind: TargetKind
    options: dict[str, str]
    limits: dict[str, int]
    host: Target | None

    def __init__(
        self,
        target: TargetLike = None,
        host: TargetLike = None,
        *,
        strict: bool | None = None,
        kind: str = "",
        options: Mapping[str, str] | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> None:
        """From text, a dict, JSON or another target; or from the fields, which are not checked.

        `strict` sets or clears the option of that name.
        """
        if target is not None:
            base = Target.parse(target)
            kind, options, limits = base.kind, base.options, base.limits
            host = base.host if host is None else host
        elif not kind:
            raise TargetError("it has no kind", asked="Target()", legal=_legal_kinds())
        expect(strict, "True, False or None", strict is None or isinstance(strict, bool), "Target(.., strict=..)")
        chosen = dict(options or {})
        if strict is not None:
            chosen.pop("strict", None)
            chosen.update({"strict": _ON} if strict else {})
        object.__setattr__(self, "kind", TargetKind(kind))
        object.__setattr__(self, "options", chosen)
        object.__setattr__(self, "limits", dict(limits or {}))
        object.__setattr__(self, "host", None if host is None else Target.parse(host))

    @staticmethod
    def parse(spec: TargetLike) -> Target:
        """Read `kind -option=value ...`, a dict `{"kind": ..., option: value}` or JSON of one.

        `host` among the options is the target of what calls kernels. None is the target of the `with` around, `llvm`
        without one. Raises TargetError.
        """
        if isinstance(spec, Target):
            return spec
        if spec is None:
            return Target.current() or Target(kind="llvm")
        asked = f"target {spec!r}"
        if isinstance(spec, str) and spec.lstrip().startswith("{"):
            try:
                spec = parse_json(spec)
            except Malformed as error:
                raise TargetError(f"is {error}", asked=asked, legal='such as {"kind": "llvm"}') from None
        if isinstance(spec, Mapping):
            return _from_dict(spec, asked)
        if not isinstance(spec, str):
            raise TargetError("is no target", asked=asked, legal="text, a dict or a Target")
        kind, words = _words(spec, asked)
        options: dict[str, str] = {}
        host = None
        for name, value in words:
            if name == "host":
                host = value
            else:
                options.update([_checked(kind, name, value, asked)])
        return Target(kind=kind, options=_without_off(options), host=host)

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost `with` around the call; None when there is none.

        Raises TargetError instead of answering None unless `allow_none`.
        """
        stack = _entered.get()
        if not stack and not allow_none:
            raise TargetError("no target is in force", asked="Target.current()", legal="call it inside `with target:`")
        return stack[-1] if stack else None

    def __enter__(self) -> Target:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _entered.set(_entered.get()[:-1])

    def with_limits(self, **limits: int) -> Target:
        """This target on a device with these limits, which options such as `max_threads_per_block` lower."""
        merged = {**self.limits, **limits}
        for option, (limit, combine) in _CAPS.items():
            if option in self.options:
                asked = int(self.options[option])
                merged[limit] = combine(asked, merged.get(limit, asked))
        return Target(kind=self.kind, options=self.options, limits=merged, host=self.host)

    def as_strict(self) -> Target:
        """This target with the option `strict`."""
        return self if self.strict else Target(self, strict=True)

    # -- as text and data ---------------------------------------------------------------------
    def __str__(self) -> str:
        flags = {name for name, option in KINDS[self.kind].options.items() if option.form == "flag"}
        words = (f"-{k}" if k in flags else f"-{k}={shlex.quote(v)}" for k, v in sorted(self.options.items()))
        return " ".join([self.kind, *words])

    def __hash__(self) -> int:
        return hash((self.kind, frozenset(self.options.items()), frozenset(self.limits.items()), self.host))

    def export(self) -> dict[str, Any]:
        """The target as a dict that `Target(...)` reads back."""
        exported: dict[str, Any] = {"kind": str(self.kind), "tag": self.tag, "keys": list(self.keys), **self.attrs}
        if self.host is not None:
            exported["host"] = self.host.export()
        return exported

    # -- what the options say -----------------------------------------------------------------
    @property
    def attrs(self) -> dict[str, Any]:
        """The options, numbers as int and lists as lists: `{"mcpu": "znver3", "num-cores": 4}`."""
        known = KINDS[self.kind].options
        return {
            "num-cores" if name == "threads" else name: _typed(known[name].form, value)
            for name, value in self.options.items()
            if name not in ("keys", "tag")
        }

    @property
    def keys(self) -> tuple[str, ...]:
        """Labels by which programs choose schedules: the user's, a CPU's class, and those of the kind."""
        labels = [*self._list("keys")]
        if not self.is_gpu_style and self.device_name:
            labels.append(self.device_name)
        return tuple(dict.fromkeys([*labels, *KINDS[self.kind].keys]))

    @property
    def tag(self) -> str:
        return self.options.get("tag", "")

    @property
    def mcpu(self) -> str:
        return self.options.get("mcpu", "")

    @property
    def mtriple(self) -> str:
        return self.options.get("mtriple", "")

    @property
    def mattr(self) -> list[str]:
        return self._list("mattr")

    @property
    def model(self) -> str:
        return self.options.get("model", "unknown")

    @property
    def device_name(self) -> str:
        """The option `device`: which OpenCL device, or the class of a CPU."""
        return self.options.get("device", "")

    @property
    def strict(self) -> bool:
        """Whether every operation on floats rounds by itself: no multiply-add is contracted."""
        return "strict" in self.options

    @property
    def std(self) -> str:
        """The language of C sources: `gnu99` or `c99`; empty where the option is not given."""
        return self.options.get("std", "")

    @property
    def num_threads(self) -> int:
        """CPU threads a parallel loop uses."""
        return int(self.options.get("threads", cpu_count()))

    @property
    def max_threads_per_block(self) -> int:
        """Most work-items of a work-group; 256 while neither user nor device has said."""
        return self._limit("max_threads_per_block", 256 if self.is_gpu_style else 1)

    @property
    def max_shared_memory_per_block(self) -> int:
        """Most bytes of shared memory of a work-group; 16384 while neither user nor device has said."""
        return self._limit("max_shared_memory_per_block", 16384 if self.is_gpu_style else 0)

    @property
    def thread_warp_size(self) -> int:
        """Work-items that run in step; 1 while neither user nor device has said."""
        return self._limit("thread_warp_size", 1)

    @property
    def is_gpu_style(self) -> bool:
        """Whether loops are bound to work-groups and work-items rather than to CPU threads."""
        return KINDS[self.kind].is_gpu_style

    @property
    def is_cpu(self) -> bool:
        """Whether the cores of a CPU run the loops. Of OpenCL, tasks of `parallel` loops are work-groups there."""
        return not self.is_gpu_style or bool(self.limits.get("is_cpu"))

    def _list(self, name: str) -> list[str]:
        return [x for x in self.options.get(name, "").split(",") if x]

    def _limit(self, option: str, otherwise: int) -> int:
        value = self.with_limits().limits.get(_CAPS[option][0])
        return otherwise if value is None else value


#: what `Target.parse` and every `target=` argument take
TargetLike = str | Mapping[str, Any] | Target | None

_entered: ContextVar[tuple[Target, ...]] = ContextVar("targets", default=())


def _legal_kinds() -> str:
    return "targets: " + ", ".join(f"{kind} ({k.what})" for kind, k in KINDS.items())


def _check_kind(name: str, asked: str) -> str:
    if name not in KINDS:
        hint = did_you_mean(name, KINDS)
        raise TargetError("no such target", asked=asked, legal=f"{hint}{_legal_kinds()}")
    return name


def _words(spec: str, asked: str) -> tuple[str, list[tuple[str, str]]]:
    """The kind, and name and value of each option: `-name=value`, `--name=value` or `-name value`."""
    try:
        words = shlex.split(spec)
    except ValueError as error:
        raise TargetError(f"cannot be read: {error}", asked=asked, legal="such as llvm -mcpu=znver3") from None
    kind = _check_kind(words[0] if words else "", asked)
    found = []
    rest = iter(words[1:])
    for word in rest:
        name, eq, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not name:
            raise _unknown(kind, word, asked)
        found.append((name, value if eq else _ON if _is_flag(kind, name) else next(rest, "")))
    return kind, found


def _from_dict(spec: Mapping[str, Any], asked: str) -> Target:
    kind = _check_kind(str(spec.get("kind", "")), asked)
    options: dict[str, str] = {}
    for name, value in spec.items():
        if name in ("kind", "host") or value is None or (name == "tag" and not value):
            continue
        if name == "keys":  # those of the kind come by themselves
            value = [k for k in ([value] if isinstance(value, str) else value) if k not in KINDS[kind].keys]
            if not value or list(value) == [spec.get("device")]:
                continue
        if isinstance(value, Sequence) and not isinstance(value, str):
            value = ",".join(map(str, value))
        options.update([_checked(kind, str(name), str(value), asked)])
    return Target(kind=kind, options=_without_off(options), host=spec.get("host"))


def _without_off(options: dict[str, str]) -> dict[str, str]:
    """A flag that is off is the same target as one that does not mention it."""
    return {name: value for name, value in options.items() if value != _OFF}


def _own_name(kind: str, name: str) -> str:
    """The kind's own name of an option, of its several spellings; empty for one that it does not take."""
    spelling = name.replace("_", "-")
    spelling = _ALIASES.get(spelling, spelling).replace("_", "-")
    return {k.replace("_", "-"): k for k in KINDS[kind].options}.get(spelling, "")


def _is_flag(kind: str, name: str) -> bool:
    own = _own_name(kind, name)
    return bool(own) and KINDS[kind].options[own].form == "flag"


def _checked(kind: str, name: str, value: str, asked: str) -> tuple[str, str]:
    """The option's own name and its value. Raises TargetError for one that this kind does not take."""
    own = _own_name(kind, name)
    if not own:
        raise _unknown(kind, f"-{name}={value}" if value else f"-{name}", asked)
    option = KINDS[kind].options[own]
    if not value:
        raise TargetError(f"-{name} has no value", asked=asked, legal=f"-{name}=...: {option.meaning}")
    if option.form == "number" and not (value.isdecimal() and int(value) > 0):
        raise TargetError(f"{name}={value} is not a positive number", asked=asked, legal=f"{name}: {option.meaning}")
    if option.values and value not in option.values:
        legal = f"{name}: {' or '.join(option.values)}, {option.meaning}"
        raise TargetError(f"there is no {name}={value}", asked=asked, legal=legal)
    if option.form == "flag":
        if value.lower() not in _SWITCH:
            legal = f"-{name}, or one of {', '.join(_SWITCH)}: {option.meaning}"
            raise TargetError(f"{name}={value} is neither on nor off", asked=asked, legal=legal)
        value = _SWITCH[value.lower()]
    return own, value


def _unknown(kind: str, word: str, asked: str) -> TargetError:
    options = KINDS[kind].options
    listing = ", ".join(f"-{k}{'' if o.form == 'flag' else '=...'} ({o.meaning})" for k, o in options.items())
    return TargetError(f"{word!r} is not an option of {kind}", asked=asked, legal=f"options: {listing}")


def _typed(form: str, value: str) -> Any:
    if form == "number":
        return int(value)
    if form == "flag":
        return True
    return value.split(",") if form == "list" else value
