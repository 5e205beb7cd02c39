"""`image list`, and what `check` says of images: on an emulated cloud, with programs that answer for its hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from one_preempt.composition import open_store
from one_preempt.configuration.settings import load_settings
from one_preempt.core.model.image_transfer import (
    HeldImage,
    HostImages,
    ImageOrder,
    ImageOrderKind,
    TransferPhase,
    TransferRecord,
)
from one_preempt.core.model.ledger import LedgerChanges
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from tests.adapters.image_transfer.image_play import written

NOW_S = 1_800_000_000
BRING = ImageOrder(
    ImageOrderKind.BRING, 0, 1, "node2", 1, 600, NOW_S, NOW_S + 50, NOW_S + 3600, (4, 12), "START", "for lease 4"
)
UNDER_WAY = TransferRecord(BRING, TransferPhase.UNDER_WAY, NOW_S)
FAILED = TransferRecord(
    ImageOrder(ImageOrderKind.DROP, 99, 7, "gone", None, 5, NOW_S, NOW_S, None, (), "ROOM", "for image 0"),
    TransferPhase.FAILED, NOW_S - 9, 2, NOW_S + 9, "no way\x1b[31m",
)  # fmt: skip
HELD = HostImages(0, NOW_S, (HeldImage(0, 600, NOW_S - 60), HeldImage(99, 5)))


@pytest.fixture
def cloud() -> SimulatedCloud:
    return shipped_cloud("demo")


@pytest.fixture
def site(cloud: SimulatedCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cloud behind a socket, and the environment that leads there; the folder of the configuration."""
    auth = tmp_path / "one_auth"
    auth.write_text("oneadmin:opennebula")
    auth.chmod(0o600)
    with running_emulator(cloud) as url:
        monkeypatch.setenv("ONE_XMLRPC", url)
        monkeypatch.setenv("ONE_AUTH", str(auth))
        monkeypatch.setenv("ONE_PREEMPT_CONF", str(tmp_path / "one_preempt.conf"))
        configure(tmp_path)
        yield tmp_path


def configure(folder: Path, **staging: object) -> None:
    settings = {"store": {"url": f"sqlite:///{folder}/leases.db"}, "image_staging": {"mode": "act", **staging}}
    (folder / "one_preempt.conf").write_text(yaml.dump(settings))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def written_down(*transfers: TransferRecord, held: tuple[HostImages, ...] = ()) -> None:
    store = open_store(load_settings())
    store.apply(LedgerChanges(image_transfers=transfers, held_images=held))
    store.close()


def test_what_is_where_what_comes_and_what_failed_is_listed(site: Path, cloud: SimulatedCloud) -> None:
    written_down(UNDER_WAY, FAILED, held=(HELD,))
    name = cloud.images[0].name
    told = json.loads(run("image", "list", "--json").output)
    assert [(one["host"], one["image"], one["image_id"], one["state"]) for one in told] == [
        ("node1", name, 0, "there"),
        ("node1", "", 99, "there"),
        ("node2", name, 0, "coming"),
        ("gone", "", 99, "not removed"),
    ]
    assert told[2] == {
        "image_id": 0, "image": name, "host_id": 1, "host": "node2", "size_mib": 600, "state": "coming",
        "since": NOW_S, "needed_at": NOW_S + 3600, "leases": [4, 12], "attempts": 1, "why": "for lease 4",
    }  # fmt: skip
    listed = run("image", "list").output
    assert "4 images on hosts" in listed
    assert "no way" in listed
    assert "\x1b" not in listed


def test_without_oned_there_are_no_names_and_it_is_said(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written_down(UNDER_WAY, held=(HELD,))
    monkeypatch.setenv("ONE_XMLRPC", "http://127.0.0.1:9/RPC2")
    result = run("image", "list", "--json")
    assert result.exit_code == 0
    assert [(one["host"], one["state"]) for one in json.loads(result.stdout)] == [
        ("", "there"), ("", "there"), ("node2", "coming"),
    ]  # fmt: skip
    assert "No names are known" in result.stderr


def test_where_nothing_was_brought_yet_that_is_listed(site: Path) -> None:
    assert run("image", "list", "--json").output == "[]\n"
    configure(site, mode="off")
    result = run("image", "list")
    assert "0 images on hosts" in result.stdout
    assert "image_staging.mode is off" in result.stderr


def found(folder: Path, **staging: object) -> list[tuple[str, str]]:
    configure(folder, **staging)
    findings = json.loads(run("check", "--json").output)
    return [(one["grade"], one["text"]) for one in findings if one["subject"] == "images"]


def with_files(cloud: SimulatedCloud, folder: Path, driver: str = "ssh", **datastore: str) -> None:
    """The cloud's images are files below their datastores, of which all but the first are there."""
    for store in cloud.datastores.values():
        store.base_path, store.tm_mad = f"{folder}/datastores/{store.id}", driver
        store.template |= {name: [text] for name, text in {"TM_MAD": driver, **datastore}.items()}
    for image in cloud.images.values():
        path = folder / "datastores" / str(image.datastore_id) / f"file{image.id}"
        image.source = str(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_as_shipped_no_image_is_brought_and_that_is_said(site: Path) -> None:
    assert found(site, mode="off") == [("ok", "no image is brought to a host: image_staging.mode is off")]


def test_who_acts_without_a_way_to_bring_images_is_warned(site: Path) -> None:
    ((grade, text),) = found(site)
    assert grade == "warn"
    assert "mode is act and transfer.method is none: no image is brought to any host" in text
    ((grade, text),) = found(site, mode="advise")
    assert (grade, text.partition(";")[0]) == ("ok", "image_staging.mode: advise")


def test_programs_that_are_there_and_hosts_that_answer_are_well(site: Path, cloud: SimulatedCloud) -> None:
    with_files(cloud, site)
    program = written(site / "program", "#!/bin/sh\n")
    command = {"bring": [program, "{host}"], "list": [program, "{host}"]}
    assert found(site, transfer={"method": "command", "command": command}) == [
        ("ok", "images are brought to hosts before reservations start, by command, when EDF/JIT says"),
        ("ok", f"{len(cloud.hosts)} hosts show which images they hold"),
    ]


def test_what_is_missing_for_programs_is_told(site: Path, cloud: SimulatedCloud) -> None:
    with_files(cloud, site)
    (gone,) = {image.source for image in cloud.images.values() if image.id == 0}
    Path(gone).unlink()
    look = written(site / "look", '#!/bin/sh\n[ "$1" != node2 ] || { echo "who is that?" >&2; exit 1; }\n')
    command = {"bring": ["/nonexistent/copy", "{host}"], "list": [look, "{host}"]}
    said = found(site, transfer={"method": "command", "command": command})
    assert [text for grade, text in said if grade == "fail"] == [
        "image_staging.transfer.command.bring names /nonexistent/copy, which is not a program that can be run",
        f"image 0: {gone} cannot be read here",
        "host node2 does not show what it holds: command.list for node2 ended with exit code 1: who is that?",
    ]
    (doubt,) = found(site, transfer={"method": "command", "command": {"bring": [look]}})[:1]
    assert doubt[0] == "warn"
    assert "transfer.command.list is empty" in doubt[1]


def test_caches_need_datastores_that_cache_and_hosts_that_let_us_in(
    site: Path, cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    ssh = written(site / "ssh", "#!/bin/sh\necho 'oneadmin@node1: Permission denied (publickey).' >&2; exit 255\n")
    transfer = {"method": "tm-cache", "tm_cache": {"ssh_program": ssh}}
    with_files(cloud, site)
    said = found(site, transfer=transfer)
    assert said[0][0] == "ok"
    assert said[1][0] == "warn"
    assert "SSH_AUTH_SOCK names none here" in said[1][1]
    assert said[2][0] == "fail"
    assert "is in a datastore that hosts cache" in said[2][1]
    with_files(cloud, site, "local", CACHE_ENABLE="YES")
    said = found(site, transfer=transfer)
    assert [grade for grade, _ in said[2:]] == ["fail"] * len(cloud.hosts)
    assert "host node1 does not show what it holds: ssh does not let us in: oneadmin@node1: Permission" in said[2][1]


@pytest.mark.parametrize("version", ["6.10.0", "7.0.0"])
def test_caches_of_hosts_are_asked_for_in_vain_where_opennebula_has_none_yet(
    site: Path, cloud: SimulatedCloud, version: str
) -> None:
    """What `check` then says must not be to switch them on."""
    cloud.version = version
    with_files(cloud, site)
    (found_fail,) = [text for grade, text in found(site, transfer={"method": "tm-cache"}) if grade == "fail"]
    assert found_fail == f"OpenNebula {version} has no caches on hosts, as tm-cache needs: 7.0.1 was the first"
