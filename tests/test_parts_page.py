"""The page about open parts is what the committed results give, and says in words what its tables say."""

import json
import sys
from pathlib import Path

import pytest

import fedloom as fl

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import parts_page  # noqa: E402
import parts_study  # noqa: E402

PARTS = [parts_page.PLAIN, "new", "Ditto"]
BASES = {"one": "here", "two": "there"}


def a_run(accuracy, bytes_, steps=100, **more):
    """Straight lines from zero."""
    line = {
        "local_steps": [0, steps],
        "accuracy": [0, accuracy],
        "time_s": [0, 10],
        "energy_j": [0, 20],
        "bytes": [0, bytes_],
    }
    return {**line, **more}


def results(new=(0.03, 0.04, 0.05), n_seeds=3):
    """Of both methods 0.5 at the end; `new` is better by so much and takes half of the bytes; Ditto is the same, and its personal
    models are better."""
    out = {}
    for base in BASES:
        for seed in range(n_seeds):
            plain = 0.5 + 0.01 * seed
            out[f"{base} | {parts_page.PLAIN} | {seed}"] = a_run(plain, 2e6)
            out[f"{base} | new | {seed}"] = a_run(plain + new[seed], 1e6)
            out[f"{base} | Ditto | {seed}"] = a_run(plain, 2e6, local_by_global=0.4, local_by_personal=0.9)
    return out


def page(runs):
    return parts_page.page(runs, BASES, PARTS).splitlines()


def row_of(part, runs):
    return next(line for line in page(runs) if line.startswith(f"| {part} |"))


def words_of(part, runs):
    return next(line for line in page(runs) if line.startswith(f"- **{part}**"))


def test_the_page_is_what_the_results_give():
    runs = json.loads(parts_study.RESULTS.read_text(encoding="utf-8"))
    wanted = parts_page.page(runs, parts_study.BASES, list(parts_study.PARTS))
    assert parts_study.PAGE.read_text(encoding="utf-8") == wanted


def test_the_results_are_runs_of_the_study_and_enough_to_tell_something():
    runs = json.loads(parts_study.RESULTS.read_text(encoding="utf-8"))
    wanted = {parts_page.key(b, p, s) for b in parts_study.BASES for p in parts_study.PARTS for s in parts_study.SEEDS}
    assert set(runs) <= wanted
    for base in parts_study.BASES:
        assert len(parts_page.seeds_of(runs, base, parts_page.PLAIN)) >= 3
        assert parts_page.differences(runs, base, list(parts_study.PARTS))


def test_results_are_read_as_they_are_written():
    assert json.loads(parts_study.as_lines(results())) == results()


def test_differences_are_paired_with_their_interval():
    """Points 3, 4, 5: mean 4, deviation 1, t of 2 degrees 4.303: half 4.303 / sqrt(3) = 2.48. Bytes halve in every seed."""
    assert row_of("new", results()) == "| new | 3 | **+4.0 ± 2.5** | the same | the same | **-50.0 %** |"
    assert row_of("Ditto", results()) == "| Ditto | 3 | the same | the same | the same | the same |"


def test_what_is_shown_as_no_percent_is_no_word():
    """Bytes less by 0.4 %, in every seed: in the table, and as before in words."""
    runs = results()
    for seed in range(3):
        runs[f"one | new | {seed}"]["bytes"] = [0, 1.992e6]
        del runs[f"two | new | {seed}"]
    assert row_of("new", runs).endswith("| **-0.4 %** |")
    assert words_of("new", runs).endswith("; seconds, joules and bytes as before.")


def test_what_seeds_cannot_tell_is_not_bold_and_said_so():
    runs = results(new=(-0.03, 0.04, 0.05))
    assert row_of("new", runs).startswith("| new | 3 | +2.0 ± 10.8 |")
    wanted = "- **new**: no difference in accuracy that the seeds can tell with one and two; bytes -50 %."
    assert words_of("new", runs) == wanted


def test_words_group_methods_by_what_a_part_does_to_them():
    runs = results()
    for seed in range(3):
        runs[f"two | new | {seed}"] = a_run(0.4 + 0.01 * seed, 0.5e6)
    assert (
        words_of("new", runs)
        == "- **new**: more accurate with one (+4.0); less accurate with two (-10.0); bytes -75 to -50 %."
    )
    wanted = "- **Ditto**: the same accuracy with one and two; seconds, joules and bytes as before."
    assert words_of("Ditto", runs) == wanted


def test_two_seeds_tell_nothing():
    text = page(results(new=(0.03, 0.031), n_seeds=2))
    assert "Left out, as they were run with fewer than 3 seeds: new; Ditto." in text


def test_each_part_is_paired_over_the_seeds_that_it_has():
    runs = results(new=(0.03, 0.04, 0.05, 0.06), n_seeds=4)
    del runs["one | new | 0"], runs[f"two | {parts_page.PLAIN} | 3"]
    rows = [line for line in page(runs) if line.startswith("| new |")]
    assert rows[0].startswith("| new | 3 | **+5.0 ± 2.5** |") and rows[1].startswith("| new | 3 | **+4.0 ± 2.5** |")


def test_figures_are_those_where_the_shortest_run_of_a_method_and_seed_has_ended():
    """The new part went on twice as long, on a line to 1.0: half of everything is at equal steps."""
    runs = results()
    for seed in range(3):
        runs[f"one | new | {seed}"] = a_run(1.0, 8e6, steps=200)
    assert row_of("new", runs) == "| new | 3 | -1.0 ± 2.5 | **-50.0 %** | **-50.0 %** | **+100.0 %** |"


def test_personal_models_are_held_against_the_shared_one():
    assert (
        "On the labels that a client has, its personal model of Ditto tells 90.0 % right at the end, the shared model 40.0 %: "
        "**+50.0** points."
    ) in page(results())


def test_a_part_that_lacks_seeds_is_left_out_and_named():
    runs = results()
    del runs["two | Ditto | 1"]
    text = page(runs)
    assert "Left out, as they were run with fewer than 3 seeds: Ditto with two." in text
    assert sum(line.startswith("| Ditto |") for line in text) == 1
    assert sum(line.startswith("| new |") for line in text) == 2
    assert words_of("Ditto", runs) == "- **Ditto**: the same accuracy with one; seconds, joules and bytes as before."
    del runs["one | Ditto | 1"], runs["one | new | 2"]
    assert "Left out, as they were run with fewer than 3 seeds: new with one; Ditto." in page(runs)
    assert not any(line.startswith("- **Ditto**") for line in page(runs))


@pytest.mark.parametrize("base", parts_study.BASES)
@pytest.mark.parametrize("part", parts_study.PARTS)
def test_every_part_but_the_plain_one_changes_every_method(base, part):
    method = fl.make_method(base)
    assert (parts_study.PARTS[part](method) == method) == (part == parts_page.PLAIN)
