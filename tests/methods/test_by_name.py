"""Methods by name: what options may be, what they are told when they are not, and that no odd value gets past."""

import inspect
import math
from typing import get_type_hints

import pytest

import fedloom as fl
from fedloom.gate.options import read
from fedloom.methods import METHODS, hhfl
from fedloom.methods.by_name import make_method
from fedloom.pacing import lockstep
from fedloom.simulator import Simulation

OPTIONS = [(name, option) for name, make in METHODS.items() for option in inspect.signature(make).parameters]
ODD = (
    "-1",
    "0",
    "0.5",
    "nan",
    "inf",
    "-.inf",
    "1e300",
    "1e-300",
    "100000000000000000000",
    "word",
    "",
    "null",
    "true",
    "[1,2]",
    "[]",
)


def test_a_method_without_options_has_its_defaults():
    for name in METHODS:
        assert make_method(name).name == name


def test_every_method_can_be_told_whom_it_waits_for():
    for name in METHODS:
        assert make_method(name).waiting == fl.Waiting(patience_s=60.0, quorum=0.0, cloud_quorum=0.0)
        assert make_method(f"{name}:patience_s=none:quorum=0.5").waiting == fl.Waiting(patience_s=None, quorum=0.5)
    made = make_method("ltc:cloud_quorum=1:box_s=60")
    assert made.waiting.cloud_quorum == 1.0 and made.edge.box_s == 60.0


@pytest.mark.parametrize("text", ["inf", ".inf", "+inf", "Infinity", ".Inf"])
def test_infinity_is_a_number_however_it_is_spelled(text):
    z = inspect.getclosurevars(make_method(f"ltc:z={text}").group.rule).nonlocals["z"]
    assert z == math.inf and isinstance(z, float)


@pytest.mark.parametrize("text", ["nan", ".nan", ".NaN", "NaN", "-nan"])
@pytest.mark.parametrize(
    ("name", "option"), [("ltc", "z"), ("csahfl", "alpha"), ("csahfl", "after_cloud"), ("camu", "mu")]
)
def test_nan_is_no_number(name, option, text):
    with pytest.raises(ValueError, match=f"{option} "):
        make_method(f"{name}:{option}={text}")


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        (2, float, 2.0),
        (1e-4, float, 1e-4),
        ("inf", float, math.inf),
        (None, int | None, None),
        ("None", int | None, None),
        ("none", float | None, None),
        ("none", str, "none"),
        (1.1, str | float, 1.1),
        (2, str | float, 2),  # as it was written
        ("mix", str | float, "mix"),
        (True, bool, True),
    ],
)
def test_values_become_what_the_option_is(value, annotation, expected):
    found = read(value, annotation)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ltc:n_trials=many", "option n_trials of method ltc must be a whole number or nothing (null), got 'many'"),
        ("ltc:n_trials=80.0", "option n_trials of method ltc must be a whole number or nothing (null), got '80.0'"),
        ("ltc:box_s=true", "option box_s of method ltc must be a number, got 'true'"),
        ("ltc:keep_progress=1", "option keep_progress of method ltc must be true or false, got '1'"),
        ("ltc:z=nan", "option z of method ltc must be a number or nothing (null), got 'nan'"),
        (
            "ltc:z=0.5",
            "method ltc:z=0.5: z must be at least 1, so that a change never loses more than it gains; got 0.5",
        ),
        ("ltc:z=2:z=3", "option z of method ltc is given twice; leave one of them out"),
        (
            "ltc:n_trial=8",
            "option 'n_trial=8' of method ltc is not known; did you mean n_trials? Options with defaults:",
        ),
        ("fedavg:x=1", "option 'x=1' of method fedavg is not known; options with defaults: none"),
        ("ltcc", "unknown method 'ltcc'; did you mean ltc?"),
        ("hhfl:disable_links=[18]", "must be a list of [a whole number, a whole number], got '[18]'"),
        ("hhfl:disable_links=18", "must be a list of [a whole number, a whole number], got '18'"),
        ("hhfl:disable_links=[[18,1],[3]]", "must be a list of [a whole number, a whole number], got"),
        ("hhfl:stages=[[0,5]]", "must be a list of [a whole number, a whole number, a whole number] or nothing (null)"),
        ("hhfl:stages=[[1,5,5]]", "the first stage must start at step 0, got 1"),
        ("ltc:z=[", "the value of option z of method ltc cannot be read: '[', line 2, column 1: not valid YAML: "),
        ("csahfl:p=1000", "p must be at most 50 directions of a signature (3 as published), got 1,000"),
        ("pacfl:p=51", "p must be at most 50 directions"),
        ("ltc:n_trials=100000000", "n_trials must be at most 1,000,000, got 100,000,000"),
        ("ltc:box_s=inf", "box_s must be finite, so that a cloud round ends, got inf"),
        ("camu:cap=100000000", "cap must be at most 1,000 extra updates in a cloud round, got 100,000,000"),
        ("camu:radio=best", "radio must be one of db_gap"),
        ("fedmds:sigma=1e300", "sigma must be between 0.001 and 1000, got 1e+300"),
        ("fedmds:time=wall", "time must be one of auto, round, computing; got 'wall'"),
        ("fedprox:mu='0.1'", """option mu of method fedprox must be a number, got "'0.1'\""""),
        ("fedprox:mu=010", "line 1, column 1: '010' can be read in two ways; write it without the 0 in front"),
        ("fedprox:mu=*x", "aliases such as *x are not read"),
        ("fedprox:mu=" + "[" * 5000, "more than 32 levels of nesting"),
        ("x" * 10_001, "a method with options has at most 10,000 characters, got 10,001: 'xxx"),
        ("hhfl:quorum=2", "method hhfl:quorum=2: quorum must be between 0 and 1, got 2"),
        ("hhfl:patience_s=inf", "patience_s must be finite; None waits for ever"),
        ("hhfl:patience_s=0", "patience_s must be above 0, got 0"),
        ("hhfl:quorum=1:quorum=1", "option quorum of method hhfl is given twice"),
        ("geographic:capacity=0", "capacity must be a whole number of at least 1, got 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text, message):
    with pytest.raises(ValueError) as caught:
        make_method(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_one_pair_may_stand_without_its_outer_brackets(small):
    links = get_type_hints(hhfl.method)["disable_links"]
    assert read([18, 1], links) == read([[18, 1]], links) == [(18, 1)] and read([], links) == []
    whole, fewer, same = (
        fl.simulate(fl.scenario(small), make_method(f"hhfl:disable_links={pairs}"), dry_run=True)
        .places[0]
        .topology.cover
        for pairs in ("[]", bridge(small), f"[{bridge(small)}]")
    )
    assert whole.sum() == fewer.sum() + 1 and (fewer == same).all()


def bridge(small):
    """A link of a client in an overlap that is not its link home, "[client, edge]"."""
    place = fl.simulate(fl.scenario(small), "hhfl", dry_run=True).places[0]
    client = int(place.topology.cover.sum(axis=0).argmax())
    return f"[{client},{1 - place.home[client]}]"


def test_a_pair_without_brackets_is_refused_where_python_hands_it_over():
    with pytest.raises(
        ValueError, match=r"disable_links must be pairs of numbers, .* got 18 as number 0; a single pair needs"
    ):
        hhfl.method(disable_links=[18, 1])


def test_an_infinite_wait_is_a_wait_for_all():
    assert make_method("csahfl:alpha=inf").edge.pace is make_method("csahfl:wait=all").edge.pace is lockstep


@pytest.mark.parametrize("name", ["csahfl", "csahfl:signature=per_class", "pacfl"])
def test_more_directions_than_the_data_have_are_refused(small, name):
    scenario = fl.scenario(small)  # 40 samples of 8 inputs each
    with pytest.raises(
        ValueError, match=r"p must be at most the number of samples of any client, 40, because .* got 41"
    ):
        fl.simulate(scenario, make_method(f"{name}:p=41"), dry_run=True)
    with pytest.raises(ValueError, match=r"p must be at most the number of inputs of a sample, 8, because .* got 9"):
        fl.simulate(scenario, make_method(f"{name}:p=9"), dry_run=True)
    fl.simulate(scenario, make_method(f"{name}:p=8"), dry_run=True)


def world(small):
    """A scenario that any method can run in, with links between devices that matter."""
    small["fleet"] |= {
        "device_device": {"kind": "drawn", "low": 1, "high": 5, "unit_bit_s": 1e5},
        "device_cloud": {"via": "direct", "up": {"kind": "radio"}},
        "compute": {"law": {"kind": "uniform", "low": 1, "high": 3}, "unit": "steps-per-second"},
    }
    small["training"]["cloud_rounds"] = 1
    small["task"]["gaussian"]["n_train"] = 300
    return fl.scenario(small)


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_an_odd_value_is_refused_in_one_line_or_runs(small, name, option):
    scenario = world(small)
    for value in ODD:
        try:
            method = make_method(f"{name}:{option}={value}")
            for _ in Simulation(scenario, method, 0, n_workers=1, dry_run=True).rounds():
                pass
        except ValueError as error:
            assert str(error) and "\n" not in str(error)
