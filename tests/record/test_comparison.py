"""Reading runs back, and comparing methods, on folders small enough to work out by hand."""

import io
import json
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from fedloom.record.axes import AXES
from fedloom.record.comparison import compare
from fedloom.record.comparison_table import against_first, other_scores, rich_tables, totals
from fedloom.record.folder import FolderError
from fedloom.record.runs import find_runs, read_run
from fedloom.record.verdict import verdict


def write_run(
    folder: Path,
    method: str,
    seed: int,
    scores: list[float],
    *,
    measure: str = "accuracy",
    step: int = 10,
    second: float = 2.0,
    finished: bool = True,
    scenario: dict[str, Any] | None = None,
    more: dict[str, list[Any]] | None = None,
) -> Path:
    """A run with an evaluation every `step` steps and `second` seconds, 3 J and 100 bytes. more: other measures."""
    folder.mkdir(parents=True)
    n = range(len(scores))
    scenario = scenario or {"name": "tiny", "training": {"cloud_rounds": 5}}
    content = {"scenario": scenario, "method": method, "seed": seed, "n_params": 7}
    (folder / "run.json").write_text(json.dumps(content | {"clients": {"n_samples": [1]}, "cells": {}}))
    columns = {"cloud_round": list(n), "local_steps": [step * i for i in n], "time_s": [second * i for i in n]}
    columns |= {"energy_j": [3.0 * i for i in n], "bytes": [100 * i for i in n], measure: scores, **(more or {})}
    pl.DataFrame(columns).write_parquet(folder / "metrics.parquet")
    if finished:
        (folder / "summary.json").write_text(json.dumps({"ledger": [], "wall_s": 1.0}))
    return folder


@pytest.fixture
def two_methods(tmp_path: Path) -> Path:
    """Steps 0, 10, 20, 30 for a; 0, 20, 40 for b."""
    write_run(tmp_path / "a0", "a", 0, [0.1, 0.5, 0.8, 0.7])
    write_run(tmp_path / "a1", "a", 1, [0.1, 0.6, 0.6, 0.9])
    write_run(tmp_path / "b0", "b", 0, [0.1, 0.3, 0.75], step=20, second=5.0)
    write_run(tmp_path / "b1", "b", 1, [0.1, 0.7, 0.75], step=20, second=5.0)
    return tmp_path


def test_means_budget_and_target_by_hand(two_methods):
    result = compare(find_runs([two_methods]), target=0.6)
    a, b = result.rows
    assert (a.method, a.seeds, a.n_seeds) == ("a", (0, 1), 2)
    assert a.final.mean == pytest.approx((0.7 + 0.9) / 2)
    assert (a.final.half, a.final.n, a.final.by_seed) == (None, 2, {0: 0.7, 1: 0.9})  # two seeds tell no interval
    assert a.best.mean == pytest.approx((0.8 + 0.9) / 2)
    assert result.budget == 30  # a ends at 30 steps, b at 40
    assert a.at_budget.mean == pytest.approx((0.7 + 0.9) / 2)
    assert b.at_budget.mean == pytest.approx((0.3 + 0.7) / 2)  # the last evaluation at or before 30 steps is at 20
    assert a.to_target.mean == pytest.approx((20 + 10) / 2)  # 0.8 at 20 steps; 0.6, just reached, at 10
    assert b.to_target.mean == pytest.approx((40 + 20) / 2)
    assert {x: a.totals[x].mean for x in AXES} == {"steps": 30, "seconds": 6, "joules": 9, "bytes": 300}
    assert {x: b.totals[x].mean for x in AXES} == {"steps": 40, "seconds": 10, "joules": 6, "bytes": 200}


def test_every_cost_can_be_the_axis(two_methods):
    runs = find_runs([two_methods])
    assert compare(runs, "seconds").budget == 6
    assert compare(runs, "seconds").rows[1].at_budget.mean == pytest.approx(0.5)  # b at 5 s
    assert compare(runs, "joules", target=0.7).rows[1].to_target.mean == pytest.approx((6 + 3) / 2)
    assert compare(runs, "bytes").budget == 200
    with pytest.raises(ValueError, match="x must be one of steps, seconds, joules, bytes, got 'watts'"):
        compare(runs, "watts")


def test_by_default_every_run_reaches_the_target(two_methods):
    result = compare(find_runs([two_methods]))
    assert result.target == 0.7
    assert [row.n_reached for row in result.rows] == [2, 2]
    assert all(row.to_target.mean is not None for row in result.rows)


def test_a_target_that_some_or_all_seeds_miss_has_no_mean(two_methods):
    a, b = compare(find_runs([two_methods]), target=0.85).rows
    assert (a.to_target.mean, a.to_target.half, a.n_reached) == (None, None, 1)
    assert (b.to_target.mean, b.n_reached) == (None, 0)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(*rich_tables(compare(find_runs([two_methods]), target=0.85)))
    text = console.export_text()
    assert "– (1 of 2)" in text and "80.0 %" in text and "±" not in text and "steps to 85.0 %" in text


def test_one_seed_has_no_interval(tmp_path):
    write_run(tmp_path / "a", "a", 4, [0.1, 0.5])
    result = compare([read_run(tmp_path / "a")])
    assert (result.rows[0].final.mean, result.rows[0].final.half) == (0.5, None)
    assert result.warnings == ()
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["rows"][0]["n_seeds"] == 1


def test_what_is_shown_is_the_interval_of_the_mean(tmp_path):
    for seed, final in enumerate((0.5, 0.6, 0.7)):
        write_run(tmp_path / f"a{seed}", "a", seed, [0.1, final])
    row = compare(find_runs([tmp_path])).rows[0]
    assert row.final.half == pytest.approx(4.302653 * stdev([0.5, 0.6, 0.7]) / 3**0.5)  # t of 2 degrees of freedom
    assert (row.totals["joules"].mean, row.totals["joules"].half) == (3.0, 0.0)
    assert totals(compare(find_runs([tmp_path])), "joules") == [("3.00 J", False)]  # no spread where seeds are alike


def many(folder: Path, **methods: list[float]) -> Any:
    """The comparison of methods with one final value for each of the seeds 0, 1, ..."""
    for method, finals in methods.items():
        for seed, final in enumerate(finals):
            write_run(folder / f"{method}{seed}", method, seed, [0.1, 0.2, final])
    return compare(find_runs([folder]))


def bold(comparison: Any) -> dict[str, list[str]]:
    """The methods in bold by column."""
    marked = {}
    for table in rich_tables(comparison):
        for column in table.columns:
            cells = [str(cell).startswith("[bold]") for cell in column.cells]
            marked[str(column.header)] = [row.method for row, is_bold in zip(comparison.rows, cells) if is_bold]
    return marked


def test_two_seeds_make_no_winner_however_clear(tmp_path):
    result = many(tmp_path, a=[0.9, 0.9], b=[0.2, 0.2])
    assert set(map(tuple, bold(result).values())) == {()}
    assert set(result.to_dict()["winners"].values()) == {None}
    assert (
        "2 seeds are common to all methods: nobody is called better below 3 (for instance --seeds 5)" in result.warnings
    )


def test_a_winner_is_one_whose_paired_differences_exclude_zero(tmp_path):
    # seeds differ by far more than the methods, and b is 1 to 2 points behind with every seed
    result = many(tmp_path, a=[0.5, 0.7, 0.9], b=[0.49, 0.685, 0.88])
    marked = bold(result)
    assert marked["final accuracy"] == marked["at 20 steps"] == ["a"]
    assert marked["best of all rounds, chosen on test data"] == []
    assert result.to_dict()["winners"]["final"] == "a"
    assert not any("nobody" in warning for warning in result.warnings)


def test_the_largest_mean_alone_is_no_winner(tmp_path):
    result = many(tmp_path, a=[0.9, 0.5, 0.7], b=[0.6, 0.6, 0.6])  # differences 0.3, -0.1, 0.1
    assert bold(result)["final accuracy"] == [] and result.verdict("final").open == ("b",)


def test_a_winner_beats_every_rival_and_not_only_the_second():
    values = {"a": {0: 0.9, 1: 0.9, 2: 0.9}, "b": {0: 0.8, 1: 0.8, 2: 0.81}, "c": {0: 0.0, 1: 0.9, 2: 0.95}}
    found = verdict(values)
    assert (found.order, found.winner, found.open) == (("a", "b", "c"), None, ("c",))
    del values["c"]
    assert verdict(values).winner == "a"


def test_only_common_seeds_are_judged():
    a = {seed: 0.9 + seed / 1000 for seed in range(5)}
    found = verdict({"a": a, "b": {3: 0.1, 4: 0.1, 7: 0.1, 8: 0.1}})
    assert (found.winner, found.n, found.lead.n) == (None, 2, 2)
    found = verdict({"a": a, "b": {2: 0.1, 3: 0.1, 4: 0.1, 8: 0.95}})
    assert (found.winner, found.n) == ("a", 3) and found.lead.mean == pytest.approx(0.803)
    assert verdict({"a": a, "b": {9: 0.1}}).lead is None


def test_who_never_gets_there_is_beaten_and_who_sometimes_does_is_not():
    a = {0: 10.0, 1: 11.0, 2: 12.0}
    assert verdict({"a": a, "b": dict.fromkeys(range(3))}, higher=False).winner == "a"
    found = verdict({"a": a, "b": {0: None, 1: None, 2: 900.0}}, higher=False)
    assert (found.winner, found.open, found.missing) == (None, ("b",), ("b",))
    assert verdict({"a": {0: 1.0}, "b": {0: None}}, higher=False).winner is None
    assert verdict({"a": a}).winner is None  # nobody to beat


def test_a_seed_that_is_there_twice_counts_once(tmp_path):
    for i in range(3):
        write_run(tmp_path / f"a{i}", "a", 0, [0.1, 0.5 + i / 10])
    result = compare(find_runs([tmp_path]))
    assert (result.rows[0].final.n, result.rows[0].final.half) == (1, None)
    assert result.rows[0].final.mean == pytest.approx(0.6)
    assert "a with seed 0 is there 3 times; their mean counts" in result.warnings


@pytest.mark.parametrize("seed", range(3))
def test_rarely_is_one_of_equal_methods_called_the_winner(seed):
    rng = np.random.default_rng(seed)
    n_won = 0
    for _ in range(400):
        draws = rng.standard_normal((3, 5))
        n_won += verdict({f"m{i}": dict(enumerate(map(float, row))) for i, row in enumerate(draws)}).winner is not None
    assert n_won < 0.05 * 400


def test_for_rmse_lower_is_better(tmp_path):
    write_run(tmp_path / "a", "a", 0, [3.0, 1.0, 2.0], measure="rmse")
    write_run(tmp_path / "b", "b", 0, [3.0, 2.5, 0.5], measure="rmse")
    for seed in (1, 2):
        write_run(tmp_path / f"a{seed}", "a", seed, [3.0, 1.0, 2.0], measure="rmse")
        write_run(tmp_path / f"b{seed}", "b", seed, [3.0, 2.5, 0.5], measure="rmse")
    result = compare(find_runs([tmp_path]))
    assert (result.measure, result.higher_is_better, result.target) == ("rmse", False, 2.0)
    assert [row.best.mean for row in result.rows] == [1.0, 0.5]
    assert [row.to_target.mean for row in result.rows] == [10, 20]
    assert bold(result)["final rmse"] == ["b"] and bold(result)["steps to 2.00"] == ["a"]


def test_accuracy_on_own_labels_and_of_models_that_exist_is_compared(tmp_path):
    """A personalised method: poor by its global model, good by those of its clusters."""
    for seed in range(3):
        more = {
            "local_by_global": [0.1, 0.7],
            "local_by_cluster": [0.1, 0.7 + seed / 100],
            "edge_accuracy": [None, 0.6],
        }
        write_run(tmp_path / f"a{seed}", "a", seed, [0.1, 0.7], more=more)
        more = {
            "local_by_global": [0.1, 0.4],
            "local_by_cluster": [0.1, 0.9 + seed / 50],
            "local_by_edge": [None, None],
        }
        write_run(tmp_path / f"b{seed}", "b", seed, [0.1, 0.4], more=more)
    result = compare(find_runs([tmp_path]))
    assert result.others == ("local_by_global", "local_by_cluster", "edge_accuracy")
    assert result.rows[1].others["local_by_cluster"].mean == pytest.approx(0.92)
    marked = bold(result)
    assert marked["final accuracy"] == ["a"] and marked["its cluster's model"] == ["b"]
    assert other_scores(result, "edge_accuracy") == [("60.0 %", False), ("–", False)]
    content = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert content["rows"][1]["others"]["local_by_cluster"]["by_seed"]["2"] == pytest.approx(0.94)
    assert (
        content["winners"]["local_by_cluster"] == "b"
        and "by the model of its cluster" in content["others"]["local_by_cluster"]
    )
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(*rich_tables(result))
    assert "On a client's own labels, final accuracy by" in console.export_text()


def test_what_methods_save_and_lose_is_shown_against_the_first(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"a{seed}", "a", seed, [0.1, 0.70 + seed / 100])
        write_run(tmp_path / f"b{seed}", "b", seed, [0.1, 0.67 + seed / 100])
    result = compare(find_runs([tmp_path]))
    columns = against_first(result)
    assert columns["accuracy"] == [("–", False), ("-3.0 ± 0.0 points", False)]
    first, second = (row.totals["bytes"].mean for row in result.rows)
    assert columns["traffic"] == [("–", False), (f"{100 * (second / first - 1):+.1f} %", False)]
    assert set(columns) == {"time", "energy", "traffic", "accuracy"}
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(*rich_tables(result))
    assert "Against a" in console.export_text()


def test_a_long_name_is_folded_and_crowds_no_figure_out(tmp_path):
    name = "hhfl:rule=scaffold:up=topk:up.share=0.05:merge_edge=trimmed_mean:merge_edge.share=0.2"
    for seed in range(3):
        write_run(tmp_path / f"a{seed}", "hhfl", seed, [0.1, 0.70 + seed / 100])
        write_run(tmp_path / f"b{seed}", name, seed, [0.1, 0.67 + seed / 100])
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(*rich_tables(compare(find_runs([tmp_path]))))
    text = console.export_text()
    assert "-3.0 ± 0.0 points" in text and name not in text
    assert text.count("68.0 ± 2.5") == 3 == text.count("71.0 ± 2.5")  # final, best and at equal steps
    against = text[text.index("Against hhfl") :].splitlines()
    begins = [line.split(" ")[0] for line in against if line and line[0] != "─"]
    assert "".join(begins[3:]).startswith(name)


def test_a_curve_that_cannot_be_believed_is_a_warning(tmp_path):
    zigzag = [0.1, 0.3] + [0.5 + 0.05 * (-1) ** k for k in range(20)]
    for seed in range(3):
        write_run(tmp_path / f"a{seed}", "a", seed, zigzag)
        write_run(tmp_path / f"b{seed}", "b", seed, [0.1, *np.linspace(0.3, 0.6, 21)])
    (warning,) = compare(find_runs([tmp_path])).warnings
    assert warning.startswith("a with seed 0: its curve oscillates: the last 20 evaluations")
    assert warning.endswith("(so with seeds 1, 2)")


def test_warnings_name_what_a_reader_must_know(tmp_path):
    write_run(tmp_path / "a0", "a", 0, [0.1, 0.5])
    write_run(tmp_path / "a1", "a", 1, [0.1, 0.5], finished=False)
    other = {"name": "tiny", "training": {"cloud_rounds": 9}}
    write_run(tmp_path / "b0", "b", 0, [0.1, float("nan")], scenario=other)
    result = compare(find_runs([tmp_path]))
    assert result.warnings == (
        "the methods were run with different seeds (a: 0, 1; b: 0)",
        "1 seed is common to all methods: nobody is called better below 3 (for instance --seeds 5)",
        "a with seed 1 is unfinished: evaluated up to cloud round 1 of 5",
        "b with seed 0 diverged: its last accuracy is not a finite number",
        "the runs are of different scenarios; they differ in training.cloud_rounds",
    )
    assert result.rows[1].final.mean is None
    json.dumps(result.to_dict(), allow_nan=False)


def test_runs_are_found_one_and_two_levels_down_and_sorted(tmp_path):
    write_run(tmp_path / "x" / "late", "b", 0, [0.1])
    write_run(tmp_path / "x" / "early", "a", 10, [0.1])
    write_run(tmp_path / "top", "a", 9, [0.1])
    (tmp_path / "notes").mkdir()
    runs = find_runs([tmp_path, tmp_path / "top"])
    assert [(run.method, run.seed) for run in runs] == [("a", 9), ("a", 10), ("b", 0)]
    assert runs[0].origin == {"n_params": 7} and runs[0].topology is None and runs[0].finished


def test_errors_name_the_folder_and_what_is_wrong(tmp_path):
    with pytest.raises(FolderError, match="nowhere does not exist; give the folder of a run"):
        find_runs([tmp_path / "nowhere"])
    with pytest.raises(FolderError, match="holds no run folder"):
        find_runs([tmp_path])
    with pytest.raises(FolderError, match="no folder given"):
        find_runs([])
    with pytest.raises(FolderError, match=r"is not the folder of a run: it has no run\.json"):
        read_run(tmp_path)
    folder = write_run(tmp_path / "a", "a", 0, [0.1])
    (folder / "metrics.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(FolderError, match=r"a/metrics\.parquet is damaged"):
        read_run(folder)
    pl.DataFrame({"cloud_round": [0]}).write_parquet(folder / "metrics.parquet")
    with pytest.raises(FolderError, match="has no column local_steps, time_s, energy_j, bytes"):
        read_run(folder)
    (folder / "metrics.parquet").unlink()
    with pytest.raises(FolderError, match="holds no evaluation yet"):
        read_run(folder)
    (folder / "run.json").write_text('{"method": "a"}')
    with pytest.raises(FolderError, match="is damaged: it has no scenario, seed, clients, cells"):
        read_run(folder)
    write_run(tmp_path / "c", "c", 0, [0.1], measure="loss")
    with pytest.raises(FolderError, match="has neither accuracy nor rmse"):
        read_run(tmp_path / "c")


def test_accuracy_and_rmse_do_not_mix(tmp_path):
    write_run(tmp_path / "a", "a", 0, [0.1])
    write_run(tmp_path / "b", "b", 0, [0.1], measure="rmse")
    with pytest.raises(FolderError, match=r"different tasks \(.*a has accuracy; .*b has rmse\)"):
        find_runs([tmp_path])


@pytest.mark.parametrize(
    ("x", "value", "text"),
    [
        ("seconds", 0.0, "0 s"),
        ("seconds", 59.94, "59.9 s"),
        ("seconds", 7200, "2.00 h"),
        ("joules", 0.0123, "0.0123 J"),
        ("joules", 2.5e6, "2.50 MJ"),
        ("bytes", 999, "999 B"),
        ("bytes", 12.3e9, "12.3 GB"),
        ("steps", 12345, "12,345"),
        ("steps", 112.5, "112"),
    ],
)
def test_quantities_are_written_in_units_that_fit(x, value, text):
    assert AXES[x].text(value) == text
