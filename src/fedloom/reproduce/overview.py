"""What each paper comes to, in a few words, and the page of all of them: FOLDER/README.md and FOLDER/overview.svg."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedloom.record.files import write_whole
from fedloom.reproduce.paper import LAPTOP, Paper, Plot, Series
from fedloom.reproduce.paper import PAPER as PUBLISHED
from fedloom.reproduce.tally import counted_as, is_current, tally
from fedloom.reproduce.verdicts import FAILS, FEW, HOLDS, OPEN

CONFIRMED, IN_SIGN, NOT_CONFIRMED, NOT_TESTED = (
    "confirmed",
    "confirmed in sign, not in size",
    "not confirmed",
    "not tested",
)
NO_SIZES = "confirmed in sign, sizes not tested"
NEARLY_ALL = 0.9
Outcomes = Sequence[Mapping[str, Any]]
RULE = (
    f"A paper is *{CONFIRMED}* at a scale if at least nine in ten of its claims that were judged there hold, published figures "
    f"among them; *{IN_SIGN}* if more than half of those about order and direction hold (*{NO_SIZES}*: no published figure was "
    f"judged); *{NOT_CONFIRMED}* if not; *{NOT_TESTED}* if none was judged, or fewer than wait for more seeds. Claims "
    "of the same runs are not independent: counts say how much was looked at, not how sure it is."
)


def comes_to(claims: Iterable[Mapping[str, Any]]) -> str:
    """In one of five words what these claims come to.

    >>> claim = {"verdict": {"state": HOLDS}}
    >>> comes_to([claim]), comes_to([claim, {"verdict": {"state": FAILS}, "absolute": True}]), comes_to([])
    ('confirmed in sign, sizes not tested', 'confirmed in sign, not in size', 'not tested')
    """
    signs, figures, few = Counter[str](), Counter[str](), 0
    for claim in claims:
        state = counted_as(claim)
        few += state == FEW
        if state in (HOLDS, FAILS, OPEN):
            (figures if claim.get("absolute") else signs)[state] += 1
    judged = signs.total() + figures.total()
    if not judged or few > judged:
        return NOT_TESTED
    if figures and signs[HOLDS] + figures[HOLDS] >= NEARLY_ALL * judged:
        return CONFIRMED
    if not signs or 2 * signs[HOLDS] <= signs.total():
        return NOT_CONFIRMED
    return IN_SIGN if figures else NO_SIZES


def hours_of(outcomes: Outcomes) -> float:
    """Hours of the runs, one after the other: each setup once where its time was noted, else as the items say."""
    by_setup: dict[str, float] = {}
    rest = 0.0
    for outcome in outcomes:
        for key, seconds in outcome.get("seconds", {}).items():
            by_setup[key] = max(seconds, by_setup.get(key, 0.0))
        rest += 0.0 if outcome.get("seconds") else outcome["wall_s"]
    return (sum(by_setup.values()) + rest) / 3600


def claims_of(outcomes: Outcomes) -> list[Mapping[str, Any]]:
    """All claims of the outcomes that were made with this version of the numbers."""
    return [claim for outcome in outcomes if is_current(outcome) for claim in outcome["claims"]]


def n_readings(n: int) -> str:
    return f"{n} reading{'s' * (n != 1)} tried"


def took(outcomes: Outcomes) -> str:
    """Hours, in words; where items share runs that were not noted apart, that is at most."""
    at_most = "" if all(outcome.get("seconds") for outcome in outcomes) else "at most "
    return f"{at_most}{hours_of(outcomes):.1f} hours of runs, one after the other"


def write_overview(folder: Path, papers: Sequence[tuple[Paper, Outcomes]]) -> Path | None:
    """The page of all papers that have outcomes in the folder, with one picture; None if none has."""
    from fedloom.reproduce.page import draw, markdown

    found = [
        (paper, scale, [o for o in outcomes if o["scale"] == scale])
        for paper, outcomes in papers
        if outcomes
        for scale in (PUBLISHED, LAPTOP)
    ]
    if not found:
        return None
    rows = []
    for paper, scale, outcomes in found:
        claims = claims_of(outcomes)
        n = tally(claims)
        rows.append(
            (
                f"[{paper.name}]({paper.key}.md)",
                scale,
                f"**{comes_to(claims)}**",
                *(str(n[state]) for state in (HOLDS, FAILS, OPEN)),
                str(len(paper.readings)),
                f"{hours_of(outcomes):.1f}" if outcomes else "–",
                f"`fedloom reproduce {paper.key} --scale {scale}`",
            )
        )
    draw(_picture(found), folder / "overview.svg")
    columns = (
        "paper",
        "scale",
        "it comes to",
        "hold",
        "do not",
        "undecided",
        "readings tried",
        "hours of runs",
        "command",
    )
    titles = [f"- {paper.name}: {paper.citation}." for paper, outcomes in papers if outcomes]
    parts = [
        "# Papers, as published and as we find them",
        "Five papers, each with a page that has a table “published, ours, verdict” at its top. Counted are claims that were "
        "judged with this version of the numbers; what is not counted, and why, is on the pages. Hours are those of runs, one "
        "after the other; runs that items share may be counted twice.",
        markdown(columns, rows),
        "![Claims that hold, do not hold and are undecided, by paper and scale](overview.svg)",
        RULE,
        "\n".join(titles),
    ]
    page = folder / "README.md"
    write_whole(page, ("\n\n".join(parts) + "\n").encode())
    return page


def _picture(found: Sequence[tuple[Paper, str, Outcomes]]) -> Plot:
    """Bars: claims by state, for every paper and scale."""
    counts = [tally(claims_of(outcomes)) for _, _, outcomes in found]
    return Plot(
        key="overview",
        caption="Claims that hold, do not hold and are undecided.",
        x_label="",
        y_label="claims judged",
        kind="bars",
        ticks=tuple(f"{paper.name}\n{scale}" for paper, scale, _ in found),
        series=tuple(
            Series(label=state, x=tuple(range(len(found))), y=tuple(float(n[state]) for n in counts), colour=colour)
            for state, colour in ((HOLDS, 2), (FAILS, 1), (OPEN, 5))
        ),
    )
