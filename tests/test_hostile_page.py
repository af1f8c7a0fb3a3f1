"""The page about attacks and defences is what the committed results give, and says in words what its tables say."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import hostile_page as page_of  # noqa: E402
import hostile_study as study  # noqa: E402
from hostile_page import FIFTH, HEAD, MEAN, NOBODY  # noqa: E402

from fedloom.mixing import Linear  # noqa: E402

COMMITTED = json.loads(study.RESULTS.read_text(encoding="utf-8"))


def results(n_seeds=3, **losses):
    """Accuracy 0.9 and more with nobody hostile; so many points less, and 0, 1, 2 by seed, with others: (where, defence, attack,
    who) -> points."""
    runs = {}
    for case, points in {page_of.honest(w): 0 for w in ("flat", "overlapping", *page_of.SYSTEMS)}.items():
        for seed in range(n_seeds):
            runs[page_of.key(case, seed)] = {"accuracy": 0.9 + 0.01 * seed - points / 100}
    for case, points in losses.get("cases", {}).items():
        for seed in range(n_seeds):
            runs[page_of.key(case, seed)] = {"accuracy": 0.9 + 0.01 * seed - (points + seed) / 100}
    return runs


def test_the_page_is_what_the_results_give():
    assert study.PAGE.read_text(encoding="utf-8") == page_of.page(COMMITTED)


def test_the_results_are_runs_of_the_study():
    wanted = {job.key for job in study.wanted()}
    assert set(COMMITTED) <= wanted
    assert all(0 <= run["accuracy"] <= 1 for run in COMMITTED.values())
    for where in ("flat", "hierarchical", "overlapping"):
        assert len(page_of.seeds_of(COMMITTED, page_of.honest(where))) >= 3


def test_results_are_read_as_they_are_written():
    assert json.loads(study.as_lines(results())) == results()


def test_differences_are_paired_with_their_interval():
    """Points -3, -4, -5: mean -4, deviation 1, t of 2 degrees 4.303: half 4.303 / sqrt(3) = 2.48."""
    case = ("flat", MEAN, "sign flip", FIFTH)
    runs = results(cases={case: 3})
    assert page_of.shown(page_of.difference(runs, case, page_of.honest("flat"))) == "**-4.0 ± 2.5** (3)"
    assert page_of.difference(results(2, cases={case: 3}), case, page_of.honest("flat")) is None
    assert "| plain mean | +0.0 ± 0.0 (3) | **-4.0 ± 2.5** (3) |" in page_of.page(runs)


def test_words_say_which_defences_withstand_and_which_system_loses_least():
    cases = {("flat", MEAN, "sign flip", FIFTH): 30, ("flat", "good", "sign flip", FIFTH): 1}
    cases |= {("flat", "bad", "sign flip", FIFTH): 10}
    cases |= {(s, MEAN, "sign flip", FIFTH): 10 + i for i, s in enumerate(page_of.SYSTEMS)}
    cases |= {("ddc", MEAN, "withheld", HEAD): 7}
    words = "\n".join(page_of.findings(results(cases=cases)))
    assert "Under 5 points lost: flat, the plain mean **-31.0 ± 2.5** (3); good." in words
    assert "hhfl (-11.0), csahfl (-12.0), ltc (-13.0), ddc (-14.0), camu (-15.0)" in words
    assert "ddc **-8.0 ± 2.5** (3) (withheld)" in words


@pytest.mark.parametrize(
    ("points", "words"), [(20, "takes 10.0 points more"), (10, "no difference that the seeds can tell")]
)
def test_words_say_whether_bridging_clients_spread_poison(points, words):
    cases = {
        ("overlapping", MEAN, "label flip", FIFTH): 10,
        ("overlapping", MEAN, "label flip", "bridging 0.2"): points,
    }
    assert words in "\n".join(page_of.findings(results(cases=cases)))


def test_every_case_is_a_scenario_and_a_method():
    """One of each kind; what is hostile is what the case says."""
    kinds = {(job.where, job.defence): job for job in study.wanted() if job.who != HEAD}
    for job in kinds.values():
        assert isinstance(study.method(job).merge_edge, Linear) == (job.defence == MEAN), job
    chosen = study.scenario(study.Job("overlapping", MEAN, "label flip", "bridging 0.2", 0)).hostile.clients
    assert (chosen.share, chosen.where, chosen.attack.kind) == (0.2, "bridging", "label-flip")
    assert study.scenario(study.Job("flat", MEAN, NOBODY, "0", 0)).hostile is None
