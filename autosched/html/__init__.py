"""Searches, schedules and code as HTML: reports in one file, and what notebooks show.

charts.py     SVG charts: curves, points, bars, parallel coordinates, maps
nests.py      loop nests as blocks inside blocks
page.py       a whole page: styles, tables, code
numbers.py    what the charts of a search show, as data
search.py     the charts of a search, from its records
schedule.py   the winning schedule: its calls, the loops after each, the hot loop
report.py     `autosched report`
network.py    a model's kernels with their times, `autosched report model.onnx`
notebook.py   `_repr_html_` of schedules, loops, modules, results and spaces
"""
