"""What `check` says of host power, on an emulated cloud and with programs that answer for its machines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from msgspec.structs import replace

from one_preempt.adapters.clock import SystemClock
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.adapters.recorded.recorded_pool_reader import RecordedPoolReader
from one_preempt.core.model.ledger import LedgerChanges
from one_preempt.core.model.power_sequence import PowerPhase, PowerSequence
from one_preempt.core.model.power_standing import PowerAttempt, PowerStanding
from one_preempt.core.model.written_time import utc_text
from one_preempt.entrypoints.cli.check_power import judge_power_passwords
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulated_cloud.states import HostStatus

RECORDING = Path(__file__).parent.parent / "recordings" / "6.10.0"


@pytest.fixture
def cloud() -> SimulatedCloud:
    return shipped_cloud("demo")


@pytest.fixture
def configuration(cloud: SimulatedCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    auth, file = tmp_path / "one_auth", tmp_path / "one_preempt.conf"
    auth.write_text("oneadmin:opennebula")
    auth.chmod(0o600)
    with running_emulator(cloud) as url:
        monkeypatch.setenv("ONE_XMLRPC", url)
        monkeypatch.setenv("ONE_AUTH", str(auth))
        monkeypatch.setenv("ONE_PREEMPT_CONF", str(file))
        yield file


def found(file: Path, **power: object) -> dict[str, list[tuple[str, str]]]:
    """What is said of power, as (grade, text) by subject."""
    file.write_text(yaml.dump({"store": {"url": f"sqlite:///{file.parent}/leases.db"}, "power": power}))
    said: dict[str, list[tuple[str, str]]] = {}
    for finding in json.loads(CliRunner().invoke(cli, ["check", "--json"]).output):
        if finding["subject"].startswith("power"):
            said.setdefault(finding["subject"], []).append((finding["grade"], finding["text"]))
    return said


def warned(said: dict[str, list[tuple[str, str]]]) -> list[str]:
    """What is doubted of power, but for a program that is not given here, which cuts the power of what hangs."""
    return [text for grade, text in said["power"] if grade == "warn" and "hard_off" not in text]


def answering(folder: Path, answers: dict[str, str]) -> dict[str, object]:
    """Power control by a program that knows these hosts."""
    program = folder / "power"
    cases = "".join(f"{host}) echo {answer};; " for host, answer in answers.items())
    program.write_text(f'#!/bin/sh\ncase $1 in {cases} *) echo "no such machine" >&2; exit 1;; esac\n')
    program.chmod(0o755)
    vectors = {order: [str(program), "{host}"] for order in ("on", "off", "status")}
    return {"method": "command", "command": vectors}


def test_as_shipped_no_host_is_switched_and_that_is_said(configuration: Path) -> None:
    assert found(configuration) == {"power": [("ok", "no host is switched, because none is handed over")]}


def test_advice_only_is_named(configuration: Path) -> None:
    ((grade, text),) = found(configuration, hosts=[{}])["power"]
    assert grade == "ok"
    assert text.startswith("power.mode: advise; what look-ahead would switch is only logged")


def test_hosts_whose_power_control_does_not_answer_are_named(configuration: Path, tmp_path: Path) -> None:
    given = {"mode": "enforce", "hosts": [{"host": "node[12]"}]}
    control = answering(tmp_path, {"node1": "on", "node2": "off", "node3": "on"})
    assert found(configuration, **given, control=control)["power control"] == [
        ("ok", "2 of 2 hosts handed over report their power")
    ]
    said = found(configuration, **given, control=answering(tmp_path, {"node1": "on"}))["power control"]
    assert [grade for grade, _ in said] == ["fail"]
    assert "host node2: " in said[0][1]


def test_hosts_that_name_the_same_controller_are_told_and_it_is_not_asked(
    cloud: SimulatedCloud, configuration: Path
) -> None:
    for host in cloud.hosts.values():
        host.template |= {"POWER_ADDRESS": ["127.0.0.1"], "POWER_USER": ["u"], "POWER_PASSWORD": ["hunter-two"]}
    said = found(configuration, hosts=[{"host": "node1"}], control={"method": "ipmitool"})["power control"]
    assert [grade for grade, _ in said] == ["fail"]
    assert "host node1: its address for power control is that of node2 as well" in said[0][1]


def test_hosts_that_are_never_switched_for_their_names_are_named(
    cloud: SimulatedCloud, configuration: Path, tmp_path: Path
) -> None:
    for host in cloud.hosts.values():
        host.name = host.name.replace("node2", "node2 spare")
    control = answering(tmp_path, {"node1": "on", "node3": "off"})
    assert found(configuration, mode="enforce", hosts=[{}], control=control)["power control"] == [
        ("warn", "never switched, for their names: node2 spare"),
        ("ok", "2 of 2 hosts handed over report their power"),
    ]


def test_a_secret_that_others_can_read_is_found(configuration: Path, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("open-sesame\n")
    secret.chmod(0o644)
    said = found(configuration, control={"ipmitool": {"password_file": str(secret)}})["power secrets"]
    assert said == [("fail", f"others may read or change the secret in {secret}: chmod 600 {secret}")]
    secret.chmod(0o600)
    assert "power secrets" not in found(configuration, control={"ipmitool": {"password_file": str(secret)}})


def test_certificates_that_are_not_there_are_found(configuration: Path, tmp_path: Path) -> None:
    redfish = {"ca_file": str(tmp_path / "authorities.pem")}
    said = found(configuration, control={"redfish": redfish})["power control"]
    assert said == [("fail", f"redfish.ca_file {redfish['ca_file']} cannot be read: No such file or directory")]
    assert "power control" not in found(configuration, control={"redfish": redfish | {"verify_tls": False}})


def test_passwords_that_opennebula_does_not_encrypt_are_found(cloud: SimulatedCloud, configuration: Path) -> None:
    next(iter(cloud.hosts.values())).template["POWER_PASSWORD"] = ["hunter-two"]
    assert found(configuration)["power secrets"] == [
        ("warn", "POWER_PASSWORD of node1 is stored unencrypted in OpenNebula")
    ]


def test_passwords_that_it_does_encrypt_are_no_matter() -> None:
    (host, *_) = RecordedPoolReader(RECORDING).read().hosts.values()
    given = replace(host, attributes={**host.attributes, "TEMPLATE/POWER_PASSWORD": ("c2VjcmV0",)})
    oned = (RECORDING / "system.config.xml").read_bytes()
    assert len(list(judge_power_passwords(oned, [given]))) == 1
    assert not list(judge_power_passwords(oned.replace(b"EC2_SECRET", b"POWER_PASSWORD"), [given]))
    assert not list(judge_power_passwords(oned, [host]))


def test_enforcing_without_a_host_is_doubted(configuration: Path) -> None:
    ((grade, text),) = found(configuration, mode="enforce")["power"]
    assert grade == "warn"
    assert "hands no host over" in text


def test_what_means_no_host_is_told(configuration: Path, tmp_path: Path) -> None:
    nobody, control = {"host": "nod-*"}, answering(tmp_path, {"node1": "on"})
    control |= {"hosts": {"blade7": {"address": "10.0.0.7"}}}
    said = found(configuration, mode="enforce", hosts=[nobody, {"host": "node1"}], floor=9, control=control)
    assert warned(said) == [
        "power.hosts matches none of the 3 hosts: host 'nod-*', cluster '*'",
        "power.control.hosts names what is no host: blade7",
        "power.floor: 9 keeps all 1 hosts handed over on",
    ]


def test_hosts_that_did_not_obey_and_a_pause_are_told_and_no_refused_login_is_repeated(
    configuration: Path, tmp_path: Path
) -> None:
    now_s = SystemClock().now_s()
    failed = PowerSequence(
        0, "node1", PowerPhase.FAILED, now_s, "failed", "it has no power", failures=3, not_before_s=now_s + 900
    )
    until = utc_text(now_s + 900)
    locked_out = PowerStanding("node2", PowerAttempt.LOGIN, 1, now_s + 900, why="wrong password")
    with closing(SqlLeaseStore(f"sqlite:///{tmp_path}/leases.db")) as store:
        store.apply(LedgerChanges(power_sequences=(failed,), power_standings=(locked_out,)))
        store.set_paused(True, now_s)
    control = answering(tmp_path, {"node1": "on", "node3": "on"})
    said = found(configuration, mode="enforce", hosts=[{}], control=control)
    told = warned(said)
    assert told[0] == "power actions are paused: no host is switched"
    assert told[1] == f"host node1: it has no power; it is left alone until {until}, after 3 failures in a row"
    assert told[2].startswith("host node2: its power control is not asked until ")
    assert said["power control"] == [("ok", "2 of 3 hosts handed over report their power")]


def test_a_pause_is_nothing_about_power_where_no_host_is_handed_over(configuration: Path, tmp_path: Path) -> None:
    with closing(SqlLeaseStore(f"sqlite:///{tmp_path}/leases.db")) as store:
        store.set_paused(True, SystemClock().now_s())
    said = found(configuration, hosts=[])
    assert [text for grade, text in said["power"] if grade == "warn"] == []


def test_hosts_that_were_deleted_while_they_slept_are_told_until_they_are_back(
    cloud: SimulatedCloud, configuration: Path, tmp_path: Path
) -> None:
    text = "it was deleted in OpenNebula: it is forgotten, and its power is left off"
    with closing(SqlLeaseStore(f"sqlite:///{tmp_path}/leases.db")) as store:
        gone = PowerSequence(77, "node77", PowerPhase.AWAKE, 1_800_000_000, "deleted-unpowered", text)
        back = replace(gone, host_id=78, host_name="node1")
        # It was made anew, and has gone to sleep since by our own hand.
        sleeps_again = replace(gone, host_id=79, host_name="node3")
        asleep = PowerSequence(2, "node3", PowerPhase.ASLEEP, 1_800_000_100, "idle", "nothing runs on it")
        store.apply(LedgerChanges(power_sequences=(gone, back, sleeps_again, asleep)))
    cloud.host_status(ONEADMIN, 2, HostStatus.OFFLINE)
    expected = f"host node77, 2027-01-15T08:00:00Z: {text}"
    for mode in ("enforce", "off"):
        assert [told for _, told in found(configuration, mode=mode)["power"] if "deleted" in told] == [expected]
    listed = CliRunner().invoke(cli, ["host", "list"]).output
    assert f"node77 (id 77), 2027-01-15T08:00:00Z: {text}" in listed
    assert "id 78" not in listed
    assert "id 79" not in listed
