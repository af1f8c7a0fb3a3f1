"""A hook of mkdocs: where a page says `fields: MODULE.CLASS` in a comment, a table of the fields of that class, each with its
type, its default and what its docstring says.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
MARK = re.compile(r"<!-- fields: ([\w.]+)\.(\w+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of every page."""
    return MARK.sub(lambda mark: table(mark[1], mark[2]), markdown)


def table(module: str, name: str) -> str:
    """Heading, summary and table of a class, in Markdown."""
    found = the_class(module, name)
    lines = [f"### {name}", "", ast.get_docstring(found) or "", ""]
    rows = list(fields(module, name))
    if rows:
        lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field, kind, default, meaning in rows:
        shown = f"`{default}`" if default else "needed"
        lines.append(f"| `{field}` | `{kind.replace(' | ', ' or ')}` | {shown} | {meaning} |")
    return "\n".join(lines) + "\n"


def fields(module: str, name: str) -> Iterator[tuple[str, str, str, str]]:
    """(name, type, default or "", meaning) of each field that can be given, those of the class it is made of first."""
    found = the_class(module, name)
    for base in found.bases:
        if isinstance(base, ast.Name) and (home := imported_from(module, base.id)):
            yield from fields(home, base.id)
    body = found.body
    for i, line in enumerate(body):
        if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)) or line.target.id == "_":
            continue
        if "ClassVar" in ast.unparse(line.annotation):
            continue
        after = body[i + 1] if i + 1 < len(body) else None
        said = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            said = str(after.value.value)
        default = "" if line.value is None else ast.unparse(line.value)
        yield line.target.id, ast.unparse(line.annotation), default, " ".join(said.split())


def the_class(module: str, name: str) -> ast.ClassDef:
    tree = ast.parse((SOURCE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def imported_from(module: str, name: str) -> str | None:
    """The module that a name comes from, this one if it is made here; None if it is not ours."""
    tree = ast.parse((SOURCE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module
        if isinstance(node, ast.ImportFrom) and any(a.name == name for a in node.names):
            return node.module if node.module and node.module.startswith("fedloom") else None
    return None
