"""2,000 changed inputs for each parser; `python -m tests.gate.fuzz --n 100000` tries more."""

import os
import signal
import time

import pytest
from fuzz import apart
from fuzz.parsers import Parser, all_parsers
from fuzz.reach import reached, table
from fuzz.trial import input_of, tried

from fedloom.gate import Refused

N = 2000
PARSERS = all_parsers()
RESTARTED = {"fleet-parquet", "positions-parquet"}  # their reader crashes and is started anew, again and again
CHANGED = [pytest.param(p, marks=pytest.mark.full if p.name in RESTARTED else ()) for p in PARSERS]


@pytest.mark.parametrize("parser", CHANGED, ids=lambda parser: parser.name)
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


def test_an_input_that_kills_or_hangs_the_interpreter_is_a_fault_with_its_number(monkeypatch):
    """The others are tried all the same."""
    monkeypatch.setattr(apart, "HANG_S", 0.5)
    hurt = {
        b"1": lambda: os.kill(os.getpid(), signal.SIGKILL),
        b"2": lambda: time.sleep(60),
        b"4": lambda: bytearray(1 << 40),
        b"6": lambda: os._exit(3),
    }

    def parse(data):
        hurt.get(data, lambda: None)()
        return data

    seeds = tuple(b"%d" % n for n in range(8))
    told = []  # by this process; what the child tells is lost here
    count = apart.try_all(Parser(name="broken", seeds=seeds, parse=parse, holds=bool), range(8), told.append)
    assert (count.n, count.accepted, count.refused, count.faults) == (8, 4, 0, 4)
    assert told == [
        "broken 1: ended the interpreter with SIGKILL",
        "broken 2: hung for 0 s",
        "broken 6: ended the interpreter with code 3",
    ]


def test_lines_that_inputs_reach_are_counted():
    [parser] = [parser for parser in PARSERS if parser.name == "json"]
    with reached() as few:
        tried(parser, parser.seeds[0])
    with reached() as more:
        for number in range(200):
            tried(parser, input_of(parser, number))
    module = "gate/json_text.py"
    assert set() < few[module] < more[module]
    assert not few["gate/yaml_text.py"]
    [line] = [line for line in table(more) if line.startswith(module)]
    assert "1 of 1 functions" in line and "not reached" in line
