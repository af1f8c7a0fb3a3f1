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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedloom.deployment.certificates import Authority, Credentials, fingerprint, write_secret
from fedloom.deployment.naming import CLOUD, identity_of
from fedloom.gate import files, json_text

BUNDLE, REVOKED, AUTHORITY = "bundle.json", "revoked.json", "ca"
FORMAT = 1
MOST_BYTES = 1 << 26


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """name: whose. run: the run's identity. scenario: all of it, as JSON; method: as on the command line. addresses: HOST:PORT of
    those who serve, by name; listen: where this node serves, if it does. patience_s: how long a silent device is waited for."""

    name: str
    run: str
    scenario: Mapping[str, Any]
    method: str
    seed: int
    addresses: Mapping[str, str]
    roster: tuple[str, ...]
    listen: str | None = None
    patience_s: float | None = None
    quorum: float = 0.0
    engine: str = "auto"
    format: int = FORMAT
    task: str | None = None
    """module:function that gives own data and model on a node, by its name, if they are not the scenario's."""

    def save(self, folder: Path, credentials: Credentials) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / BUNDLE).write_text(json.dumps(asdict(self), indent=1) + "\n")
        (folder / "node.pem").write_bytes(credentials.certificate)
        (folder / "ca.pem").write_bytes(credentials.authority)
        write_secret(folder / "key.pem", credentials.key)


def read_bundle(folder: Path) -> tuple[Bundle, Credentials]:
    """The bundle in a folder."""
    try:
        found = json_text.read(files.read_text(folder / BUNDLE, "the settings of a bundle", MOST_BYTES), BUNDLE)
        credentials = Credentials(*((folder / name).read_bytes() for name in ("node.pem", "key.pem", "ca.pem")))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ValueError(
            f"{folder} is no bundle: {Path(str(error.filename)).name} is missing; `fedloom deploy init` makes bundles"
        ) from None
    known = set(Bundle.__dataclass_fields__)
    if not isinstance(found, dict) or set(found) - known or not {"name", "run", "scenario"} <= set(found):
        raise ValueError(f"{folder / BUNDLE} is not of this version of fedloom; make the bundles anew")
    if found.get("format") != FORMAT:
        raise ValueError(f"{folder / BUNDLE} has the format {found.get('format')}, and this program reads {FORMAT}")
    identity_of(found["name"])
    return Bundle(**{**found, "roster": tuple(found["roster"])}), credentials


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
    )
    for name in (CLOUD, *roster):
        _issue(folder, authority, replace(shared, name=name, listen=serves.get(name)))
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
    _issue(folder, authority, replace(shared, name=name, listen=shared.addresses.get(name)))
    return folder / name


def revoke_node(folder: Path, name: str) -> None:
    """Nobody lets this node's certificate in any more, as soon as the cloud has read of it."""
    path = folder / REVOKED
    revoked = json_text.read(path.read_text(), REVOKED) if path.exists() else {}
    revoked[fingerprint((folder / name / "node.pem").read_bytes())] = name
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(revoked, indent=1) + "\n")
    beside.replace(path)


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
