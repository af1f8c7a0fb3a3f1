"""Features for grouping: what they cost, progress that is kept or not, and runs that are resumed."""

from dataclasses import replace

import numpy as np
import pytest
from worlds import ScalarEngine, quadratic, snapshot, world

from fedloom.grouping import Need, Topology
from fedloom.methods import Grouping, Method
from fedloom.protocol import Immediate, Rounds, TimeBox
from fedloom.simulator.book import Model, settle, settle_all
from fedloom.simulator.driver import Driver

EVERYTHING = frozenset(Need)


class ScalarFeatures:
    """Updates of scalar models."""

    def __init__(self, engine):
        self.engine = engine

    def size(self, kind, layers):
        return 1.0 if layers is None else 0.04 * len(layers)

    def work(self, kind, local_steps, pass_steps):
        return {"update": local_steps, "gradient": pass_steps, "labels": 0 * pass_steps}[kind].astype(float)

    def known(self, results):
        settle_all(results.values(), None)

    def values(self, kind, layers, start, results):
        settle_all(results.values(), self.engine)
        return np.array([results[k].row - start.row for k in sorted(results)])


def two_clusters(seen=None, layers=None):
    """Clients 0 and 1 around 0, clients 2 and 3 around 2, after looking at their updates."""

    def group(view, rng):
        phi = view.features("update", layers)
        if seen is not None:
            seen.append(phi[:, 0].tolist())
        return Topology.of_heads([np.array([0, 1]), np.array([2, 3])], np.array([0, 2]), 4)

    return group


def golden(keep, seen=None, n_rounds=1):
    """One cloud round on quadratics: work of 1, 3, 2, 4 steps, two rounds in the first cluster, three in the second."""
    place = snapshot(
        [1 / 1, 1 / 3, 1 / 2, 1 / 4], np.ones((1, 4)), d2d_s=[[0, 9, 0, 0], [9, 0, 0, 0], [0, 0, 0, 5], [0, 0, 5, 0]]
    )
    # one round: 1 + 9 + 9 = 19 s in the first cluster, 1 + 5 + 5 = 11 s in the second; 40 s hold two and three
    w = world(place, n_samples=[10, 30, 20, 40], batch_size=10, local_epochs=1)
    engine = quadratic([1] * 4, [1, 2, -1, 4])
    method = Method(
        name="m",
        summary="",
        group=Grouping(two_clusters(seen), when="cloud-round", feature_s=80.0, keep_progress=keep),
        needs=EVERYTHING,
        edge=TimeBox(seconds=40.0),
    )
    federation = Driver(method, w, Model(np.zeros(1, np.float32)), ScalarFeatures(engine))
    return federation, [
        (s.time_s, float(settle(s.model, engine)[0]), s.client_steps.tolist())
        for s in federation.cloud_rounds(n_rounds)
    ]


@pytest.mark.parametrize(("keep", "model"), [(True, 1.700413727), (False, 1.436735083)])
def test_one_cloud_round_by_hand(keep, model):
    seen = []
    _, [(time_s, w, steps)] = golden(keep, seen)
    assert seen == [pytest.approx([0.1, 0.542, -0.19, 1.3756], rel=1e-6)]
    assert w == pytest.approx(model, rel=1e-6)
    assert time_s == 120.0  # 80 for the features, 40 for the box
    assert steps == [2 * 1, 2 * 3, 3 * 2, 3 * 4]


def test_a_cluster_without_time_for_a_round_contributes_the_mean_of_its_starts():
    place = snapshot([1.0] * 4, np.ones((1, 4)), d2d_s=[[0, 500, 0, 0], [500, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    for keep, expected in ((True, (1 + 2) / 2), (False, 0.0)):
        engine = ScalarEngine(lambda k, w, lr: w + (1, 2, 0, 0)[k])
        group = Grouping(two_clusters(), keep_progress=keep)
        method = Method(name="m", summary="", group=group, needs=EVERYTHING, edge=TimeBox(seconds=10.0))
        federation = Driver(method, world(place), Model(np.zeros(1, np.float32)), ScalarFeatures(engine))
        [state] = federation.cloud_rounds(1)
        assert float(settle(state.model, engine)[0]) == pytest.approx(expected / 2)  # half of the data


def test_features_cost_what_computing_and_sending_cost():
    place = snapshot([1.0, 2.0, 1.0, 1.0], np.ones((1, 4)), cloud_s=7.0, compute_power_w=3.0)
    engine = ScalarEngine(lambda k, w, lr: w)
    method = Method(name="m", summary="", group=Grouping(two_clusters(layers=("a", "b", "c"))), needs=EVERYTHING)
    w = world(place, local_steps=5, model_bits=800.0)
    federation = Driver(method, w, Model(np.zeros(1, np.float32)), ScalarFeatures(engine))
    [state] = federation.cloud_rounds(1)
    # features: 5 steps of 2 s + 7 s up; then one edge round of 10 s, and 7 s for the heads' reports
    assert state.time_s == 10 + 7 + 10 + 7
    table = {(r["hop"], r["direction"]): r for r in federation.ledger.table()}
    assert table["device_cloud", "up"]["bytes"] == 4 * 12 + 2 * 100  # three values each; two reports
    assert table["device_cloud", "up"]["links"] == 2
    assert table["device_cloud", "down"]["bytes"] == 4 * 100 + 2 * 100
    assert federation.ledger.compute_s == 2 * (5 + 10 + 5 + 5)


def test_the_clock_can_be_run_again_without_looking_at_models():
    federation, seen = golden(True, n_rounds=3)

    class Blind(ScalarFeatures):
        def values(self, *args):
            raise AssertionError("nothing should be looked at")

    again = Driver(federation.method, federation.world, Model(None), Blind(None), federation.decisions)
    assert [s.time_s for s in again.cloud_rounds(3)] == [t for t, _, _ in seen]
    assert again.ledger.table() == federation.ledger.table()


def test_what_is_not_declared_cannot_be_asked_for():
    federation, _ = golden(True)
    free = replace(federation.method.group, feature_s=None)
    method = federation.method.with_(needs=frozenset({Need.SIZES}), group=free)
    blind = Driver(method, federation.world, Model(np.zeros(1, np.float32)), ScalarFeatures(None))
    with pytest.raises(ValueError, match=r"model updates without declaring it; add Need\.UPDATES"):
        list(blind.cloud_rounds(1))
    immediate = federation.method.with_(cloud=Immediate(), edge=Rounds())
    blind = Driver(immediate, federation.world, Model(np.zeros(1, np.float32)), ScalarFeatures(None))
    with pytest.raises(ValueError, match=r"features for grouping need a cloud that waits for them \(Barrier\)"):
        list(blind.cloud_rounds(1))
