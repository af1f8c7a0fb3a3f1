"""`fedloom reproduce` on a made-up paper: the cache, the plan, the page of what was saved; and what papers say of themselves."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import fedloom.reproduce
import fedloom.reproduce.paper
from fedloom.cli.app import app
from fedloom.cli.reproduction import reproduce
from fedloom.numbers import NUMBERS
from fedloom.reproduce import PAPERS, Claim, Item, Outcome, Paper, Reading, Setup, find_items, load
from fedloom.reproduce.page import save, write_page
from fedloom.reproduce.tally import tally
from fedloom.reproduce.verdicts import FAILS, HOLDS, OPEN, Verdict


def claims(runs):
    final = [run.metrics["accuracy"][-1] for run in runs["flat"]]
    return Outcome(
        claims=(Claim(text="learns", verdict=Verdict(HOLDS, f"{final[0]:.2f}", len(final))),), ours="It does."
    )


@pytest.fixture
def paper(small, monkeypatch):
    first = Item(
        key="one",
        title="Fig. 1: a curve",
        published="It learns.",
        setups=lambda scale: {"flat": Setup(scenario=small, method="fedavg")},
        judge=claims,
        seeds={"laptop": 2},
    )
    again = replace(first, key="two", title="Fig. 2: the same curve")
    large = replace(first, key="all", title="Fig. 1, all curves", scales=("paper",))
    made_up = Paper(
        key="toy",
        name="TOY",
        title="A toy",
        authors=("Ape", "Bear"),
        where="2026",
        notes="Notes.",
        items=(first, again, large),
        readings=(Reading(of="a", tried="b", outcome="c"),),
    )

    def find(text):
        wanted = text.partition(":")[2]
        return made_up, tuple(i for i in made_up.items if not wanted or i.key == wanted)

    monkeypatch.setattr(fedloom.reproduce, "find_items", find)
    return made_up


@pytest.fixture
def run(tmp_path):
    def call(text="toy", scale="laptop", **options):
        settings = {"seeds": None, "folder": tmp_path / "out", "cache": tmp_path / "cache", "jobs": 1}
        reproduce(text, scale=scale, **(settings | {"data_folder": None, "quiet": True, "as_json": True} | options))

    return call


def test_keys_change_with_the_version_of_the_numbers(small):
    setup = Setup(scenario=small, method="fedavg")
    assert setup.key() == setup.key(NUMBERS) != setup.key(NUMBERS + 1)


def test_files_of_ones_own_are_other_runs(capsys, tmp_path):
    """Published files are asked for by default; with the option others do, which makes other runs."""
    item = next(item for item in load("csahfl").items if item.key == "svhn")
    plain = next(iter(item.setups("laptop").values()))
    own = plain.with_own_data(["svhn"])
    assert own.scenario["task"]["dataset"] == "svhn:own" and own.key() != plain.key()
    assert plain.with_own_data(["mnist"]) is plain
    settings = {"seeds": 1, "folder": tmp_path, "cache": tmp_path, "jobs": 1, "data_folder": None, "quiet": True}
    reproduce("csahfl:svhn", scale="laptop", as_json=True, dry_run=True, own_data="svhn", **settings)
    assert json.loads(capsys.readouterr().out)[0]["to_make"] == len(item.setups("laptop"))
    with pytest.raises(ValueError, match=r"--own-data must be one of .*svhn.* got 'shvn'"):
        reproduce("csahfl:svhn", scale="laptop", as_json=True, dry_run=True, own_data="shvn", **settings)


def test_the_page_says_which_files_were_not_the_published_ones(paper, tmp_path):
    item = paper.items[0]
    outcome = Outcome(claims=(Claim(text="learns", verdict=Verdict(HOLDS, "0.9", 2)),))
    save(tmp_path, paper, item, "laptop", outcome, seeds=2, n_runs=2, wall_s=1.0, own_data=["svhn"])
    text = write_page(tmp_path, paper).read_text()
    assert "--scale laptop --own-data svhn`" in text
    assert "The files of svhn were not the published ones." in text


def test_runs_of_another_version_are_not_used(paper, run, tmp_path, small, capsys):
    """A finished run under the key of the version before is left where it is, and the run is made again."""
    old = tmp_path / "cache" / Setup(scenario=small, method="fedavg").key(NUMBERS - 1) / "s0"
    old.mkdir(parents=True)
    (old / "summary.json").write_text(json.dumps({"wall_s": 1.0}))
    run("toy:one", dry_run=True)
    [row] = json.loads(capsys.readouterr().out)
    assert row["cached"] == 0 and row["to_make"] == 2
    run("toy:one", seeds=1)
    made = {path.parents[1].name for path in (tmp_path / "cache").rglob("metrics.parquet")}
    assert made == {Setup(scenario=small, method="fedavg").key()}
    assert json.loads((tmp_path / "out" / "toy" / "one-laptop.json").read_text())["numbers"] == NUMBERS


def test_a_dry_run_says_what_is_there_and_how_long_the_rest_takes(paper, run, tmp_path, capsys):
    run(dry_run=True)
    first, second = json.loads(capsys.readouterr().out)  # the third is of paper scale only
    assert (first["item"], first["runs"], first["to_make"], first["estimated"]) == ("one", 2, 2, 2)
    assert 0 < first["minutes"] < 10
    assert (second["runs"], second["shared"], second["to_make"], second["minutes"]) == (0, 2, 0, 0.0)
    assert not (tmp_path / "cache").exists()
    run("toy:one", seeds=1)
    [summary] = (tmp_path / "cache").glob("*/s0/summary.json")
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"wall_s": 90.0}))
    capsys.readouterr()
    run("toy:one", seeds=3, dry_run=True)
    [row] = json.loads(capsys.readouterr().out)
    assert (row["cached"], row["to_make"], row["minutes"], row["estimated"]) == (1, 2, pytest.approx(3.0), 0)
    run("toy:one", seeds=3, dry_run=True, as_json=False)
    shown = capsys.readouterr().out
    assert "2 runs to make, about 0.1 hours one after the other, 0.0 hours on two free cores" in shown
    assert "estimate" not in shown
    file = tmp_path / "out" / "toy" / "one-laptop.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"runs": 2, "wall_s": 240}))
    shutil.rmtree(tmp_path / "out" / "toy" / "kept")
    run("toy:one", seeds=3, dry_run=True, cache=tmp_path / "another")  # nothing is there: as long as last time
    assert json.loads(capsys.readouterr().out)[0]["minutes"] == pytest.approx(6.0)


def test_an_item_of_one_scale_is_refused_at_the_other(paper, run):
    with pytest.raises(ValueError, match="all is made at paper scale only"):
        run("toy:all", dry_run=True)


def outcome(**marks):
    return Outcome(claims=(Claim(text="a", verdict=Verdict(FAILS, "1 [0, 2]", 3), **marks),), ours="Ours.")


def test_the_page_counts_what_is_judged_and_says_why_the_rest_is_not(paper, tmp_path):
    found = Outcome(
        claims=(
            Claim(text="good", verdict=Verdict(HOLDS, "1; 2", 3)),
            Claim(text="bad", verdict=Verdict(FAILS, "1", 3)),
            Claim(text="open", verdict=Verdict(OPEN, "1", 3)),
            Claim(text="identity", verdict=Verdict(HOLDS, "1", 3), because="it is one"),
            Claim(text="figure", verdict=Verdict(FAILS, "1", 3), absolute=True),
            Claim(text="again", verdict=Verdict(HOLDS, "1", 3), repeats="Fig. 9"),
            Claim(text="asked", verdict=Verdict(HOLDS, "1", 3), own=True),
        ),
        ours="We found it.",
    )
    item = replace(paper.items[0], judge=lambda runs: found)
    save(tmp_path, paper, item, "laptop", item.outcome({}, "laptop"), seeds=3, n_runs=3, wall_s=60)
    page = write_page(tmp_path, paper).read_text()
    assert "Of 3 claims judged, **1 hold, 1 do not, 1 is undecided**" in page
    assert "1 hold by construction, 1 repeat another item's, 1 are about figures" in page
    assert "| It learns. | We found it. | 1 ✔ 1 ✘ 1 ?, 4 not counted |" in page
    assert "| identity | 1 | 3 | = by construction: it is one |" in page
    assert "| figure | 1 | 3 | – not tested at this scale |" in page
    assert "| again | 1 | 3 | (✔ holds) repeats Fig. 9 |" in page
    assert "| asked | 1 | 3 | (✔ holds) a question of ours |" in page
    assert "| good | 1<br>2 | 3 | ✔ holds |" in page
    for text in ("# TOY", "Ape, Bear: “A toy”, 2026.", "1 readings were tried", "| a | b | c |"):
        assert text in page
    assert page.index("What it comes to") < page.index("| item |") < page.index("## How it was done")


def test_figures_are_judged_at_the_scale_of_the_paper(paper, tmp_path):
    item = replace(paper.items[0], judge=lambda runs: outcome(absolute=True))
    save(tmp_path, paper, item, "paper", item.outcome({}, "paper"), seeds=3, n_runs=3, wall_s=60)
    assert "Of 1 claims judged, **0 hold, 1 do not" in write_page(tmp_path, paper).read_text()


def test_outcomes_of_another_version_are_shown_and_not_counted(paper, tmp_path):
    item = paper.items[0]
    save(tmp_path, paper, item, "laptop", outcome(), seeds=3, n_runs=3, wall_s=60)
    file = tmp_path / "toy" / "one-laptop.json"
    old = json.loads(file.read_text())
    del old["numbers"]
    file.write_text(json.dumps(old))
    page = write_page(tmp_path, paper).read_text()
    assert "Of 0 claims judged" in page and "1 of the items below were made with another version" in page
    assert f"Made with version 1 of the numbers; this is version {NUMBERS}." in page


def test_a_page_is_written_from_what_was_saved_without_a_run(paper, run, tmp_path, capsys):
    save(tmp_path / "out", paper, paper.items[0], "laptop", outcome(), seeds=3, n_runs=3, wall_s=60)
    run(page_only=True)
    assert json.loads(capsys.readouterr().out)["page"] == str(tmp_path / "out" / "toy.md")
    assert "1 ✘" in (tmp_path / "out" / "toy.md").read_text() and not (tmp_path / "cache").exists()
    with pytest.raises(ValueError, match="holds no outcome of toy"):
        run(page_only=True, folder=tmp_path / "empty")


def test_the_command_has_both_options(paper, tmp_path):
    options = ["reproduce", "toy:one", "--out", str(tmp_path), "--cache", str(tmp_path / "cache")]
    planned = CliRunner().invoke(app, [*options, "--dry-run"])
    assert planned.exit_code == 0 and "runs to make" in planned.output, planned.output
    save(tmp_path, paper, paper.items[0], "laptop", outcome(), seeds=3, n_runs=3, wall_s=60)
    written = CliRunner().invoke(app, [*options, "--page"])
    assert written.exit_code == 0 and (tmp_path / "toy.md").exists(), written.output


def test_five_seeds_at_laptop_scale_unless_an_item_takes_long():
    seeds = {(name, item.key): item.n_seeds("laptop") for name in PAPERS for item in load(name).items}
    few = {label for label, n in seeds.items() if n == 3}
    assert few == {("hhfl", "fig14"), ("csahfl", "cifar10"), ("csahfl", "svhn")}
    assert set(seeds.values()) == {3, 5}


@pytest.mark.parametrize("name", PAPERS)
def test_papers_are_called_by_their_own_titles_and_list_their_readings(name):
    title = {
        "hhfl": ("Hybrid Hierarchical Federated Learning over 5G/NextG Wireless Networking", "Liu"),
        "ltc": (
            "Hierarchical Federated Learning in Device-to-Device Networks with Learning-Topology Co-Optimization",
            "Wu",
        ),
        "ddc": ("Data- and distance-aware clustering for scalable wireless federated learning", "Chen"),
        "csahfl": (
            "CSAHFL: Clustered Semi-Asynchronous Hierarchical Federated Learning for Dual-layer Non-IID in Heterogeneous "
            "Edge Computing Networks",
            "Li",
        ),
        "camu": (
            "Cluster-Aware Multi-Round Update for Wireless Federated Learning in Heterogeneous Environments",
            "Sun",
        ),
    }
    paper = load(name)
    assert (paper.title, paper.authors[0]) == title[name]
    assert len(paper.readings) >= 4 and len(set(paper.readings)) == len(paper.readings)


def test_claims_are_tallied_by_what_they_count_as():
    assert tally([{"verdict": {"state": HOLDS}}, {"verdict": {"state": OPEN}}]) == {HOLDS: 1, OPEN: 1}
    assert find_items("csahfl:fig4a")[1][0].title.startswith("Fig. 4(a)")


def test_an_outcome_says_whose_files_were_used(paper, run, small, tmp_path, monkeypatch):
    task = {key: value for key, value in small["task"].items() if key != "gaussian"} | {"dataset": "svhn"}
    item = replace(
        paper.items[0],
        setups=lambda scale: {"flat": Setup(scenario={**small, "task": task}, method="fedavg")},
        judge=lambda runs: Outcome(claims=()),
    )
    monkeypatch.setattr(fedloom.reproduce, "find_items", lambda text: (paper, (item,)))
    monkeypatch.setattr("fedloom.cli.reproduction.make_runs", lambda *args, **options: None)
    monkeypatch.setattr("fedloom.cli.reproduction.read_kept", lambda file: SimpleNamespace(summary={"wall_s": 1.0}))
    run("toy:one", own_data="svhn,mnist")
    saved = json.loads((tmp_path / "out" / "toy" / "one-laptop.json").read_text())
    assert saved["own_data"] == ["svhn"]
    run("toy:one")
    assert "own_data" not in json.loads((tmp_path / "out" / "toy" / "one-laptop.json").read_text())
