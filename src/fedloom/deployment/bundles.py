"""Bundles: a folder for every node, with all that it needs and nothing that is not its own.

    bundle.json   name, run, scenario, method, seed, addresses, roster, settings
    node.pem, key.pem, ca.pem

The folder that `deploy init` makes holds them all, and the authority (ca/), which stays there; `revoked.json` is read by the
cloud, who tells everybody.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from fedloom._settings import Row, Settings
from fedloom.deployment.certificates import Authority, Credentials, fingerprint, write_secret
from fedloom.deployment.naming import CLOUD, identity_of
from fedloom.deployment.plans import Clusters
from fedloom.gate import Refused, files, json_text
from fedloom.gate.words import one_line, shown
from fedloom.record.files import write_whole

BUNDLE, REVOKED, AUTHORITY = "bundle.json", "revoked.json", "ca"
FORMAT = 1
MOST_BYTES = 1 << 26


class Bundle(Settings):
    """name: whose. run: the run's identity. scenario: all of it, as JSON; method: as on the command line. addresses: HOST:PORT of
    those who serve, by name; listen: where this node serves, if it does. patience_s: how long a silent device is waited for."""

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
    engine: str = "auto"
    format: int = FORMAT
    task: str | None = None
    """module:function that gives own data and model on a node, by its name, if they are not the scenario's."""
    clusters: Clusters | None = None
    """Of a plan, in place of the method's own grouping."""
    meter: str | None = None
    """module:function that tells the joules that a device has used so far, or rapl."""

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
    patience_s: float | None = None,
    quorum: float = 0.0,
    engine: str = "auto",
    task: str | None = None,
    clusters: Clusters | None = None,
    meter: str | None = None,
) -> Bundle:
    """An authority and a bundle for the cloud and every node of the roster. serves: addresses of those who listen."""
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty; keys are not overwritten: choose another folder or delete it")
    content = json.dumps([scenario, method, seed], sort_keys=True).encode()
    run = hashlib.sha256(content + secrets.token_bytes(16)).hexdigest()[:32]
    authority = Authority.new(run)
    authority.save(folder / AUTHORITY)
    shared = Bundle(
        name=CLOUD,
        run=run,
        scenario=scenario,
        method=method,
        seed=seed,
        addresses=dict(serves),
        roster=roster,
        patience_s=patience_s,
        quorum=quorum,
        engine=engine,
        task=task,
        clusters=clusters,
        meter=meter,
    )
    for name in (CLOUD, *roster):
        _issue(folder, authority, shared.model_copy(update={"name": name, "listen": serves.get(name)}))
    (folder / REVOKED).write_text("{}\n")
    return shared


def add_node(folder: Path, name: str) -> Path:
    """A new bundle for a node of the roster, whose certificate before is revoked: after a loss, say."""
    shared, _ = read_bundle(folder / CLOUD)
    if name not in shared.roster:
        raise ValueError(
            f"{name} is not in the roster; the scenario has {len(shared.roster)} nodes, and a plan for more needs new bundles"
        )
    if (folder / name / "node.pem").exists():
        revoke_node(folder, name)
    authority = Authority.read(folder / AUTHORITY, shared.run)
    _issue(folder, authority, shared.model_copy(update={"name": name, "listen": shared.addresses.get(name)}))
    return folder / name


def revoke_node(folder: Path, name: str) -> None:
    """Nobody lets this node's certificate in any more, as soon as the cloud has read of it."""
    path = folder / REVOKED
    revoked = json_text.read(path.read_text(), REVOKED) if path.exists() else {}
    revoked[fingerprint((folder / name / "node.pem").read_bytes())] = name
    write_whole(path, (json.dumps(revoked, indent=1) + "\n").encode())


class RevokedList:
    """Fingerprints in a file, read again when it changes; and those that others tell of."""

    def __init__(self, path: Path) -> None:
        self._path, self._seen, self._found = path, -1, frozenset[str]()
        self.told: frozenset[str] = frozenset()

    def __call__(self) -> frozenset[str]:
        try:
            changed = self._path.stat().st_mtime_ns
            if changed != self._seen:
                self._found = frozenset(json_text.read(self._path.read_text(), REVOKED))
                self._seen = changed
        except FileNotFoundError:
            pass
        return self._found | self.told


def _issue(folder: Path, authority: Authority, bundle: Bundle) -> None:
    credentials = authority.issue(bundle.name, serves=bundle.listen is not None)
    bundle.save(folder / bundle.name, credentials)
