"""Suspended in place, over the wire: SIGKILL at the boundaries, and everybody who acts meanwhile.

Whatever happens, no host ever runs more than it has, and no VM stays locked by the daemon for ever.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from one_preempt.composition import open_store
from one_preempt.configuration.settings import Settings, StoreSettings
from one_preempt.core.lease_status import in_place_status
from one_preempt.core.model.written_time import utc_text
from tests.stories.killed_daemon import (
    NEVER,
    PARTS,
    Ending,
    KilledOnce,
    assert_same_end_whenever_killed,
    running_lease,
)
from tests.stories.world import CYCLE_S, SETTINGS, World, description

GANG = {"TYPE": "BE-SUSPENDABLE", "NAME": "sweep", "SIZE": 2}
SERIAL = {"TYPE": "BE-SUSPENDABLE"}
REQUEST = {"TYPE": "DC-NON-PREEMPTABLE", "NAME": "assay", "SIZE": 2}
URGENT = {"TYPE": "DC-NON-PREEMPTABLE"}
IN_PLACE: dict[str, Any] = {
    **SETTINGS,
    "victims": {"suspend_in_place": True, "methods": {"BE-SUSPENDABLE": ["suspend", "stop"]}},
}
RUNNING, SAVED, SUSPENDED, STOPPED, DONE = "3/3", "3/6", "5/0", "4/0", "6/0"
MANAGE, USE = 2, 1
CALLS = ("one.vm.action", "one.vm.deploy", "one.vm.lock", "one.vm.unlock")
Calls = Counter[tuple[str, int]]
InPlaceEnding = Ending[tuple[str, int]]


def _begin(folder: Path, hosts: list[dict[str, Any]]) -> World:
    return World.begin(folder, description(hosts, instant=True), IN_PLACE)


def _lock_of(world: World, vm_id: int) -> tuple[int, int] | None:
    """(level, owner) of the lock of a VM."""
    lock = world.vm(vm_id).find("LOCK")
    return None if lock is None else (int(lock.findtext("LOCKED", "0")), int(lock.findtext("OWNER", "-1")))


def _is_sound(world: World) -> bool:
    """The books are right, no host ran too much, and of the daemon's calls none was refused."""
    assert world.emulator.audit() == []
    assert json.loads(world.emulator.control("overloads")) == []
    assert "Traceback" not in world.daemon.log
    return True


def _refused(world: World) -> list[dict[str, Any]]:
    return [call for call in world.emulator.log() if call["user"] == "oneadmin" and call["code"]]


# -- SIGKILL ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, list[int]]]:
    """A world in which the lease runs, to be copied for each play."""
    world = _begin(tmp_path_factory.mktemp("prepared"), [{"name": "node0", "cpu": 2, "memory_mib": 8192}])
    with running_lease(world, GANG) as running:
        yield running


def _play(prepared: tuple[World, list[int]], folder: Path, dies_at: int) -> InPlaceEnding:
    origin, lease = prepared
    with closing(origin.copy(folder, dies_at)) as world:
        killed = KilledOnce(world)
        before = len(world.emulator.log())
        request = [world.submit("lea", lease=REQUEST) for _ in range(2)]
        killed.cycle_until(lambda: all(map(world.is_running, request)), at_most=12)
        assert all(map(world.is_running, request)), world.daemon.log
        assert [world.state(vm_id) for vm_id in lease] == [SUSPENDED, SUSPENDED]
        assert [_lock_of(world, vm_id) for vm_id in lease] == [(MANAGE, 0), (MANAGE, 0)]
        killed.cycle_until(lambda: False, at_most=2)
        for vm_id in request:
            assert world.action("lea", "terminate", vm_id)
        killed.cycle_until(lambda: all(map(world.is_running, lease)), at_most=8)
        killed.cycle_until(lambda: False, at_most=2)
        states = [world.state(vm_id) for vm_id in (*lease, *request)]
        assert [_lock_of(world, vm_id) for vm_id in lease] == [None, None]
        assert _is_sound(world)
        assert [call for call in _refused(world) if call["method"] != "one.vm.update"] == []
        return killed.ending(states, _accepted(world, before))


def _accepted(world: World, first: int) -> Calls:
    """How often oned accepted each call of the daemon on a VM; without HOLDs, of which there is one at most."""
    calls: Calls = Counter()
    for call in world.emulator.log(first):
        if call["user"] == "oneadmin" and not call["code"] and call["method"] in CALLS:
            arguments = call["arguments"]
            name, vm_id = arguments if call["method"] == "one.vm.action" else (call["method"], arguments[0])
            calls[(name, vm_id)] += 1
    return Counter({call: count for call, count in calls.items() if call[0] != "hold"})


@pytest.fixture(scope="module")
def undisturbed(prepared: tuple[World, list[int]], tmp_path_factory: pytest.TempPathFactory) -> InPlaceEnding:
    return _play(prepared, tmp_path_factory.mktemp("undisturbed"), NEVER)


def test_undisturbed_each_step_is_taken_once(undisturbed: InPlaceEnding) -> None:
    assert undisturbed.states == [RUNNING, RUNNING, DONE, DONE]
    assert Counter(name for (name, _), count in undisturbed.calls.items() for _ in range(count)) == {
        "suspend": 2, "one.vm.lock": 2, "one.vm.deploy": 2, "one.vm.unlock": 2, "resume": 2,
    }  # fmt: skip


@pytest.mark.parametrize("part", range(PARTS))
def test_whenever_the_daemon_is_killed_the_end_is_the_same(
    part: int, prepared: tuple[World, list[int]], undisturbed: InPlaceEnding, tmp_path: Path
) -> None:
    assert undisturbed.boundaries > 60
    assert_same_end_whenever_killed(
        lambda folder, dies_at: _play(prepared, folder, dies_at), undisturbed, part, tmp_path
    )


# -- everybody else --------------------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """One host of 2 CPUs, full of one lease; a request for it waits."""
    world = _begin(tmp_path, [{"name": "node0", "cpu": 2, "memory_mib": 8192}])
    try:
        yield world
    finally:
        world.close()


def _filled(world: World) -> int:
    """The VM of a lease that fills the host."""
    victim = world.submit("eva", cpu=2, lease=SERIAL)
    world.until(lambda: world.is_running(victim))
    world.cycle()
    return victim


def _suspended(world: World) -> tuple[int, int]:
    """(victim that was just suspended and is not locked yet, request that waits for it)."""
    victim = _filled(world)
    request = world.submit("lea", cpu=1, lease=URGENT)
    world.until(lambda: world.state(victim) == SAVED, cycles=4)
    world.emulator.advance(5)
    assert (world.state(victim), _lock_of(world, victim)) == (SUSPENDED, None)
    return victim, request


def _at_rest(world: World) -> tuple[int, int]:
    """(victim at rest and locked, request that runs in its room)."""
    victim = _filled(world)
    request = world.submit("lea", cpu=1, lease=URGENT)
    world.until(lambda: world.is_running(request), cycles=8)
    world.cycle()
    assert world.state(victim) == SUSPENDED
    assert _lock_of(world, victim) == (MANAGE, 0)
    return victim, request


def _comes_back(world: World, victim: int, cycles: int = 8) -> None:
    world.until(lambda: world.is_running(victim), cycles=cycles)
    world.cycles(2)
    assert world.is_running(victim)
    assert _lock_of(world, victim) is None
    assert _is_sound(world)


def test_its_owner_reads_why_and_can_do_nothing_meanwhile(world: World) -> None:
    victim, request = _at_rest(world)
    status = world.vm(victim).findtext("USER_TEMPLATE/LEASE_STATUS", "")
    # Written once: before it was saved, and not again meanwhile.
    assert status == in_place_status(request)
    for action in ("resume", "terminate", "stop"):
        assert not world.action("eva", action, victim)
    assert not world.emulator.call("eva", "one.vm.unlock", victim)[0]
    world.cycles(3)
    assert world.state(victim) == SUSPENDED
    assert world.action("lea", "terminate", request)
    _comes_back(world, victim)
    assert _refused(world) == []


def test_nobody_else_is_placed_beside_what_rests(world: World) -> None:
    victim, request = _at_rest(world)
    plain = world.submit("paul", cpu=1)
    world.cycles(4)
    assert world.state(plain) == "1/0"
    assert world.action("lea", "terminate", request)
    _comes_back(world, victim)
    assert world.state(plain) == "1/0"
    assert _refused(world) == []


def test_its_owner_resumes_it_before_the_lock(world: World) -> None:
    victim, request = _suspended(world)
    assert world.action("eva", "resume", victim)
    world.until(lambda: world.is_running(request), cycles=12)
    assert world.state(victim) == SUSPENDED
    assert _is_sound(world)
    assert world.action("lea", "terminate", request)
    _comes_back(world, victim)


def test_its_owner_ends_it_before_the_lock(world: World) -> None:
    victim, request = _suspended(world)
    assert world.action("eva", "terminate", victim)
    world.until(lambda: world.is_running(request), cycles=6)
    assert _is_sound(world)


def test_a_lock_of_its_owner_is_neither_replaced_nor_opened(world: World) -> None:
    victim, request = _suspended(world)
    world.emulator.must("eva", "one.vm.lock", victim, MANAGE)
    owner = _lock_of(world, victim)
    world.cycles(6)
    assert _lock_of(world, victim) == owner != (MANAGE, 0)
    assert not world.is_running(request)
    assert _is_sound(world)
    world.emulator.must("eva", "one.vm.unlock", victim)
    world.action("lea", "terminate", request)
    _comes_back(world, victim)
    assert _refused(world) == []


def test_a_lock_of_an_administrator_on_what_rests_is_not_opened(world: World) -> None:
    victim, request = _at_rest(world)
    world.emulator.must("oneadmin", "one.vm.lock", victim, USE)
    assert world.action("lea", "terminate", request)
    world.cycles(5)
    assert _lock_of(world, victim) == (USE, 0)
    assert world.state(victim) == SUSPENDED
    world.emulator.must("oneadmin", "one.vm.unlock", victim)
    _comes_back(world, victim)


def test_it_is_given_to_another_owner_while_it_rests(world: World) -> None:
    victim, request = _at_rest(world)
    world.emulator.must("oneadmin", "one.vm.unlock", victim)
    uid, gid = world.user_ids["evan"]
    world.emulator.must("oneadmin", "one.vm.chown", victim, uid, gid)
    world.cycles(2)
    assert world.action("lea", "terminate", request)
    _comes_back(world, victim)


def test_an_administrator_ends_it_while_it_rests(world: World) -> None:
    victim, request = _at_rest(world)
    world.emulator.must("oneadmin", "one.vm.unlock", victim)
    assert world.action("oneadmin", "terminate", victim)
    world.cycles(3)
    assert world.state(victim) == DONE
    assert world.is_running(request)
    assert _open_records(world, victim) == []
    assert _is_sound(world)


def test_the_request_is_ended_before_it_came(world: World) -> None:
    victim = _filled(world)
    request = world.submit("lea", cpu=1, lease=URGENT)
    world.until(lambda: _lock_of(world, victim) is not None, cycles=6)
    assert world.action("lea", "terminate", request)
    _comes_back(world, victim)
    assert _refused(world) == []


@pytest.mark.parametrize("cycles", range(1, 6))
def test_a_pause_at_any_moment_lets_it_return(world: World, cycles: int) -> None:
    victim = _filled(world)
    request = world.submit("lea", cpu=1, lease=URGENT)
    world.cycles(cycles)
    _pause(world)
    world.cycles(4)
    if not world.is_running(request):
        assert world.is_running(victim)
    else:
        assert world.state(victim) == SUSPENDED
        assert world.action("lea", "terminate", request)
    _comes_back(world, victim)


def test_the_ledger_is_lost_while_it_rests(world: World) -> None:
    victim, request = _at_rest(world)
    world.daemon.kill()
    for file in world.ledger.parent.iterdir():
        file.unlink()
    world.restart_daemon()
    world.cycles(3)
    assert world.state(victim) == SUSPENDED
    assert _lock_of(world, victim) == (MANAGE, 0)
    assert world.action("lea", "terminate", request)
    _comes_back(world, victim)


def test_its_quota_is_used_up_when_it_may_return(world: World) -> None:
    victim, request = _at_rest(world)
    world.set_quota("eva", {"RUNNING_VMS": 0})
    assert world.action("lea", "terminate", request)
    world.cycles(5)
    assert world.state(victim) == SUSPENDED
    assert _lock_of(world, victim) is None
    world.set_quota("eva", {"RUNNING_VMS": -2})
    _comes_back(world, victim)
    assert _refused(world) == []


def test_a_restore_that_fails_is_tried_again(world: World) -> None:
    victim, request = _at_rest(world)
    world.emulator.control("cloud_fault", "restore", "fail", victim)
    assert world.action("lea", "terminate", request)
    _comes_back(world, victim, cycles=10)


def test_a_lost_host_has_it_return_elsewhere(tmp_path: Path) -> None:
    hosts = [{"name": f"node{number}", "cpu": 2, "memory_mib": 8192} for number in range(2)]
    world = _begin(tmp_path, hosts)
    try:
        first, second = (world.submit("eva", cpu=2, lease=SERIAL) for _ in range(2))
        world.until(lambda: world.is_running(first) and world.is_running(second))
        world.cycle()
        request = world.submit("lea", cpu=1, lease=URGENT)
        world.until(lambda: world.is_running(request), cycles=8)
        victim, other = (first, second) if world.state(first) == SUSPENDED else (second, first)
        host_id = int(world.vm(victim).findtext("HISTORY_RECORDS/HISTORY/HID", "-1"))
        world.emulator.control("kill_host", host_id)
        world.until(lambda: world.state(victim) == STOPPED, cycles=60)
        assert _lock_of(world, victim) is None
        assert world.action("eva", "terminate", other)
        _comes_back(world, victim)
    finally:
        world.close()


def test_a_reservation_starts_on_time_beside_who_rests_for_it(tmp_path: Path) -> None:
    rights = [
        *SETTINGS["leases"]["rights"][:1],
        {**SETTINGS["leases"]["rights"][1], "may_claim": [], "max_ahead_s": 86400},
    ]
    settings = {**IN_PLACE, "leases": {**SETTINGS["leases"], "rights": rights}}
    cloud = description([{"name": "node0", "cpu": 2, "memory_mib": 8192}], instant=True)
    world = World.begin(tmp_path, cloud, settings)
    try:
        victim = _filled(world)
        start_s = world.emulator.now_s + 900
        terms = {"TYPE": "DC-NON-PREEMPTABLE", "START": utc_text(start_s), "DURATION": "00:10:00"}
        reserved = world.submit("lea", cpu=2, memory=1024, lease=terms)
        while world.emulator.now_s < start_s - CYCLE_S:
            world.cycle()
            assert not world.is_running(reserved)
        assert (world.state(victim), _lock_of(world, victim)) == (SUSPENDED, (MANAGE, 0))
        world.cycles(3)
        assert world.is_running(reserved)
        assert world.action("lea", "terminate", reserved)
        _comes_back(world, victim)
        assert _refused(world) == []
    finally:
        world.close()


def _pause(world: World) -> None:
    with closing(open_store(Settings(store=StoreSettings(url=f"sqlite:///{world.ledger}")))) as store:
        store.set_paused(True, 0)


def _open_records(world: World, vm_id: int) -> list[str]:
    with closing(sqlite3.connect(f"file:{world.ledger}?mode=ro", uri=True)) as ledger:
        found = ledger.execute("SELECT kind FROM actions WHERE vm_id = ? AND closed_at_s IS NULL", (vm_id,))
        return [kind for (kind,) in found]
