"""`fedloom plan`: from a table to a plan, with what is wrong said clearly."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedloom.cli.app import app
from fedloom.grouping import exact_heads, head_problem
from fedloom.planning.head_search import _search
from fedloom.record.plan_words import si

pytestmark = pytest.mark.slow
CITY = Path(__file__).parents[2] / "examples" / "city-fleet.csv"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    lines = ["id,x_m,y_m,steps_per_s,tx_power_w,label_a,label_b"]
    for k in range(16):
        x, y = rng.uniform(-300, 300, 2)
        lines.append(f"d{k},{x:.1f},{y:.1f},{5 + k},{0.01 * (1 + k % 2)},{rng.integers(50)},{rng.integers(50)}")
    Path("fleet.csv").write_text("\n".join(lines))
    Path("bare.csv").write_text("x_m,y_m\n" + "\n".join(f"{x:.1f},{y:.1f}" for x, y in rng.uniform(0, 500, (8, 2))))
    return tmp_path


def plan(*args):
    """What the command prints; errors are raised as they are."""
    done = CliRunner().invoke(app, ["plan", *map(str, args)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def rows_of(file):
    with Path(file).open() as lines:
        return list(csv.DictReader(lines))


def test_a_plan_leaves_tables_a_map_and_a_page(here):
    found = json.loads(plan("fleet.csv", "--server", "1500,0", "--model-bytes", "20000", "--json", "--quiet"))
    folder, name = here / "plans" / "fleet-seconds", "for seconds"
    assert found["files"]["plan.html"] == "plans/fleet-seconds/plan.html"
    assert {path.name for path in folder.iterdir()} == set(found["files"])
    devices, clusters = rows_of(folder / "devices.csv"), rows_of(folder / "clusters.csv")
    assert [row["id"] for row in devices] == [f"d{k}" for k in range(16)]
    heads = {row["id"] for row in devices if row["is_head"] == "True"}
    assert {row["head"] for row in devices} == heads == {row["head"] for row in clusters}
    assert sum(int(row["devices"]) for row in clusters) == 16
    totals = found["per_cloud_round"]
    assert list(totals)[:4] == [name, "flat", "geographic", "k-means"]
    assert sum(float(row["joules"]) for row in devices) == pytest.approx(totals[name]["joules"], rel=1e-4)
    assert max(float(row["cloud_round_s"]) for row in clusters) == pytest.approx(totals[name]["seconds"])
    assert totals["flat"]["bytes"] == totals["flat"]["server_bytes"] == 16 * 5 * 2 * 20000
    assert totals[name]["server_bytes"] == len(heads) * 2 * 20000
    assert totals["flat"]["label_imbalance"] == 0 < totals[name]["label_imbalance"]
    assert set(found["would_improve"]) == {"capacity", "candidate", "battery_j"}
    saved = json.loads((folder / "plan.json").read_text())
    assert saved["per_cloud_round"] == totals and len(saved["devices"]) == 16
    assert (folder / "map.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "plan.html").read_text()
    assert page.count('id="map"') == 1 and "d15" in page and "http://" not in page.split("<body>")[1]


def test_positions_alone_are_enough_and_it_says_what_more_would_do(here):
    text = plan("bare.csv", "-m", "ddc")
    assert "8 devices, ddc; a cloud round is 5 edge rounds of 5 local steps" in text and "geographic" in text
    found = json.loads(plan("bare.csv", "-m", "ddc", "--json", "--quiet"))
    assert set(found["would_improve"]) == {
        *("steps_per_s", "tx_power_w", "label_<name>", "capacity", "candidate", "n_samples", "battery_j"),
    }
    assert "the server stands in the middle of the fleet" in found["notes"][0]
    assert found["per_cloud_round"]["ddc"]["label_imbalance"] is None


def test_the_same_seed_gives_the_same_plan(here):
    first, again = (json.loads(plan("fleet.csv", "--seed", 3, "--json", "-q")) for _ in range(2))
    assert first == again


def test_gradients_weigh_as_alpha_says(here):
    rng = np.random.default_rng(0)
    np.save("gradients.npy", rng.normal(size=(16, 5)))
    near = json.loads(plan("fleet.csv", "--gradients", "gradients.npy", "--alpha", 0, "--json", "-q"))
    mixed = json.loads(plan("fleet.csv", "--gradients", "gradients.npy", "--alpha", 0.9, "--json", "-q"))
    assert "--gradients" not in near["would_improve"]
    distance = [found["per_cloud_round"]["ddc"]["mean_distance_m"] for found in (near, mixed)]
    assert distance[0] < distance[1]


def test_a_proven_plan_for_a_handful(here):
    found = json.loads(plan("bare.csv", "--exact", "--candidates", 4, "--server", "2000,0", "--json", "-q"))
    said = found["notes"][0]
    assert said.startswith(
        "the plan is proven to have the least sum of the metres from devices to heads and from heads"
    )
    assert "for heads among the 4 devices considered (--candidates)" in said
    assert said.endswith("It is not proven for seconds, joules, the worst device or imbalance")


@pytest.mark.parametrize("method", ["geographic", "k-means", "ltc", "fedavg", "random_clusters"])
def test_other_methods_plan_too(here, method):
    found = json.loads(plan("fleet.csv", "--method", method, "--json", "-q"))
    assert found["method"] == method and (here / "plans" / f"fleet-{method}" / "plan.html").exists()
    boxed = any("time box of 120 s" in note for note in found["notes"])
    assert boxed == (method in ("ltc", "random_clusters"))


def test_the_size_of_a_model_by_its_name(here):
    found = json.loads(plan("bare.csv", "-m", "ddc", "--model", "softmax", "--json", "-q"))
    assert found["work"]["model_bytes"] == 4 * 7850


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nowhere.csv"], "there is no file nowhere.csv"),
        (["fleet.csv", "-m", "dcd"], "unknown method 'dcd'; did you mean ddc"),
        (["fleet.csv", "-m", "ddc:alpha=1"], "options of ddc in a plan are --alpha"),
        (
            ["fleet.csv", "-m", "geographic", "--alpha", 0.2],
            "--alpha is for method ddc, and has no effect on geographic",
        ),
        (["fleet.csv", "--alpha", 2], "alpha must be between 0 and 1, got 2"),
        (["bare.csv", "--alpha", 0.5], "nothing is known of the data: give gradients"),
        (["fleet.csv", "--server", "north"], "--server must be x,y in metres or latitude,longitude"),
        (["fleet.csv", "--server", "nan,0"], "--server must be finite"),
        (["fleet.csv", "--model", "softmax", "--model-bytes", 9], "leave out one of them"),
        (["fleet.csv", "--model", "gpt"], "model must be one of softmax"),
        (["fleet.csv", "--gradients", "short.npy"], "a row for each of the 16 devices of the fleet, got 3 rows"),
        (["fleet.csv", "--exact"], "can be proven for at most 12 devices, got 16"),
        (["tight.csv"], "the 2 devices that may be heads have room for 4 devices in all, and there are 6"),
        (["tight.csv", "--capacity", 3], "has a column capacity already"),
    ],
)
def test_bad_input_is_explained(here, args, message):
    np.save("short.npy", np.zeros((3, 2)))
    flags = ["yes", "yes", "no", "no", "no", "no"]
    Path("tight.csv").write_text(
        "x_m,y_m,capacity,candidate\n" + "\n".join(f"{k},0,2,{f}" for k, f in enumerate(flags))
    )
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        plan(*args, "--quiet")
    assert not Path("plans").exists()


def test_errors_are_one_line_and_exit_code_2(here):
    command = [sys.executable, "-m", "fedloom", "plan", "nowhere.csv"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "there is no file nowhere.csv" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ddc", "geographic", "k-means"])
def test_a_coded_method_is_planned_with_the_bytes_that_it_sends(here, method):
    args = ("fleet.csv", "--server", "1500,0", "--model-bytes", "20000", "--json", "--quiet")
    plain = json.loads(plan(*args, "--method", method))
    coded = json.loads(plan(*args, "--method", f"{method}:up=float16:down=float16"))
    assert coded["work"]["coded_bytes"] == [10000, 10000] and "coded_bytes" not in plain["work"]
    assert any("of a model 10 kB go up and 10 kB down, coded, in all plans" in note for note in coded["notes"])
    for name, totals in plain["per_cloud_round"].items():
        found = coded["per_cloud_round"].get(name)
        if found is not None and found["clusters"] == totals["clusters"]:
            assert 2 * found["server_bytes"] == totals["server_bytes"]
    assert coded["per_cloud_round"][method]["joules"] < plain["per_cloud_round"][method]["joules"]


@pytest.mark.full  # half a minute
def test_the_example_city(here):
    text = plan(CITY, "--model", "lenet5", "--out", "o")
    shown = (
        (CITY.parents[1] / "docs" / "plan.md").read_text(encoding="utf-8").split("```\n300 devices")[1].split("```")[0]
    )
    printed = [line.rstrip() for line in text.splitlines()]
    assert [line for line in shown.splitlines()[1:] if line not in printed] == []  # the page shows what is printed
    found = json.loads(Path("o/plan.json").read_text())
    totals = found["per_cloud_round"]
    assert found["n_devices"] == 300 and found["would_improve"].keys() == {"battery_j"}
    assert all(totals["for seconds"]["seconds"] <= one["seconds"] for one in totals.values())
    assert {"flat", "geographic", "k-means", "ddc", "ltc"} <= totals.keys()
    numbers = [row["clusters"] for row in found["by_number_of_clusters"]]
    assert totals["for seconds"]["clusters"] in numbers and len(numbers) > 3
    assert found["compared"][0].startswith("for seconds is the fastest")
    assert any("k-means was tried with k = 5 to 66 clusters" in note for note in found["notes"])


def test_one_figure_or_one_method_is_asked_for(here):
    with pytest.raises(ValueError, match="leave out one of them"):
        plan("bare.csv", "--for", "joules", "--method", "ddc")
    with pytest.raises(
        ValueError, match="--for must be one of seconds, joules, bytes, battery, balance, mix; got 'fun'"
    ):
        plan("bare.csv", "--for", "fun")
    with pytest.raises(ValueError, match="are for --method ddc; leave out --for"):
        plan("bare.csv", "--for", "joules", "--alpha", 0.2)


def test_rounds_and_powers_of_clusters_are_shown_where_they_differ(here):
    text = plan("fleet.csv", "--method", "camu:limit=waiting", "--server", "1500,0", "--model-bytes", "20000")
    assert "Per cluster" in text and "power mW" in text
    devices, clusters = (rows_of(here / "plans" / "fleet-camu" / f"{name}.csv") for name in ("devices", "clusters"))
    heads = {row["id"]: float(row["tx_power_w"]) for row in devices if row["is_head"] == "True"}
    shown = text.split("Per cluster")[1]
    assert all(f"{1000 * watt:.3g}" in shown for watt in heads.values())
    assert len({row["edge_rounds"] for row in clusters}) > 1
    assert "Per cluster" not in plan("fleet.csv", "--method", "geographic")


def test_the_terminal_and_the_page_say_how_the_plan_stands_against_simple_ones(here):
    text = plan("fleet.csv", "-m", "ddc", "--server", "1500,0", "--out", "o", "-q")
    saved = json.loads(Path("o/plan.json").read_text())
    totals, said = saved["per_cloud_round"], saved["compared"]
    simple = [totals[name] for name in totals if name != "ddc"]
    assert len(said) == 4 and all(line in text for line in said)
    assert all(line in Path("o/plan.html").read_text() for line in said)
    for line, (measure, unit) in zip(said, {"seconds": "s", "joules": "J", "most_joules_of_a_device": "J"}.items()):
        best, own = min(total[measure] for total in simple), totals["ddc"][measure]
        assert line.startswith("ddc") == (own < best)
        assert all(si(value, unit) in line for value in (best, own))


def test_the_best_k_can_be_planned_itself(here):
    rival = json.loads(plan("fleet.csv", "-m", "geographic", "--json", "-q"))["per_cloud_round"]["k-means"]
    found = json.loads(plan("fleet.csv", "--method", "k-means", "--json", "-q"))
    assert found["per_cloud_round"]["k-means"] == rival and "geographic" in found["per_cloud_round"]
    with pytest.raises(ValueError, match="k-means in a plan tries all numbers of clusters and has no options"):
        plan("fleet.csv", "--method", "k-means:n_clusters=3")
    with pytest.raises(ValueError, match="--alpha is for method ddc, and has no effect on k-means"):
        plan("fleet.csv", "--method", "k-means", "--alpha", 0.1)


def munich(*others):
    rng = np.random.default_rng(5)
    near = [
        f"m{k},{48.137 + dy:.6f},{11.575 + dx:.6f}" for k, (dy, dx) in enumerate(rng.uniform(-0.005, 0.005, (9, 2)))
    ]
    Path("munich.csv").write_text("\n".join(["id,lat,lon", *near, *others]))


def test_a_device_that_nothing_reaches_is_refused_by_name_and_decibels(here):
    munich("sydney,-33.8688,151.2093")
    with pytest.raises(
        ValueError, match=r"sydney is 1[0-9],[0-9]00 km away from .* more than a million years"
    ) as refused:
        plan("munich.csv")
    assert "dB too weak to carry it within a day. Correct the position, leave the device out" in str(refused.value)
    munich("nearly,48.27,11.575", "there,48.2701,11.575")  # near each other, 15 km from the server
    with pytest.raises(ValueError, match=r"ddc has .* report over 14.8 km to the server.*Give the server's position"):
        plan("munich.csv", "-m", "ddc", "--server", "48.137,11.575")


def test_a_slow_link_is_a_warning_in_the_terminal_and_on_the_page(here):
    munich("outside,48.172,11.575")  # 3.9 km
    done = CliRunner().invoke(
        app, ["plan", "munich.csv", "-m", "ddc", "--server", "48.137,11.575", "--out", "o", "--quiet"]
    )
    [said] = json.loads(Path("o/plan.json").read_text())["warnings"][:1]
    assert "outside reports over 3." in said and " dB short of a link that carries it within 10 min" in said
    assert f"warning: {said}" in done.stderr and 'class="warn">ddc: outside' in Path("o/plan.html").read_text()
    munich()
    assert json.loads(plan("munich.csv", "-m", "ddc", "--json", "-q"))["warnings"] == []


def test_degrees_come_back_in_the_tables(here):
    munich()
    plan("munich.csv", "--out", "o", "-q")
    given = {row["id"]: (float(row["lat"]), float(row["lon"])) for row in rows_of("munich.csv")}
    for row in rows_of("o/devices.csv"):
        assert (float(row["latitude"]), float(row["longitude"])) == given[row["id"]]
    for row in rows_of("o/clusters.csv"):
        assert (float(row["latitude"]), float(row["longitude"])) == given[row["head"]]
    saved = json.loads(Path("o/plan.json").read_text())
    assert saved["server_latitude_longitude"] == pytest.approx(np.mean(list(given.values()), axis=0), abs=1e-4)
    assert "(latitude, longitude)" in Path("o/plan.html").read_text()
    plan("bare.csv", "-m", "ddc", "--out", "metres", "-q")
    assert "latitude" not in rows_of("metres/devices.csv")[0]


def test_camu_keeps_to_the_power_of_every_head_and_to_the_joules_of_its_budget(here):
    args = "fleet.csv", "--server", "1500,0", "--json", "-q", "--out", "o"
    found = json.loads(plan(*args, "--method", "camu"))
    totals, power = found["per_cloud_round"], {row["id"]: float(row["tx_power_w"]) for row in rows_of("o/devices.csv")}
    own = {row["id"]: float(row["tx_power_w"]) for row in rows_of("fleet.csv")}
    assert all(power[name] <= own[name] * (1 + 1e-5) for name in own)
    assert totals["camu"]["joules"] <= totals["camu_ungated"]["joules"] * (1 + 1e-6)
    said = " ".join(found["notes"])
    assert "one after the other, from when all are ready; side by side" in said and "above their own" not in said
    assert found["compared"][0].startswith("not the same work: clusters of camu run")
    published = json.loads(plan(*args, "--method", "camu:own_power=false:link_energy=false"))
    assert "heads to send to the server above their own transmit power" in " ".join(published["notes"])
    assert "more than camu_ungated" in " ".join(published["notes"])


def run_takes_what_is_said(name, *options):
    """Plan fleet.csv into `o` and run three cloud rounds of that."""
    said = json.loads(plan("fleet.csv", *options, "--out", "o", "--json", "-q"))["per_cloud_round"][name]
    args = ["run", "--plan", "o/plan.json", "--dry-run", "--json", "--quiet", "--set", "training.cloud_rounds=3"]
    final = json.loads(CliRunner().invoke(app, args).stdout)["final"]
    assert final["time_s"] == pytest.approx(3 * said["seconds"], rel=1e-9)
    assert final["energy_j"] == pytest.approx(3 * said["joules"], rel=1e-9)
    assert final["bytes"] == 3 * said["bytes"]
    return said


def test_a_plan_with_shared_bands_and_coded_models_is_run_as_it_was_made(here):
    own = run_takes_what_is_said("ddc", "-m", "ddc:rule=ditto:up=float16", "--server", "900,0", "--compute-w", "0.5")
    shared = run_takes_what_is_said(
        "ddc", "-m", "ddc", "--server", "900,0", "--sharing", "time", "--server-sharing", "equal"
    )
    assert shared["bytes"] > own["bytes"] and shared["seconds"] > own["seconds"]
    with pytest.raises(ValueError, match=r"bands are shared by one of own, time, equal; got 'blocks'"):
        plan("fleet.csv", "--sharing", "blocks")


def test_a_plan_is_run_by_the_simulator_and_takes_what_it_says(here):
    said = run_takes_what_is_said("for joules", "--for", "joules", "--server", "900,0", "--rotate")
    again = json.loads(
        plan("fleet.csv", "--for", "joules", "--server", "900,0", "--keep", "o/plan.json", "--json", "-q")
    )
    assert again["per_cloud_round"]["for joules"]["joules"] <= said["joules"] * (1 + 1e-9)
    assert any("devices keep the head of the earlier plan" in note for note in again["notes"])
    with pytest.raises(ValueError, match=r"give a scenario .*, or a plan with --plan"):
        raise CliRunner().invoke(app, ["run", "--dry-run"]).exception


def test_who_is_out_of_reach_is_named_and_left_out_if_asked_for(here):
    munich("sydney,-33.8688,151.2093")
    found = json.loads(plan("munich.csv", "--for", "joules", "--leave-out", "--out", "o", "--json", "-q"))
    assert found["n_devices"] == 9 and found["warnings"][0].startswith("sydney is left out: the nearest that could")
    assert "dB too weak" in found["warnings"][0]
    munich()
    near = json.loads(plan("munich.csv", "--for", "joules", "--out", "n", "--json", "-q"))
    assert near["per_cloud_round"]["for joules"] == found["per_cloud_round"]["for joules"]
    map_of = json.loads(Path("o/plan.geojson").read_text())
    points = [f for f in map_of["features"] if f["geometry"]["type"] == "Point"]
    given = {row["id"]: [float(row["lon"]), float(row["lat"])] for row in rows_of("munich.csv")}
    assert {f["properties"]["id"]: f["geometry"]["coordinates"] for f in points[:9]} == given
    assert len(map_of["features"]) == 9 + 1 + 9 and points[-1]["properties"] == {"id": "server"}


def test_a_wider_band_makes_rounds_shorter_and_must_be_positive(here):
    narrow, wide = (
        json.loads(plan("fleet.csv", "-m", "ddc", "--bandwidth-hz", hz, "--json", "--quiet"))["per_cloud_round"][
            "flat"
        ]["seconds"]
        for hz in ("1e6", "2e7")
    )
    assert wide < narrow
    for option in ("--bandwidth-hz=-4", "--bandwidth-hz=1e300", "--compute-w=inf", "--compute-w=-1"):
        refused = CliRunner().invoke(app, ["plan", "fleet.csv", option])
        assert refused.exit_code == 2 and option.partition("=")[0] in refused.output


def test_heads_in_the_middle_have_room_if_there_is_some_and_else_are_counted(here):
    line = [f"{100 * k},0,{1 if k else 9},yes" for k in range(9)]  # only the first has room for all
    Path("room.csv").write_text("\n".join(["x_m,y_m,capacity,candidate", *line]))
    found = json.loads(plan("room.csv", "--method", "geographic", "--json", "--quiet"))
    assert not any("more devices" in note for note in found["notes"])
    few = [f"{100 * k},0,2,{'yes' if k < 2 else 'no'}" for k in range(9)]
    Path("few.csv").write_text("\n".join(["x_m,y_m,capacity,candidate", *few]))
    found = json.loads(plan("few.csv", "--method", "geographic", "--json", "--quiet"))
    said = [note for note in found["notes"] if "more devices than their capacity" in note]
    assert [note.partition(" heads")[0] for note in said] == ["geographic: 1 of 2", "k-means: 1 of 2"]


def test_a_proof_says_among_which_heads(here):
    rng = np.random.default_rng(3)
    Path("twelve.csv").write_text("x_m,y_m\n" + "\n".join(f"{x:.0f},{y:.0f}" for x, y in rng.uniform(0, 500, (12, 2))))
    rows = [f"{x:.0f},{y:.0f},{k},{9 - k}" for k, (x, y) in enumerate(rng.uniform(0, 500, (8, 2)))]
    Path("labels.csv").write_text("\n".join(["x_m,y_m,label_a,label_b", *rows]))
    text = json.loads(plan("twelve.csv", "--exact", "--json", "--quiet"))["notes"][0]
    assert "to the server, for heads among the 10 devices considered (--candidates): 0." in text
    text = json.loads(plan("bare.csv", "--exact", "--json", "--quiet"))["notes"][0]
    assert "to the server, for heads: 0." in text
    text = json.loads(plan("labels.csv", "--exact", "--alpha", 0.3, "--json", "--quiet"))["notes"][0]
    assert "the least sum of 0.7 times the metres" in text
    assert "plus 0.3 times the likeness of gradients inside clusters for heads: " in text


def test_labels_that_tell_nothing_do_not_change_the_plan(here):
    rng = np.random.default_rng(4)
    places = [f"{x:.1f},{y:.1f}" for x, y in rng.uniform(0, 800, (40, 2))]
    plans = {}
    for name, columns, values in (
        ("none", "", ""),
        ("even", ",label_a,label_b", ",5,5"),
        ("zero", ",label_a,label_b", ",0,0"),
    ):
        Path(f"{name}.csv").write_text("\n".join([f"x_m,y_m{columns}", *(place + values for place in places)]))
        plans[name] = json.loads(plan(f"{name}.csv", "-m", "ddc", "--server", "2000,0", "--json", "--quiet"))
    assert len({p["per_cloud_round"]["ddc"]["clusters"] for p in plans.values()}) == 1
    assert [any("play no part" in note for note in p["notes"]) for p in plans.values()] == [False, True, True]


def test_ids_and_titles_are_no_markup(here):
    Path("a$_$b.csv").write_text("id,x_m,y_m\n[/b],0,0\n[/i],100,0\n[/u],50,0")
    assert "around [/" in plan("a$_$b.csv")


@pytest.mark.parametrize(
    ("files", "args", "message"),
    [
        (
            {"g.npz": b"PK\x03\x04 broken"},
            ["bare.csv", "--gradients", "g.npz"],
            "g.npz: cannot be read as an .npz file of 11 bytes",
        ),
        (
            {"g.npy": b"xx"},
            ["bare.csv", "--gradients", "g.npy"],
            "g.npy: no header of an array .*; the file is damaged",
        ),
        ({"g.csv": b"\xff\xfe1"}, ["bare.csv", "--gradients", "g.csv"], "g.csv, line 1: not a text file: byte 0xff"),
        ({"far.csv": b"x_m,y_m\n1e200,0\n0,0"}, ["far.csv"], "line 2, column x_m: expected a number in"),
        ({}, ["bare.csv", "--server", "1e200,0"], "a point must be within 1e.09 m"),
        ({"out": b""}, ["bare.csv", "--out", "out"], "out is a file; --out is the folder"),
        ({"b.csv": b"x_m,y_m,latitude,longitude\n0,0,1,1"}, ["b.csv"], "positions in metres and in degrees"),
    ],
)
def test_more_that_can_be_wrong(here, files, args, message):
    for name, content in files.items():
        Path(name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        plan(*args, "--quiet")


def test_columns_without_a_name_are_ignored(here):
    Path("sheet.csv").write_text("x_m,y_m,,\n0,0,,\n100,0,,\n50,90,,")
    assert any("(column 3), (column 4)" in note for note in json.loads(plan("sheet.csv", "--json", "--quiet"))["notes"])


def test_where_capacities_differ_the_search_begins_twice():
    gaps = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        problem = head_problem(
            rng.uniform(0, 300, (7, 2)),
            np.array([1000.0, 0.0]),
            rng.normal(size=(7, 4)),
            alpha=0.2,
            candidates=np.arange(7),
            capacity=rng.integers(1, 8, 7) + (np.arange(7) == 0) * 6,
            weighting="size",
        )
        best = exact_heads(problem).scores.objective
        gaps.append(_search(problem, np.random.default_rng(0), None).scores.objective / best - 1)
    assert min(gaps) > -1e-9 and max(gaps) < 0.05, gaps
