"""Bundles: a folder for every node, with all that it needs and nothing that is not its own.

    bundle.json   name, run, scenario, method, seed, addresses, roster, settings
    node.pem, key.pem, ca.pem

The folder that `deploy init` makes holds them all, and the authority (ca/), which stays there and knows all certificates that it
has issued; `revoked.json` is read by the cloud, who tells everybody.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from fedloom import _check
from fedloom._settings import Row, Settings
from fedloom.deployment.certificates import Authority, Credentials, check_credentials, fingerprint, write_secret
from fedloom.deployment.naming import CLOUD, identity_of
from fedloom.deployment.plans import Clusters
from fedloom.gate import Refused, files, json_text
from fedloom.gate.words import one_line, shown
from fedloom.methods import Waiting
from fedloom.record.files import write_whole
from fedloom.training.choose import ENGINES

BUNDLE, REVOKED, AUTHORITY, ISSUED = "bundle.json", "revoked.json", "ca", "issued.json"
FORMAT = 1
MOST_BYTES = 1 << 26
FOR_ALL = Waiting(patience_s=None)
_PRINT = re.compile("[0-9a-f]{64}")


class Bundle(Settings):
    """name: whose. run: the run's identity. scenario: all of it, as JSON; method: as on the command line. addresses: HOST:PORT of
    those who serve, by name; listen: where this node serves, if it does. patience_s and
    quorums: whom the federation goes on without (fl.Waiting), of the method or as wanted when the bundle was made."""

    name: str
    run: Annotated[str, Field(pattern="^[0-9a-f]{1,64}$")]
    scenario: Mapping[str, Any]
    method: str
    seed: int
    addresses: Mapping[str, str]
    roster: Row[str]
    listen: str | None = None
    patience_s: Annotated[float, Field(gt=0)] | None = None
    quorum: Annotated[float, Field(ge=0, le=1)] = 0.0
    cloud_quorum: Annotated[float, Field(ge=0, le=1)] = 0.0
    engine: str = "auto"
    format: int = FORMAT
    task: str | None = None
    """module:function that gives own data and model on a node, by its name, if they are not the scenario's."""
    clusters: Clusters | None = None
    """Of a plan, in place of the method's own grouping."""
    meter: str | None = None
    """module:function that tells the joules that a device has used so far, or rapl."""

    @property
    def waiting(self) -> Waiting:
        return Waiting(patience_s=self.patience_s, quorum=self.quorum, cloud_quorum=self.cloud_quorum)

    @field_validator("name")
    @classmethod
    def _is_a_node(cls, name: str) -> str:
        identity_of(name)
        return name

    @field_validator("roster")
    @classmethod
    def _are_nodes(cls, roster: tuple[str, ...]) -> tuple[str, ...]:
        for name in roster:
            identity_of(name)
        return roster

    @field_validator("engine")
    @classmethod
    def _is_an_engine(cls, engine: str) -> str:
        _check.one_of("engine", engine, ENGINES)
        return engine

    def save(self, folder: Path, credentials: Credentials) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_secret(folder / "key.pem", credentials.key)
        (folder / "node.pem").write_bytes(credentials.certificate)
        (folder / "ca.pem").write_bytes(credentials.authority)
        write_whole(folder / BUNDLE, (json.dumps(self.model_dump(), indent=1) + "\n").encode())


def read_bundle(folder: Path) -> tuple[Bundle, Credentials]:
    """The bundle in a folder."""
    try:
        bundle = parse_bundle(files.read_text(folder / BUNDLE, "the settings of a bundle", MOST_BYTES), folder / BUNDLE)
        credentials = Credentials(*((folder / name).read_bytes() for name in ("node.pem", "key.pem", "ca.pem")))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ValueError(
            f"{folder} is no bundle: {Path(str(error.filename)).name} is missing; `fedloom deploy init` makes bundles"
        ) from None
    check_credentials(credentials, bundle.name, bundle.run, folder)
    return bundle, credentials


def parse_bundle(text: str, path: Path) -> Bundle:
    """The settings of a bundle; Refused with what does not fit."""
    found = json_text.read(text, str(path))
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        of = shown(found.get("format")) if isinstance(found, dict) else "none"
        raise Refused(f"{path}: this program reads bundles of format {FORMAT}, got {of}; make the bundles anew")
    try:
        return Bundle.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Refused(f"{path}: {one_line(where, 60)}: {one_line(first['msg'])}; make the bundles anew") from None


def make_bundles(
    folder: Path,
    *,
    scenario: Mapping[str, Any],
    method: str,
    seed: int,
    roster: tuple[str, ...],
    serves: Mapping[str, str],
    waiting: Waiting = FOR_ALL,
    engine: str = "auto",
    task: str | None = None,
    clusters: Clusters | None = None,
    meter: str | None = None,
) -> Bundle:
    """An authority and a bundle for the cloud and every node of the roster. serves: addresses of those who listen;
    waiting: whom they go on without, by default nobody."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is no folder; choose another --out")
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty; keys are not overwritten: choose another folder or delete it")
    content = json.dumps([scenario, method, seed], sort_keys=True).encode()
    run = hashlib.sha256(content + secrets.token_bytes(16)).hexdigest()[:32]
    shared = Bundle(
        name=CLOUD,
        run=run,
        scenario=scenario,
        method=method,
        seed=seed,
        addresses=dict(serves),
        roster=roster,
        **asdict(waiting),
        engine=engine,
        task=task,
        clusters=clusters,
        meter=meter,
    )
    authority = Authority.new(run)
    authority.save(folder / AUTHORITY)
    _write_prints(folder / REVOKED, {})
    _issue(folder, authority, {name: _of(shared, name) for name in (CLOUD, *roster)})
    return shared


def add_node(folder: Path, name: str) -> Path:
    """A new bundle for a node of the roster, whose certificates before are revoked: after a loss, say."""
    revoke_node(folder, name)
    shared, _ = read_bundle(folder / CLOUD)
    _issue(folder, Authority.read(folder / AUTHORITY, shared.run), {name: _of(shared, name)})
    return folder / name


def revoke_node(folder: Path, name: str) -> None:
    """Nobody lets any certificate in that this node was ever given, as soon as the cloud has read of it; its bundle need not be
    here any more."""
    shared, _ = read_bundle(folder / CLOUD)
    if name not in shared.roster:
        raise ValueError(
            f"{one_line(name, 50)} is not in the roster of {folder}: {shared.roster[0]} to {shared.roster[-1]}; other nodes need "
            f"bundles of a scenario or plan that has them"
        )
    issued = _read_prints(folder / AUTHORITY / ISSUED)
    path = folder / REVOKED
    _write_prints(path, {**_read_prints(path), **{mark: whose for mark, whose in issued.items() if whose == name}})


class RevokedList:
    """Fingerprints in a file, read again when it changes. What cannot be read (it is being copied, say) does not count, and is
    told: what was known before does; at the start it is refused."""

    def __init__(self, path: Path, tell: Callable[[str], object] = lambda why: None) -> None:
        self._path, self._tell, self._seen = path, tell, -1
        self._found = frozenset[str]()
        if path.exists():
            self._found = frozenset(_read_prints(path))

    def __call__(self) -> frozenset[str]:
        try:
            changed = self._path.stat().st_mtime_ns
            if changed != self._seen:
                self._seen = changed
                self._found = frozenset(_read_prints(self._path))
        except FileNotFoundError:
            pass
        except (ValueError, OSError) as error:
            self._tell(str(error))
        return self._found


def _of(shared: Bundle, name: str) -> Bundle:
    """The same for another node."""
    return shared.model_copy(update={"name": name, "listen": shared.addresses.get(name)})


def _issue(folder: Path, authority: Authority, bundles: Mapping[str, Bundle]) -> None:
    """Bundles with new certificates, which are written down before they can be used."""
    made = {name: authority.issue(name, serves=bundle.listen is not None) for name, bundle in bundles.items()}
    path = folder / AUTHORITY / ISSUED
    before = _read_prints(path) if path.exists() else {}
    _write_prints(path, before | {fingerprint(one.certificate): name for name, one in made.items()})
    for name, bundle in bundles.items():
        bundle.save(folder / name, made[name])


def _read_prints(path: Path) -> dict[str, str]:
    """Nodes by the fingerprints of their certificates."""
    found = json_text.read(files.read_text(path, "fingerprints of certificates", MOST_BYTES), str(path))
    if not isinstance(found, dict) or not all(_PRINT.fullmatch(mark) for mark in found):
        raise Refused(
            f"{path}: must be a mapping of fingerprints to nodes; take it from the folder that `deploy init` made"
        )
    return {mark: str(whose) for mark, whose in found.items()}


def _write_prints(path: Path, content: Mapping[str, str]) -> None:
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())
