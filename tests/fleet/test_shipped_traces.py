"""The traces of shipped scenarios: the committed command makes them, and they are of the day that the scenario tells of."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest

from fedloom.fleet.table import read_fleet
from fedloom.fleet.trace import Paths
from fedloom.simulator import scenario

ROOT = Path(__file__).resolve().parents[2]
HOUR_S = 3600


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "folder"), [("make_city_trace", "city-trace"), ("make_factory_trace", "factory")])
def test_the_command_makes_the_files_that_are_shipped(name, folder, tmp_path):
    tool(name).main(tmp_path)
    shipped = ROOT / "scenarios" / folder
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in shipped.iterdir())
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (shipped / path.name).read_bytes()
    assert sum(path.stat().st_size for path in shipped.iterdir()) < 500_000


def fastest(moves):
    """m/s between two lines that are ten seconds apart or more: times are whole seconds."""
    return max(
        abs(x1 - x0) / (t1 - t0) + abs(y1 - y0) / (t1 - t0)
        for times, xs, ys in zip(moves.times_s, moves.x_m, moves.y_m)
        for (t0, x0, y0), (t1, x1, y1) in itertools.pairwise(zip(times, xs, ys))
        if t1 - t0 >= 10
    )


def test_the_city_sleeps_at_night_and_works_by_day():
    fleet = scenario("city-trace").fleet
    ids = read_fleet(ROOT / "scenarios" / "city-trace" / "devices.csv").ids
    phones = np.array([name.startswith("phone") for name in ids])
    moves = fleet.mobility
    start_m = np.array(fleet.placement.positions_m)[:, :2]
    where = Paths(moves.times_s, moves.x_m, moves.y_m, start_m)
    away = {h: (np.abs(where.at(h * HOUR_S) - start_m).sum(axis=1) > 50)[phones].mean() for h in (3, 11, 23.5)}
    assert away[3] == 0 and away[11] > 0.75 and away[23.5] < 0.05

    def moving(h):
        """Share of the phones that are on the way, in an hour on average."""
        spells = [where.at(h * HOUR_S + s + 30) - where.at(h * HOUR_S + s) for s in range(0, HOUR_S, 300)]
        return np.mean([(np.abs(moved).sum(axis=1) > 1)[phones].mean() for moved in spells])

    assert moving(3) == 0 and min(moving(7), moving(16)) > 2 * max(moving(11), moving(21))
    assert fastest(moves) < 12
    free = fleet.availability
    for k in np.flatnonzero(phones)[:60]:  # nobody is free to train on the way
        for (t0, x0, y0), (t1, x1, y1) in itertools.pairwise(zip(moves.times_s[k], moves.x_m[k], moves.y_m[k])):
            if (x0, y0) != (x1, y1) and t1 - t0 > 4:
                turns = np.searchsorted(free.changes_s[k], (t0 + t1) / 2, side="right")
                assert not free.first_on[k] ^ bool(turns % 2)


def test_vehicles_of_the_factory_stay_in_their_hall():
    moves = scenario("factory").fleet.mobility
    assert sum(len(times) > 1 for times in moves.times_s) == 24 and len(moves.times_s) == 60
    assert all(0 <= x <= 120 for xs in moves.x_m for x in xs) and all(0 <= y <= 60 for ys in moves.y_m for y in ys)
    assert fastest(moves) < 2.2
