"""`docs/caches.md` names what there is: modules, classes and what they keep."""

from __future__ import annotations

import re

from golden_files import CHECKOUT

PAGE = (CHECKOUT / "docs" / "caches.md").read_text(encoding="utf-8")
TEXTS = {p: p.read_text(encoding="utf-8") for p in (CHECKOUT / "autosched").rglob("*.py")}


def holders(name: str) -> list[str]:
    """The texts of the modules and packages of a name, and of those that define a class of that name."""
    named = [t for p, t in TEXTS.items() if name in (p.stem, p.parent.name)]
    return named or [t for t in TEXTS.values() if re.search(rf"^class {name}\b", t, re.MULTILINE)]


def test_places_are_there() -> None:
    rows = [line.split("|")[2] for line in PAGE.splitlines() if line.startswith("| ") and "`" in line.split("|")[2]]
    places = [place for row in rows for place in re.findall(r"`([\w.]+)`", row) if "." in place]
    assert len(places) > 30
    strange = []
    for place in places:
        of, name = place.split(".")[-2:]
        if not any(re.search(rf"\b{name}\b", text) for text in holders(of)):
            strange.append(place)
    assert not strange
