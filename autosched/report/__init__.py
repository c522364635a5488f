"""Displays of a tuning run, its summary, and tables.

text.py      numbers, durations and tables as text
progress.py  the state of a run by its events; displays: plain lines, JSON lines, none
live.py      the live display, with rich
summary.py   the text at the end of a run
"""

#: Names of the displays; `progress` says what each does.
PROGRESS_MODES = ("auto", "live", "plain", "jsonl", "none")
