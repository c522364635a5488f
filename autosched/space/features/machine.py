"""What features compare a candidate with: caches, registers and parallel units of the target."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.target import Target

__all__ = ["Machine"]


@dataclass(frozen=True)
class Machine:
    """Bytes of the caches, one unit's share of the last; bytes and number of vector registers; units.

    Where the target's limits do not say, they are those of a small CPU of today.
    """

    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 8 << 20
    vector_bytes: int = 32
    registers: int = 16
    units: int = 1
    warp: int = 1
    shared: int = 32 << 10

    @staticmethod
    def of(target: Target) -> Machine:
        """The machine that a target's limits describe (`runtime.device.with_machine` adds a CPU's)."""
        known = target.limits
        units = known.get("compute_units", 1) if target.is_gpu_style else target.num_threads
        return Machine(
            known.get("l1_bytes", Machine.l1),
            known.get("l2_bytes", Machine.l2),
            known.get("l3_bytes", Machine.l3),
            known.get("vector_bytes", Machine.vector_bytes),
            known.get("vector_registers", Machine.registers),
            max(1, units),
            max(1, target.thread_warp_size),
            known.get("shared_memory_bytes", Machine.shared),
        )
