"""How soon audits find a head or edge server that lies, and how often they suspect or accuse an honest one.

    python tools/audit_study.py --seeds 10               over all methods, attacks and ways below: a line each, and the sums
    python tools/audit_study.py --only ddc --audit sketch    of methods whose name begins so, and one audit

A run is a small fleet (12 devices, 3 cells, softmax) with a third of the heads or edge servers hostile. Every claim of every
report is compared with what it should have been, so that it is known who lied when; rounds are counted in reports of the liar,
from the first in which one of its claims was a lie, that one included.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import fedloom as fl
from fedloom.mixing.audit import differs
from fedloom.simulator.auditing import Auditing
from fedloom.simulator.trails import Case, Trail, Verdict

METHODS = {
    "hierfedavg": "edges",
    "hhfl": "edges",
    "ltc:n_clusters=3:box_s=6": "heads",
    "ddc": "heads",
    "camu": "heads",
}
ATTACKS: dict[str, dict[str, Any]] = {
    "sign-flip": {"kind": "sign-flip"},
    "scale": {"kind": "scale", "factor": 2.0},
    "noise": {"kind": "noise", "std": 0.01},
    "replay": {"kind": "replay", "lag": 1},
    "withhold": {"kind": "withhold"},
}
AUDITS = ("sketch", "recompute")
HONEST = {
    "sketch": ("", "up=gaussian:up.noise=0.1"),
    "recompute": (
        "",
        "up=qsgd:up.bits=4",
        "up=topk:up.share=0.1",
        "down=float16",
        "merge_edge=coordinate_median",
        "rule=scaffold",
    ),
}
ROUNDS = 5


class Watched(Auditing):
    """Notes what was true of every report: cases, by (kind, host), whether a claim was a lie, and the verdict."""

    cases: list[tuple[tuple[str, int], bool, Verdict]]

    def _looked_at(self, trail: Trail) -> list[Any]:
        return [trail.given, *(model for claim, _ in trail.claims for model in (claim.sent, claim.true))]

    def _verdict(self, case: Case, key: int, sketches: Any) -> Verdict:
        found = super()._verdict(case, key, sketches)
        lied = any(differs(claim.sent.row, claim.true.row, claim.noise_std) for claim, _ in case.trail.claims)
        self.cases.append((case.report[:2], lied, found))
        return found


def scenario(hostile: dict[str, Any] | None) -> fl.Scenario:
    content: dict[str, Any] = {
        "name": "audited",
        "description": "twelve devices in three overlapping cells",
        "fleet": {
            "n_devices": 12,
            "cells": {"kind": "grid", "shape": "line", "n": 3, "spacing_m": 100, "radius_m": 80},
            "placement": {"kind": "cells"},
            "device_edge": {"up": {"kind": "radio"}, "down": {"kind": "rate", "bit_s": 1e6}},
            "device_cloud": {
                "via": "direct",
                "up": {"kind": "radio", "antennas": 4},
                "down": {"kind": "rate", "bit_s": 1e6},
            },
            "compute": {"law": {"kind": "uniform", "low": 0.1, "high": 0.4}, "power_w": 1.0},
        },
        "task": {
            "dataset": "gaussian",
            "gaussian": {"n_classes": 4, "n_features": 16, "n_train": 480, "n_test": 80},
            "partition": {"kind": "classes", "classes_per_client": 2},
            "model": {"kind": "softmax"},
        },
        "training": {"batch_size": 8, "local_steps": 2, "edge_rounds": 2, "cloud_rounds": ROUNDS, "lr": 0.1},
    }
    return fl.scenario(content | ({"hostile": hostile} if hostile else {}))


def watched(method: str, hostile: dict[str, Any] | None, seed: int) -> list[tuple[tuple[str, int], bool, Verdict]]:
    """All reports of a run, in order."""
    simulation = fl.Simulation(scenario(hostile), fl.make_method(method), seed, n_workers=1)
    simulation.federation.auditing.__class__ = Watched
    cases = simulation.federation.auditing.cases = []
    for _ in simulation.rounds():
        pass
    return cases


def to_be_found(cases: list[tuple[tuple[str, int], bool, Verdict]]) -> Iterator[int | None]:
    """Of every liar with as many reports after its first lie as count, or who was found: after how many it was; None if not in
    three."""
    by_host = defaultdict(list)
    for who, lied, verdict in cases:
        by_host[who].append((lied, verdict.found))
    for reports in by_host.values():
        since = next((i for i, (lied, _) in enumerate(reports) if lied), None)
        if since is None:
            continue
        found = next((i for i, (_, f) in enumerate(reports[since:], 1) if f), None)
        if found is not None or len(reports) - since >= 3:
            yield found if found is not None and found <= 3 else None


def liars(seeds: int, methods: dict[str, str], audits: Sequence[str]) -> None:
    total: dict[str, Counter[str]] = defaultdict(Counter)
    for audit in audits:
        for method, role in methods.items():
            for to in ("cloud", "members", "both"):
                line = []
                for name, attack in ATTACKS.items():
                    some: list[int | None] = []
                    for seed in range(seeds):
                        cases = watched(
                            f"{method}:audit={audit}", {role: {"share": 1 / 3, "attack": attack, "to": to}}, seed
                        )
                        some += to_be_found(cases)
                        total[audit]["honest reports"] += sum(not lied for _, lied, _ in cases)
                        total[audit]["accused"] += sum(v.found and not lied for _, lied, v in cases)
                    found = sum(n is not None for n in some)
                    total[audit].update({"liars": len(some), "found": found, "at once": some.count(1)})
                    line.append(f"{name} {found}/{len(some)}")
                print(f"{audit:9} {method.partition(':')[0]:10} to {to:7}  {'  '.join(line)}", flush=True)
        print(f"{audit}: {dict(total[audit])}", flush=True)


def honest(seeds: int, methods: dict[str, str], audits: Sequence[str]) -> None:
    """A third of the clients lies to the audit, or none does."""
    for audit in audits:
        sums: Counter[str] = Counter()
        for variant in HONEST[audit]:
            for lies in (False, True):
                counts: Counter[str] = Counter()
                for method in methods:
                    hostile = {"clients": {"share": 1 / 3, "lies": {"sketches": "flip"}}} if lies else None
                    text = ":".join(part for part in (f"{method}:audit={audit}", variant) if part)
                    for seed in range(seeds):
                        for _, lied, verdict in watched(text, hostile, seed):
                            assert not lied
                            suspected = audit == "sketch" and verdict.opened > 0
                            counts.update({"reports": 1, "suspected": suspected, "accused": verdict.found})
                sums.update(counts)
                print(
                    f"{audit:9} {variant or 'as it is':28} {'members lie' if lies else '':12} {dict(counts)}",
                    flush=True,
                )
        print(f"{audit}: {dict(sums)}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--audit", choices=AUDITS)
    chosen = parser.parse_args()
    mine = {method: role for method, role in METHODS.items() if method.startswith(chosen.only)}
    audits = AUDITS if chosen.audit is None else (chosen.audit,)
    liars(chosen.seeds, mine, audits)
    honest(chosen.seeds, mine, audits)
