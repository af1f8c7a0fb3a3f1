"""Every setup at paper scale builds and has a first cloud round on the clock, nothing is trained; and what runs will take."""

import itertools

import pytest

import fedloom as fl
from fedloom.reproduce import PAPERS, Setup, load
from fedloom.reproduce.expected import START_S, Expectation
from fedloom.simulator import Simulation

NOT_HERE = (":search=full", ":solver=ppo", ":feature=crop")  # take minutes, or a network with convolutions


def distinct(paper):
    """The setups of all items at paper scale, each once, with the item that asks first."""
    found = {}
    for item in load(paper).items:
        if "paper" in item.scales:
            for label, setup in item.setups("paper").items():
                found.setdefault(setup.key(), (item.key, label, setup))
    return list(found.values())


def stand_in(setup):
    """The same with generated data of as many samples and a small network, so that no files are needed."""
    task = dict(setup.scenario["task"])
    if task["dataset"] == "magnet":
        task["magnet"] = {"n_train": 4800, "n_test": 100}
    else:
        n_train = {"cifar10": 50000, "svhn": 73257}.get(task["dataset"], 60000)
        task["gaussian"] = {"n_train": n_train, "n_test": 100, "n_features": 4}
        task |= {"dataset": "gaussian", "model": {"kind": "softmax"}, "standardise": False}
    return fl.scenario(dict(setup.scenario) | {"task": task})


def check_first_round(item, label, setup):
    simulation = Simulation(stand_in(setup), fl.make_method(setup.method), 0, dry_run=True)
    if not any(option in setup.method for option in NOT_HERE):
        for _ in itertools.islice(simulation.rounds(), 2):
            pass
        assert simulation.federation.steps_done > 0, (item, label)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_method_has_a_first_round(paper):
    """One setup of each method of each item, whatever its options are."""
    chosen = {}
    for item, label, setup in distinct(paper):
        chosen.setdefault((item, setup.method.partition(":")[0]), (item, label, setup))
    for same in chosen.values():
        check_first_round(*same)


@pytest.mark.full  # a minute and a half
@pytest.mark.parametrize("paper", PAPERS)
def test_every_setup_has_a_first_round(paper):
    for same in distinct(paper):
        check_first_round(*same)


def test_items_at_paper_scale_have_three_seeds_but_a_list_of_distances_a_long_search_and_the_largest_network():
    few = {(paper, item.key) for paper in PAPERS for item in load(paper).items if len(item.seeds_at("paper")) < 3}
    assert few == {("csahfl", "readings"), ("ddc", "search"), ("hhfl", "fig14")}


def test_more_work_takes_longer(small):
    """Ten times the cloud rounds take about ten times as long, beside what every run takes."""
    expectation = Expectation()
    often = dict(small) | {"training": dict(small["training"]) | {"cloud_rounds": 1000}}
    often["evaluation"] = {"every": 1000, "local_samples": 0}
    more = often | {"training": often["training"] | {"cloud_rounds": 10000}}
    a, b = (expectation.seconds(Setup(scenario=s, method="fedavg")) - START_S for s in (often, more))
    assert 5 < b / a < 15
    beside = expectation.seconds(Setup(scenario=often, method="fedavg", beside_s=100.0)) - START_S
    assert beside == pytest.approx(a + 100.0)


def test_time_boxes_are_counted_on_the_clock():
    """A box twice as long holds more rounds, which settings alone do not say."""
    setup = next(s for item, _, s in distinct("ltc") if item == "table7" and s.method.startswith("ltc"))
    chosen = stand_in(setup)
    expectation = Expectation()
    short, long = (
        expectation._work(chosen, fl.make_method(text)).steps
        for text in (setup.method, setup.method.replace("box_s=120", "box_s=240"))
    )
    assert long > 1.5 * short > 1.5 * chosen.fleet.n_devices * chosen.training.cloud_rounds
