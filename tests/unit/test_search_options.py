"""The options of a search: every front door has the defaults that are declared once."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

import autosched
from autosched.options import options_of
from autosched.search import DEFAULT
from autosched.search_options import SearchKeywords, SearchOptions

DECLARED = {f.name: f.default for f in fields(SearchOptions)}


@pytest.mark.parametrize("name", ["tune", "tune_tasks", "tune_sizes", "tune_kernel", "ask_and_tell"])
def test_front_doors_have_the_defaults_that_are_declared(name: str) -> None:
    parameters = inspect.signature(getattr(autosched, name)).parameters
    shared = {n: p.default for n, p in parameters.items() if n in DECLARED}
    assert {"strategy", "model", "seed", "records"} <= shared.keys()
    assert shared == {n: DECLARED[n] for n in shared}


def test_what_takes_all_of_them_is_typed_like_the_declaration() -> None:
    assert {n: h.__forward_arg__ for n, h in SearchKeywords.__annotations__.items()} == {
        f.name: f.type for f in fields(SearchOptions)
    }


@pytest.mark.parametrize("name", ["tune", "tune_tasks", "tune_sizes"])
def test_an_option_that_there_is_not_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'strateg'"):
        getattr(autosched, name)("matmul", [{"n": 2}], strateg="grid")


def test_the_default_strategy_has_one_name() -> None:
    assert SearchOptions().strategy == DEFAULT


def test_options_with_a_help_text_say_what_is_legal() -> None:
    for field, about in options_of(SearchOptions):
        is_number = str(field.type).startswith("int")
        assert about.help and (about.least is not None) == is_number, field.name
