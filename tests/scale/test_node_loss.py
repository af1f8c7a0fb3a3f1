"""A machine of three is killed in mid-round, and nothing changes but the time it takes."""

import pytest
from agreement import same_run

from fedloom.scale.engine import on_ray
from fedloom.simulator import Simulation, make_method, scenario, simulate

pytestmark = pytest.mark.slow  # starts Ray


@pytest.mark.full  # starts three nodes
def test_a_killed_node_changes_nothing(three_nodes, crowd):
    ray, cluster, others = three_nodes
    crowd["training"]["local_steps"] = 40  # a call takes long enough to be caught by the kill
    here = simulate(scenario(crowd), "hhfl", 2)
    simulation = Simulation(scenario(crowd), make_method("hhfl"), 2, engine=on_ray(cluster.address, 3))
    engine = simulation.engine
    rounds = simulation.rounds()
    next(rounds), next(rounds)
    assert engine._pool.n_ready >= 1
    pool, real = engine._pool, ray.wait
    while pool.n_ready < 3:  # all three are there before one is lost
        done, _ = real(list(pool._starting), timeout=60)
        for ref in done:
            pool._welcome(ref)
    waits = []

    class Killing:  # ray, with a node that is lost while calls are under way
        def __getattr__(self, name):
            return getattr(ray, name)

        def wait(self, refs, **options):
            waits.append(len(refs))
            if len(waits) == 2:
                cluster.remove_node(others[0], allow_graceful=False)
            return real(refs, **options)

    pool._ray = Killing()
    for _ in rounds:
        pass
    assert engine.n_lost >= 1
    assert not others[0].any_processes_alive()
    same_run(simulation.result(), here)
