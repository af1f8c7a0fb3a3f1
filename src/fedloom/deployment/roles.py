"""The roles as programs: what a bundle comes to in a process of its own.

State lies in the bundle's folder: `state/` (values, on the cloud also the journal) and `log.jsonl`; the cloud has also `record/`,
the usual record of the run, and `measured.json`, predicted beside measured for every device. A role that was killed is started
again with the same bundle and goes on.
"""

import asyncio
import contextlib
import fcntl
import gc
import logging
import signal
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.deployment.booking import Booking
from fedloom.deployment.bundles import REVOKED, Bundle, RevokedList, read_bundle
from fedloom.deployment.certificates import Credentials
from fedloom.deployment.cloud import CloudDesk, conduct
from fedloom.deployment.coded import Wire
from fedloom.deployment.conductor import Conductor
from fedloom.deployment.hostile import check_hostile
from fedloom.deployment.journal import Journal
from fedloom.deployment.letters import MOST_HEADER, Letter
from fedloom.deployment.logs import Log
from fedloom.deployment.meters import meter_of
from fedloom.deployment.metrics import shown
from fedloom.deployment.naming import CLOUD, client_of, identity_of
from fedloom.deployment.node import Node
from fedloom.deployment.own import own_task
from fedloom.deployment.plans import label_of, method_of
from fedloom.deployment.rates import Shaped
from fedloom.deployment.shaping import Network
from fedloom.deployment.store import Store
from fedloom.deployment.strangers import noticed
from fedloom.deployment.took import Traffic
from fedloom.deployment.transport import Desk, Link
from fedloom.deployment.worker import Worker
from fedloom.methods import Method
from fedloom.record.checkpoints import checkpoint_files, load_checkpoint, save_checkpoint
from fedloom.record.folder import record
from fedloom.record.identity import identity_of as identity_of_run
from fedloom.record.identity import settings_of
from fedloom.record.measured import write_measured
from fedloom.simulator.scenarios import EveryEdgeRounds, Scenario
from fedloom.simulator.setting import make_setting, screened_by
from fedloom.simulator.simulation import Simulation
from fedloom.simulator.world import World
from fedloom.training.choose import make_engine

OnRound = Callable[[int, dict[str, float | int] | None], None]
STOPPED = 143  # exit code after SIGTERM or Ctrl-C: it is not over, and goes on when it is started again
SWITCH_S = 0.0005  # a thread that computes lets others answer so often
FEATURES = 16 << 20  # bytes that a feature may have beyond a model, at the cloud
LOG, STATE, RECORD, LOCK, OF_GRPC = "log.jsonl", "state", "record", "lock", "grpc.log"
LOCK_S = 5.0


@dataclass(frozen=True, eq=False)
class Role:
    """A role with all that it is made of. folder: its bundle's, where its state lies; metrics: HOST:PORT where they are shown;
    network: whose links the cloud gives rates."""

    bundle: Bundle
    credentials: Credentials
    folder: Path
    scenario: Scenario
    method: Method
    log: Log
    metrics: str | None
    network: Network | None


def check_runs(scenario: Scenario, method: Method) -> None:
    """Say at start why a combination cannot be deployed."""
    if isinstance(scenario.evaluation.every, EveryEdgeRounds):
        raise ValueError(
            "evaluation.every counts edge rounds, and between cloud rounds the models are with their stations, not with the "
            "cloud; set evaluation.every to a number of cloud rounds"
        )
    if scenario.fleet.in_time:
        raise ValueError(
            "the fleet changes with the seconds of a simulation (mobility that goes by time, traces, redraw: tick), and a "
            "deployment has seconds and devices of its own; leave these out of fleet, or simulate it: fedloom run"
        )
    check_hostile(scenario, method)
    if scenario.evaluation.models == "devices":
        raise ValueError(
            "evaluation.models is devices, and what a device has trained is not shown to the cloud; set it to edges or global"
        )


def run_role(
    folder: Path,
    *,
    role: str | None = None,
    on_round: OnRound | None = None,
    echo: bool = False,
    metrics: str | None = None,
    network: Network | None = None,
) -> None:
    """Run the role of a bundle to its end. role: what it must be; echo: log to standard error, too; metrics: HOST:PORT. network:
    whose links the cloud is to give the rates of the fleet, and devices then compute for as long as the fleet says."""
    bundle, credentials = read_bundle(folder)
    found = identity_of(bundle.name).role
    if role is not None and role != found:
        raise ValueError(f"{folder} is the bundle of {bundle.name}; start it with: fedloom {found} {folder}")
    scenario = Scenario.model_validate(dict(bundle.scenario))
    method = screened_by(method_of(bundle.method, bundle.clusters), scenario)
    check_runs(scenario, method)
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()  # what is loaded stays: it is not looked through again and again
    with _alone(folder), (folder / LOG).open("a") as file:
        log = Log(bundle.name, _writer(file, echo))
        play = Role(bundle, credentials, folder, scenario, method, log, metrics, network)
        program = _cloud(play, on_round) if found == CLOUD else _node(play)
        serves = bundle.listen is not None
        try:
            with noticed(folder / OF_GRPC, log) if serves else contextlib.nullcontext():
                asyncio.run(_ended_by_signals(program))
        except asyncio.CancelledError:
            log("stopped")
            raise SystemExit(STOPPED) from None
        except Exception as error:
            log("ended", why=f"{type(error).__name__}: {error}", trace=traceback.format_exc(limit=-3))
            raise


async def ask_status(bundle: Bundle, credentials: Credentials, timeout_s: float = 5.0) -> dict[str, Any]:
    """What the cloud says of the federation."""
    from fedloom.deployment.links import GrpcLink

    async with GrpcLink(credentials, bundle.addresses, MOST_HEADER + FEATURES) as link:
        return dict((await link.call(CLOUD, Letter("status"), timeout_s)).fields)


async def _node(role: Role) -> None:
    bundle, log = role.bundle, role.log
    setting = make_setting(role.scenario, role.method, bundle.seed, **own_task(bundle.task, bundle.name))
    client = client_of(bundle.name)
    engine = None if client is None else make_engine(setting.task, setting.rule, bundle.seed, 1, bundle.engine)[0]
    worker = None if client is None or engine is None else Worker(client, setting, engine)
    meter = None if client is None else meter_of(bundle.meter, bundle.name)
    n_params, trainable = setting.width, setting.world.coded
    most = Wire(role.method.coding, n_params, trainable).most_bytes
    store = Store(role.folder / STATE, bundle.run)
    log("started", run=bundle.run, kept=len(store.names), damaged=store.damaged)
    try:
        traffic, method = Traffic(), role.method
        async with _linked(role, most, traffic) as link:
            node = Node(
                bundle.name,
                method,
                store,
                link,
                log,
                n_params,
                worker=worker,
                traffic=traffic,
                meter=meter,
                trainable=trainable,
            )
            async with (
                _served(role, node, lambda: node.revoked, most),
                _with(shown(log, node.gauges, role.metrics)),
            ):
                await node.run()
    finally:
        if engine is not None:
            engine.close()


async def _cloud(role: Role, on_round: OnRound | None) -> None:
    bundle, folder, log, method = role.bundle, role.folder, role.log, role.method
    store, journal = Store(folder / STATE, bundle.run), Journal(folder / STATE / "journal", bundle.run)
    check_state(folder, journal)
    log("started", run=bundle.run, kept=len(store.names), happened=len(journal.happened), damaged=store.damaged)
    revoked = RevokedList(_first(folder / REVOKED, folder.parent / REVOKED), lambda why: log("cannot", why=why))
    own = own_task(bundle.task, bundle.name)
    setting = make_setting(role.scenario, method, bundle.seed, **own)
    world, n_params = setting.world, setting.width
    conductor = Conductor(
        method,
        journal,
        store,
        n_params,
        waiting=bundle.waiting,
        trainable=world.coded,
        bits=(world.up_bits, world.down_bits),
        layout=world.layout,
    )
    simulation = Simulation(
        role.scenario, method, bundle.seed, engine=bundle.engine, n_workers=1, carrier=conductor, **own
    )
    conductor.booking = Booking(lambda: simulation.federation.ledger, world.up_bytes, world.down_bytes, journal)
    shaped = None if role.network is None else _shaped(role.network, world, conductor.wire)
    conductor.on_scene = shaped
    try:
        traffic = Traffic()
        most = conductor.wire.most_bytes
        async with _linked(role, most, traffic) as link:
            station = Node(
                CLOUD,
                method,
                store,
                link,
                log,
                n_params,
                find=conductor.row_of,
                traffic=traffic,
                trainable=world.coded,
            )
            desk = CloudDesk(conductor, station, bundle.roster, revoked)
            async with (
                _served(role, desk, revoked, most + FEATURES),
                _with(shown(log, desk.gauges, role.metrics)),
            ):
                insist = conductor.clock.insist
                over = await conduct(desk, simulation, lambda sim: _recorded(sim, role, on_round, insist))
                if over and conductor.measures.lines:  # none if the run was over before this start
                    wire = None if shaped is None else shaped.carried()
                    sizes = _sizes(world, conductor.wire)
                    found = conductor.measures.report(**sizes, hops=conductor.booking.table(), wire=wire)
                    write_measured(folder / RECORD, found)
    finally:
        journal.close()


def _shaped(network: Network, world: World, wire: Wire) -> Shaped:
    coded = None if wire.coding.plain else (8.0 * wire.up_bytes, 8.0 * wire.down_bytes)
    return Shaped(network, world.wide_bits, 32.0 * wire.n_params, coded)


def _sizes(world: World, wire: Wire) -> dict[str, Any]:
    """Bytes of a model, by the scenario and as it is carried."""
    coded = {
        "up": {"counted_bytes": world.up_bytes, "carried_bytes": wire.up_bytes},
        "down": {"counted_bytes": world.down_bytes, "carried_bytes": wire.down_bytes},
    }
    return {
        "counted_bytes": world.up_bytes if wire.coding.plain else world.model_bytes,
        "carried_bytes": 4 * wire.n_params,
        "coded": None if wire.coding.plain else coded,
    }


def check_state(folder: Path, journal: Journal) -> None:
    """ValueError if the record of a cloud is ahead of an empty journal: its state was lost, while nodes still have theirs. The
    other way round, the record is made again."""
    record = folder / RECORD
    begun = not journal.happened and checkpoint_files(record) and not (record / "summary.json").exists()
    done = load_checkpoint(record) if begun else None
    if done is not None and done.cloud_round > 0:
        journal.close()
        raise ValueError(
            f"{folder / STATE} is empty, and {record} has {done.cloud_round} cloud rounds: without its journal the federation "
            f"cannot go on; take {STATE} back from a copy, or begin anew with `fedloom deploy init`"
        )


def _recorded(
    simulation: Simulation, role: Role, on_round: OnRound | None, insist: Callable[[Callable[[], object]], None]
) -> None:
    """Run to the end and leave the usual record; a checkpoint after every cloud round, so that a kill loses none. insist: does
    what writes to disk until it is written."""
    folder, log = role.folder / RECORD, role.log
    method = label_of(role.bundle.method, role.bundle.clusters)
    identity = identity_of_run(settings_of(simulation, method))

    def after(done: int, measures: dict[str, float | int] | None) -> None:
        insist(lambda: save_checkpoint(folder, simulation.checkpoint(), identity))
        told: dict[str, Any] = {"done": done, **(measures or {})}
        log("cloud-round", **told)
        if on_round is not None:
            on_round(done, measures)

    record(simulation, method, folder, resume=True, on_round=after)


@contextlib.asynccontextmanager
async def _with(context: contextlib.AbstractContextManager[Any]) -> AsyncIterator[None]:
    with context:
        yield


@contextlib.asynccontextmanager
async def _linked(role: Role, most: int, traffic: Traffic) -> AsyncIterator[Link]:
    """most: bytes of a model in a letter."""
    from fedloom.deployment.links import GrpcLink

    async with GrpcLink(role.credentials, role.bundle.addresses, most + 2 * MOST_HEADER, traffic) as link:
        yield link


@contextlib.asynccontextmanager
async def _served(role: Role, desk: Desk, revoked: Callable[[], Any], most: int) -> AsyncIterator[None]:
    """Listen, if this node has an address. most: bytes of values in a letter."""
    bundle = role.bundle
    if bundle.listen is None:
        yield
        return
    from fedloom.deployment.links import GrpcServer

    most, n_nodes = most + (1 << 20), len(bundle.roster)
    async with GrpcServer(
        desk, role.credentials, bundle.listen, bundle.run, most, role.log, revoked=revoked, n_nodes=n_nodes
    ) as server:
        role.log("listening", at=bundle.listen, port=server.port)
        yield


async def _ended_by_signals(program: Any) -> None:
    """SIGTERM and Ctrl-C end a role in order: servers and channels are closed."""
    task = asyncio.ensure_future(program)
    loop = asyncio.get_running_loop()

    def end() -> None:
        for name in ("grpc", "asyncio"):  # what they say of calls that are cut off would be shown as an error
            logging.getLogger(name).addHandler(logging.NullHandler())
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, RuntimeError):  # not in the main thread, or no such signal here
            loop.add_signal_handler(number, end)
    await task


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a bundle: two processes would change each other's state. The system lets go of it if one is killed, and
    what it has started may take a moment longer to end."""
    end_s = time.monotonic() + LOCK_S
    with (folder / LOCK).open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end_s:
                    raise ValueError(f"another process runs with the bundle {folder}; end it first") from None
                time.sleep(0.1)
        yield


def _writer(file: Any, echo: bool) -> Callable[[str], object]:
    def write(line: str) -> None:
        with contextlib.suppress(OSError):  # a full disk: what matters is said again
            file.write(line)
            file.flush()
        if echo:
            sys.stderr.write(line)

    return write


def _first(*paths: Path) -> Path:
    return next((path for path in paths if path.exists()), paths[0])
