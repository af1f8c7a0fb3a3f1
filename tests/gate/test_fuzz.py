"""2,000 changed inputs for each parser; `python -m tests.gate.fuzz --n 100000` tries more."""

import pytest
from fuzz.parsers import Parser, all_parsers
from fuzz.trial import input_of, tried

from fedloom.gate import Refused

N = 2000
PARSERS = all_parsers()


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_a_changed_input_gives_a_right_result_or_one_clear_line(parser):
    faults = {}
    n_accepted = 0
    for number in range(N):
        outcome = tried(parser, input_of(parser, number))
        n_accepted += outcome.accepted
        if outcome.fault:
            faults[number] = outcome.fault
    assert not faults, f"again: python -m tests.gate.fuzz --parser {parser.name} --only {next(iter(faults))}\n{faults}"
    assert len(parser.seeds) <= n_accepted < N  # some of both, or nothing was tried


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_good_inputs_are_accepted(parser):
    for number in range(len(parser.seeds)):
        outcome = tried(parser, input_of(parser, number))
        assert outcome.accepted and outcome.fault is None


@pytest.mark.parametrize(
    ("parse", "fault"),
    [
        (lambda data: 1 / 0, "ZeroDivisionError"),
        (lambda data: [][1], "IndexError"),
        (lambda data: int("x"), "ValueError"),
        (lambda data: b"", "accepted, but it is not right"),
        (lambda data: (_ for _ in ()).throw(Refused("")), "a message without words"),
        (lambda data: (_ for _ in ()).throw(Refused("x" * 10_000)), "a message of 1 lines"),
        (lambda data: (_ for _ in ()).throw(MemoryError()), "MemoryError"),
    ],
)
def test_a_fault_is_seen(parse, fault):
    broken = Parser(name="broken", seeds=(b"good",), parse=parse, holds=bool)
    assert fault in tried(broken, b"good").fault
