"""What must be true after every story, whatever happened in it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

from tests.stories.group_rules import DAEMON, allowed_hosts
from tests.stories.promises_kept import rows, suspended_too_often
from tests.stories.requests_told import ADMINISTRATOR, OWNERS
from tests.stories.room_left import Room, needs, rooms
from tests.stories.storyteller import ENABLED, NO_LIMITS, SYSTEM_DATASTORE, Story
from tests.stories.world import GROUP_IDS

QUIET_CYCLES = 4
RETURNED_BY_CYCLE = 5
SENT_OUT = {"stop", "undeploy", "undeploy-hard", "terminate", "terminate-hard", "suspend", "poweroff"}
RUNNING, STOPPED, UNDEPLOYED = "3/3", "4/0", "9/0"


def judge(story: Story) -> list[str]:
    """Calm the cloud down, let the daemon finish, and return everything that is wrong."""
    late = calm_down(story)
    wrong = [*late, *story.overcommitted, *story.world.emulator.audit()]
    wrong += _violations(story)
    wrong += _calls(story)
    wrong += _lost(story)
    wrong += _not_returned(story)
    wrong += story.broken_rules
    wrong += [*story.broken_promises, *suspended_too_often(story.world)]
    wrong += _refused(story)
    wrong += _unconnected(story)
    wrong += _store(story)
    if "Traceback" in story.world.daemon.log:
        wrong.append("the daemon's log has a traceback")
    return wrong


def calm_down(story: Story) -> list[str]:
    """Faults end, hosts come back, locks and quotas go, the datastore empties, local requests end; then some quiet
    cycles: until nothing happens any more, ten at most. What is owed a return must run in the fifth at the latest:
    the first frees the room, a return is asked for within three cycles of that, and then it boots."""
    emulator = story.world.emulator
    emulator.control("clear_faults")
    emulator.control("fill_datastore", SYSTEM_DATASTORE, -1)
    for name in (*OWNERS, *GROUP_IDS):
        story.world.set_quota(name, NO_LIMITS)
    for host_id in story.hosts:
        emulator.control("revive_host", host_id)
        emulator.must(ADMINISTRATOR, "one.host.status", host_id, ENABLED)
    _let_reservations_pass(story)
    states = story.world.states()
    for vm_id, told in sorted(story.vms.items()):
        if states[vm_id].startswith("6/"):
            continue
        emulator.call(ADMINISTRATOR, "one.vm.unlock", vm_id)
        emulator.call(ADMINISTRATOR, "one.vm.action", "unresched", vm_id)
        if not told.types or told.timed or _has_failed(states[vm_id]):
            told.ended_by_people |= emulator.call(ADMINISTRATOR, "one.vm.action", "terminate-hard", vm_id)[0]
            told.ended_by_people |= emulator.call(ADMINISTRATOR, "one.vm.recover", vm_id, 3)[0]
    quiet = 0
    late: list[str] = []
    for cycle in range(1, 11):
        before = story.world.states()
        story.step(60)
        same = story.world.states() == before and not story.reports[-1].get("issued")
        quiet = quiet + 1 if same else 0
        if cycle == RETURNED_BY_CYCLE:
            late = _not_returned(story)
        if quiet == QUIET_CYCLES:
            break
    return late


def _let_reservations_pass(story: Story) -> None:
    """Until all that was promised a START is due."""
    for _ in range(4):
        query = "SELECT id FROM leases WHERE verdict = 'accepted' AND start_at_s > "
        if not rows(story.world, query + str(story.world.emulator.now_s)):
            return
        story.step(60)


def _has_failed(state: str) -> bool:
    return state.startswith("3/") and state not in ("3/3",)


def _violations(story: Story) -> list[str]:
    found = [text for report in story.reports for text in report.get("violations", [])]
    errors = [str(report["error"]) for report in story.reports if "error" in report]
    return found + ([] if story.endpoint_was_faulty else errors)


def _calls(story: Story) -> list[str]:
    """The daemon's calls on VMs that it had no right to send out."""
    wrong = []
    unasked = unasked_moves(story.calls)
    gang_stops = {
        row["vm_id"] for row in rows(story.world, "SELECT vm_id FROM actions WHERE reason_code = 'gang-incomplete'")
    }
    for call in story.calls:
        if call["user"] != DAEMON or call["code"] or call["method"].startswith("one_preempt."):
            continue
        if call["method"].startswith("one.host.status"):
            wrong.append(f"a host was touched: {call}")
        if call in unasked and "DC-MIGRATABLE" not in story.vms[call["arguments"][0]].types:
            wrong.append(f"moved without right: {call}")
        if call["method"] == "one.vm.action" and call["arguments"][0] in SENT_OUT:
            wrong += _sent_out(story, call, gang_stops)
    return wrong


def unasked_moves(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The daemon's migrations of VMs that bore no mark at that moment: each `resched` of somebody allows one."""
    unasked = []
    marked: set[int] = set()
    for call in log:
        moved = call["method"] == "one.vm.migrate"
        if moved and call["user"] == DAEMON and call["arguments"][0] not in marked:
            unasked.append(call)
        if call["code"]:
            continue
        if moved:
            marked.discard(call["arguments"][0])
        if call["method"] == "one.vm.action" and call["arguments"][0] == "resched" and call["user"] != DAEMON:
            marked.add(call["arguments"][1])
        if call["method"] == "one.vm.action" and call["arguments"][0] == "unresched":
            marked.discard(call["arguments"][1])
    return unasked


def _sent_out(story: Story, call: dict[str, Any], gang_stops: set[int]) -> list[str]:
    action, vm_id = call["arguments"]
    told = story.vms[vm_id]
    returning = {"BE-SUSPENDABLE", "DC-MIGRATABLE"}
    in_place = returning if story.world.settings.get("victims", {}).get("suspend_in_place") else set()
    allowed = {"stop": returning, "suspend": in_place, "terminate": {"BE-CANCELLABLE"}}.get(action, set())
    if told.types & allowed or (action == "stop" and told.gang and vm_id in gang_stops):
        return []
    if action == "undeploy" and (told.may_shut_down or (call in story.paused.undeployed and told.types)):
        return []
    return [f"sent out without right: {call}, claimed {sorted(told.types)}"]


def _lost(story: Story) -> list[str]:
    """VMs that ended though nobody with the right ended them."""
    terminated = {
        call["arguments"][1]
        for call in story.calls
        if call["user"] == DAEMON and call["method"] == "one.vm.action" and call["arguments"][0] == "terminate"
    }
    states = story.world.states()
    return [
        f"VM {vm_id} is lost"
        for vm_id, told in story.vms.items()
        if states[vm_id].startswith("6/") and not told.ended_by_people and vm_id not in terminated
    ]


def _not_returned(story: Story) -> list[str]:
    """Preempted leases that are still out though all their VMs would fit."""
    wrong = []
    states = story.world.states()
    query = "SELECT id FROM leases WHERE preempted_by IS NOT NULL AND ended_at_s IS NULL"
    for row in rows(story.world, query):
        members = [
            member["vm_id"]
            for member in rows(
                story.world, f"SELECT vm_id FROM lease_members WHERE lease_id = {row['id']} ORDER BY vm_id"
            )
        ]
        living = [vm_id for vm_id in members if not states[vm_id].startswith("6/")]
        out = [vm_id for vm_id in living if states[vm_id] != RUNNING and vm_id not in story.paused.left]
        resting = (STOPPED, UNDEPLOYED, "1/0", "2/0", RUNNING)
        if out and all(states[vm_id] in resting for vm_id in living) and _fit(story, out):
            wrong.append(f"lease {row['id']} was preempted and did not return: {out}")
    return wrong


def _fit(story: Story, vm_ids: list[int]) -> bool:
    """First fit, the largest VM first: if this fits, there was room."""
    left = rooms(story.world)
    vms = sorted((story.world.vm(vm_id) for vm_id in vm_ids), key=needs, reverse=True)
    return all(any(room.take(vm) for room in left if room.host_id in _allowed(story, vm, left)) for vm in vms)


def _allowed(story: Story, vm: ElementTree.Element, left: list[Room]) -> set[int]:
    """The hosts that the rules of the VM's group leave."""
    hosts, vm_id = {room.host_id for room in left}, int(vm.findtext("ID", "-1"))
    roles = story.roles()
    return allowed_hosts(story.world, roles, vm_id, hosts) if vm_id in roles else hosts


def _refused(story: Story) -> list[str]:
    """Calls of the daemon that oned refused: nothing happens between its look and its calls, so none should be."""
    return [
        f"refused: {call}"
        for call in story.calls
        if call["user"] == DAEMON and call["code"] and not call["method"].startswith("one_preempt.")
    ]


def _unconnected(story: Story) -> list[str]:
    """VMs that the daemon started without a network for an automatic NIC, or with one network twice."""
    wrong = []
    started = [call for call in story.calls if call["method"] == "one.vm.deploy" and not call["code"]]
    by_people = {call["arguments"][0] for call in started if call["user"] != DAEMON}
    for vm_id in {call["arguments"][0] for call in started} - by_people:
        nics = [nic.findtext("NETWORK_ID") for nic in story.world.vm(vm_id).iterfind("TEMPLATE/NIC")]
        if None in nics or len(set(nics)) < len(nics):
            wrong.append(f"the automatic NICs of VM {vm_id} have the networks {nics}")
    return wrong


def _store(story: Story) -> list[str]:
    """Store and cloud agree, and every call has its reason in the log."""
    still_open = rows(story.world, "SELECT id FROM preemptions WHERE closed_at_s IS NULL AND advised_only = 0")
    wrong = [f"preemption {row['id']} is still open" for row in still_open]
    states = story.world.states()
    for row in rows(story.world, "SELECT id FROM leases WHERE ended_at_s IS NULL"):
        members = rows(story.world, f"SELECT vm_id FROM lease_members WHERE lease_id = {row['id']}")
        if all(states[member["vm_id"]].startswith("6/") for member in members):
            wrong.append(f"lease {row['id']} has ended and the store does not know")
    explained = {
        (row["kind"], row["vm_id"]) for row in rows(story.world, "SELECT * FROM actions") if row["reason_text"]
    }
    names = {"one.vm.deploy": "deploy", "one.vm.update": "message"}
    for call in story.calls:
        if call["user"] != DAEMON or call["method"] not in ("one.vm.deploy", "one.vm.action", "one.vm.update"):
            continue
        kind = names.get(call["method"], call["arguments"][0])
        vm_id = call["arguments"][1] if call["method"] == "one.vm.action" else call["arguments"][0]
        if (kind, vm_id) not in explained:
            wrong.append(f"no reason was logged for {call}")
    return wrong


__all__ = ["judge", "unasked_moves"]
