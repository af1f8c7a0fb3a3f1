"""Whole runs on small generated data: equalities that must hold bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from fedloom.data import gaussian_mixture
from fedloom.grouping import Need, all_cells
from fedloom.methods import METHODS, Allotment, Allotting, Grouping, Local
from fedloom.mixing import CloudLinear, Linear, by_split_size, polynomial_cloud, polynomial_edge
from fedloom.pacing import StalenessBound, median_iqr
from fedloom.protocol import Async, Barrier, Immediate, NoCloud, Rounds, TimeBox
from fedloom.simulator import Simulation, make_method, scenario, simulate
from fedloom.training.models import mlp

VARIANTS = {
    "fedavg": lambda: make_method("fedavg"),
    "hierfedavg": lambda: make_method("hierfedavg"),
    "reported": lambda: make_method("hierfedavg:cloud_weights=reported"),
    "fedprox": lambda: make_method("fedprox:mu=0.5"),
    "overlap": lambda: make_method("hierfedavg").with_(group=all_cells, merge_edge=Linear(by_split_size)),
    "deadline": lambda: make_method("hierfedavg").with_(edge=Rounds(pace=median_iqr(0.0))),
    "async edge": lambda: make_method("hierfedavg").with_(edge=Async(), merge_edge=Linear(polynomial_edge())),
    "immediate cloud": lambda: make_method("hierfedavg").with_(
        cloud=Immediate(), merge_cloud=CloudLinear(polynomial_cloud())
    ),
    "async everywhere": lambda: make_method("hierfedavg").with_(
        edge=Async(),
        merge_edge=Linear(polynomial_edge()),
        cloud=Immediate(),
        merge_cloud=CloudLinear(polynomial_cloud()),
    ),
    "boxed": lambda: make_method("hierfedavg").with_(edge=TimeBox(seconds=3.0)),
}


def rows_equal(a, b):
    return a.row is not None and np.array_equal(a.row, b.row)


def with_jitter(small):
    small["fleet"]["compute"]["jitter_sigma"] = 0.5
    return small


def test_hierfedavg_with_one_edge_is_fedavg_bit_for_bit(small):
    small["fleet"] = {"n_devices": 6}
    for edge_rounds in (1, 3):
        small["training"]["edge_rounds"] = edge_rounds
        flat, tiered = (simulate(scenario(small), m, seed=3) for m in ("fedavg", "hierfedavg"))
        assert rows_equal(flat, tiered)
        assert [m["loss"] for m in flat.measures] == [m["loss"] for m in tiered.measures]


@pytest.mark.parametrize(("proximal", "plain"), [("fedprox:mu=0", "hierfedavg"), ("fedprox:mu=0:flat=true", "fedavg")])
def test_fedprox_without_its_term_is_what_it_stands_on(small, proximal, plain):
    a, b = (simulate(scenario(small), m, seed=1) for m in (proximal, plain))
    assert rows_equal(a, b) and a.measures == b.measures


def test_the_proximal_term_keeps_models_near_their_start(small):
    first = simulate(scenario(small, ["training.cloud_rounds=1", "training.edge_rounds=1"]), "fedprox:mu=0", seed=1)
    held = simulate(scenario(small, ["training.cloud_rounds=1", "training.edge_rounds=1"]), "fedprox:mu=5", seed=1)
    start = simulate(
        scenario(small, ["training.cloud_rounds=1", "training.edge_rounds=1", "training.lr=1e-12"]), seed=1
    )
    assert np.linalg.norm(held.row - start.row) < 0.9 * np.linalg.norm(first.row - start.row)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_dry_run_has_the_clock_and_ledger_of_the_real_one(small, name):
    chosen = scenario(with_jitter(small), ["training.participation=0.7"])
    real, dry = (simulate(chosen, VARIANTS[name](), seed=2, dry_run=d) for d in (False, True))
    clock = ("cloud_round", "edge_round", "local_steps", "time_s", "energy_j", "bytes", "updates", "late")
    assert [{k: m[k] for k in clock} for m in real.measures] == [{k: m[k] for k in clock} for m in dry.measures]
    assert real.ledger.table() == dry.ledger.table() and dry.row is None


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("stop_after", [1, 3])
def test_a_run_goes_on_from_its_checkpoint_to_the_same_bits(small, name, stop_after):
    chosen = scenario(with_jitter(small), ["evaluation.every=2"])  # also from a round without evaluation
    whole = simulate(chosen, VARIANTS[name](), seed=5)
    first = Simulation(chosen, VARIANTS[name](), seed=5)
    for _ in first.rounds():
        if first.cloud_rounds_done == stop_after:
            break
    second = Simulation(chosen, VARIANTS[name](), seed=5)
    for _ in second.rounds(first.checkpoint()):
        pass
    assert second.measures == whole.measures
    assert rows_equal(second.result(), whole)


def test_a_checkpoint_of_another_model_is_refused(small):
    first = Simulation(scenario(small), make_method("fedavg"))
    rounds = first.rounds()
    next(rounds), next(rounds)
    second = Simulation(scenario(small, ["task.model.hidden=[9]"]), make_method("fedavg"))
    with pytest.raises(ValueError, match="belongs to another run or version"):
        list(second.rounds(first.checkpoint()))
    rounds.close()


def test_results_do_not_depend_on_the_number_of_workers(small):
    results = [simulate(scenario(small), "hierfedavg", seed=1, n_workers=n) for n in (1, 2, 3)]
    assert rows_equal(results[0], results[1]) and rows_equal(results[0], results[2])
    assert results[0].measures == results[1].measures == results[2].measures


def test_methods_share_partition_placement_and_batches(small):
    sims = [Simulation(scenario(small), make_method(m), seed=4, dry_run=True) for m in METHODS]
    for other in sims[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(sims[0].parts, other.parts))
        assert np.array_equal(sims[0].world.fleet.snapshot(0).position_m, other.world.fleet.snapshot(0).position_m)


def test_own_data_model_and_partition(small):
    dataset = gaussian_mixture(3, 5, 90, 30, rng=np.random.default_rng(0))
    parts = [np.arange(15 * k, 15 * (k + 1)) for k in range(6)]
    model = mlp((5,), 3, hidden=(4,))
    result = simulate(scenario(small), "hierfedavg", dataset=dataset, parts=parts, model=model)
    assert result.row.shape == (5 * 4 + 4 + 4 * 3 + 3,)
    with pytest.raises(ValueError, match="partition is for 5 clients, but the fleet has 6 devices"):
        simulate(scenario(small), "hierfedavg", dataset=dataset, parts=parts[:5], model=model)


def test_regression_is_measured_in_errors(small):
    rng = np.random.default_rng(0)
    from fedloom.data import Dataset

    x = rng.standard_normal((300, 4)).astype(np.float32)
    y = (x @ np.array([[1.0, 0], [0, 2], [1, 1], [0, 0]])).astype(np.float32)
    dataset = Dataset(name="plane", x_train=x[:240], y_train=y[:240], x_test=x[240:], y_test=y[240:], n_classes=0)
    small["task"] = {"partition": {"kind": "iid"}, "model": {"kind": "softmax"}}
    small["training"] |= {"cloud_rounds": 30}
    measures = simulate(scenario(small), "fedavg", dataset=dataset).measures
    assert measures[-1]["rmse"] < 0.01 < 1.0 < measures[0]["rmse"] and "accuracy" not in measures[0]


def test_mobility_and_redraws_go_through_whole_runs(small):
    small["fleet"] |= {
        "mobility": {"p_stay": 0.3, "neighbours": "path"},
        "redraw": {"links": "cloud-round", "compute": "cloud-round"},
    }
    simulation = Simulation(scenario(small, ["training.cloud_rounds=8"]), make_method("hierfedavg"), seed=1)
    for _ in simulation.rounds():
        pass
    assert len(simulation.places) > 1
    assert simulation.measures[-1]["accuracy"] > simulation.measures[0]["accuracy"]


def test_evaluations_can_be_rarer_and_the_last_round_is_always_one(small):
    small["evaluation"] = {"every": 3, "local_samples": 0}
    measures = simulate(scenario(small), "fedavg").measures
    assert [m["cloud_round"] for m in measures] == [0, 3, 4] and "local_accuracy" not in measures[0]


def test_metrics_are_a_frame(small):
    frame = simulate(scenario(small), "fedavg").metrics
    assert frame.height == 5 and {"accuracy", "local_accuracy", "loss", "time_s", "energy_j", "bytes"} <= set(
        frame.columns
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hierfedvg", "unknown method 'hierfedvg'; did you mean hierfedavg"),
        (
            "fedprox:nu=1",
            r"option 'nu=1' of method fedprox is not known; options with defaults: mu=0.01, flat=False",
        ),
        ("fedprox:mu", "option 'mu' of method fedprox"),
        ("fedprox:mu=-1", "mu must be a number of at least 0, got -1"),
        ("hierfedavg:cloud_weights=all", "cloud_weights must be one of total, reported; got 'all'"),
    ],
)
def test_bad_methods_are_explained(text, message):
    with pytest.raises(ValueError, match=message):
        make_method(text)


def test_a_method_is_composed_of_parts():
    variant = make_method("fedprox").with_(edge=Async())
    assert variant.edge == Async() and variant.local == Local(proximal=0.01)
    other = variant.with_(group=all_cells)
    assert other.group == replace(variant.group, rule=all_cells) and other.group.when == variant.group.when


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Grouping(all_cells, when="often"), "when must be one of once, moved, cloud-round; got 'often'"),
        (lambda: Grouping(all_cells, feature_s=np.inf), "feature_s must be finite, so that grouping ends, got inf"),
        (lambda: Local(proximal=-1.0), "proximal must be at least 0, got -1"),
        (lambda: Rounds(rounds=0), "rounds must be a whole number of at least 1, got 0"),
        (lambda: Async(rounds=0), "rounds must be a whole number of at least 1, got 0"),
        (lambda: TimeBox(seconds=-1.0), "box_s must be above 0, got -1"),
        (lambda: Barrier(warmup=-1), "warmup must be a whole number of at least 0, got -1"),
        (lambda: Barrier(cluster_share=1.5), r"cluster_share must be between 0 and 1, got 1\.5"),
        (lambda: StalenessBound(adapt_every=-1), "adapt_every must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_parts_are_explained(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


@pytest.mark.parametrize(
    ("name", "parts", "message"),
    [
        ("camu", {"edge": TimeBox(seconds=5.0)}, "camu allots edge rounds, and its time box of 5 s has as many as fit"),
        (
            "camu",
            {"edge": Rounds(rounds=3)},
            "camu allots edge rounds, and its edge has a number or schedule of its own",
        ),
        (
            "camu",
            {"edge": Async(rounds=3)},
            "camu allots edge rounds, and its edge has a number or schedule of its own",
        ),
        (
            "hierfedavg",
            {"group": Grouping(all_cells, feature_s=3.0)},
            r"feature_s=3 is the time to collect a feature, and hierfedavg needs none \(sizes\)",
        ),
        ("ltc:feature_s=3", {"needs": frozenset({Need.SPEEDS})}, r"and ltc needs none \(speeds\)"),
    ],
)
def test_parts_that_make_no_sense_together_are_refused_when_the_method_is_made(name, parts, message):
    with pytest.raises(ValueError, match=message):
        make_method(name).with_(**parts)


@pytest.mark.parametrize("edge", [TimeBox(seconds=5.0), Rounds(rounds=3), Async()])
def test_powers_alone_go_with_any_edge(edge):
    powers = Allotting(lambda view, topology, rng: Allotment(power_w=np.ones(2)), edge_rounds=False)
    assert not make_method("camu").with_(allot=powers, edge=edge).allots_rounds


@pytest.mark.parametrize("feature", ["update", "crop", "prediction", "skew"])
def test_every_feature_of_ltc_has_a_time_to_be_collected_in(feature):
    assert make_method(f"ltc:feature={feature}:feature_s=3").group.feature_s == 3


@pytest.mark.parametrize(
    ("part", "option"),
    [
        *((Async, name) for name in ("pace", "seconds")),
        *((Rounds, name) for name in ("seconds", "warmup")),
        (TimeBox, "rounds"),  # it holds as many as fit
        *((Immediate, name) for name in ("cluster_share", "warmup", "drop_late", "uplink")),
        *((Barrier, name) for name in ("bound", "adapt_every")),
        (Immediate, "adapt_every"),  # without a bound there is nothing to adapt
        *((NoCloud, name) for name in ("cluster_share", "warmup", "drop_late", "uplink", "bound", "adapt_every")),
    ],
)
def test_a_part_has_no_option_that_makes_no_sense_for_it(part, option):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}'"):
        part(**{option: 1})
