"""Checkpoints of a run, the last two: checkpoint/state.safetensors and, before it, checkpoint/before.safetensors.

Each is believed only if it carries the run's identity and its content has the digest that stands in it. A new one is written
beside and flushed before anything is renamed, so that one of the two is whole at any moment. The folder is not flushed: after a
power cut the newest name may be missing, not what it stands for.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.gate.words import one_line
from fedloom.record.files import FolderError, beside_of, explaining, read_json, write_beside

if TYPE_CHECKING:  # reading records needs no torch
    from fedloom.simulator import Checkpoint, Decision

NEWER, OLDER = "state.safetensors", "before.safetensors"
REFUSED = ".refused"  # at the end of the name of a file that was not believed
Arrays = dict[str, np.ndarray[Any, Any]]


class Unbelievable(ValueError):
    """A checkpoint that is damaged or another run's: what was expected, and what came."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"{found}, where {expected} was expected")
        self.expected, self.found = expected, found


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """The checkpoint to go on from, None if there is none yet; refused: paths of those that are not believed, and why."""

    checkpoint: "Checkpoint | None"
    refused: dict[Path, Unbelievable]


def save_checkpoint(folder: Path, checkpoint: "Checkpoint", identity: str, *, flush: bool = True) -> None:
    """Write the newest checkpoint and keep the one before it. flush: it must outlast a power cut, as nothing follows soon that
    does."""
    from safetensors.numpy import save

    arrays: Arrays = {"models": np.ascontiguousarray(checkpoint.models)}
    if checkpoint.sums:
        arrays["sums"] = np.stack(list(checkpoint.sums.values()))
    if checkpoint.own_at:
        arrays["own"] = checkpoint.own
    if checkpoint.last_row is not None:
        arrays["last_row"] = checkpoint.last_row
    state = {
        "identity": identity,
        "cloud_round": checkpoint.cloud_round,
        "looks": checkpoint.looks,
        "waves": checkpoint.waves,
        "sums": list(checkpoint.sums),
        "measures": checkpoint.measures,
        "decisions": {g: _pack(decision) for g, decision in checkpoint.decisions.items()},
        "scores": checkpoint.scores,
    } | ({"own_at": checkpoint.own_at, "own_width": checkpoint.own_width} if checkpoint.own_at else {})
    state |= {"sick": checkpoint.sick} if checkpoint.sick else {}
    state |= {"verdicts": checkpoint.verdicts} if checkpoint.verdicts else {}
    text = json.dumps(state)
    # one entry: several would be written in any order, and the same run writes the same bytes
    content = save(arrays, metadata={"state": json.dumps({"sha256": _digest(text, arrays), "state": text})})
    where = folder / "checkpoint"
    with explaining(where / NEWER, beside_of(where / NEWER)):
        where.mkdir(exist_ok=True)
        beside = write_beside(where / NEWER, content, flush=flush)
        if (where / NEWER).exists():
            (where / NEWER).replace(where / OLDER)
        beside.replace(where / NEWER)


def choose_checkpoint(folder: Path, identity: str) -> Choice:
    """The latest checkpoint that can be believed."""
    refused: dict[Path, Unbelievable] = {}
    good: list[Checkpoint] = []
    for path in checkpoint_files(folder):
        try:
            good.append(read_checkpoint(path, identity))
        except Unbelievable as error:
            refused[path] = error
    return Choice(checkpoint=max(good, key=lambda c: c.moment, default=None), refused=refused)


def load_checkpoint(folder: Path) -> "Checkpoint | None":
    """The latest checkpoint of the run in a folder, None if there is none yet; FolderError if none can be believed."""
    choice = choose_checkpoint(folder, read_json(folder / "run.json").get("identity", ""))
    if choice.checkpoint is None and choice.refused:
        raise FolderError(refusal(choice))
    return choice.checkpoint


def refusal(choice: Choice) -> str:
    """Why a run cannot go on, and what to do."""
    shown = "; ".join(f"{path} cannot be used: {error}" for path, error in choice.refused.items())
    where = next(iter(choice.refused)).parent
    return f"{shown}; delete {where} to start the run again from the beginning"


def checkpoint_files(folder: Path) -> list[Path]:
    """Those that are there, the newer first."""
    return [path for name in (NEWER, OLDER) if (path := folder / "checkpoint" / name).exists()]


def read_checkpoint(path: Path, identity: str) -> "Checkpoint":
    """The checkpoint in a file; Unbelievable if it is damaged or not of the run with this identity."""
    from fedloom.simulator import Checkpoint
    from fedloom.simulator.trails import Verdict

    state, arrays = open_checkpoint(path, identity)
    try:
        return Checkpoint(
            cloud_round=state["cloud_round"],
            measures=state["measures"],
            models=arrays["models"],
            decisions={int(g): _unpack(packed) for g, packed in state["decisions"].items()},
            scores={int(n): score for n, score in state["scores"].items()},
            verdicts={int(n): [Verdict(*one) for one in some] for n, some in state.get("verdicts", {}).items()},
            looks=state["looks"],
            waves=state["waves"],
            sums=dict(zip(state["sums"], arrays["sums"])) if state["sums"] else {},
            last_row=arrays.get("last_row"),
            own=arrays.get("own", np.zeros((0, 0), dtype=np.float32)),
            own_at=state.get("own_at", []),
            own_width=state.get("own_width", []),
            sick=[(str(who), int(k), int(n), str(cause)) for who, k, n, cause in state.get("sick", [])],
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, MemoryError) as error:
        reason = one_line(str(error) or type(error).__name__)
        raise Unbelievable("a whole checkpoint", f"one that is made wrongly ({reason})") from None


def open_checkpoint(path: Path, identity: str) -> tuple[dict[str, Any], Arrays]:
    """State and arrays of a checkpoint whose digest and identity are right, without what makes a simulation of them."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            sealed = json.loads(file.metadata()["state"])
            arrays: Arrays = {name: file.get_tensor(name) for name in sorted(file.keys())}
        text, wanted = sealed["state"], sealed["sha256"]
        state = json.loads(text)
        came = _digest(text, arrays)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = one_line(str(error) or type(error).__name__)
        raise Unbelievable("a whole checkpoint", f"a damaged file ({reason})") from None
    if came != wanted:
        raise Unbelievable(f"content with the digest {wanted}", f"content with the digest {came}, so it is damaged")
    if not isinstance(state, dict) or state.get("identity") != identity:
        whose = state.get("identity") if isinstance(state, dict) else None
        raise Unbelievable(f"one of the run {identity}", f"a checkpoint of another run, {whose}")
    return state, arrays


def _digest(text: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _pack(decision: "Decision") -> dict[str, Any]:
    """A decision in plain lists; clusters as the clients of each aggregator."""
    topology = decision.topology
    return {
        "asked": [[kind, layers] for kind, layers in decision.asked],
        "kind": topology.kind,
        "host": topology.host.tolist(),
        "clients": [np.flatnonzero(row).tolist() for row in topology.cover],
        "n_clients": topology.cover.shape[1],
        "notes": {name: np.asarray(value).tolist() for name, value in topology.notes.items()},
        "cluster": None if topology.cluster is None else topology.cluster.tolist(),
        "squad": None if topology.squad is None else topology.squad.tolist(),
        "follow": topology.follow,
    }


def _unpack(packed: dict[str, Any]) -> "Decision":
    from fedloom.grouping import Topology
    from fedloom.simulator import Decision

    cover = np.zeros((len(packed["clients"]), packed["n_clients"]), dtype=np.bool_)
    for row, clients in zip(cover, packed["clients"]):
        row[clients] = True
    notes = {name: np.array(v) if isinstance(v, list) else v for name, v in packed["notes"].items()}
    topology = Topology(
        cover=cover,
        kind=packed["kind"],
        host=np.array(packed["host"], dtype=np.int64),
        notes=notes,
        cluster=None if packed["cluster"] is None else np.array(packed["cluster"], dtype=np.int64),
        squad=None if packed["squad"] is None else np.array(packed["squad"], dtype=np.int64),
        follow=packed["follow"],
    )
    asked = tuple((kind, tuple(layers) if isinstance(layers, list) else layers) for kind, layers in packed["asked"])
    return Decision(asked=asked, topology=topology)
