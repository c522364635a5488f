"""What code is generated for: `Target.parse("llvm -mcpu=znver3")`, `Target.parse("opencl")`.

A target is data. The limits of an OpenCL device are asked of the device (`autosched.runtime`) and
merged in with `with_limits`; nothing here opens a device.
"""

from __future__ import annotations

import difflib
import os
import shlex
from dataclasses import dataclass, field, replace

from autosched.errors import TargetError

__all__ = ["KINDS", "Target", "cpu_count"]

#: kind -> (what it is, its options with their meaning)
KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "llvm": (
        "this machine's CPU, through LLVM",
        {"mcpu": "CPU name, default the host's", "mattr": "features such as +avx2,-avx512f", "threads": "how many"},
    ),
    "opencl": (
        "an OpenCL device: a GPU, or the CPU through PoCL",
        {"device": "part of the device's or platform's name, or its index in `doctor`"},
    ),
}


def cpu_count() -> int:
    """CPUs this process may run on, which a container may limit below the machine's."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no affinity
        return os.cpu_count() or 1


@dataclass(frozen=True)
class Target:
    """One kind of code for one kind of device.

    `options` are what the user wrote (`-mcpu=...`), `limits` what the device reported:
    `max_threads_per_block`, `shared_memory_bytes`, `work_group_multiple`, `compute_units`.
    """

    kind: str
    options: dict[str, str] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def parse(spec: str | Target) -> Target:
        """Read `kind -option=value ...`. Raises TargetError for an unknown kind or option."""
        if isinstance(spec, Target):
            return spec
        words = shlex.split(spec)
        if not words or words[0] not in KINDS:
            name = words[0] if words else ""
            near = difflib.get_close_matches(name, KINDS, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            listing = ", ".join(f"{kind} ({what})" for kind, (what, _) in KINDS.items())
            raise TargetError("no such target", asked=f"target {spec!r}", legal=f"{hint}targets: {listing}")
        kind, known = words[0], KINDS[words[0]][1]
        options: dict[str, str] = {}
        for word in words[1:]:
            key, eq, value = word.lstrip("-").partition("=")
            if not word.startswith("-") or key not in known or not eq:
                listing = ", ".join(f"-{k}=... ({v})" for k, v in known.items())
                raise TargetError(
                    f"{word!r} is not an option of {kind}", asked=f"target {spec!r}", legal=f"options: {listing}"
                )
            options[key] = value
        if "threads" in options and not (options["threads"].isdigit() and int(options["threads"]) > 0):
            raise TargetError(f"threads={options['threads']} is not a positive number", asked=f"target {spec!r}")
        return Target(kind, options)

    def __str__(self) -> str:
        return " ".join([self.kind, *(f"-{k}={shlex.quote(v)}" for k, v in sorted(self.options.items()))])

    @property
    def is_gpu_style(self) -> bool:
        """Whether loops are bound to work-groups and work-items rather than to CPU threads."""
        return self.kind == "opencl"

    @property
    def num_threads(self) -> int:
        """CPU threads a parallel loop uses."""
        return int(self.options.get("threads", cpu_count()))

    def with_limits(self, **limits: int) -> Target:
        return replace(self, limits={**self.limits, **limits})
