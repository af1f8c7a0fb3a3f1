"""Short runs of every method in every situation the clock knows, and digests of all that comes out of them."""

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fedloom.methods import METHODS
from fedloom.methods.method import Method
from fedloom.pacing import fixed_deadline, median_iqr, time_sharing
from fedloom.protocol import Rounds
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.simulator.scenarios import names
from fedloom.simulator.timeline import table
from small import for_method

ROAMING = {"fleet": {"mobility": {"p_stay": 0.5, "neighbours": "path", "every": "edge-round"}}}
JITTER = {"fleet": {"compute": {"jitter_sigma": 0.5}}}
SITUATIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "moving": {"fleet": {"mobility": {"p_stay": 0.5, "neighbours": "complete"}}},
    "roaming": ROAMING,
    "sampled": {"training": {"participation": 0.5}},
    "few": {"training": {"clients_per_round": 1}} | JITTER,
    "jitter": JITTER,
    "redrawn": {"fleet": {"redraw": {"links": "cloud-round", "compute": "cloud-round"}}},
    "epochs": {"training": {"local_steps": None, "local_epochs": 1}},
    "once": {"fleet": {"device_edge": {"uplink": "once"}}},
    "air": {
        "fleet": {
            "air": {
                "up": {"sharing": "equal"},
                "down": {"sharing": "time", "broadcast": True},
                "d2d": {"sharing": "blocks", "band": "all"},
                "cloud": {"up": {"sharing": "time"}, "down": {"sharing": "equal"}},
            }
        }
    }
    | JITTER,
    "looked at": {"evaluation": {"every": {"edge_rounds": 1}, "models": "devices"}} | ROAMING,
    "all": {
        "fleet": {
            "mobility": ROAMING["fleet"]["mobility"],
            "compute": JITTER["fleet"]["compute"],
            "redraw": {"links": "cloud-round", "compute": "cloud-round"},
        },
        "training": {"participation": 0.5},
    },
    "theory": {"evaluation": {"theory": True}},
    "steps": {"training": {"total_steps": 13}},
}
BOX_S = {
    "cells-overlap": 2,
    "city-trace": 1800,
    "d2d-mesh": 120,
    "disc-100": 2,
    "edge-mobility": 60,
    "factory": 60,
    "hostile": 2,
    "two-regions": 0.5,
}  # a few rounds
SHORT = ["training.cloud_rounds=2", "task.model={kind: softmax}"]

Change = Callable[[Method], Method]
VARIANTS: dict[str, tuple[str, Change | None]] = {
    "csahfl drop": ("csahfl:drop_at_cloud=true:alpha=0", None),
    "csahfl lost": ("csahfl:lost_on_move=true:alpha=0", None),
    "csahfl cluster": ("csahfl:after_cloud=cluster", None),
    "csahfl half": ("csahfl:after_cloud=0.5:early_close=false", None),
    "csahfl scope": ("csahfl:interval_scope=cluster:quantity_scope=last", None),
    "hhfl stages": ("hhfl:stages=[[0,1,2],[4,2,1]]", None),
    "hhfl grow": ("hhfl:grow=true", None),
    "hhfl links": ("hhfl:max_links=1", None),
    "hierfedavg reported": ("hierfedavg:cloud_weights=reported", None),
    "ddc warm": ("ddc:warmup_rounds=2:capacity=3", None),
    "ltc own": ("ltc:n_clusters=2:box_s=6:keep_progress=false:feature_s=1", None),
    "ltc crowded": ("ltc:n_clusters=2:box_s=1.5:feature=prediction", None),
    "fedat one": ("fedat:n_tiers=2:start=one", None),
    "hiflash adapt": ("hiflash_r", None),
    "deadline": ("hierfedavg", lambda m: m.with_(edge=Rounds(pace=median_iqr(alpha=0.0)))),
    "fixed": ("hhfl", lambda m: m.with_(edge=Rounds(pace=fixed_deadline(0.6)))),
    "fixed late": ("fedavg", lambda m: m.with_(edge=Rounds(pace=fixed_deadline(0.3, early_close=False)))),
    "shared air": ("hhfl", lambda m: m.with_(edge=Rounds(uplink=time_sharing))),
    "no cloud, deadline": ("fedmes", lambda m: m.with_(edge=Rounds(pace=median_iqr(alpha=0.0)))),
}


def cases() -> Iterator[tuple[str, Callable[[bool], Simulation]]]:
    """Name, and what makes the simulation (dry or not)."""
    for situation, changes in SITUATIONS.items():
        for name in METHODS:
            made, text = for_method(name)
            yield from _small(f"small {situation} {name}", made, changes, text, None)
        for variant, (text, change) in VARIANTS.items():
            made, _ = for_method(text.partition(":")[0])
            yield from _small(f"small {situation} {variant}", made, changes, text, change)
    for place in names():
        for name in METHODS:
            text = f"{name}:box_s={BOX_S[place]}" if make_method(name).edge.box_s is not None else name
            for seed in (0, 1):
                yield f"{place} {name} {seed}", _maker(scenario(place, SHORT), text, None, seed)


def _small(title: str, made: Any, changes: Any, text: str, change: Change | None) -> Iterator[tuple[str, Any]]:
    chosen = scenario(_joined(made, changes))
    for seed in (0, 1):
        yield f"{title} {seed}", _maker(chosen, text, change, seed)


def _maker(chosen: Any, text: str, change: Change | None, seed: int) -> Callable[[bool], Simulation]:
    def make(dry_run: bool) -> Simulation:
        method = make_method(text)
        return Simulation(chosen, method if change is None else change(method), seed, n_workers=1, dry_run=dry_run)

    return make


def _joined(one: Any, other: Any) -> Any:
    joined = copy.deepcopy(one)
    for key, value in other.items():
        joined[key] = _joined(joined[key], value) if isinstance(joined.get(key), dict) else copy.deepcopy(value)
    return joined


def digests(make: Callable[[bool], Simulation], dry: bool = True, resumed: bool = True) -> dict[str, str]:
    """Of a run, the same as a dry run, and gone on with from its middle. A run that is refused has only that."""
    try:
        run = make(False)
        saved = [run.checkpoint() for _ in run.rounds() if run.cloud_rounds_done]
    except ValueError:
        return {"refused": "yes"}
    found = outcome(run)
    if resumed and len(saved) > 1:
        again = make(False)
        for _ in again.rounds(saved[len(saved) // 2 - 1]):
            pass
        found |= {f"resumed {part}": value for part, value in outcome(again).items()}
    if dry:
        clock = make(True)
        for _ in clock.rounds():
            pass
        found |= {f"dry {part}": value for part, value in outcome(clock).items()}
    return found


def outcome(run: Simulation) -> dict[str, str]:
    """Digests of metrics, topology, timeline, ledger, costs and the last model."""
    result = run.result()
    places = [
        (p.cloud_round, p.topology.cover, p.topology.host, p.topology.kind, sorted(p.topology.notes), p.home, p.up_s)
        for p in run.places
    ]
    sent = run.federation.timeline
    return {
        "metrics": _digest(run.measures),
        "topology": _digest(places),
        "timeline": _digest(table(sent) if len(sent) else None),
        "ledger": _digest(run.federation.ledger.table()),
        "costs": _digest([(g, dict(columns)) for g, columns in run.costs]),
        "row": _digest(result.row),
        "warnings": _digest(run.warnings),
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, default=_plain, sort_keys=True).encode()).hexdigest()[:12]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(type(value))
