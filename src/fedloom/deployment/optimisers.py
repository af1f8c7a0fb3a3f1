"""Server optimisers where clients are averaged: their steps are taken by the cloud, who has the moments."""

from fedloom.deployment.recorded import in_lockstep
from fedloom.methods import Method
from fedloom.simulator.scenarios import Scenario


def check_optimiser(scenario: Scenario, method: Method) -> None:
    """Refuse an optimiser of aggregators whose models do not come to the cloud after every one of its steps."""
    once = scenario.training.edge_rounds == 1 and not method.allots_rounds
    if method.merge_edge.then is None or (once and in_lockstep(method) and method.edge.rounds is None):
        return
    raise ValueError(
        f"{method.name} has a server optimiser where clients are averaged, and its moments are with the cloud, to which models "
        "come once a cloud round; set training.edge_rounds=1, or use one at the cloud above edges (hierarchical=true)"
    )
