"""Predicted beside measured in a record and its report."""

import json
from dataclasses import replace

import polars
import pytest

from fedloom.record.files import FolderError
from fedloom.record.folder import record
from fedloom.record.measured import (
    by_device,
    bytes_by_device,
    edge_rounds,
    hop_amounts,
    overhead,
    read_measured,
    round_ratios,
    write_measured,
)
from fedloom.record.report import write_report
from fedloom.record.runs import read_run
from fedloom.record.timeline import dispatches
from fedloom.record.verify import verify
from fedloom.simulator import Scenario, Simulation, make_method


def job(send, client, predicted, measured):
    """predicted, measured: seconds to fetch, train, send, and of it all."""
    names = ("fetch_s", "train_s", "send_s", "all_s")
    head = {"cloud_round": 1, "edge_round": send + 1, "send": send, "client": client, "start_s": float(send)}
    return head | {f"predicted_{n}": p for n, p in zip(names, predicted)} | dict(zip(names, measured))


JOBS = [
    job(0, 0, (1.0, 2.0, 1.0, 4.0), (1.0, 2.0, 1.1, 4.4)),
    job(0, 1, (1.0, 5.0, 1.0, 7.0), (1.2, 5.0, 1.2, 8.4)),
    job(1, 0, (1.0, 2.0, 1.0, 4.0), (1.0, 2.0, 1.5, 5.0)),
    job(1, 1, (1.0, 5.0, 1.0, 7.0), (None, None, None, None)),  # was given up
]
MEASURED = {
    "model": {"counted_bytes": 1000, "carried_bytes": 400},
    "jobs": {name: [line[name] for line in JOBS] for name in JOBS[0]},
    "hops": [
        {
            "hop": "device_edge",
            "direction": "up",
            "predicted": {"bytes": 4000, "airtime_s": 4.0, "energy_j": 0.0},
            "measured": {"bytes": 1200, "airtime_s": 3.8, "energy_j": 0.0},
        }
    ],
    "carried": [
        {
            "node": "device-0",
            "called": "edge-0",
            "values_sent": 800,
            "values_got": 400,
            "letters_sent": 900,
            "letters_got": 500,
        },
        {
            "node": "device-1",
            "called": "device-0",
            "values_sent": 400,
            "values_got": 40,
            "letters_sent": 500,
            "letters_got": 90,
        },
    ],
    "wire": [{"node": "device-0", "bytes": 1500}, {"node": "edge-0", "bytes": 700}],
}


@pytest.fixture
def folder(small, tmp_path):
    small["training"]["cloud_rounds"] = 1
    simulation = Simulation(Scenario.model_validate(small), make_method("hierfedavg"), n_workers=1)
    record(simulation, "hierfedavg", tmp_path / "run")
    return tmp_path / "run"


def test_an_edge_round_lasts_until_the_last_of_those_who_came_back():
    rounds = edge_rounds(MEASURED)
    assert [(one.seconds.predicted, one.seconds.measured) for one in rounds] == [(7.0, 8.4), (4.0, 5.0)]
    assert round_ratios(MEASURED) == [pytest.approx(1.2), pytest.approx(1.25)]


def test_devices_are_told_by_their_medians():
    found = by_device(MEASURED)
    assert found[0]["send_s"].measured == pytest.approx((1.1 + 1.5) / 2)
    assert found[0]["all_s"].ratio == pytest.approx(4.7 / 4)
    assert found[1]["all_s"].measured == 8.4


def test_what_a_head_is_sent_counts_for_both():
    assert bytes_by_device(MEASURED) == {0: (800 + 40, 400 + 400), 1: (400, 40)}


def test_bytes_are_counted_by_hop_and_in_all():
    assert hop_amounts(MEASURED)["device_edge", "up"]["bytes"].ratio == pytest.approx(0.3)
    assert overhead(MEASURED) == {"values": 1640, "letters": 1990, "wire": 2200}


def test_what_was_measured_belongs_to_the_record_and_is_shown(folder):
    write_measured(folder, MEASURED)
    assert verify(folder).sound
    run = read_run(folder)
    assert run.measured == MEASURED
    page = write_report([run], folder / "report.html").read_text()
    assert '<a href="#measured">Measured</a>' in page
    assert "Measured over predicted: median 1.2" in page
    assert "A model is counted as 1,000 bytes and carried as 400." in page
    assert "34.1% more than the values" in page  # 2200 / 1640
    assert "fedloom deploy local scenario.yaml" in page and "are measured;" in page
    assert "Does not add up: bytes: 1200 here" in page  # these are not the figures of this run's ledger


def test_a_simulated_run_has_no_such_section(folder):
    page = write_report([read_run(folder)], folder / "report.html").read_text()
    assert "Predicted beside measured" not in page and "are simulated." in page


def test_an_update_that_never_came_is_drawn_as_it_was_predicted(folder, tmp_path):
    run = read_run(folder)
    lost = run.timeline.with_columns(arrival_s=polars.lit(float("nan")), merged_s=polars.lit(None, polars.Float64))
    found = dispatches(replace(run, timeline=lost), 1)
    assert found.spans.sum() == pytest.approx(sum(lost[name].sum() for name in ("fetch_s", "compute_s", "upload_s")))
    write_report([replace(run, timeline=lost)], tmp_path / "report.html")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"jobs": {}}, "its jobs are not the whole columns"),
        ({"jobs": MEASURED["jobs"] | {"client": [1]}}, "its jobs are not the whole columns"),
        ({"hops": None}, "it has no hops"),
    ],
)
def test_a_damaged_one_is_refused(folder, change, why):
    content = {key: value for key, value in (MEASURED | change).items() if value is not None}
    write_measured(folder, content)
    with pytest.raises(FolderError, match=why):
        read_measured(folder)


def test_one_that_was_changed_is_found(folder):
    write_measured(folder, MEASURED)
    path = folder / "measured.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"wire": None}))
    assert [misfit.file for misfit in verify(folder).misfits] == ["measured.json"]


def test_without_a_record_there_is_nothing_to_add_to(tmp_path):
    with pytest.raises(FolderError, match="holds no record yet"):
        write_measured(tmp_path, MEASURED)
