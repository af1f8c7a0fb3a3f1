"""`fedloom run --plan`: the clusters of a plan in the simulator."""

import hashlib
from pathlib import Path
from typing import Any

from fedloom.cli.method_text import with_settings


def plan_to_run(file: Path, scenario: str | None, method: str | None, changes: list[str]) -> tuple[Any, Any, str]:
    """The scenario of a plan (or another one's data, model and learning, with the plan's fleet and periods), the method with
    the plan's clusters, and how that is called in the record: with a hash of the clusters, which are part of who the run is."""
    from fedloom.deployment.plans import method_of, read_plan
    from fedloom.planning import with_plan
    from fedloom.simulator import scenario as read_scenario

    planned = read_plan(file)
    if planned.scenario is None:
        raise ValueError(f"{file} does not say in which scenario it runs; plan again")
    content = planned.scenario
    if scenario is not None:
        content = with_plan(read_scenario(scenario).model_dump(mode="json", exclude_none=True), planned.scenario)
    name = method or planned.method or "geographic"
    name, changes = with_settings(name, changes)
    digest = hashlib.sha256(repr(planned.clusters.head).encode()).hexdigest()[:8]
    return read_scenario(content, changes), method_of(name, planned.clusters), f"{name} by plan {digest}"
