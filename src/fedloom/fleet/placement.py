"""Where devices and cells stand. Positions are (K, 2) or (K, 3) in metres; every draw takes its generator."""

from collections.abc import Sequence, Set

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedloom import _check
from fedloom.fleet import cells

Array = NDArray[np.float64]

MOST_DEVICES = 1_000_000
FAR_M = 1e9  # no device is farther away
_INSIDE = 1 - 1e-9  # keeps a point that is drawn in a disc inside of it whatever the rounding


def disc(n: int, radius_m: float, rng: np.random.Generator, centre_m: ArrayLike = (0.0, 0.0)) -> Array:
    """`n` points, uniform by area in a disc: (n, 2)."""
    _check.whole("n", n, least=0)
    centre = _check.array("centre_m", centre_m, (2,))
    return around_cells(centre[None], radius_m, n, rng)


def square(n: int, side_m: float, rng: np.random.Generator, centre_m: ArrayLike = (0.0, 0.0)) -> Array:
    """`n` points, uniform in a square of `side_m`: (n, 2)."""
    _check.whole("n", n, least=0)
    _check.positive("side_m", side_m)
    return _check.array("centre_m", centre_m, (2,)) + rng.uniform(-side_m / 2, side_m / 2, (n, 2))


def rectangles(
    regions_m: ArrayLike, counts: Sequence[int], rng: np.random.Generator, z_m: float | None = None
) -> Array:
    """Uniform in each of R rectangles (x_min, x_max, y_min, y_max): (sum of `counts`, 2), region by region.

    With a height `z_m` the points are (.., 3).
    """
    regions = _check.array("regions_m", regions_m, (None, 4))
    if len(counts) != len(regions):
        raise ValueError(f"counts must have one number per region ({len(regions)}), got {len(counts)}")
    for index, (x_min, x_max, y_min, y_max) in enumerate(regions.tolist()):
        _check.whole(f"counts[{index}]", counts[index], least=0)
        if x_min > x_max or y_min > y_max:
            raise ValueError(
                f"region {index} must be (x_min, x_max, y_min, y_max) with min <= max, "
                f"got {(x_min, x_max, y_min, y_max)}"
            )
    of_device = np.repeat(regions, counts, axis=0)  # (K, 4)
    points = rng.uniform(of_device[:, [0, 2]], of_device[:, [1, 3]])
    if z_m is None:
        return points
    return np.column_stack([points, np.full(len(points), z_m)])


def around_cells(
    centres_m: ArrayLike, radius_m: ArrayLike, per_cell: int | Sequence[int], rng: np.random.Generator
) -> Array:
    """Uniform by area in the disc of each cell: (K, 2), the devices of cell 0 first.

    `centres_m` (N, 2); `radius_m` one number or (N,); `per_cell` one count or one per cell, K is their sum.
    """
    centres = _check.array("centres_m", centres_m, (None, 2))
    radii = cells.per_cell_radius(radius_m, len(centres))
    if not np.isfinite(radii).all():
        raise ValueError("radius_m must be finite to place devices inside of it; give the cells a radius")
    counts = [per_cell] * len(centres) if isinstance(per_cell, int | np.integer) else list(per_cell)
    if len(counts) != len(centres):
        raise ValueError(f"per_cell must be one count or one per cell ({len(centres)}), got {len(counts)}")
    for index, count in enumerate(counts):
        _check.whole(f"per_cell[{index}]", count, least=0)
    n = sum(counts)
    r = np.repeat(radii, counts) * np.sqrt(rng.uniform(size=n)) * _INSIDE
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.repeat(centres, counts, axis=0) + np.column_stack([r * np.cos(angle), r * np.sin(angle)])


def radius_at(cell_m: Array, radius_m: Array, cell: NDArray[np.int64], height_m: Array) -> Array:
    """Radius (M,) of the disc that each of M cells cuts out of the plane at a height (M,)."""
    if cell_m.shape[1] == 2:
        return radius_m[cell]
    square = radius_m[cell] ** 2 - (cell_m[cell, 2] - height_m) ** 2
    if (square <= 0).any():
        first = int(np.argmax(square <= 0))
        raise ValueError(
            f"cell {cell[first]} (height {cell_m[cell[first], 2]:g} m, radius {radius_m[cell[first]]:g} m) "
            f"does not reach devices at a height of {height_m[first]:g} m; enlarge radius_m"
        )
    cut: Array = np.sqrt(square)
    return cut


def box(positions_m: Array, centres_m: Array, radius_m: Array) -> tuple[float, float, float, float]:
    """x_min, x_max, y_min, y_max of the rectangle around positions (K, 2), and around cells (N, 2) of radius_m (N,) unless one
    reaches everybody."""
    low = high = positions_m
    if np.isfinite(radius_m).all():
        low = np.concatenate([low, centres_m - radius_m[:, None]])
        high = np.concatenate([high, centres_m + radius_m[:, None]])
    (x_min, y_min), (x_max, y_max) = low.min(axis=0).tolist(), high.max(axis=0).tolist()
    if not (x_min < x_max and y_min < y_max):
        raise ValueError(
            f"devices that move need an area, and all of them are on one line, x {x_min:g}..{x_max:g} m, "
            f"y {y_min:g}..{y_max:g} m; give mobility.area_m: [x_min, x_max, y_min, y_max]"
        )
    return x_min, x_max, y_min, y_max


def cell_grid(shape: str, n: int, spacing_m: float) -> Array:
    """Centres (n, 2) of cells whose nearest neighbours are `spacing_m` apart.

    triangle: three centres (0, 0), (d, 0), (d/2, d sqrt(3)/2). hex: the first n points of a hexagonal spiral
    around (0, 0), ring by ring. line: (0, 0), (d, 0), (2d, 0), ...

    >>> cell_grid("line", 3, 100.0).tolist()
    [[0.0, 0.0], [100.0, 0.0], [200.0, 0.0]]
    """
    _check.one_of("shape", shape, ["triangle", "hex", "line"])
    _check.whole("n", n)
    _check.positive("spacing_m", spacing_m)
    height = np.sqrt(3) / 2
    if shape == "triangle":
        if n != 3:
            raise ValueError(f"shape triangle has n = 3 cells, got n = {n}; use hex or line for other numbers")
        return spacing_m * np.array([[0.0, 0.0], [1.0, 0.0], [0.5, height]])
    if shape == "line":
        return spacing_m * np.column_stack([np.arange(n, dtype=np.float64), np.zeros(n)])
    steps = [(-0.5, height), (-1.0, 0.0), (-0.5, -height), (0.5, -height), (1.0, 0.0), (0.5, height)]
    points = [(0.0, 0.0)]
    ring = 0
    while len(points) < n:
        ring += 1
        x, y = float(ring), 0.0  # one side after the other, from the point straight to the right
        for dx, dy in steps:
            for _ in range(ring):
                points.append((x, y))
                x, y = x + dx, y + dy
    return spacing_m * np.array(points[:n])


def in_region(
    centres_m: ArrayLike,
    radius_m: ArrayLike,
    wanted: Sequence[Set[int]],
    rng: np.random.Generator,
    max_draws: int = 1_000_000,
) -> Array:
    """Positions (K, 2) such that device i is inside exactly the cells `wanted[i]`, uniform in that region.

    Rejection sampling in the smallest box around the discs of the wanted cells. A region from which not one
    of `max_draws` points came is taken to be empty and refused.
    """
    centres = _check.array("centres_m", centres_m, (None, 2))
    radii = cells.per_cell_radius(radius_m, len(centres))
    devices: dict[frozenset[int], list[int]] = {}
    for device, cell_set in enumerate(wanted):
        if not cell_set or not cell_set <= set(range(len(centres))):
            raise ValueError(
                f"device {device} must want at least one of the cells 0..{len(centres) - 1}, got {sorted(cell_set)}"
            )
        devices.setdefault(frozenset(cell_set), []).append(device)
    positions = np.empty((len(wanted), 2))
    for cell_set, members in devices.items():
        positions[members] = _draw_exactly_in(centres, radii, cell_set, len(members), rng, max_draws)
    return positions


def three_cells(
    exclusive: int = 14, pair: int = 4, triple: int = 3, overlap: int | None = None
) -> tuple[list[frozenset[int]], NDArray[np.int64]]:
    """Three cells: `exclusive` devices in each, `pair` in each overlap of two, `triple` in that of all three.

    Returns the cells each device is in reach of, and homes (K,), K = 3 (exclusive + pair) + triple, with the
    counts of HHFL, section V-A, and a numbering of ours: cell after cell, and within cell n first the exclusive devices,
    then half of the pair (n, next), half of the pair (n, previous), a third of the triple. So every cell is
    the home of equally many.

    With `overlap` devices are relocated, equally many per cell, until that many of the K are in reach of more
    than one cell (the sweep of HHFL, section V-B3; who moves is ours). Numbers and homes stay as they were, so a method that uses
    homes only sees no difference. To shrink, these positions of every cell become exclusive: the last of
    (n, previous), the last of (n, next), the last but one of (n, previous), ..., then the triple from its
    last. To grow, the exclusive devices leave from the last one on, alternately for (n, next) and
    (n, previous). `overlap=21` from the default counts is HHFL's case 6.

    >>> reach, home = three_cells()
    >>> len(reach), sorted(reach[18]), home[[0, 18, 19]].tolist()
    (57, [0, 1, 2], [0, 0, 1])
    >>> reach, _ = three_cells(overlap=21)
    >>> [sorted(reach[k]) for k in (11, 12, 13)]
    [[0], [0, 2], [0, 1]]
    """
    for name, value in (("exclusive", exclusive), ("pair", pair), ("triple", triple)):
        _check.whole(name, value, least=0)
    if pair % 2:
        raise ValueError(f"pair must be even (half of each overlap is dealt to either cell), got {pair}")
    if triple % 3:
        raise ValueError(f"triple must be divisible by 3 (a third is dealt to each cell), got {triple}")
    areas = ["own"] * exclusive + ["next"] * (pair // 2) + ["previous"] * (pair // 2) + ["all"] * (triple // 3)
    if overlap is not None:
        check_overlap(overlap, 3 * len(areas))
        areas = _relocated(areas, overlap // 3)
    reach: list[frozenset[int]] = []
    for n in range(3):
        cells_of = {
            "own": frozenset({n}),
            "next": frozenset({n, (n + 1) % 3}),
            "previous": frozenset({n, (n - 1) % 3}),
            "all": frozenset({0, 1, 2}),
        }
        reach += [cells_of[area] for area in areas]
    return reach, np.repeat(np.arange(3), len(areas))


def check_overlap(overlap: int, n_devices: int) -> None:
    """`overlap` devices of `n_devices` in three cells: a multiple of 3, and not more than there are."""
    _check.whole("overlap", overlap, least=0)
    if overlap % 3 or overlap > n_devices:
        raise ValueError(
            f"overlap must be a multiple of 3 (every cell has as many) in 0..{n_devices}, the number of devices; "
            f"got {overlap}: use {min(overlap - overlap % 3, n_devices)}, or other counts per region"
        )


def _relocated(areas: Sequence[str], n_overlap: int) -> list[str]:
    """Where each position of a cell is after relocation: own, next, previous or all, `n_overlap` not in own."""
    last_first = {
        area: [k for k, here in reversed(list(enumerate(areas))) if here == area]
        for area in ("own", "next", "previous", "all")
    }
    leaving = [k for both in zip(last_first["previous"], last_first["next"]) for k in both] + last_first["all"]
    n_more = n_overlap - len(leaving)
    moved = dict.fromkeys(leaving[: max(-n_more, 0)], "own")
    moved |= {k: ("next", "previous")[turn % 2] for turn, k in enumerate(last_first["own"][: max(n_more, 0)])}
    return [moved.get(k, area) for k, area in enumerate(areas)]


def _draw_exactly_in(
    centres: Array, radii: Array, cell_set: frozenset[int], n: int, rng: np.random.Generator, max_draws: int
) -> Array:
    inside = sorted(cell_set)
    low = (centres[inside] - radii[inside, None]).max(axis=0)
    high = (centres[inside] + radii[inside, None]).min(axis=0)
    target = np.isin(np.arange(len(centres)), inside)
    found: list[Array] = []
    n_found = n_drawn = 0
    while n_found < n and (low < high).all() and (n_found or n_drawn < max_draws):
        points = rng.uniform(low, high, (min(4096, 64 * n), 2))
        hits = points[(cells.reach(points, centres, radii) == target[:, None]).all(axis=0)]
        found.append(hits)
        n_found, n_drawn = n_found + len(hits), n_drawn + len(points)
    if n_found < n:
        raise ValueError(
            f"no point is inside exactly the cells {inside} (centres {centres[inside].tolist()}, "
            f"radius {radii[inside].tolist()} m): the region is empty; change radius_m or the distance of "
            "the centres (two discs overlap if d < 2r, three on a triangle if r > d/sqrt(3))"
        )
    return np.concatenate(found)[:n]
