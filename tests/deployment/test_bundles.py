"""What is found wrong with a bundle, and certificates that are put out."""

import datetime
import json
import shutil

import pytest
import yaml

from deployment.processes import bundles
from deployment.test_commands import said
from fedloom.cli.ends import explained
from fedloom.deployment import certificates, roles
from fedloom.deployment.bundles import RevokedList, add_node, read_bundle, revoke_node
from fedloom.deployment.certificates import fingerprint
from fedloom.deployment.transport import RefusedBy
from small import for_method


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "all"
    bundles(folder, *for_method("hierfedavg"))
    return folder


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made, tmp_path / "all")
    return tmp_path / "all"


@pytest.mark.parametrize("part", ["node.pem", "key.pem", "ca.pem"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_bundle_of_which_not_all_was_copied_says_what_is_not_whole(part, share, folder):
    path = folder / "device-0" / part
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=rf"device-0/{part} is not whole; copy the bundle again"):
        read_bundle(folder / "device-0")


def copied(folder, *parts):
    for part in parts:
        shutil.copy(folder / "device-3" / part, folder / "device-2" / part)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (["node.pem", "key.pem"], "the certificate is of device-3, the settings are of device-2"),
        (["node.pem"], "key.pem does not belong to node.pem"),
        (["key.pem"], "key.pem does not belong to node.pem"),
    ],
)
def test_parts_of_the_bundle_of_another_node_are_refused_at_start(parts, why, folder):
    copied(folder, *parts)
    with pytest.raises(ValueError, match=why):
        read_bundle(folder / "device-2")


def test_parts_of_another_federation_are_refused_at_start(folder, tmp_path):
    bundles(tmp_path / "other", *for_method("hierfedavg"))
    shutil.copy(tmp_path / "other" / "device-2" / "ca.pem", folder / "device-2" / "ca.pem")
    with pytest.raises(ValueError, match=r"node\.pem is not signed by ca\.pem"):
        read_bundle(folder / "device-2")
    for part in ("ca.pem", "node.pem", "key.pem"):
        shutil.copy(tmp_path / "other" / "device-2" / part, folder / "device-2" / part)
    with pytest.raises(ValueError, match=r"is of the run .*, and this is"):
        read_bundle(folder / "device-2")


def test_a_machine_whose_clock_is_wrong_is_told_so(folder, monkeypatch):
    class Early(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime(1970, 1, 1, tzinfo=tz)

    monkeypatch.setattr(certificates.datetime, "datetime", Early)
    with pytest.raises(ValueError, match="by the clock of this machine it is 1970-01-01; set the clock"):
        read_bundle(folder / "device-2")


def test_a_node_whose_bundle_was_moved_away_is_revoked_all_the_same(folder, tmp_path):
    shutil.move(folder / "device-1", tmp_path / "elsewhere")
    before = fingerprint((tmp_path / "elsewhere" / "node.pem").read_bytes())
    add_node(folder, "device-1")
    revoked = RevokedList(folder / "revoked.json")
    assert revoked() == {before}
    after = fingerprint((folder / "device-1" / "node.pem").read_bytes())
    shutil.rmtree(folder / "device-1")
    revoke_node(folder, "device-1")
    assert revoked() == {before, after}


@pytest.mark.parametrize("name", ["device-77", "cloud", "../all", "edge-01"])
@pytest.mark.parametrize("command", ["add", "revoke"])
def test_who_is_not_in_the_roster_is_neither_added_nor_revoked(command, name, folder):
    with pytest.raises(ValueError, match=r"is not in the roster of .*: edge-0 to device-5"):
        said("deploy", command, folder, name)
    assert json.loads((folder / "revoked.json").read_text()) == {}


def test_a_folder_without_bundles_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"is no bundle: bundle\.json is missing"):
        said("deploy", "revoke", tmp_path, "device-1")


@pytest.mark.parametrize("half", ["", '{"ab', "[1]", "7", '{"ab": "device-1"}'])
def test_a_list_of_revoked_ones_that_is_half_copied_does_not_shut_everybody_out(half, folder):
    path, told = folder / "revoked.json", []
    revoke_node(folder, "device-1")
    revoked = RevokedList(path, told.append)
    known, whole = revoked(), path.read_text()
    assert len(known) == 1
    path.write_text(half)
    assert revoked() == revoked() == known
    assert len(told) == 1 and "revoked.json" in told[0]
    with pytest.raises(ValueError, match=r"revoked\.json"):
        RevokedList(path)
    path.write_text(whole)
    revoke_node(folder, "device-2")
    assert len(revoked()) == 2


def test_two_processes_do_not_run_with_one_bundle(folder, monkeypatch):
    monkeypatch.setattr(roles, "LOCK_S", 0.2)
    with roles._alone(folder / "cloud"), pytest.raises(ValueError, match="another process runs with the bundle"):
        roles.run_role(folder / "cloud")
    assert not (folder / "cloud" / "state").exists()


def test_who_is_refused_is_told_in_one_line():
    assert explained(RefusedBy("cloud refuses: the certificate is revoked")) == (
        "cloud refuses: the certificate is revoked",
        1,
    )


def test_bundles_are_not_written_where_a_file_is(tmp_path):
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(for_method("hierfedavg")[0]))
    with pytest.raises(ValueError, match="is no folder; choose another --out"):
        said("deploy", "init", tmp_path / "small.yaml", "--out", tmp_path / "small.yaml")
