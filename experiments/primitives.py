"""The pages of all schedule primitives, `docs/primitives/`: what each does to a small program, drawn and printed.

    python experiments/primitives.py           # writes them; so does `pytest --update-golden tests/unit/docs`

Nothing is drawn by hand: the programs of `drawn/examples.py` are lowered, run by the interpreter, and watched.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from drawn.examples import PAGES, Example
from drawn.pictures import picture
from drawn.runs import Run, run

import autosched
from autosched import create_schedule, lower, te
from autosched.ir.printer import format_function
from autosched.lowering import Lowered
from autosched.schedule.loop import SCOPES, TAILS
from autosched.schedule.primitive import PRIMITIVES
from autosched.schedule.primitives.marks import PRAGMAS
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Stage

FOLDER = Path(__file__).parents[1] / "docs" / "primitives"
#: tables of the package that docstrings name
WORDS: dict[str, dict[str, str]] = {"split": TAILS, "pragma": PRAGMAS, "set_scope": SCOPES}
_HEAD = """\
# {title}

The pictures are of runs of the programs beside them.

{legends}

```python
from autosched import create_schedule, lower, te
```
"""
_INDEX = """\
# The primitives

A schedule is made of these calls. Each page shows what a call does to a small program: drawn, as code, and as the loops
before and after. The pictures are made from runs of the lowered program (`experiments/primitives.py`), and a test makes
them anew. [Schedules](../schedules.md) has the words; `help(s[B].split)` has the same text as here. What leaves
decisions to a search (`define_split`, `choose`, ...) is in [templates](../templates.md).

"""


def files() -> dict[str, str]:
    """The text of every file of the folder, by name."""
    found, index = {}, _INDEX
    for page, (title, examples) in PAGES.items():
        text = ""
        index += f"## {title}\n\n| primitive | |\n|---|---|\n"
        for number, example in enumerate(examples):
            name = example.primitive
            again = any(e.primitive == name for e in examples[:number])
            file = f"{name}-{number}.svg" if again else f"{name}.svg"
            section, found[file] = _section(example, file, again)
            text += section
            if not again:
                index += f"| [`{name}`]({page}.md#{name}) | {_paragraphs(name)[0]} |\n"
        legends = dict.fromkeys(kind.legend for e in examples for kind in e.drawn)
        found[f"{page}.md"] = _HEAD.format(title=title, legends="\n".join(f"- {x}" for x in legends)) + text
        index += "\n"
    found["README.md"] = index.rstrip("\n") + "\n"
    return found


def _section(e: Example, file: str, again: bool) -> tuple[str, str]:
    """An example as Markdown, and its picture."""
    names: dict[str, Any] = {"create_schedule": create_schedule, "lower": lower, "te": te}
    exec(e.before, names)
    before, (first, *_) = _seen(e, names)
    exec(e.call, names)
    after, runs = _seen(e, names)
    assert all(np.allclose(a, b) for a, b in zip(first.results, runs[0].results, strict=True)), e.primitive
    given = [", ".join(f"{k} = {v}" for k, v in sizes.items()) for sizes in e.sizes]
    panels = [("before", first, e.drawn[0])]
    panels += [(f"after, {x}" if x else "after", done, e.drawn[1]) for x, done in zip(given, runs, strict=True)]
    drawn = picture(panels, f"{e.primitive}: {e.call}")
    parts = [f"### {e.title}" if again else f"## {e.primitive}"]
    if not again:
        first, *more = _paragraphs(e.primitive)
        parts += [first, f"```text\n{_signature(e.primitive)}\n```", *more]
        if e.primitive in WORDS:
            parts.append("\n".join(f"- `{word}`: {meaning}" for word, meaning in WORDS[e.primitive].items()))
    target = "" if e.target == "llvm" else f', target="{e.target}"'
    shown = f"print(lower(s, [{e.tensors}]{target}))"
    if e.after:
        shown = f'print(lower(s, [{e.tensors}]{target}).structure.after("{e.after}"))'
    parts.append(f"```python\n{e.before.strip()}\n\n{e.call}\n{shown}\n```")
    parts += [f"![{e.primitive}, before and after]({file})", *([e.about] if e.about else [])]
    parts += [f"Before:\n\n```text\n{before}\n```", f"After:\n\n```text\n{after}\n```"]
    return "\n" + "\n\n".join(parts) + "\n", drawn


def _seen(e: Example, names: dict[str, Any]) -> tuple[str, list[Run]]:
    """The loops of an example as text, and what they do in calls of these sizes."""
    s = names["s"]
    lowered: Lowered = lower(s, [names[t] for t in e.tensors.split(", ")], target=e.target)
    text = format_function(lowered.structure.after(e.after)) if e.after else str(lowered)
    return text.strip(), [run(s, lowered, e.after or "simplify", sizes) for sizes in e.sizes]


def _signature(name: str) -> str:
    p = PRIMITIVES[name]
    of = inspect.signature(getattr(Schedule if p.of_schedule else Stage, name))
    bare = [x.replace(annotation=x.empty) for x in of.parameters.values()][1:]
    return f"{'s' if p.of_schedule else 's[B]'}.{name}{inspect.Signature(bare)}"


def _paragraphs(name: str) -> list[str]:
    """The prose of a primitive's docstring, paragraph by paragraph, without its picture in letters."""
    text = inspect.getdoc(PRIMITIVES[name].function) or ""
    found = text.split("\n\n")
    return [" ".join(p.split()) for p in found if p and not _is_picture(p)]


def _is_picture(paragraph: str) -> bool:
    lines = paragraph.splitlines()
    return any("->" in line or line.startswith(("  ", "for ", "if ", "else:", "allocate ")) for line in lines)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for stale in {p.name for p in FOLDER.iterdir()} - files().keys():
        (FOLDER / stale).unlink()
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{FOLDER}: {len(files())} files, by autosched {autosched.__version__}")
