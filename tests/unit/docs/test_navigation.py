"""Every page is in the navigation of the site, and every link between documents leads somewhere, anchors included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from golden_files import CHECKOUT

DOCS = CHECKOUT / "docs"
DOCUMENTS = [*sorted(CHECKOUT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
#: made by `docs/site/hooks.py` of files outside of `docs/` and of notebooks
NOTEBOOKS = {f"notebooks/{p.stem}.md" for p in DOCS.glob("notebooks/*.ipynb")}
MADE = {"contributing.md", "changelog.md", *NOTEBOOKS}


def _prose(document: Path) -> str:
    return re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def _anchors(document: Path) -> set[str]:
    """What GitHub and the site call the headings of a document."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*)$", _prose(document), flags=re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        found.add(slug if slug not in found else f"{slug}-1")
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(CHECKOUT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target, anchor in re.findall(
        r"\]\((?!\w+:)([^)#\s]*)#?([^)\s]*)\)", re.sub(r"`[^`\n]*`", "", _prose(document))
    ):
        to = document.parent / target if target else document
        assert to.exists(), f"{document.name} links to {target}"
        assert not anchor or anchor in _anchors(to), f"{document.name} links to {target}#{anchor}, of {_anchors(to)}"


def test_every_picture_is_shown_somewhere() -> None:
    pictures = {p for kind in ("svg", "jpg", "png") for p in DOCS.rglob(f"*.{kind}")}
    shown = {(d.parent / x).resolve() for d in DOCUMENTS for x in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", _prose(d))}
    assert {p.resolve() for p in pictures} <= shown


def test_every_page_is_in_the_navigation() -> None:
    _, _, navigation = (CHECKOUT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    listed = re.findall(r"[\w/-]+\.md\b", navigation)
    pages = {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")}
    assert len(listed) == len(set(listed))
    assert set(listed) == pages | MADE


def test_the_halide_page_names_what_exists() -> None:
    from autosched import te
    from autosched.schedule import Schedule, Stage

    text = (DOCS / "halide.md").read_text(encoding="utf-8")
    for owner, pattern in ((Stage, r"s\[\w+\]\.(\w+)\("), (Schedule, r"\bs\.(\w+)\("), (te, r"\bte\.(\w+)")):
        names = set(re.findall(pattern, text))
        assert names and all(hasattr(owner, name) for name in names), names
