"""Joules by a device's own meter."""

import pytest

from fedloom.deployment.meters import Rapl, meter_of


def counters(folder, *values, full=1000_000_000):
    for i, value in enumerate(values):
        package = folder / f"intel-rapl:{i}"
        (package / f"intel-rapl:{i}:0").mkdir(parents=True, exist_ok=True)
        (package / "energy_uj").write_text(f"{value}\n")
        (package / "max_energy_range_uj").write_text(f"{full}\n")


def test_the_counters_of_all_processors_are_added_and_may_begin_anew(tmp_path):
    counters(tmp_path, 100, 999_000_000)
    (tmp_path / "intel-rapl:0:0").mkdir()  # a part of the first, which counts it already
    meter = Rapl(tmp_path)
    assert meter() == 0.0
    counters(tmp_path, 2_000_100, 1_000_000)  # 2 J; and 1 J up to where it is full, 1 J after
    assert meter() == pytest.approx(4.0)
    counters(tmp_path, 2_500_100, 1_000_000)
    assert meter() == pytest.approx(4.5)


def test_no_counters_say_so(tmp_path):
    with pytest.raises(ValueError, match="there are no counters of energy"):
        Rapl(tmp_path)


def test_a_meter_of_ones_own_is_called_with_the_name_of_the_node(tmp_path, monkeypatch):
    (tmp_path / "my_meter.py").write_text("used = {'device-3': 1.5}\ndef joules(node):\n    return used[node]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    meter = meter_of("my_meter:joules", "device-3")
    assert meter() == 1.5
    assert meter_of(None, "device-3") is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere_to_be_found:joules", "is not to be found on device-3"),
        ("joules", "a meter: named MODULE:FUNCTION"),
        ("json:dumps", "must give joules used so far, a number; on device-3 it gave"),
    ],
)
def test_a_meter_that_does_not_work_says_why_at_start(name, why):
    with pytest.raises(ValueError, match=why):
        meter_of(name, "device-3")
