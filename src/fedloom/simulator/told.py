"""What is told of a federation after a cloud round, or between two."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.simulator.book import Model
from fedloom.simulator.errands import Errands
from fedloom.simulator.outages import CAUSES, Outages
from fedloom.simulator.world import CloudRound

if TYPE_CHECKING:
    from fedloom.simulator.driver import Driver


def state_of(driver: "Driver", cloud_round: int, edge_rounds: int, model: Model, **more: Any) -> CloudRound:
    """When a federation has done so many cloud rounds and edge rounds, and the cloud's model is this. more: other fields."""
    machines, scenes, held, errands = driver.machines, driver.scenes, driver.held, driver.errands
    scene, bound, time_s = scenes.now, machines.cloud.bound, driver.clock.now_s
    return CloudRound(
        cloud_round=cloud_round,
        edge_rounds=edge_rounds,
        time_s=time_s,
        model=model,
        edges=held.merged,
        reported_models=list(held.reported),
        cluster_models=held.of_clusters,
        topology=scene.topology,
        snapshot=scene.snapshot,
        client_steps=machines.devices.in_cloud_round,
        up_s=scene.exchange.client_up.seconds,
        group_rounds=np.array([edge.n_rounds for edge in machines.edges]) - driver.rounds_before,
        n_updates=errands.n_updates,
        n_late=errands.n_late,
        handovers=scenes.handovers,
        s_max=None if bound is None else bound.s_max,
        uncovered=int(np.count_nonzero(scene.snapshot.home < 0)) if driver.world.fleet.in_time else None,
        device_models=dict(held.last),
        residuals=held.kept,
        states=held.states.kept,
        sick=held.sick,
        found=None if driver.method.audit is None else len(driver.auditing.found),
        failures=failures_of(errands, time_s),
        masks={} if errands.masking is None else errands.masking.counts,
        **more,
    )


def failures_of(errands: Errands, time_s: float) -> dict[str, float]:
    """What devices that fail come to so far; {} if they do not."""
    outages, lost = errands.outages, errands.lost_by
    if outages is None:
        return {"lost": errands.n_lost} if errands.n_lost else {}
    found: dict[str, float] = {"lost": errands.n_lost}
    found |= {f"lost_{cause}": lost[cause] for cause in (*CAUSES, "head")}
    found |= {"retried": outages.n_retried, "packets_again": outages.n_packets}
    return found | _levels(outages, time_s)


def _levels(outages: Outages, time_s: float) -> dict[str, float]:
    absent, _ = outages.down(time_s)
    found: dict[str, float] = {"devices_down": int(np.count_nonzero(absent))}
    if outages.batteries is not None:
        batteries = outages.batteries
        own = np.isfinite(batteries.capacity_j)
        share = batteries.level_j[own] / batteries.capacity_j[own]
        if len(share):
            found |= {"battery_mean": float(share.mean()), "battery_least": float(share.min())}
    return found
