"""A whole federation in one process: cloud, edges and devices are tasks that can be killed and made anew from their folders."""

import asyncio
import contextlib
import json
import threading
from dataclasses import replace

import numpy as np

from deployment.network import Network
from fedloom.deployment import naming
from fedloom.deployment.clock import Stopped
from fedloom.deployment.cloud import CloudDesk, conduct
from fedloom.deployment.conductor import Conductor
from fedloom.deployment.journal import Journal, happening_of
from fedloom.deployment.logs import Log
from fedloom.deployment.node import Node
from fedloom.deployment.recorded import Recorded
from fedloom.deployment.store import Store
from fedloom.deployment.worker import Worker
from fedloom.record.checkpoints import choose_checkpoint, save_checkpoint
from fedloom.simulator import Scenario, Simulation, make_method
from fedloom.simulator.setting import make_setting, screened_by
from fedloom.training.choose import make_engine
from fedloom.training.native import NativeEngine

RUN = "0123456789abcdef0123456789abcdef"


def of_name(method):
    """A method as it is, or by its name."""
    return make_method(method) if isinstance(method, str) else method


class Together:
    """Runs a scenario with a method. `row` is the cloud's model when `run` is over."""

    def __init__(self, scenario, method, folder, seed=0, network=None, patience_s=None, absent=()):
        self.scenario, self.seed = Scenario.model_validate(scenario), seed
        self.method = screened_by(of_name(method), self.scenario)
        self.folder, self.network = folder, network or Network()
        self.setting = make_setting(self.scenario, self.method, seed)
        self.engine, _ = make_engine(self.setting.task, self.setting.rule, seed, 1)
        self.n_params = self.setting.width
        self.coded = {"trainable": self.setting.world.coded}
        n_cells = self.setting.world.fleet.n_cells
        self.names = [f"edge-{c}" for c in range(n_cells)] + [
            naming.device(k) for k in range(self.scenario.fleet.n_devices)
        ]
        self.patience_s, self.absent = patience_s, set(absent)
        self.tasks = {}
        self.nodes = {}
        self.over = asyncio.Event()
        self.row = None
        self.logs = {}
        self.rounds = []  # cloud rounds that are over, of all lives
        self.die_after = []  # cloud rounds after whose checkpoint the cloud dies, once
        self.ended = threading.Event()
        self.ended.set()

    def start(self, name):
        """Make a node from its folder, and let it run."""
        log = self.logs[name] = self.logs.get(name) or Log(name)
        self.network.logs[name] = log
        run = self._cloud() if name == naming.CLOUD else self._node(name)
        self.tasks[name] = asyncio.create_task(run)

    async def kill(self, name):
        """As kill -9: nothing more is done or answered, and only what is on disk is left."""
        self.network.cut(name)
        task = self.tasks.pop(name)
        if name == naming.CLOUD:
            self.conductor.clock.stop()
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=0.2)
        if (
            name == naming.CLOUD
        ):  # a thread cannot be killed: it is waited for, and what it wrote last it wrote before the kill
            await asyncio.to_thread(self.ended.wait)

    async def restart(self, name):
        await self.kill(name)
        self.start(name)

    async def run(self, timeout_s=40.0):
        for name in [naming.CLOUD, *self.names]:
            if name not in self.absent:
                self.start(name)
        try:
            async with asyncio.timeout(timeout_s):
                while not self.over.is_set():
                    for name, task in list(self.tasks.items()):
                        if task.done() and not task.cancelled() and task.exception() is not None:
                            raise AssertionError(f"{name} has ended") from task.exception()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self.over.wait(), 0.2)
        except TimeoutError:
            raise AssertionError(
                f"not over after {timeout_s} s: {self.conductor}, {[(n.name, n.doing.at_work) for n in self.nodes.values()]}"
            ) from None
        finally:
            for name in list(self.tasks):
                await self.kill(name)
            self.engine.close()
        return self.row

    def _engine_of_a_device(self):
        """Torch trains one job at a time, and devices are threads here."""
        if isinstance(self.engine, NativeEngine):
            return self.engine
        return make_engine(self.setting.task, self.setting.rule, self.seed, 1)[0]

    async def _node(self, name):
        store = Store(self.folder / name, RUN)
        client = naming.client_of(name)
        worker = None if client is None else Worker(client, self.setting, self._engine_of_a_device())
        node = Node(
            name,
            self.method,
            store,
            self.network.link(name),
            self.logs[name],
            self.n_params,
            worker=worker,
            **self.coded,
        )
        self.nodes[name] = self.network.desks[name] = node
        await node.run()

    async def _cloud(self):
        folder = self.folder / "cloud"
        store, journal = Store(folder / "store", RUN), Journal(folder / "journal", RUN)
        waiting = replace(self.method.waiting, patience_s=self.patience_s)
        conductor = self.conductor = Conductor(
            self.method,
            journal,
            store,
            self.n_params,
            waiting=waiting,
            layout=self.setting.world.layout,
            **self.coded,
        )
        simulation = Simulation(self.scenario, self.method, self.seed, carrier=conductor, n_workers=1)
        station = Node(
            "cloud",
            self.method,
            store,
            self.network.link("cloud"),
            self.logs["cloud"],
            self.n_params,
            find=conductor.row_of,
            **self.coded,
        )
        desk = self.network.desks["cloud"] = CloudDesk(conductor, station, self.names)

        ended = self.ended

        def carry_out(simulation):
            ended.clear()
            try:
                checkpoint = choose_checkpoint(folder, RUN).checkpoint
                for _ in simulation.rounds(checkpoint):
                    conductor.clock.insist(lambda: save_checkpoint(folder, simulation.checkpoint(), RUN))
                    self.rounds.append(simulation.cloud_rounds_done)
                    if simulation.cloud_rounds_done in self.die_after:
                        self.die_after.remove(simulation.cloud_rounds_done)
                        raise Stopped
            finally:
                ended.set()

        try:
            if await conduct(desk, simulation, carry_out):
                self.row = np.array(simulation.result().row)
                self.simulation = simulation
                self.over.set()
        finally:
            journal.close()


def journal_of(folder):
    """What has happened so far, while the cloud may be writing."""
    path = folder / "cloud" / "journal"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    found = [json.loads(line[9:]) for line in lines]
    return [happening_of(line["what"]) for line in found if "what" in line]


def recorded(scenario, method, journal, run=RUN, seed=0):
    """The model of a simulation that is fed with the times in the journal of a deployed run."""
    made = of_name(method)
    path = journal / "cloud" / "journal" if journal.is_dir() else journal
    chosen = Scenario.model_validate(scenario)
    world = make_setting(chosen, made, seed).world
    carrier = Recorded(made, path, run, up_bits=world.up_bits, down_bits=world.down_bits)
    simulation = Simulation(chosen, made, seed, n_workers=1, carrier=carrier)
    for _ in simulation.rounds():
        pass
    return simulation.result().row


def simulated(scenario, method, seed=0):
    """The simulator's model."""
    simulation = Simulation(Scenario.model_validate(scenario), of_name(method), seed, n_workers=1)
    for _ in simulation.rounds():
        pass
    return simulation.result().row
