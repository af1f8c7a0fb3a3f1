"""What hostile participants cost, and what defences save: flat, hierarchical, overlapping and D2D federations, over five seeds.

    python tools/hostile_study.py             makes what is missing of docs/hostile_study.json, then docs/hostile_study.md
    python tools/hostile_study.py --page      only the page
    python tools/hostile_study.py --minutes 5 stops after so long, with the page of what there is

Every run is scenario, method and seed as `fedloom run` makes it. Not every combination is run: one thing is varied at a time,
from a fifth of hostile clients anywhere. Stopped and started again it goes on.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import hostile_page
from hostile_page import FIFTH, FRESH, HEAD, LONGER, MEAN, NOBODY, SHIPPED, SYSTEMS

import fedloom as fl
from fedloom.mixing import robust
from fedloom.record.files import write_whole

DOCS = Path(__file__).resolve().parents[1] / "docs"
RESULTS, PAGE = DOCS / "hostile_study.json", DOCS / "hostile_study.md"
SEEDS = range(5)
AT_ONCE = 20  # runs that are written together

OWN_DATA = ["task.model={kind: softmax}", "training.edge_rounds=2"]  # those of cells-overlap: one class a client
SMALL = [  # digits, a network of 1,210 values, links of every kind so that every method runs
    "task.dataset=digits",
    "task.partition={kind: dirichlet, concentration: 1.0}",
    "task.model={kind: mlp, hidden: [16]}",
    "training={batch_size: 10, local_steps: 5, edge_rounds: 2, cloud_rounds: 10, lr: 0.2}",
    "fleet.device_device={kind: rate, bit_s: 3.0e+5, sigma: 0.5, power_w: 0.1}",
    "fleet.device_cloud={via: direct, up: {kind: radio, antennas: 4}, down: {kind: rate, bit_s: 1.0e+7}}",
]
METHODS = {
    "flat": "fedavg",
    "hierarchical": "hierfedavg",
    "overlapping": "hhfl",
    "D2D": "ddc",
    "hhfl": "hhfl",
    "csahfl": "csahfl",
    "ltc": "ltc:n_clusters=6:box_s=0.6",
    FRESH: "ltc:n_clusters=6:box_s=0.6:keep_progress=false",
    "ddc": "ddc",
    "camu": "camu",
    SHIPPED: "hhfl",
    LONGER: "hhfl",
}
F = {"flat": (17, 13), "hierarchical": (6, 4), "D2D": (3, 1)}  # hostile models that Krum and Bulyan are to withstand
DEFENCES = {
    MEAN: None,
    "coordinate median": lambda _: robust.coordinate_median(),
    "trimmed mean": lambda _: robust.trimmed_mean(0.3),
    "geometric median": lambda _: robust.geometric_median(),
    "multi-Krum": lambda where: robust.multi_krum(F.get(where, (6, 4))[0]),
    "Bulyan": lambda where: robust.bulyan(F.get(where, (6, 4))[1]),
    "norm clipping": lambda _: robust.norm_clipping(0.7),
    "centred clipping": lambda _: robust.centred_clipping(0.7),
    "trust": lambda _: robust.trust(),
    "reputation": lambda _: robust.reputation(),
}
ATTACKS = {
    "sign flip": "{kind: sign-flip}",
    "sign flip, 4 times": "{kind: sign-flip, factor: 4}",
    "noise": "{kind: noise, std: 0.1}",
    "ALIE": "{kind: alie}",
    "IPM": "{kind: ipm, factor: 2}",
    "min-max": "{kind: min-max}",
    "label flip": "{kind: label-flip}",
    "free riders": "{kind: free-rider}",
}
OF_HEADS = {"sign flip, 4 times": "{kind: sign-flip, factor: 4}", "withheld": "{kind: withhold}"}


class Job(NamedTuple):
    """where: a topology, a system, or the scenario's own data. who: share of clients, "bridging 0.2", or "a head"."""

    where: str
    defence: str
    attack: str
    who: str
    seed: int

    @property
    def key(self) -> str:
        return " | ".join(map(str, self))


def wanted() -> Iterator[Job]:
    """All runs, what matters most first, and three seeds of everything before the others."""
    cells, flips = ("overlapping", "flat", "hierarchical"), ("sign flip", "sign flip, 4 times")
    few, strong = (
        (MEAN, "trimmed mean", "geometric median", "multi-Krum", "reputation"),
        (flips[1], "ALIE", "label flip"),
    )
    places, shares = ("bridging 0.2", "one-cell 0.2"), ("0.1", "0.3")
    blocks = (
        *(
            [(where, d, a, FIFTH if a != NOBODY else "0") for a in (NOBODY, *flips) for d in DEFENCES]
            for where in cells
        ),
        [(s, MEAN, a, FIFTH if a != NOBODY else "0") for a in (NOBODY, *flips) for s in SYSTEMS],
        [(s, MEAN, a, HEAD) for s in ("hierarchical", *SYSTEMS) for a in OF_HEADS],
        [("overlapping", d, a, who) for a in (flips[1], "label flip") for who in places for d in few],
        [(SHIPPED, d, a, FIFTH if a != NOBODY else "0") for a in (NOBODY, flips[0]) for d in DEFENCES],
        [(FRESH, MEAN, a, FIFTH if a != NOBODY else "0") for a in (NOBODY, flips[1])],
        [(LONGER, d, a, FIFTH if a != NOBODY else "0") for a in (NOBODY, *flips) for d in DEFENCES],
        [(where, d, a, FIFTH) for a in strong[1:] for where in cells for d in DEFENCES],
        [(s, MEAN, a, FIFTH) for a in strong[1:] for s in SYSTEMS],
        [("D2D", d, NOBODY, "0") for d in few] + [("D2D", d, a, FIFTH) for a in (*flips, *strong[1:]) for d in few],
        [(where, d, strong[0], share) for share in shares for where in cells for d in DEFENCES],
        [(where, d, a, FIFTH) for a in ATTACKS for where in cells for d in DEFENCES],
        [(where, d, a, share) for share in shares for where in cells for d in DEFENCES for a in strong],
        [("D2D", d, strong[0], share) for share in shares for d in few],
        [(s, "trimmed mean", a, FIFTH if a != NOBODY else "0") for a in (NOBODY, *strong) for s in SYSTEMS],
    )
    for seeds in (SEEDS[:3], SEEDS[3:]):
        for block in blocks:
            yield from (Job(*case, seed) for seed in seeds for case in block)


def run(job: Job) -> dict[str, Any]:
    """Accuracy at the end, and what the run took."""
    began_s = time.process_time()
    found = fl.simulate(scenario(job), method(job), seed=job.seed, n_workers=1, timeline=False).metrics
    return {"accuracy": round(found["accuracy"][-1], 5), "took_s": round(time.process_time() - began_s, 2)}


def scenario(job: Job) -> fl.Scenario:
    """With those who are hostile."""
    changes = OWN_DATA if job.where == SHIPPED else SMALL
    looks = "evaluation={every: 10, models: global, local_samples: 0}"
    rounds = f"training.cloud_rounds={30 if job.where == LONGER else 10}"
    return fl.scenario("cells-overlap", [*changes, rounds, looks, *_hostile(job)])


def method(job: Job) -> fl.Method:
    """With the defence where clients are averaged."""
    made, rule = fl.make_method(METHODS[job.where]), DEFENCES[job.defence]
    if rule is None:
        return made
    root = robust.Root(samples=100) if job.defence == "trust" else None
    return made.with_(merge_edge=robust.at_edge(rule(job.where), made.merge_edge.weigh, root))


def _hostile(job: Job) -> list[str]:
    if job.attack == NOBODY:
        return []
    if job.who == HEAD:
        kind, number = leader(job.where, job.seed)
        return [f"hostile={{{kind}: [{number}], attack: {OF_HEADS[job.attack]}}}}}"]
    where, share = job.who.split() if " " in job.who else ("anywhere", job.who)
    return [f"hostile={{clients: {{share: {share}, where: {where}, attack: {ATTACKS[job.attack]}}}}}"]


@cache
def leader(where: str, seed: int) -> tuple[str, int]:
    """The device that is head in most cloud rounds if nobody is hostile, or the first cell."""
    simulation = fl.Simulation(
        scenario(Job(where, MEAN, NOBODY, "0", seed)), fl.make_method(METHODS[where]), seed, n_workers=1
    )
    heads: Counter[int] = Counter()
    kind = "edge"
    for _ in simulation.rounds():
        if simulation.cloud_rounds_done:
            topology = simulation.federation.machines.topology
            kind = topology.kind
            heads.update(topology.host.tolist())
    return ("edges: {cells", 0) if kind == "edge" else ("heads: {devices", heads.most_common(1)[0][0])


def as_lines(runs: dict[str, dict[str, Any]]) -> bytes:
    """JSON with a line for each run."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in runs.items())
    return f"{{\n{lines}\n}}\n".encode()


def _write(runs: dict[str, dict[str, Any]], jobs: list[Job]) -> None:
    write_whole(RESULTS, as_lines({job.key: runs[job.key] for job in jobs if job.key in runs}))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--page", action="store_true", help="only the page")
    options.add_argument("--minutes", type=float, default=float("inf"), help="begin no run after so long")
    given = options.parse_args()
    until_s = time.monotonic() + 60 * given.minutes
    runs: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    jobs = list(dict.fromkeys(wanted()))
    missing = [job for job in jobs if job.key not in runs and not given.page]
    try:
        for n, job in enumerate(missing):
            if time.monotonic() > until_s:
                break
            runs[job.key] = run(job)
            print(f"{len(runs)} of {len(jobs)}: {job.key}, {runs[job.key]}", flush=True)
            if n % AT_ONCE == 0:
                _write(runs, jobs)
    finally:
        _write(runs, jobs)
    PAGE.write_text(hostile_page.page(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
