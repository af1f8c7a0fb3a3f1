"""A hook of mkdocs: entries of the navigation that end in /* become the pages of that folder.

A page's name in the navigation is its first heading. `README.md` comes first; pages that stand elsewhere in the
navigation are not repeated. The folder `guides` stands for the pages of `docs/` itself that nobody listed. Links to
files outside of `docs/`, which are good in the repository, become plain text on the site.
"""

import re
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Called by mkdocs when it has read its settings."""
    docs = Path(config["docs_dir"])
    listed = set(_pages(config["nav"]))
    config["nav"] = _filled(config["nav"], docs, listed)
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Called by mkdocs with the text of every page."""
    docs = Path(config["docs_dir"]).resolve()
    here = (docs / page.file.src_uri).parent

    def inside(link: re.Match[str]) -> str:
        target = link["target"]
        outside = target.startswith("../") and not (here / target).resolve().is_relative_to(docs)
        return link["text"] if outside else link[0]

    return re.sub(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)", inside, markdown)


def _filled(entries: list[Any], docs: Path, listed: set[str]) -> list[Any]:
    out: list[Any] = []
    for entry in entries:
        title, value = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if isinstance(value, list):
            out.append({title: _filled(value, docs, listed)})
        elif isinstance(value, str) and value == "guides/*":
            out += [{heading(p): p.name} for p in sorted(docs.glob("*.md")) if p.name not in listed]
        elif isinstance(value, str) and value.endswith("/*"):
            pages = [
                p for p in sorted((docs / value[:-2]).glob("*.md")) if p.relative_to(docs).as_posix() not in listed
            ]
            pages.sort(key=lambda p: p.name != "README.md")
            named = [p.relative_to(docs).as_posix() for p in pages]
            out.append({title: [p if p.endswith("README.md") else {heading(docs / p): p} for p in named]})
        else:
            out.append(entry)
    return out


def heading(page: Path) -> str:
    """The first heading of a page, or its file's name."""
    found = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return found.group(1).strip() if found else page.stem


def _pages(entries: list[Any]) -> list[str]:
    out: list[str] = []
    for entry in entries:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        out += _pages(value) if isinstance(value, list) else [value]
    return out
