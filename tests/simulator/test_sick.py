"""Updates that are not finite, or absurdly long, are left out of every merge and counted; the run goes on."""

import dataclasses

import numpy as np
import pytest

from fedloom.methods import METHODS
from fedloom.mixing import Screen
from fedloom.record.checkpoints import read_checkpoint, save_checkpoint
from fedloom.simulator import Simulation, make_method, scenario
from fedloom.simulator.sick import Sick
from fedloom.training.engine import Jobs, Mix, NotFinite
from small import for_method

SICK = 2


def with_a_sick_client(name, factor=1e30, **changes):
    """A small run in which one client's inputs are absurd: its model is not finite after one step."""
    made, text = for_method(name)
    chosen = scenario(made | changes)
    whole = Simulation(chosen, make_method(text), 0)
    x = whole.dataset.x_train.copy()
    x[whole.parts[SICK]] *= factor
    data = dataclasses.replace(whole.dataset, x_train=x)
    return lambda **options: Simulation(chosen, make_method(text), 0, dataset=data, parts=whole.parts, **options)


def run(simulation, resume=None):
    return simulation, [simulation.checkpoint() for _ in simulation.rounds(resume) if simulation.cloud_rounds_done]


@pytest.mark.parametrize("name", METHODS)
def test_a_client_that_is_not_finite_is_left_out_of_every_method(name):
    make = with_a_sick_client(name)
    simulation, _ = run(make())
    last = simulation.measures[-1]
    assert np.isfinite(simulation.result().row).all()
    assert np.isfinite(last["loss"])
    assert last["rejected"] > 0
    assert {k for _, k, *_ in simulation.federation.held.sick.table} == {SICK}
    assert simulation.federation.held.sick.counts == {"not finite": last["rejected"]}


def test_the_error_of_today_ends_a_run_that_says_so():
    make = with_a_sick_client("hierfedavg", on_sick="stop")
    with pytest.raises(NotFinite, match=r"clients \[2\] are no longer finite.*lower training.lr"):
        run(make())


def test_a_cloud_round_in_which_nobody_stays_finite_ends_the_run():
    made, _ = for_method("hierfedavg", lr=1e30)
    with pytest.raises(NotFinite, match=r"clients \[0, 1, 2, 3, 4, 5\].*lower training.lr"):
        run(Simulation(scenario(made), make_method("hierfedavg"), 0))


def test_who_turns_out_to_be_sick_in_rounds_that_are_computed_together_is_left_out_of_the_same_merges():
    made, _ = for_method("hierfedavg", cloud_rounds=6, edge_rounds=1, participation=0.4)
    make = with_a_sick_client("hierfedavg", training=made["training"], evaluation={"every": 5})
    found = []
    for call_s in (0.0, 1e9):
        simulation = make(engine="native")
        simulation.call_s = call_s
        n_sick = [len(simulation.federation.held.sick) for _ in simulation.rounds()]
        found.append((simulation.measures, simulation.federation.held.sick.table, simulation.result().row.tolist()))
    assert found[0] == found[1] and n_sick[1] == 0 < n_sick[-1]  # not in the first round, after which others wait


@pytest.mark.parametrize("text", ["hhfl", "csahfl:alpha=0", "fedat", "hhfl:up=topk:up.share=0.3", "scaffold"])
def test_a_run_with_a_sick_client_goes_on_from_anywhere_to_the_same_bits(text, tmp_path):
    name, _, options = text.partition(":")
    make = with_a_sick_client(name, evaluation={"models": "devices"})
    options = [f"{name}:n_tiers=3" if name == "fedat" else name, *([options] if options else [])]

    def fresh():
        simulation = make()
        return Simulation(
            simulation.scenario, make_method(":".join(options)), 0, dataset=simulation.dataset, parts=simulation.parts
        )

    whole, inside = fresh(), []
    whole.call_s = 0.0
    whole.on_wave = lambda: inside.append(whole.checkpoint())
    after = [whole.checkpoint() for _ in whole.rounds() if whole.cloud_rounds_done]
    assert whole.measures[-1]["rejected"] > 1
    for number, checkpoint in enumerate([*after[:-1], *inside[1::3]]):
        save_checkpoint(tmp_path, checkpoint, f"run {number}")
        saved = read_checkpoint(tmp_path / "checkpoint" / "state.safetensors", f"run {number}")
        again, _ = run(fresh(), saved)
        assert again.measures == whole.measures
        assert np.array_equal(again.result().row, whole.result().row)
        assert again.federation.held.sick.table == whole.federation.held.sick.table


def test_others_are_merged_as_if_the_sick_client_had_not_come():
    """A federation of five, and one of six with a sick client: the same model, to the bit."""
    made, _ = for_method("fedavg", cloud_rounds=2)
    make = with_a_sick_client("fedavg", training=made["training"])
    six, _ = run(make())
    healthy = [k for k in range(6) if k != SICK]
    weighed = six.world.n_samples[healthy] / six.world.n_samples[healthy].sum()
    start = six.setting.first_row
    steps = six.world.local_steps
    for edge_round in range(4):  # flat: every edge round is a merge of all
        jobs = Jobs(
            start=np.zeros(5, dtype=np.int64),
            client=np.array(healthy),
            n_steps=np.full(5, steps),
            first_step=np.full(5, edge_round * steps),
            lr_step=np.full(5, edge_round * steps),
        )
        mix = Mix(n_targets=1, target=np.zeros(5, dtype=np.int64), job=np.arange(5), weight=weighed)
        start = six.engine.train_average(start[None], jobs, mix)[0].astype(np.float32)
    assert np.array_equal(start, six.result().row)


def test_an_absurdly_long_update_is_screened_out_and_counted_by_its_cause():
    for screen, causes in (({}, {"norm"}), ({"times_median": None, "norm": 1e-9}, {"norm"})):
        make = with_a_sick_client("hhfl", 1e4, screen=screen)
        simulation, _ = run(make())
        assert set(simulation.federation.held.sick.counts) == causes
        assert np.abs(simulation.result().row).max() < 100
    everybody = {k for who, k, *_ in simulation.federation.held.sick.table if who == "client"}
    assert everybody == set(range(6))  # nobody moves by less than 1e-9
    assert np.array_equal(simulation.result().row, simulation.setting.first_row)
    unlooked, _ = run(with_a_sick_client("hhfl", 1e4)())
    assert np.abs(unlooked.result().row).max() > 1000


@pytest.mark.parametrize("name", ["hierfedavg", "hhfl", "csahfl", "fedat", "camu", "macfl_r"])
def test_a_screen_that_nobody_fails_changes_nothing_but_rounding(name):
    made, text = for_method(name)
    plain, _ = run(Simulation(scenario(made), make_method(text), 0))
    looked, _ = run(Simulation(scenario(made | {"screen": {"times_median": 1e6}}), make_method(text), 0))
    assert np.allclose(looked.result().row, plain.result().row, rtol=0, atol=1e-5)
    assert "rejected" not in looked.measures[-1]


def test_a_register_counts_an_update_once_and_keeps_the_worse_cause():
    sick = Sick()
    sick.add(("client", 1, 0), "norm")
    sick.add(("client", 1, 0), "norm")
    assert ("client", 1, 0) not in sick and len(sick) == 1  # left out there, not everywhere
    sick.add(("client", 1, 0), "not finite")
    sick.add(("edge", 0, 4), "norm")
    assert ("client", 1, 0) in sick and sick.counts == {"norm": 1, "not finite": 1}
    again = Sick()
    again.restore(sick.table)
    assert again.table == sick.table


def test_a_screen_by_hand():
    rows = np.array([[3, 4], [0, 0], [6, 8], [300, 400]], dtype=np.float32)  # 5, 0, 10, 500: median 7.5
    begun = np.zeros((4, 2), dtype=np.float32)
    assert Screen(times_median=10).too_far(rows, begun).tolist() == [False, False, False, True]
    assert Screen(times_median=None, norm=5.0).too_far(rows, begun).tolist() == [False, False, True, True]
    assert not Screen(times_median=1e9).too_far(rows, begun).any()
    assert not Screen(times_median=2).too_far(np.zeros((3, 2), dtype=np.float32), np.zeros(2)).any()  # a median of 0
    with pytest.raises(ValueError, match="times_median"):
        Screen(times_median=0)


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"on_sick": "ignore"}, "on_sick must be.*drop.*stop"),
        ({"screen": {"median": 3}}, "unknown key screen.median"),
        ({"screen": {"times_median": 0.5}}, "screen.times_median must be greater than 1"),
    ],
)
def test_a_wrong_setting_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        scenario(for_method("hhfl")[0] | wrong)
