"""A plan that runs: the clusters that `fedloom plan` has written (plan.json), in place of the method's own grouping.

The plan says who heads which devices, where they stand, how many local steps an edge round has and how many of those a cloud
round; the scenario says the rest: data, model, training, links and speeds. device-0 is the first device of the plan.
"""

import csv
import io
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from fedloom._settings import Row, Settings
from fedloom.gate import files, json_text
from fedloom.gate.names import folder_name
from fedloom.gate.words import Refused, one_line, shown
from fedloom.grouping import Topology, View
from fedloom.methods import Grouping, Method
from fedloom.methods.by_name import make_method
from fedloom.simulator.scenarios import Scenario
from fedloom.simulator.scenarios import scenario as read_scenario

MOST_BYTES = 1 << 28
NOBODY = {"", "server"}  # in the place of a head: the device takes no part, or reports to the server
Index = Annotated[int, Field(ge=0)]


class Clusters(Settings):
    """What nodes must know of a plan. head: of every device the one it reports to (a head: itself), -1: takes no part."""

    title: str
    head: Row[Annotated[int, Field(ge=-1)]]

    def topology(self) -> Topology:
        head = np.array(self.head, dtype=np.int64)
        hosts = np.unique(head[head >= 0])
        return Topology(cover=hosts[:, None] == head[None, :], kind="head", host=hosts)


class Planned(Settings):
    """A plan, as far as a deployment goes by it."""

    clusters: Clusters
    ids: Row[str]
    positions_m: Row[Row[float]]
    server_m: Row[float]
    local_steps: Index
    edge_rounds: Index
    method: str = ""
    scenario: dict[str, Any] | None = None


def read_plan(path: Path) -> Planned:
    """The plan in a file that `fedloom plan` has written; Refused with what does not fit."""
    try:
        text = files.read_text(path, "a plan, plan.json of `fedloom plan`", MOST_BYTES)
    except FileNotFoundError:
        raise Refused(f"there is no plan {path}; make one with `fedloom plan`, which writes plan.json") from None
    found = json_text.read(text, str(path))
    try:
        devices, work = found["devices"], found["work"]
        ids = [str(line["id"]) for line in devices]
        number = {name: k for k, name in enumerate(ids)}
        heads = [number.get(line["head"], -1) for line in devices]
        planned = Planned(
            clusters=Clusters(title=str(found["title"]), head=tuple(heads)),
            ids=tuple(ids),
            positions_m=tuple((float(line["x_m"]), float(line["y_m"])) for line in devices),
            server_m=tuple(float(value) for value in found["server_m"]),
            local_steps=work["local_steps"],
            edge_rounds=work["edge_rounds"],
            method=str(found.get("run_as", "")),
            scenario=found.get("scenario"),
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Refused(
            f"{path} is no plan: {where}: {one_line(first['msg'])}, got {shown(first['input'])}; give the plan.json that "
            "`fedloom plan` writes"
        ) from None
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(
            f"{path} is no plan: {type(error).__name__} {error}; give the plan.json that `fedloom plan` writes"
        ) from None
    _check_heads(ids, [str(line["head"]) for line in devices], heads, path)
    if max(heads, default=-1) < 0:
        raise Refused(f"{path} has no heads: its devices report to the server; deploy it with a scenario and fedavg")
    return planned


def _check_heads(ids: list[str], names: list[str], heads: list[int], path: Path) -> None:
    """Refuse a plan whose heads are no devices of it, or do not head themselves."""
    twice = sorted(name for name, n in Counter(ids).items() if n > 1)
    if twice:
        raise Refused(f"{path}: the devices {shown(twice)} are there more than once; give each an id of its own")
    strangers = sorted({name for name, head in zip(names, heads) if head < 0} - NOBODY)
    if strangers:
        raise Refused(
            f"{path}: the heads {shown(strangers)} are no devices of the plan; name a device, or leave it empty"
        )
    led = [f"{ids[k]} by {ids[head]}" for k, head in enumerate(heads) if head >= 0 and heads[head] != head]
    if led:
        raise Refused(f"{path}: a head must be its own head, and here are led {shown(led)}, which is led itself")


def scenario_of(planned: Planned, base: str | None, changes: list[str]) -> Scenario:
    """The scenario in which a plan runs: that of a file or name with the plan's devices and periods, or the plan's own. Cells and
    mobility play no part: devices report to heads."""
    if base is None and planned.scenario is not None:
        return read_scenario(planned.scenario, changes)
    title = folder_name(planned.clusters.title)
    content: dict[str, Any] = (
        {"name": title, "description": f"the plan {title}", "fleet": {"device_cloud": {"via": "direct"}}}
        if base is None
        else read_scenario(base).model_dump(mode="json", exclude_none=True)
    )
    content["fleet"] = {
        **{
            key: value
            for key, value in content["fleet"].items()
            if key not in ("cells", "mobility", "homes", "handover")
        },
        "n_devices": len(planned.ids),
        "placement": {"kind": "coordinates", "positions_m": [list(point) for point in planned.positions_m]},
        "server_m": list(planned.server_m),
    }
    training = {key: value for key, value in content.get("training", {}).items() if key != "local_epochs"}
    content["training"] = {**training, "local_steps": planned.local_steps, "edge_rounds": planned.edge_rounds}
    return read_scenario(content, changes)


def method_of(text: str, clusters: Clusters | None) -> Method:
    """A method, with the clusters of a plan if there are some."""
    method = make_method(text)
    if clusters is None:
        return method
    topology = clusters.topology()

    def as_planned(view: View, rng: np.random.Generator) -> Topology:
        if topology.cover.shape[1] != len(view.active):
            raise ValueError(f"the plan is for {topology.cover.shape[1]} devices, and the fleet has {len(view.active)}")
        return topology

    return method.with_(group=Grouping(as_planned, when="once"))


def label_of(text: str, clusters: Clusters | None) -> str:
    """How the method is called in the record."""
    return text if clusters is None else f"{text} by plan {clusters.title}"


def roster_lines(planned: Planned) -> str:
    """Which node is which device of the plan, as CSV."""
    head, text = planned.clusters.head, io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["node", "id", "head"])
    rows.writerows([f"device-{k}", name, f"device-{head[k]}" * (head[k] >= 0)] for k, name in enumerate(planned.ids))
    return text.getvalue()
