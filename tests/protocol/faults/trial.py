"""One seed: a federation from its plan to its end, held against the laws and the reference."""

from typing import NamedTuple

from .driver import Run
from .plan import plan_of
from .reference import Reference


class Outcome(NamedTuple):
    """events: that happened; merges: at edges; versions: merges at the cloud."""

    events: int
    merges: int
    versions: int


def tried(seed: int) -> Outcome:
    """Run a seed; an AssertionError names what went wrong."""
    run = Run(plan_of(seed))
    try:
        run.run()
        reference = Reference(run.plan, len(run.plan.host))
        reference.replay(run.log)
        edges = [model.tolist() for model in run.edges]
        assert reference.edges == edges, f"models of aggregators are {edges}, and should be {reference.edges}"
        cloud, should = run.models[run.model].tolist(), reference.models[reference.model]
        assert cloud == should, f"the model of the cloud is {cloud}, and should be {should}"
    except Exception as failure:
        raise AssertionError(f"again: python -m tests.protocol.faults --seed {seed}\n{failure!r}") from failure
    return Outcome(run.n_events, run.laws.n_merges, run.laws.n_cloud_merges)
