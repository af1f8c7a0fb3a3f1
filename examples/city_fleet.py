"""Makes city-fleet.csv: 300 sound sensors of a made-up city, for `fedloom plan examples/city-fleet.csv`.

Streets run on a turned grid through six districts and along a river that nobody stands in. Three kinds of devices: lamps
(slow, weak radio, never heads), kiosks and gateways (few, fast, may serve many). What they hear depends on the district.

python examples/city_fleet.py > examples/city-fleet.csv
"""

import csv
import sys

import numpy as np

LATITUDE, LONGITUDE = 48.2, 11.6  # of the old town
METRES_PER_DEGREE = 111_195
CLASSES = ("car", "tram", "bicycle", "voices", "siren", "construction", "birds", "music")
#            east, north, spread (m), share, what is heard there
DISTRICTS = {
    "oldtown": (0, 0, 420, 0.28, (1, 4, 4, 8, 1, 1, 1, 6)),
    "station": (-1300, 350, 330, 0.17, (5, 8, 2, 5, 3, 1, 0.3, 1)),
    "harbour": (1500, -900, 450, 0.16, (4, 0.3, 1, 1, 1, 9, 2, 0.3)),
    "campus": (700, 1300, 380, 0.15, (1, 2, 8, 5, 0.5, 2, 3, 2)),
    "gardens": (-900, -1300, 520, 0.14, (1, 0.3, 3, 2, 0.3, 0.3, 9, 1)),
    "hospital": (1700, 500, 300, 0.10, (4, 1, 1, 2, 9, 0.5, 2, 0.3)),
}
#           share, steps per s, dBm, capacity, candidate, samples
KINDS = {
    "lamp": (0.78, 12, 10, 1, "no", 120),
    "kiosk": (0.16, 40, 14, 25, "yes", 260),
    "gateway": (0.06, 90, 20, 60, "yes", 420),
}


def river_m(east: float) -> float:
    """How far north the middle of the river is."""
    return -480 + 160 * np.sin(east / 700) - 0.12 * east


def place(rng: np.random.Generator, east: float, north: float, spread: float) -> tuple[float, float]:
    """On a street of the district: two in three stand along the grid's east-west streets, the others along the crossing ones."""
    while True:
        x, y = rng.normal(0, spread, 2).clip(-1.9 * spread, 1.9 * spread)
        if rng.random() < 2 / 3:
            y = 110 * round(y / 110) + rng.normal(0, 4)
        else:
            x = 140 * round(x / 140) + rng.normal(0, 4)
        turned = east + 0.94 * x - 0.34 * y, north + 0.34 * x + 0.94 * y
        if abs(turned[1] - river_m(turned[0])) > 70:
            return turned


def main(n: int = 300, seed: int = 7) -> None:
    rng = np.random.default_rng(seed)
    names, shares = list(DISTRICTS), [district[3] for district in DISTRICTS.values()]
    kinds = rng.permutation(np.repeat(list(KINDS), [round(n * kind[0]) for kind in KINDS.values()]))
    out = csv.writer(sys.stdout, lineterminator="\n")
    columns = ("id", "latitude", "longitude", "steps_per_s", "tx_power_dbm", "capacity", "candidate")
    out.writerow([*columns, *(f"label_{name}" for name in CLASSES)])
    for number, kind in enumerate(kinds.tolist()):
        district = names[rng.choice(len(names), p=shares)]
        east, north, spread, _, heard = DISTRICTS[district]
        x, y = place(rng, east, north, spread)
        _, speed, power_dbm, capacity, candidate, samples = KINDS[kind]
        mix = rng.dirichlet(np.array(heard) / 2 + 0.05)
        counts = rng.multinomial(rng.poisson(samples), mix)
        latitude = LATITUDE + y / METRES_PER_DEGREE
        longitude = LONGITUDE + x / (METRES_PER_DEGREE * np.cos(np.deg2rad(LATITUDE)))
        speed *= rng.uniform(0.7, 1.3)
        where = f"{district}-{kind}-{number:03d}", f"{latitude:.6f}", f"{longitude:.6f}"
        out.writerow([*where, f"{speed:.1f}", power_dbm, capacity, candidate, *counts.tolist()])


if __name__ == "__main__":
    main()
