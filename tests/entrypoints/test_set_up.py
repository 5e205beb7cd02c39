"""What `check` makes of oned's answers, recorded ones first."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from one_preempt.adapters.opennebula.snapshot_assembly import assemble_snapshot
from one_preempt.configuration.settings import Settings, parse_settings
from one_preempt.core.model.infrastructure import Cluster, Datastore, DatastoreType, Permissions
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.entrypoints.cli.set_up import (
    Grade,
    judge_clocks,
    judge_daemon,
    judge_datastores,
    judge_dates,
    judge_hosts,
    judge_leadership,
    judge_mode,
    judge_names_in_rules,
    judge_other_schedulers,
    judge_rights,
    judge_secrecy,
    judge_shares,
    judge_version,
    judge_zone,
)

RECORDINGS = Path(__file__).parent.parent / "recordings"
POOLS = ("hostpool.info", "vmpool.infoextended", "userpool.info", "grouppool.info")
VERSIONS = ("6.10.0", "7.4.0")


def recorded(version: str, name: str) -> bytes:
    return (RECORDINGS / version / name).read_bytes()


@pytest.fixture(scope="module")
def snapshot() -> PoolSnapshot:
    return assemble_snapshot({name: recorded("7.4.0", f"{name}.xml") for name in POOLS}, 0)


@pytest.mark.parametrize(
    ("version", "grade"),
    [
        ("6.6.3", Grade.FAIL),
        ("5.12.0", Grade.FAIL),
        ("6.8.0", Grade.OK),
        ("6.10.5", Grade.OK),
        ("7.4.0", Grade.OK),
        ("7.4.80", Grade.OK),
        ("7.5.0", Grade.WARN),
        ("8.0.0", Grade.WARN),
        ("nginx", Grade.WARN),
        ("", Grade.WARN),
    ],
)
def test_versions_from_6_8_to_7_4_are_supported(version: str, grade: Grade) -> None:
    finding = judge_version(version)
    assert finding.grade is grade
    assert bool(finding.mend) is (grade is not Grade.OK)


@pytest.mark.parametrize(
    ("ahead_s", "told"),
    [
        (None, []),
        (599, []),
        (7200, ["this machine's is 7200 s ahead of that of OpenNebula: the daemon sends nobody out meanwhile"]),
        (-600, ["this machine's is 600 s behind that of OpenNebula: the daemon sends nobody out meanwhile"]),
    ],
)
def test_clocks_that_do_not_agree_are_told(ahead_s: int | None, told: list[str]) -> None:
    found = list(judge_clocks(ahead_s))
    assert [one.text for one in found] == told
    assert all(one.grade is Grade.WARN for one in found)


@pytest.mark.parametrize(
    ("ahead_s", "now_s", "told"),
    [
        (0, 0, []),
        (None, -599, []),
        (
            3,
            -7200,
            ["by it, what OpenNebula wrote down of VM 19 is still to come, in 7200 s: it is behind, or was ahead then"],
        ),
        (-7200, -7200, []),
    ],
)
def test_what_was_written_down_in_the_future_tells_that_the_clock_is_behind(
    snapshot: PoolSnapshot, ahead_s: int | None, now_s: int, told: list[str]
) -> None:
    """Where the clock of oned's machine is another one, that says more."""
    found = list(judge_dates(snapshot, ahead_s, snapshot.vms[19].submitted_at_s + now_s))
    assert [one.text for one in found] == told
    assert all(one.grade is Grade.WARN for one in found)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_recorded_versions_are_supported(version: str) -> None:
    assert judge_version(recorded(version, "system.version.txt").decode()).grade is Grade.OK


@pytest.mark.parametrize("version", VERSIONS)
def test_oneadmin_has_the_rights(version: str) -> None:
    assert judge_rights(recorded(version, "user.info.self.xml")).grade is Grade.OK


def test_an_ordinary_user_has_not_the_rights_and_is_told_how_to_get_them() -> None:
    finding = judge_rights(b"<USER><ID>2</ID><GID>1</GID><GROUPS><ID>1</ID></GROUPS><NAME>alice</NAME></USER>")
    assert finding.grade is Grade.FAIL
    assert "oneuser chgrp alice oneadmin" in finding.mend


def test_a_secondary_membership_of_the_administrators_is_enough() -> None:
    document = b"<USER><ID>2</ID><GID>1</GID><GROUPS><ID>1</ID><ID>0</ID></GROUPS><NAME>alice</NAME></USER>"
    assert judge_rights(document).grade is Grade.OK


@pytest.mark.parametrize("state", list(RaftState))
def test_only_a_leading_front_end_acts(state: RaftState) -> None:
    leads = state in (RaftState.SOLO, RaftState.LEADER)
    assert (judge_leadership(state).grade is Grade.OK) is leads


def test_the_zone_of_a_federation_is_told_and_without_one_there_is_nothing_to_say() -> None:
    (finding,) = judge_zone(recorded("7.4.0/federation", "system.config.xml"))
    assert finding.text == "this is zone 100 of a federation (slave): its VMs and hosts are scheduled, no others"
    assert not list(judge_zone(recorded("7.4.0", "system.config.xml")))


def test_the_placer_that_oned_of_7_4_names_is_found() -> None:
    (finding,) = judge_other_schedulers("7.4.0", recorded("7.4.0", "system.config.xml"), ())
    assert finding.grade is Grade.FAIL
    assert "'probe'" in finding.text


@pytest.mark.parametrize(
    ("arguments", "grade"), [("-t 15 -p dummy -o one_drs", Grade.OK), ("-t 15 -p rank", Grade.FAIL), ("-p", Grade.FAIL)]
)
def test_an_idle_placer_is_no_second_scheduler(arguments: str, grade: Grade) -> None:
    configuration = f"<C><SCHED_MAD><ARGUMENTS>{arguments}</ARGUMENTS></SCHED_MAD></C>".encode()
    (finding,) = judge_other_schedulers("7.4.0", configuration, ("oned",))
    assert finding.grade is grade


def test_a_running_matchmaker_is_a_second_scheduler() -> None:
    configuration = recorded("6.10.0", "system.config.xml")
    (running,) = judge_other_schedulers("6.10.0", configuration, ("oned", "mm_sched"))
    (absent,) = judge_other_schedulers("6.10.0", configuration, ("oned",))
    assert (running.grade, absent.grade) == (Grade.FAIL, Grade.OK)
    assert "mask opennebula-scheduler" in running.mend


def test_rules_that_name_nobody_are_found(snapshot: PoolSnapshot) -> None:
    settings = parse_settings(
        """
        leases:
          rules: [{name: external, match: {group: users}, type: BE-SUSPENDABLE}]
          rights: [{name: locals, user: alcie}, {name: admins, group: oneadmin}]
        """,
        "here",
    )
    (finding,) = judge_names_in_rules(settings, snapshot)
    assert finding.grade is Grade.WARN
    assert "right 'locals' names user 'alcie'" in finding.text


def test_rules_whose_names_exist_are_fine_and_without_rules_there_is_nothing_to_say(snapshot: PoolSnapshot) -> None:
    settings = parse_settings("leases: {rights: [{name: locals, user: alice}]}", "here")
    assert [finding.grade for finding in judge_names_in_rules(settings, snapshot)] == [Grade.OK]
    assert not list(judge_names_in_rules(Settings(), snapshot))


def test_shares_of_groups_that_do_not_exist_are_named(snapshot: PoolSnapshot) -> None:
    settings = parse_settings("fair_share: {shares: {users: 2, astronmy: 3, '0': 1}}", "here")
    (finding,) = judge_shares(settings, snapshot)
    assert finding.grade is Grade.WARN
    assert "fair_share.shares names group 'astronmy', which does not exist" in finding.text
    fine = parse_settings("fair_share: {shares: {users: 2}}", "here")
    assert [finding.grade for finding in judge_shares(fine, snapshot)] == [Grade.OK]
    assert not list(judge_shares(Settings(), snapshot))


def test_a_cloud_without_a_host_that_takes_vms_is_worth_a_look(snapshot: PoolSnapshot) -> None:
    assert judge_hosts(snapshot).grade is Grade.OK
    assert judge_hosts(replace(snapshot, hosts={})).grade is Grade.WARN


def test_a_cluster_without_a_system_datastore_that_can_be_used_is_named(snapshot: PoolSnapshot) -> None:
    system = Datastore(
        0, "fast", 0, 0, Permissions(), DatastoreType.SYSTEM, True, True, (100,), 900, 500, 400, None, "nfs"
    )
    clusters = {100: Cluster(100, "green"), 101: Cluster(101, "blue")}

    def told(settings: Settings, store: Datastore) -> list[str]:
        cloud = replace(snapshot, clusters=clusters, datastores={0: replace(store, cluster_ids=(100, 101))})
        return [one.text for one in judge_datastores(settings, cloud)]

    unmeasured = replace(system, total_mib=0, free_mib=0, used_mib=0)
    assert told(Settings(), system) == []
    assert [one.text for one in judge_datastores(Settings(), replace(snapshot, datastores={0: system}))] == [
        "cluster 101 has hosts that take VMs, and no enabled system datastore: nothing is placed there"
    ]
    assert told(Settings(), replace(system, enabled=False)) == [
        f"cluster {name} has hosts that take VMs, and no enabled system datastore: nothing is placed there"
        for name in ("green", "blue")
    ]
    assert told(Settings(), unmeasured) == [
        f"cluster {name}: system datastore fast was never measured, so nothing is placed there"
        for name in ("green", "blue")
    ]
    assert told(Settings(), replace(unmeasured, shared=False)) == []
    assert told(parse_settings("matchmaker: {accept_unmonitored_datastores: true}", "here"), unmeasured) == []


def test_the_mode_says_whether_anything_is_preempted() -> None:
    assert "advise" in judge_mode(Settings()).text
    assert "moml" in judge_mode(Settings(preemption="act")).text


LAST = {"error": "", "leads": True}


@pytest.mark.parametrize(
    ("answer", "grade", "words"),
    [
        (None, Grade.OK, "none answers at /run/x"),
        ({"ok": True, "schedules": True, "last_cycle": LAST}, Grade.OK, "it schedules"),
        ({"ok": True, "schedules": False, "last_cycle": None}, Grade.OK, "first cycle"),
        ({"ok": True, "schedules": False, "last_cycle": {**LAST, "leads": False}}, Grade.OK, "to lead"),
        ({"ok": True, "schedules": False, "last_cycle": LAST}, Grade.WARN, "long ago"),
        ({"ok": True, "schedules": False, "last_cycle": {"error": "oned\n is away"}}, Grade.WARN, "is away"),
        ({"ok": True, "schedules": False, "last_cycle": 3}, Grade.OK, ""),
        ({"ok": False, "error": "only oneadmin"}, Grade.WARN, "only oneadmin"),
    ],
)
def test_the_daemon_is_judged_by_what_it_says(answer: dict[str, object] | None, grade: Grade, words: str) -> None:
    finding = judge_daemon("/run/x", answer)
    assert finding.grade is grade
    assert words in finding.text
    assert "\n" not in finding.text


@pytest.mark.parametrize(("mode", "grades"), [(0o600, []), (0o640, [Grade.WARN]), (0o604, [Grade.WARN])])
def test_credentials_that_others_may_read_are_worth_a_look(mode: int, grades: list[Grade], tmp_path: Path) -> None:
    file = tmp_path / "one_auth"
    file.write_text("oneadmin:canary")
    file.chmod(mode)
    found = list(judge_secrecy(file))
    assert [finding.grade for finding in found] == grades
    assert "canary" not in str(found)
    assert all(finding.mend == f"chmod 600 {file}" for finding in found)
