"""What people see: displays of a tuning run, its summary, tables of records.

    text.py      numbers, durations and tables as text
    state.py     a tuning run as told by its events
    progress.py  displays: plain lines, JSON lines, none
    live.py      the live display, with rich
    summary.py   the text at the end of a run

Nothing is imported here: `live` loads rich, and the others what they show.
"""

#: Names of the displays; `progress` says what each does.
PROGRESS_MODES = ("auto", "live", "plain", "jsonl", "none")
