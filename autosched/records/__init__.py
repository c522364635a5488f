"""Records of trials: one line of JSON each, in append-only logs that survive crashes.

    record.py   a trial as a line, and back
    log.py      files of lines
    folders.py  where the files are
    best.py     which record to build with
    family.py   several records to build with, each for some sizes
    misses.py   why records do not apply
    origin.py   which records are this machine's own
    frame.py    records as a pandas table, by the hundred thousand
    exporting.py    records as an Optuna study, and as Kernel Tuner's results
    editing.py      files merged, split, pruned and repaired
    tasks.py    records by what they measured
    difference.py   two sets of records compared
    transfer.py what a cost model may learn from records of other tasks

A record is only advice. It may make code slower, but not wrong: whoever applies one believes little of it
(`autosched.trust`).
"""

from __future__ import annotations

from autosched.records.best import PLAIN, Choice, best, latest, predicted, ranked, trials
from autosched.records.difference import Change, difference
from autosched.records.editing import Moved, Pruned, Repaired, is_newer, merge, prune, repair, split
from autosched.records.exporting import to_study, to_t4
from autosched.records.family import Box, Member, describe, family, regions
from autosched.records.folders import find_files, find_folder, find_folders, read_workload
from autosched.records.frame import RecordWarning, Slimmer, load, to_frame
from autosched.records.log import LogContents, Place, Problem, RecordLog, default_path, read_files
from autosched.records.misses import Miss, misses
from autosched.records.origin import is_own, sealed
from autosched.records.record import IMPORTED, PREDICTED, STRAINED, VERSION, Record, decode, encode, new_id, timestamp
from autosched.records.tasks import best_of_each, by_task, one_task, task_text
from autosched.records.transfer import Task, Transfer, read_transfer

__all__ = [
    "IMPORTED",
    "PLAIN",
    "PREDICTED",
    "STRAINED",
    "VERSION",
    "Box",
    "Change",
    "Choice",
    "LogContents",
    "Member",
    "Miss",
    "Moved",
    "Place",
    "Problem",
    "Pruned",
    "Record",
    "RecordLog",
    "RecordWarning",
    "Repaired",
    "Slimmer",
    "Task",
    "Transfer",
    "best",
    "best_of_each",
    "by_task",
    "decode",
    "default_path",
    "describe",
    "difference",
    "encode",
    "family",
    "find_files",
    "find_folder",
    "find_folders",
    "is_newer",
    "is_own",
    "latest",
    "load",
    "merge",
    "misses",
    "new_id",
    "one_task",
    "predicted",
    "prune",
    "ranked",
    "read_files",
    "read_transfer",
    "read_workload",
    "regions",
    "repair",
    "sealed",
    "split",
    "task_text",
    "timestamp",
    "to_frame",
    "to_study",
    "to_t4",
    "trials",
]
