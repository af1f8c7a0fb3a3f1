"""Make the measurements of the scenario factory: where 36 machines stand in a hall of 120 by 60 m and 24 vehicles drive in an
hour. Nothing of it was measured: it is drawn by the rules below.

    python tools/make_factory_trace.py [FOLDER]        by default scenarios/factory

Machines stand in three lines of twelve. Four aisles run along the lines and three across; a vehicle drives on them at 1 to 2 m/s
from station to station, by the nearest aisle across, and stops at each for 20 to 60 s.
"""

import csv
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parents[1] / "scenarios" / "factory"
LINES_M, AISLES_M, ACROSS_M = (15.0, 30.0, 45.0), (7.0, 22.0, 37.0, 52.0), (4.0, 60.0, 116.0)
N_MACHINES, N_VEHICLES, HOUR_S = 12, 24, 3600.0

Line = tuple[float, float, float]


def drive(rng: np.random.Generator) -> list[Line]:
    """Lines of a vehicle's way (s, x, y)."""
    x, y = float(rng.uniform(8, 112)), float(rng.choice(AISLES_M))
    way, now_s = [(0.0, x, y)], float(rng.uniform(0, 60))
    speed_m_s = float(rng.uniform(1, 2))
    while now_s < HOUR_S:
        to_x, to_y = float(rng.uniform(8, 112)), float(rng.choice(AISLES_M))
        across = min(ACROSS_M, key=lambda at: abs(at - x) + abs(at - to_x))
        way.append((now_s, x, y))
        corners = [(across, y), (across, to_y), (to_x, to_y)] if to_y != y else [(to_x, y)]
        for corner_x, corner_y in corners:
            now_s += (abs(corner_x - x) + abs(corner_y - y)) / speed_m_s
            x, y = corner_x, corner_y
            way.append((now_s, x, y))
        now_s += float(rng.uniform(20, 60))
    return way


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    devices: list[tuple[object, ...]] = [
        (f"machine-{line}-{place:02d}", round(12 + 96 * place / (N_MACHINES - 1)), round(y), 4.0)
        for line, y in enumerate(LINES_M)
        for place in range(N_MACHINES)
    ]
    positions: list[tuple[object, ...]] = []
    for vehicle in range(N_VEHICLES):
        way = {round(t): (round(t), round(x, 1), round(y, 1)) for t, x, y in drive(rng)}
        devices.append((f"vehicle-{vehicle:02d}", *way[0][1:], 2.0))
        positions += [(f"vehicle-{vehicle:02d}", *line) for line in way.values()]
    for name, header, rows in (
        ("devices.csv", ["id", "x_m", "y_m", "steps_per_s"], devices),
        ("positions.csv", ["device", "time_s", "x_m", "y_m"], positions),
    ):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *rows])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
