"""The gallery, `docs/gallery.md`: photographs through the operators, and the figures of `experiments/results/` drawn.

    python experiments/gallery.py              # writes the page, its charts and photographs

The figures are those of the files; nothing is measured here.
"""

from __future__ import annotations

import json
import math
import re
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))

from drawn.pictures import Order, drawing, label, picture
from drawn.runs import run

from autosched import lower
from autosched.html.charts import STYLE, colours
from autosched.html.numbers import searches_of
from autosched.html.search import convergence
from autosched.records import read_files

#: the ratio at which bars end
MOST = 8
ROOT = Path(__file__).parents[1]
RESULTS, RECORDS, FOLDER = ROOT / "experiments" / "results", ROOT / "records", ROOT / "docs" / "gallery"

PHOTOGRAPHS = """\
import numpy as np

import autosched
from autosched.space.loading import find_workload
from autosched.space.samples import photograph

photo = photograph()[100:340, 40:400].copy()  # scikit-learn's, uint8 [240, 360, 3]

blur = autosched.build(find_workload("box_blur"), "llvm")
blurred = photo
for _ in range(8):  # a blur of 3x3, eight times, to be seen at all
    blurred = blur(blurred)

sobel = autosched.build(find_workload("sobel"), "llvm")
edges = np.minimum(np.abs(sobel(photo.mean(axis=2).astype("uint8"))), 255).astype("uint8")


@autosched.jit
def sharpen(image):
    p = np.pad(image.astype(np.float32), ((1, 1), (1, 1), (0, 0)), mode="edge")
    soft = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) / 4
    return np.clip(image + 2 * (image - soft), 0, 255).astype(np.uint8)


sharp = sharpen(photo)
assert np.abs(sharp.astype(int) - sharpen.fn(photo)).max() <= 1
"""
PAGE = """\
# Gallery

Made by `experiments/gallery.py`. Times are those of one machine each, which is named: compare ratios.

## A photograph through the operators

| the photograph | `box_blur`, eight times |
|---|---|
| ![photograph](gallery/photo.jpg) | ![blurred](gallery/blurred.jpg) |
| **`sobel`** | **a function of NumPy under `jit`** |
| ![edges](gallery/edges.jpg) | ![sharpened](gallery/sharp.jpg) |

```python
{photographs}```

`box_blur` and `sobel` are in `search_spaces/`, with templates ([operators](operators.md)); `build` takes the best
record that there is. The photograph is `china.jpg` of scikit-learn.

## The operators beside the best library for each

![How many times as fast as the best peer each operator is](gallery/operators.svg)

Above 1, autosched is faster; bars end at {most}. Tuned for about a minute each, then timed in one process, in turn
with the others, on two threads, outputs checked: `experiments/operators.py`, file `operators.json`, {machine}.

{operators}

## Functions of arrays, with no search

![How many times as fast as NumPy and as numba](gallery/jit.svg)

What a model of the machine predicts to be fastest, beside NumPy and beside numba with `parallel=True, fastmath=True`:
`experiments/jit.py`, file `jit.json`, two cores of a Zen 4. The functions are in that script;
[functions of arrays](jit.md#how-fast-untuned) has the times.

## A search

![The best time of box_blur over trials](gallery/search.svg)

The largest search in `records/box_blur.llvm.jsonl`: each dot is a candidate that was built, verified and timed, the
line the best so far. `autosched report box_blur` draws this and more ([reports](report.md)).

More figures: [models](models.md#how-fast) beside ONNX Runtime,
[schedules without templates](rules.md#how-good-they-are), [strategies](search.md#which-strategy-is-best-replay),
[calls on a busy machine](measurement.md#calls-on-a-busy-machine).
"""


def files() -> dict[str, str]:
    """The texts of the page and its charts, by path below `docs/`."""
    operators, jit = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("operators", "jit"))
    ratios = [(r["title"], [(f"{r['ratio']:.2f}, {r['best_peer']}", r["ratio"])]) for r in operators["rows"]]
    beside = [(n, [(f"{r[f'over_{k}']:.1f}, {k}", r[f"over_{k}"]) for k in ("numpy", "numba")]) for n, r in jit.items()]
    search = searches_of(read_files([RECORDS / "box_blur.llvm.jsonl"]).records)[0]
    m = operators["machine"]
    machine = f"{m['cores']} cores of an Intel Xeon ({m['cpu']})"
    table = _table([_row(r) for r in operators["rows"]])
    return {
        "gallery.md": PAGE.format(photographs=PHOTOGRAPHS, operators=table, machine=machine, most=MOST),
        "gallery/first-steps.svg": _first_steps(),
        "gallery/operators.svg": _ratios(ratios, "times as fast as the best peer"),
        "gallery/jit.svg": _ratios(beside, "times as fast as NumPy and as numba"),
        "gallery/search.svg": _alone(convergence(search)),
    }


def _row(r: dict[str, Any]) -> list[str]:
    of = r["roofline"]
    near = f"{of['fraction']:.0%} ({of['limit']})" if of and of["fraction"] > 0.01 else ""
    ours, peer = r["seconds"], r["peers"][r["best_peer"]]
    return [r["title"], _ms(ours), r["best_peer"], _ms(peer), f"{r['ratio']:.2f}", near]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


def _table(rows: list[list[str]]) -> str:
    head = ["operator (float32 unless said)", "autosched, ms", "best peer", "ms", "ratio", "of the roofline"]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def _ratios(rows: list[tuple[str, list[tuple[str, float]]]], about: str) -> str:
    """Bars on a scale of powers, from a line at 1 to the right where it is faster; they end at `MOST`."""
    one, room = 208.0, 90.0
    parts, top = [], 4.0
    for name, bars in rows:
        parts.append(label(198, top + 8 * len(bars) + 3, name, "end", "small" if len(name) > 30 else ""))
        for k, (text, value) in enumerate(bars):
            long = room * math.log(min(value, MOST)) / math.log(MOST)
            x, y = (one, top + 15 * k) if long >= 0 else (one + long, top + 15 * k)
            parts.append(f'<rect class="f{k}" x="{x:.1f}" y="{y:.1f}" width="{max(abs(long), 0.5):.1f}" height="12"/>')
            parts.append(label(max(one, one + long) + 5, y + 10, text, kind="small"))
        top += 15 * len(bars) + 4
    parts.append(f'<path class="cut" d="M{one} 0V{top}"/>')
    return drawing(parts, top + 4, about)


def _alone(html: str) -> str:
    """The first chart of a page as a file of its own."""
    chart = re.search(r"<svg.*?</svg>", html, re.DOTALL)
    assert chart is not None
    style = f"<style>{colours('svg')}{STYLE}.paper{{fill:var(--bg)}}</style>"
    style += "<rect class='paper' width='100%' height='100%'/>"
    return re.sub(r"^<svg([^>]*)>", rf'<svg xmlns="http://www.w3.org/2000/svg"\1>{style}', chart.group()) + "\n"


def _first_steps() -> str:
    """The schedule by hand of `docs/first-steps.md`."""
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "first-steps.md").read_text(), re.DOTALL | re.MULTILINE
    )
    by_hand = next(b for b in blocks if "s.stages" in b)
    names: dict[str, Any] = {}
    exec(blocks[0].replace("result = sharpen(image)", "result = sharpen.fn(image)"), names)
    exec(by_hand.partition("by_hand =")[0], names)
    s = names["s"]
    done = run(s, lower(s, names["small"].args), "simplify", {})
    return picture([("8 x 16 pixels", done, Order(s.stages[-1].name))], "a schedule of the first steps")


def photographs() -> dict[str, bytes]:
    """The photographs that the page's program makes, as JPEG, by the name of their file."""
    names: dict[str, Any] = {}
    exec(PHOTOGRAPHS, names)
    found = {}
    for name in ("photo", "blurred", "edges", "sharp"):
        file = BytesIO()
        Image.fromarray(names[name]).save(file, "JPEG", quality=85)
        found[f"{name}.jpg"] = file.getvalue()
    return found


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
    for name, photograph in photographs().items():
        (FOLDER / name).write_bytes(photograph)
    print(f"{FOLDER}: {len(files())} texts, {len(photographs())} photographs")
