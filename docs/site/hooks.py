"""What mkdocs does besides: pages made of other files of the checkout, and of notebooks as they were saved."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parents[1]
#: page -> the file of the checkout that it shows
PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}

# the names of intrinsics come from a table, which is not read as code
logging.getLogger("mkdocs.plugins.griffe").addFilter(lambda record: "MATH" not in record.getMessage())


def on_files(files: Files, config: Any) -> Files:
    for page, source in PAGES.items():
        text = (DOCS.parent / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    for file in [f for f in files if f.src_uri.endswith(".ipynb")]:
        cells = json.loads(file.content_string)["cells"]
        files.remove(file)
        page = file.src_uri.replace(".ipynb", ".md")
        files.append(File.generated(config, page, content="\n\n".join(map(_markdown, cells))))
    return files


def on_page_markdown(markdown: str, **given: Any) -> str:
    """Links that leave `docs/` lead to those pages, links to notebooks to what is made of them; `[x.md]` reads x."""
    for page, source in PAGES.items():
        markdown = re.sub(rf"\]\((\.\./)+{source}", f"]({page}", markdown)
    markdown = re.sub(r"\]\(([^)#:]+)\.ipynb", r"](\1.md", markdown)
    return re.sub(r"\[(?:docs/)?([\w-]+)\.md\]\(", r"[\1](", markdown)


def _markdown(cell: dict[str, Any]) -> str:
    """A cell of a notebook, with its outputs."""
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *map(_output, cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    data = {k: "".join(v) for k, v in output.get("data", {"text/plain": output.get("text", "")}).items()}
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{data["image/png"].strip()}">'
    html = data.get("image/svg+xml") or data.get("text/html")
    if html is not None:
        return "<div>" + re.sub(r"\n\s*\n", "\n", html) + "</div>"
    return f"```text\n{data.get('text/plain', '').rstrip()}\n```"
