"""What is cited of a paper is there: its own sections, equations, figures, tables and appendices, its title and authors.

Introductions, related work and conclusions define nothing and are left out, so that they are not cited by mistake.
"""

import re
from pathlib import Path

import pytest

from fedloom.reproduce import PAPERS as KEYS
from fedloom.reproduce import find_items

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(
    path
    for folder in ("src", "docs", "tests", "scenarios", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md", ".yaml") and path != Path(__file__).resolve()
)


def below(chapter: str, *parts: str) -> set[str]:
    """A chapter and its parts."""
    return {chapter, *(chapter + part for part in parts)}


PAPERS = [find_items(key)[0] for key in KEYS]

SECTIONS = {
    "HHFL": below("II", "-A", "-B")
    | below("III", "-A", "-B")
    | below("IV", "-A", "-A1", "-A2", "-A3", "-B", "-B1", "-B2", "-B3")
    | below("V", "-A", "-B", "-B1", "-B2", "-B3", "-B4", "-B5", "-B6", "-C", "-C1", "-C2"),
    "LTC": below("3", ".1", ".2", ".3", ".3.1", ".3.2", ".3.3")
    | below("4", ".1", ".2")
    | below("5", ".1", ".2", ".3", ".4", ".5")
    | below("5.4", ".1", ".2", ".3", ".4")
    | below("5.5", ".1", ".2", ".3", ".4"),
    "CSAHFL": below("3", ".1", ".2", ".3", ".4", ".5") | below("4", ".1", ".2", ".3", ".4"),
    "DDC": below("2", ".1", ".2") | {"3", "4", "5"},
    "CAMU": below("II", "-A", "-B")
    | below("III", "-A", "-B", "-C")
    | below("IV", "-A", "-B", "-C")
    | below("V", "-A", "-B", "-C", "-D"),
}
APPENDICES = {"HHFL": set("ABCDEF"), "LTC": set("ABC"), "CSAHFL": set(), "DDC": set(), "CAMU": {"I", "II"}}
EQUATIONS = {"HHFL": 77, "LTC": 32, "CSAHFL": 14, "DDC": 19, "CAMU": 49}
FIGURES = {"HHFL": 16, "LTC": 17, "CSAHFL": 4, "DDC": 4, "CAMU": 6}
TABLES = {"HHFL": 0, "LTC": 14, "CSAHFL": 3, "DDC": 2, "CAMU": 0}

NAME = re.compile(r"\b(HHFL|LTC|CSAHFL|DDC|CAMU)\b")
REFERENCE = r"(?:[IVX]+(?:-[A-Z]\d?)?|\d+(?:\.\d+)*)"
SECTION = re.compile(rf"\b[Ss]ections? ({REFERENCE}(?:(?:, | and | to ){REFERENCE})*)")
APPENDIX = re.compile(r"\b[Aa]ppendix ([A-Z]+)\b")
EQUATION = re.compile(r"\b(HHFL|LTC|CSAHFL|DDC|CAMU)(?:,|'s)? eqs?\.? \(?(\d+)\)?(?:(?:, | and | to )\(?(\d+)\)?)*")


def words_of(path: Path) -> str:
    """The text of a file on one line, as a citation may be broken."""
    return " ".join(path.read_text(encoding="utf-8").split())


def cited(text: str, pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    """(paper, reference) of every match; the paper is the last one that was named before it, if any."""
    names = [(m.start(), m[1]) for m in NAME.finditer(text)]
    found = []
    for match in pattern.finditer(text):
        before = [name for at, name in names if at < match.start()]
        found += [(before[-1] if before else "?", ref) for ref in re.split(r", | and | to ", match[1])]
    return found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("weights (CSAHFL, section 3.5). More", [("CSAHFL", "3.5")]),
        ("(HHFL, sections V-B1 to V-B3)", [("HHFL", "V-B1"), ("HHFL", "V-B3")]),
        ("as LTC does (sections 5.4.1 and 5.4.2), DDC (section 10)", [("LTC", "5.4.1"), ("LTC", "5.4.2"), ("DDC", "10")]),
    ],
)  # fmt: skip
def test_citations_are_found(text, wanted):
    assert cited(text, SECTION) == wanted


def test_sections_that_are_cited_exist():
    for path in FILES:
        for paper, section in cited(words_of(path), SECTION):
            assert section in SECTIONS.get(paper, ()), f"{path.relative_to(ROOT)}: {paper} has no section {section}"


def test_appendices_that_are_cited_exist():
    for path in FILES:
        for paper, letter in cited(words_of(path), APPENDIX):
            assert letter in APPENDICES.get(paper, ()), f"{path.relative_to(ROOT)}: {paper} has no appendix {letter}"


def test_equations_that_are_cited_exist():
    n_found = 0
    for path in FILES:
        for match in EQUATION.finditer(words_of(path)):
            numbers = [int(n) for n in re.findall(r"\d+", match[0])]
            n_found += len(numbers)
            assert max(numbers) <= EQUATIONS[match[1]], f"{path.relative_to(ROOT)}: {match[0]}"
    assert n_found > 30


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_figures_and_tables_that_are_reproduced_exist(paper):
    for item in paper.items:
        for kind, most in (("Fig", FIGURES), ("Table", TABLES)):
            for number in re.findall(rf"{kind}(?:s|\.|s\.)? (\d+)", item.title):
                assert int(number) <= most[paper.name], f"{paper.name} has no {kind} {number}: {item.title}"


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_the_page_of_a_method_names_its_paper_as_the_reproduction_does(paper):
    page = words_of(ROOT / "docs" / "methods" / f"{paper.key}.md")
    assert paper.citation in page


def test_cases_are_not_cited_by_numbers_that_no_paper_has():
    numbered = re.compile(r"\b[Gg]olden cases? G?C?\d|\b[Ii]nvariants? \d")
    for path in FILES:
        found = numbered.search(words_of(path))
        assert not found, f"{path.relative_to(ROOT)}: {found[0]}"
