"""Small hand-made worlds and an engine on scalar models, for timelines that can be worked out on paper."""

from dataclasses import replace

import numpy as np

from fedloom.fleet import ComputeSettings, FleetSettings, Link, Snapshot
from fedloom.grouping import Topology
from fedloom.simulator.world import World
from fedloom.training.engine import Scores
from fedloom.training.rule import LocalRule


def link(seconds, shape, power_w=0.0):
    return Link(
        fixed_s=np.broadcast_to(np.asarray(seconds, float), shape),
        rate_bit_s=np.full(shape, np.inf),
        power_w=power_w,
    )


def snapshot(
    step_s,
    in_reach,
    home=None,
    *,
    up_s=0.0,
    down_s=0.0,
    backhaul_up_s=0.0,
    backhaul_down_s=0.0,
    cloud_s=None,
    d2d_s=0.0,
    power_w=0.0,
    compute_power_w=0.0,
    jitter_sigma=0.0,
):
    """A snapshot whose links take given seconds; clients live in the first cell that reaches them unless told."""
    in_reach = np.atleast_2d(np.asarray(in_reach, dtype=bool))
    n, k = in_reach.shape
    return Snapshot(
        position_m=np.zeros((k, 2)),
        cell_m=np.zeros((n, 2)),
        radius_m=np.ones(n),
        server_m=np.zeros(2),
        active=in_reach.any(axis=0),
        in_reach=in_reach,
        home=np.asarray(home) if home is not None else in_reach.argmax(axis=0),
        edge_up=link(up_s, (n, k), power_w),
        edge_down=link(down_s, (n, k)),
        backhaul_up=link(backhaul_up_s, (n,)),
        backhaul_down=link(backhaul_down_s, (n,)),
        cloud_up=link(cloud_s or 0.0, (k,)),
        cloud_down=link(0.0, (k,)),
        cloud_via_edge=cloud_s is None,
        compute=np.broadcast_to(np.asarray(step_s, float), (k,)),
        compute_settings=ComputeSettings(power_w=compute_power_w, jitter_sigma=jitter_sigma),
        make_d2d=lambda: link(d2d_s, (k, k)),
    )


class InRounds:
    """Nothing changes with time."""

    in_time, stays, settings = False, False, FleetSettings(n_devices=1)  # which nobody fails in

    def tick_at(self, time_s):
        return 0

    @property
    def n_cells(self):
        return len(self.snapshots[0].cell_m)


class FixedFleet(InRounds):
    """A fleet that goes through given snapshots and stays at the last."""

    def __init__(self, *snapshots):
        self.snapshots, self.stays = snapshots, len(snapshots) == 1

    moves = "never"

    def snapshot(self, cloud_round, edge_round=None, time_s=0.0):
        return self.snapshots[min(cloud_round, len(self.snapshots) - 1)]


class MovingFleet(InRounds):
    """A fleet whose clients have the homes `homes[r]` in edge round r of the run, and stay at the last."""

    moves = "edge-round"

    def __init__(self, homes, n_cells, step_s, **links):
        reach = np.ones((n_cells, len(homes[0])), dtype=bool)
        self.snapshots = [snapshot(step_s, reach, home=home, **links) for home in homes]

    def snapshot(self, cloud_round, edge_round=0, time_s=0.0):
        return self.snapshots[min(edge_round, len(self.snapshots) - 1)]


class TimedFleet:
    """A fleet whose clients have the homes `homes[t]` in tick t of `tick_s` seconds, -1: nowhere, and stay at the last."""

    moves, in_time, stays, settings = "tick", True, False, FleetSettings(n_devices=1)

    def __init__(self, homes, n_cells, step_s, tick_s=1.0, **links):
        self.tick_s, self.n_cells, self.snapshots = tick_s, n_cells, []
        for home in np.asarray(homes):
            now = snapshot(step_s, np.ones((n_cells, len(home))), home=home, **links)
            self.snapshots.append(replace(now, active=home >= 0, in_reach=now.in_reach & (home >= 0)))

    def tick_at(self, time_s):
        return int((time_s + 1e-9) // self.tick_s)

    def snapshot(self, cloud_round, edge_round=0, time_s=0.0):
        return self.snapshots[min(self.tick_at(time_s), len(self.snapshots) - 1)]

    def somebody_s(self, time_s, *, later=False):
        first = self.tick_at(time_s) + later
        ticks = range(first, first + len(self.snapshots) + 1)
        return max(time_s, self.tick_s * next(t for t in ticks if self.snapshot(0, 0, t * self.tick_s).active.any()))


def timed(homes, n_cells, step_s, *, tick_s=1.0, links=None, **settings):
    """A world whose clients move in time."""
    made = world(snapshot(step_s, np.ones((n_cells, len(homes[0]))), home=np.maximum(homes[0], 0)), **settings)
    return replace(made, fleet=TimedFleet(homes, n_cells, step_s, tick_s, **(links or {})))


def moving(homes, n_cells, step_s, *, links=None, **settings):
    """A world whose clients move between edge rounds."""
    made = world(snapshot(step_s, np.ones((n_cells, len(homes[0]))), home=homes[0]), **settings)
    return replace(made, fleet=MovingFleet(homes, n_cells, step_s, **(links or {})))


def world(*snapshots, n_samples=None, **settings):
    k = len(snapshots[0].home)
    n_samples = np.full(k, 100) if n_samples is None else np.asarray(n_samples)
    defaults = {"batch_size": 10, "model_bits": 80.0, "seed": 0, "local_steps": 1, "edge_rounds": 1}
    return World(
        fleet=FixedFleet(*snapshots),
        n_samples=n_samples,
        label_counts=np.zeros((k, 0), dtype=np.int64),
        **(defaults | settings),
    )


class ScalarEngine:
    """Trains scalar models by `step(client, w, lr) -> w`; everything else as the real engines do."""

    def __init__(self, step, rule=None):
        self.step, self.rule = step, rule or LocalRule(lr=0.1)
        self.batches = []

    def train_average(self, starts, jobs, mix):
        self.batches.append(len(jobs))
        results = []
        for j in range(len(jobs)):
            w = float(starts[jobs.start[j], 0])
            for lr in self.rule.rates(int(jobs.lr_step[j]), int(jobs.n_steps[j])):
                w = self.step(int(jobs.client[j]), w, float(lr))
            results.append(w)
        sums = np.zeros((mix.n_targets, 1))
        np.add.at(sums[:, 0], mix.target, mix.weight * np.array(results)[mix.job])
        return sums

    def train(self, starts, jobs):
        raise AssertionError("the simulator averages on the way")

    def evaluate(self, rows, split="test"):
        return Scores(
            loss=rows[:, 0].astype(float),
            correct=np.ones((len(rows), 1), bool),
            rmse=rows[:, 0],
            mae=rows[:, 0],
        )

    def close(self):
        pass


def adding(*amounts):
    """Training that adds a fixed amount per step, whatever the learning rate."""
    return ScalarEngine(lambda client, w, lr: w + amounts[client])


def quadratic(curvature, centre, lr=0.1):
    """Exact gradient steps on a_k (w - c_k)^2 / 2."""
    return ScalarEngine(lambda k, w, rate: w - rate * curvature[k] * (w - centre[k]), LocalRule(lr=lr))


def fixed_topology(cover, kind="edge", host=None):
    cover = np.asarray(cover, dtype=bool)
    host = np.arange(len(cover)) if host is None else np.asarray(host)
    topology = Topology(cover=cover, kind=kind, host=host)
    return lambda view, rng: topology
