"""The pages of the primitives, and the gallery, are what `experiments/` makes of the present code and figures."""

from __future__ import annotations

import sys

import pytest
from golden_files import CHECKOUT, compare_golden

from autosched.schedule.primitive import PRIMITIVES

sys.path.append(str(CHECKOUT / "experiments"))

import gallery
from primitives import FOLDER, PAGES, files


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return files()


@pytest.mark.parametrize("kind", ["md", "svg"])
def test_pages_are_as_made(kind: str, made: dict[str, str], request: pytest.FixtureRequest) -> None:
    for name, text in made.items():
        if name.endswith(kind):
            compare_golden(FOLDER / name, text, request.config.getoption("--update-golden"))
    assert {p.name for p in FOLDER.glob(f"*.{kind}")} == {name for name in made if name.endswith(kind)}


def test_the_gallery_is_as_made(request: pytest.FixtureRequest) -> None:
    for name, text in gallery.files().items():
        compare_golden(CHECKOUT / "docs" / name, text, request.config.getoption("--update-golden"))


def test_every_primitive_has_an_example() -> None:
    examples = [e for _, of_page in PAGES.values() for e in of_page]
    assert {e.primitive for e in examples} == PRIMITIVES.keys()


def test_a_picture_shows_what_the_program_does(made: dict[str, str]) -> None:
    """Where the docstring of a primitive promises fewer steps, the picture counts them."""
    assert "18 steps, 34 reads" in made["compute_at.svg"] and "32 steps, 48 reads" in made["compute_at.svg"]
    assert "24 steps" in made["inline_reduction.svg"] and "6 steps" in made["inline_reduction.svg"]
    assert "6 workers, 8 steps each" in made["parallel.svg"]
    assert (
        made["vectorize.svg"].count(">12<") == 2 and made["vectorize.svg"].count(">13<") == 1
    )  # a vector has one number
