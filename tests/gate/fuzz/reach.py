"""Which lines of the parsers' modules are reached, by sys.settrace: Python 3.11 has nothing quicker, and it needs no package."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import fedloom

ROOT = Path(fedloom.__file__).resolve().parent
MODULES = (
    *("coding/bfloat16.py", "coding/float16.py", "coding/interface.py", "coding/packing.py", "coding/qsgd.py"),
    *("coding/randomk.py", "coding/sign.py", "coding/topk.py"),
    *("gate/arrays.py", "gate/files.py", "gate/finite.py", "gate/json_text.py", "gate/names.py", "gate/table_text.py"),
    *(
        "gate/options.py",
        "gate/words.py",
        "gate/yaml_text.py",
        "data/files.py",
        "data/formats.py",
        "data/loaders.py",
        "fleet/table_cells.py",
        "fleet/gradients.py",
    ),
    *("fleet/table.py", "fleet/trace_files.py", "methods/by_name.py", "simulator/scenarios.py"),
    *("record/checkpoints.py", "record/verify.py"),
)
"""What parses; gate/mat.py and gate/child.py run in a process of their own, where nobody looks."""

Lines = dict[str, set[int]]


@contextmanager
def reached() -> Iterator[Lines]:
    """Lines of the modules that run while the block does, by module. Code all of whose lines are known is no longer watched."""
    names = {str(ROOT / module): module for module in MODULES}
    found: Lines = {module: set() for module in MODULES}
    left: dict[CodeType, set[int]] = {}

    def on_call(frame: FrameType, event: str, arg: Any) -> Any:
        module = names.get(frame.f_code.co_filename)
        if module is None:
            return None
        missing = left.setdefault(frame.f_code, _lines_of(frame.f_code))
        if not missing:
            return None
        seen = found[module]

        def on_line(frame: FrameType, event: str, arg: Any) -> Any:
            seen.add(frame.f_lineno)
            missing.discard(frame.f_lineno)
            return on_line

        return on_line(frame, event, arg)

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield found
    finally:
        sys.settrace(before)


def table(found: Lines) -> list[str]:
    """A line for every module: of the functions that inputs come to, how many lines they reach, and which they do not."""
    rows, n_reached, n_all = [], 0, 0
    for module, seen in sorted(found.items()):
        text = (ROOT / module).read_text(encoding="utf-8")
        functions = [_lines_below(code) for code in _functions(compile(text, module, "exec"))]
        entered = [lines for lines in functions if lines & seen]
        every = set().union(*entered)
        hit = every & seen
        n_reached, n_all = n_reached + len(hit), n_all + len(every)
        missed = f"; not reached: {_spans(sorted(every - hit))}" if every - hit else ""
        share = f"{len(hit)} of {len(every)} lines, {len(hit) / max(len(every), 1):.0%}"
        rows.append(f"{module}: {len(entered)} of {len(functions)} functions, {share}{missed}")
    return [*rows, f"all: {n_reached} of {n_all} lines, {n_reached / n_all:.0%}"]


def _lines_of(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line is not None}


def _functions(code: CodeType) -> list[CodeType]:
    """Functions of a module and of its classes; the bodies of classes run at import."""
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return [f for c in inner for f in ([c] if c.co_flags & 0x2 else _functions(c))]  # 0x2: CO_NEWLOCALS, a function


def _lines_below(code: CodeType) -> set[int]:
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    own = _lines_of(code) - {code.co_firstlineno}  # the line of `def`
    return own.union(*(_lines_below(c) for c in inner))


def _spans(lines: Sequence[int]) -> str:
    """
    >>> _spans([3, 4, 5, 9])
    '3-5, 9'
    """
    spans: list[list[int]] = []
    for line in lines:
        if spans and line == spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
