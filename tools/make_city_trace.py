"""Make the measurements of the scenario city-trace: where 300 devices of a small city are on a working day, when they are free to
train, and when they are plugged in. Nothing of it was measured: it is drawn by the rules below.

    python tools/make_city_trace.py [FOLDER]        by default scenarios/city-trace

240 phones live in six quarters, 700 to 1,200 m from the centre. 204 of their owners go to work, two in three downtown and the
others in an industrial park in the east; the rest stay at home but for an errand. They go by streets that run east-west and
north-south, on foot below 800 m and else by car or bus, with commuting peaks about 7:30 and 16:30; three in ten go out in the
evening. A phone is not free to train on the way and while it is used, some eight minutes in every forty by day; nine in ten are
plugged in at night, and four in ten of those who work for a while on the desk. 30 taxis go from customer to customer in a shift
of eleven hours, and are off else; 30 kiosks stand in the streets. Both need no battery.
"""

import csv
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

FOLDER = Path(__file__).resolve().parents[1] / "scenarios" / "city-trace"
N_PHONES, N_TAXIS, N_KIOSKS = 240, 30, 30
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
PARK_M = np.array([1050.0, 150.0])

Point = np.ndarray
Spell = tuple[float, float]


class Day(NamedTuple):
    """Of a device: lines of its way (s, x, y); spells in which it is free to train; spells in which it is plugged in."""

    way: list[tuple[float, float, float]]
    free: list[Spell]
    plugged: list[Spell]


def go(way: list[tuple[float, float, float]], leaves_s: float, to: Point, speed_m_s: float) -> float:
    """Go on by streets, first east or west; returns when it is there."""
    _, x, y = way[-1]
    way.append((leaves_s, x, y))
    now_s = leaves_s
    for corner in ((to[0], y), (to[0], to[1])):
        far_m = abs(corner[0] - way[-1][1]) + abs(corner[1] - way[-1][2])
        if far_m >= 1:
            now_s += far_m / speed_m_s
            way.append((now_s, corner[0], corner[1]))
    return now_s


def around(rng: np.random.Generator, middle: Point, sigma_m: float) -> Point:
    return np.asarray(middle + sigma_m * np.clip(rng.normal(size=2), -2, 2))


def hour(rng: np.random.Generator, mean: float, sigma: float) -> float:
    """Seconds from midnight, of an hour that differs by up to two sigmas."""
    return float(HOUR_S * (mean + sigma * np.clip(rng.normal(), -2, 2)))


def speed(rng: np.random.Generator, one: Point, other: Point) -> float:
    on_foot = np.abs(one - other).sum() < 800
    return float(rng.uniform(1.1, 1.6) if on_foot else rng.uniform(5, 9))


def between_uses(rng: np.random.Generator, begins_s: float, ends_s: float) -> list[Spell]:
    """When a phone lies about: 32 minutes, and then it is in hand for eight, on average."""
    spells, now_s = [], begins_s + rng.exponential(480)
    while now_s < ends_s:
        until_s = min(now_s + 60 + rng.exponential(1860), ends_s)
        spells.append((now_s, until_s))
        now_s = until_s + 30 + rng.exponential(450)
    return spells


def phone(rng: np.random.Generator, number: int, home: Point) -> Day:
    works, downtown = number % 20 < 17, rng.random() < 2 / 3
    wakes_s, sleeps_s = hour(rng, 6.6, 0.5), hour(rng, 22.9, 0.4)
    way = [(0.0, home[0], home[1])]
    free, plugged = [(0.0, wakes_s)], []
    if rng.random() < 0.9:
        plugged += [(0.0, wakes_s), (sleeps_s, 2 * DAY_S)]
    if works:
        leaves_s, ends_s = wakes_s + HOUR_S * rng.uniform(0.6, 1.2), hour(rng, 16.6, 0.6)
        place = around(rng, np.zeros(2) if downtown else PARK_M, 220 if downtown else 120)
    else:
        leaves_s, ends_s = hour(rng, 11, 1), hour(rng, 12.5, 0.5)
        place = around(rng, np.zeros(2), 300)
    fast = speed(rng, home, place)
    free += between_uses(rng, wakes_s, leaves_s)
    there_s = go(way, leaves_s, place, fast)
    free += between_uses(rng, there_s, ends_s)
    if works and rng.random() < 0.4:
        plugged.append((there_s + 600, there_s + 600 + HOUR_S * rng.uniform(1, 3)))
    back_s = go(way, ends_s, home, fast)
    if rng.random() < 0.3:
        out_s, bar = max(hour(rng, 19.2, 0.5), back_s + 1800), around(rng, np.zeros(2), 250)
        free += between_uses(rng, back_s, out_s)
        fast = speed(rng, home, bar)
        sat_s = go(way, out_s, bar, fast)
        again_s = sat_s + HOUR_S * rng.uniform(1, 2)
        free += between_uses(rng, sat_s, again_s)
        back_s = go(way, again_s, home, fast)
        sleeps_s = max(sleeps_s, back_s + 900)
        plugged = [
            (max(begin, sleeps_s), end) if begin > wakes_s and end > DAY_S else (begin, end) for begin, end in plugged
        ]
    free += [*between_uses(rng, back_s, sleeps_s), (sleeps_s, 2 * DAY_S)]
    return Day(way, free, sorted(plugged))


def taxi(rng: np.random.Generator) -> Day:
    """A shift by day or by night."""
    parked = around(rng, np.zeros(2), 500)
    begins_s = hour(rng, 6, 0.75) if rng.random() < 0.7 else hour(rng, 11.5, 0.75)
    way, now_s = [(0.0, parked[0], parked[1])], begins_s
    ends_s = begins_s + 11 * HOUR_S
    while now_s < ends_s - HOUR_S:
        to = around(rng, np.zeros(2), 600)
        now_s = go(way, now_s, to, float(rng.uniform(6, 11))) + rng.uniform(300, 1200)
    go(way, now_s, parked, 8.0)
    return Day(way, [(begins_s, ends_s)], [])


def city(seed: int = 0) -> tuple[list[dict[str, object]], list[Day]]:
    """What is known of each device, and its day."""
    rng = np.random.default_rng(seed)
    table, days = [], []
    for number in range(N_PHONES):
        turn = 2 * np.pi * (number % 6) / 6 + 0.5
        home = around(rng, rng.uniform(700, 1200) * np.array([np.cos(turn), np.sin(turn)]), 130)
        days.append(phone(rng, number, home))
        table.append(
            {
                "id": f"phone-{number:03d}",
                "steps_per_s": round(float(rng.uniform(0.025, 0.075)), 4),
                "tx_power_w": 0.2,
                "battery_wh": round(float(rng.uniform(6, 14)), 1),
                "indoor": "yes" if rng.random() < 0.5 else "no",
            }
        )
    for number in range(N_TAXIS + N_KIOSKS):
        drives = number < N_TAXIS
        place = around(rng, np.zeros(2), 600)
        days.append(taxi(rng) if drives else Day([(0.0, place[0], place[1])], [(0.0, 2 * DAY_S)], []))
        table.append(
            {
                "id": f"taxi-{number:02d}" if drives else f"kiosk-{number - N_TAXIS:02d}",
                "steps_per_s": 0.075 if drives else 0.04,
                "tx_power_w": 0.4,
                "battery_wh": "mains",
                "indoor": "no",
            }
        )
    for line, day in zip(table, days, strict=True):
        line["x_m"], line["y_m"] = (round(value) for value in day.way[0][1:])
    return table, days


def changes(spells: list[Spell]) -> list[tuple[int, int]]:
    """Seconds at which it is otherwise, and 1 if it is on then; off at all other times. Spells of no second are left out."""
    lines = [(0, 0)]
    for begin, end in ((round(begin), round(end)) for begin, end in spells):
        if end <= begin:
            continue
        if lines[-1][0] == begin:
            lines.pop()
        if not lines or lines[-1][1] == 0:
            lines.append((begin, 1))
        lines.append((end, 0))
    return [line for line in lines if line[0] < 2 * DAY_S]


def write(path: Path, header: list[str], rows: list[tuple[object, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def main(folder: Path) -> None:
    table, days = city()
    columns = ["id", "x_m", "y_m", "steps_per_s", "tx_power_w", "battery_wh", "indoor"]
    write(folder / "devices.csv", columns, [tuple(line[name] for name in columns) for line in table])
    names = [str(line["id"]) for line in table]
    ways = [
        (name, *at)
        for name, day in zip(names, days)
        for at in (
            {round(t): (round(t), round(x), round(y)) for t, x, y in day.way}.values() if len(day.way) > 1 else ()
        )
    ]
    write(folder / "positions.csv", ["device", "time_s", "x_m", "y_m"], ways)
    for file, which in (("free.csv", "free"), ("plugged.csv", "plugged")):
        spells = [(name, *line) for name, day in zip(names, days) for line in changes(getattr(day, which))]
        write(folder / file, ["device", "time_s", "on"], spells)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
