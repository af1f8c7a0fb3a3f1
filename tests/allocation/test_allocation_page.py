"""The page about allocation shows what its example prints."""

import contextlib
import io
import re
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "allocation.md").read_text()


def test_the_example_prints_what_the_page_shows():
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, flags=re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/allocation.md", "exec"), {})
    assert printed.getvalue() == shown
