"""Who takes part in a deployment, and who must be reachable: from the scenario, and where heads are chosen, from a dry run."""

from fedloom.deployment.naming import CLOUD, device
from fedloom.deployment.own import own_task
from fedloom.methods import Method
from fedloom.simulator.scenarios import Scenario
from fedloom.simulator.simulation import Simulation


def roster_of(
    scenario: Scenario, method: Method, seed: int, task: str | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The nodes beside the cloud, and those of all who serve: the cloud, edges that have clients, and every device if the method
    has devices head clusters."""
    dry = Simulation(scenario, method, seed, dry_run=True, **own_task(task, CLOUD))
    kinds = set()
    for _ in dry.rounds():
        kinds |= {place.topology.kind for place in dry.places[-1:]}
        if "head" in kinds or dry.cloud_rounds_done > max(1, method.cloud.warmup):
            break
    devices = tuple(device(k) for k in range(scenario.fleet.n_devices))
    edges = tuple(f"edge-{c}" for c in range(dry.world.fleet.n_cells)) if "edge" in kinds else ()
    return (*edges, *devices), (CLOUD, *edges, *(devices if "head" in kinds else ()))
