"""TVM's names of schedules for CPUs: see `autosched.topi.generic`."""

from autosched.topi.generic import SCHEDULES, schedule

__all__ = ["schedule"]

for _name in SCHEDULES:
    globals()[_name] = schedule
