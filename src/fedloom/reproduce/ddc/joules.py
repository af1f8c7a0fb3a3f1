"""Joules of Table 2 of DDC in every reading: of the constants, of D_ref, and of the capacity of a head."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.bounds.ddc_energy import MODEL_BITS, upload_j
from fedloom.record.runs import Run
from fedloom.reproduce import verdicts
from fedloom.reproduce.ddc.measures import Values, lengths, mean_member_m, note
from fedloom.reproduce.ddc.published import ALPHAS, CAPACITIES, ROUNDS, TABLE_2, TAU
from fedloom.reproduce.ddc.scoring import any_of
from fedloom.reproduce.ddc.setups import BAND_HZ, FACTORS, POWER_W
from fedloom.reproduce.paper import Claim, Outcome, Runs, Table
from fedloom.reproduce.verdicts import Verdict, mean, ratios, spread

Floats = NDArray[np.float64]
FLAT_BIT_S = 1e6  # of the reading in which distance does not matter


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Metres of uploads: of members (U - k,) and heads (k,), from everybody to the server (U,); members that share a head with
    each member, itself included (U - k,)."""

    member_m: Floats
    head_m: Floats
    everybody_m: Floats
    n_beside: Floats

    @classmethod
    def of(cls, run: Run) -> "Lengths":
        member_m, head_m, everybody_m = lengths(run)
        assert run.topology is not None
        first = run.topology.filter(run.topology["cloud_round"] == run.topology["cloud_round"].min()).sort("client")
        head = first["host"].to_numpy()
        n_members = np.bincount(head, minlength=len(head)) - 1
        n_beside = n_members[head][head != np.arange(len(head))]
        return cls(member_m=member_m, head_m=head_m, everybody_m=everybody_m, n_beside=n_beside.astype(float))


def _sum_j(metres: Floats, band_hz: float) -> float:
    """Joules of an upload over each of these distances, in a band each."""
    return float(upload_j(metres, power_w=POWER_W, bandwidth_hz=band_hz).sum())


def _total(members_j: float, heads_j: float, members_every: int = TAU[0]) -> float:
    return ROUNDS // members_every * members_j + ROUNDS // TAU[1] * heads_j


def in_band(at: Lengths, band_hz: float) -> float:
    """The same band for every link."""
    return _total(_sum_j(at.member_m, band_hz), _sum_j(at.head_m, band_hz))


def _shared(at: Lengths, every: int = TAU[0]) -> float:
    band_hz = BAND_HZ / len(at.everybody_m)
    return _total(_sum_j(at.member_m, band_hz), _sum_j(at.head_m, band_hz), every)


def _heads_share(at: Lengths) -> float:
    heads_j = _sum_j(at.head_m, BAND_HZ / len(at.head_m))
    return _total(_sum_j(at.member_m, BAND_HZ / len(at.everybody_m)), heads_j)


def _clusters_share(at: Lengths) -> float:
    sizes = np.unique(at.n_beside)
    members_j = sum(_sum_j(at.member_m[at.n_beside == n], BAND_HZ / n) for n in sizes.tolist())
    return _total(members_j, _sum_j(at.head_m, BAND_HZ / len(at.head_m)))


def _downlinks(at: Lengths) -> float:
    """Heads answer their members in every round, the server everybody in every second one."""
    down = _total(_sum_j(at.member_m, BAND_HZ), _sum_j(at.everybody_m, BAND_HZ))
    return in_band(at, BAND_HZ) + down


def _flat_rate(at: Lengths) -> float:
    each_j = POWER_W * MODEL_BITS / FLAT_BIT_S
    return _total(each_j * len(at.member_m), each_j * len(at.head_m))


CONSTANTS: dict[str, Callable[[Lengths], float]] = {
    "literal: 1 MHz for every link": lambda at: in_band(at, BAND_HZ),
    "shared: 1 MHz for all devices together": _shared,
    "per_global: as shared, members once for two rounds": lambda at: _shared(at, TAU[1]),
    "members as shared, heads share 1 MHz": _heads_share,
    "1 MHz shared inside each cluster, and by heads": _clusters_share,
    "1 MHz for every link, twice the uploads": lambda at: 2 * in_band(at, BAND_HZ),
    "1 MHz for every link, downlinks at 10 mW too": _downlinks,
    "1 Mbit/s at every distance": _flat_rate,
}
FITTED = "a band fitted to 132 J at alpha 0.5"


def fitted_band_hz(at: Sequence[Lengths], joules: float) -> float:
    """The band of every link with which these clusters spend so many joules on average: joules fall as the band grows."""
    low, high = 1e2, 1e8  # Hz
    for _ in range(40):
        middle = math.sqrt(low * high)
        spent = float(np.mean([in_band(one, middle) for one in at]))
        low, high = (middle, high) if spent > joules else (low, middle)
    return math.sqrt(low * high)


def judge_joules(runs: Runs) -> Outcome:
    """All readings, and whether one of them gives the published joules."""
    rows: list[tuple[str, ...]] = []
    near: list[Verdict] = []
    distance: dict[str, float] = {}
    for capacity, factor in itertools.product(CAPACITIES, FACTORS):
        by_alpha = [runs[capacity, factor if (capacity, factor, a) in runs else 1.0, a] for a in ALPHAS]
        at = [[Lengths.of(run) for run in same] for same in by_alpha]
        middle = at[ALPHAS.index(0.5)]
        band_hz = fitted_band_hz(middle, TABLE_2[0.5][1])
        readings = CONSTANTS | {FITTED: lambda one, band_hz=band_hz: in_band(one, band_hz)}
        for name, joules in readings.items():
            found: list[Values] = [[joules(one) for one in same] for same in at]
            over = [ratios([TABLE_2[a][1]] * len(v), v) for a, v in zip(ALPHAS, found)]
            each = [verdicts.within(r, 0.9, 1.1) for r in over]
            label = f"{name}; D_ref x {factor:g}; capacity {capacity}"
            distance[label] = 100 * max(abs(mean(r) - 1) for r in over)
            near.append(Verdict(verdicts.worst(*each), label, min(v.n for v in each)))
            rows.append((label, *(spread(v) for v in found), f"{distance[label]:.0f} %"))
    rows.append(("published", *(f"{TABLE_2[a][1]:.0f}" for a in ALPHAS), "–"))
    columns = ("reading", *(f"alpha {a:g}" for a in ALPHAS), "largest distance")
    text = f"one of {len(near)} readings gives all five published joules within 10 %"
    best = min(distance, key=lambda label: distance[label])
    return Outcome(
        claims=(Claim(text=text, verdict=any_of(near), own=True),),
        tables=(
            Table(title=f"Joules of 200 rounds in {len(near)} readings", columns=columns, rows=tuple(rows)),
            _clusters(runs),
        ),
        ours=f"Nearest of {len(near)}, by its largest distance, {distance[best]:.0f} %: {best}.",
    )


def _clusters(runs: Runs) -> Table:
    """What D_ref does to the clusters."""
    rows = tuple(
        (f"capacity {c}, D_ref x {f:g}, alpha {a:g}", spread(mean_member_m(same)), spread(note(same, "cosine")))
        for (c, f, a), same in runs.items()
    )
    return Table(title="Clusters", columns=("", "m to head", "c(C)"), rows=rows)
