"""What mkdocs does besides: the files of the checkout that are pages, too, and docstrings as Markdown."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
#: page -> the file of the checkout that it shows
PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}

# the names of intrinsics come from a table, which is not read as code
logging.getLogger("mkdocs.plugins.griffe").addFilter(lambda record: "MATH" not in record.getMessage())


def on_files(files: Files, config: Any) -> Files:
    for page, source in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **given: Any) -> str:
    """Links that leave `docs/` lead to those pages."""
    for page, source in PAGES.items():
        markdown = re.sub(rf"\]\((\.\./)+{source}", f"]({page}", markdown)
    return markdown
