"""What owners read in `onevm show`: LEASE_STATUS for leases, SCHED_MESSAGE for whatever waits.

Written only where the text changes, so that a quiet cloud costs nothing. SCHED_MESSAGE also belongs to oned: it
is written when empty or ours, and emptied when ours and no longer true. What oned's own rounds of placing wrote (7.x)
nobody else empties once the VM runs: oned does so only where it runs by a plan of `place`. Nor does oned take back that
no host suits a VM, once one does or the VM is on HOLD: then it is replaced. What mm_sched left (6.x) counts as ours:
where this scheduler has its place, nobody else says anything new.
"""

from __future__ import annotations

import re

from one_preempt.core.lease_status import (
    LEASE_STATUS,
    converted_status,
    in_place_status,
    kept_out_status,
    leaving_status,
    preempted_status,
    says_served,
    served_status,
    started_in_part,
    terminated_status,
)
from one_preempt.core.matching.reasons import AFFINITY, CAPACITY, DEVICES, NUMA, TOO_SMALL
from one_preempt.core.model.lease import Lease, LeaseState
from one_preempt.core.model.lease_lifecycle import VmPhase, phase_of
from one_preempt.core.model.plain_words import plain_words
from one_preempt.core.model.plan import Action, ActionKind, Reason
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import LcmState, LockLevel, VirtualMachine, VmState
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import leaving_leases
from one_preempt.core.reconciliation.settled_actions import CANCELLED, OVERRUN
from one_preempt.core.sched_message import OUR_MARK, SCHED_MESSAGE
from one_preempt.core.victims import has_overrun

# oned heads what it writes itself with the time, as ctime has it.
_ONEDS_HEAD = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4} ?: ")
# What it says of hosts: that none is enabled, may be used by the owner, or meets a requirement that can be read.
_ONEDS_NO_HOST = re.compile(r"Cannot dispatch VM: (?:No hosts? |User is not .* any host|Error in SCHED_REQ)")
# Whoever waits for one of these has a host of which oned says nothing of the kind.
_HAS_HOSTS = frozenset({AFFINITY, TOO_SMALL, CAPACITY, DEVICES, NUMA, "promised", "advise", "not-enough-room"})
LENGTH = 240
# The first cycle over a full queue would otherwise spend minutes on messages.
MESSAGES_A_CYCLE = 50

_STATE_TEXTS = {
    LeaseState.RUNNING: "running",
    LeaseState.STARTING: "starting",
    LeaseState.LEAVING: "leaving its hosts",
    LeaseState.RETURNING: "returning after a preemption",
    LeaseState.PAUSED_BY_OWNER: "paused by its owner: resume it to have it scheduled",
    LeaseState.FAILED: "it has failed: have it recovered by an administrator, or terminate it",
}
# The same where it is one VM of several, with the phases that this one is in.
_TEXTS_OF_ONE = {
    LeaseState.PAUSED_BY_OWNER: (
        "is paused by its owner: resume it to have it scheduled",
        (VmPhase.PAUSED, VmPhase.OUT),
    ),
    LeaseState.FAILED: (
        "has failed: have it recovered by an administrator, or terminate it",
        (VmPhase.FAILED,),
    ),
}
_ON_HOSTS = frozenset({LeaseState.RUNNING, LeaseState.STARTING, LeaseState.PAUSED_BY_OWNER})
_LEFT_ON_HOLD = "on hold, and without a LEASE attribute: release it, or write one again"


def tell_owners(draft: PlanDraft) -> None:
    """The messages that are due, as the last actions of the plan; but what is terminated is told why before that."""
    told = _messages(draft)
    ended = {action.vm_id for action in draft.actions if action.kind is ActionKind.TERMINATE}
    draft.actions[:0] = [message for message in told if message.vm_id in ended]
    draft.actions += [message for message in told if message.vm_id not in ended]


def _messages(draft: PlanDraft) -> list[Action]:
    written: list[Action] = []
    being_locked = {action.vm_id for action in draft.actions if action.kind is ActionKind.LOCK and not action.after}
    oneds_stand = draft.state.snapshot.oned_explains_waiting
    for lease in _in_turn(draft):
        texts = _texts(draft, lease)
        for vm in draft.members(lease):
            untouchable = vm.state is VmState.HOLD and not lease.explicit
            due = {} if untouchable else _of_vm(draft, lease, vm, texts)
            stands = oneds_stand and not _says_otherwise(vm, draft.waits.get(lease.id))
            changes = _changes(vm, due | _of_former_lease(draft, lease, vm), stands)
            if not changes or vm.lock_level is not LockLevel.NONE or vm.id in being_locked:
                continue
            if draft.attempts.must_pause_before(f"message/{vm.id}"):
                continue
            written.append(_message(vm, lease, changes))
            if len(written) == MESSAGES_A_CYCLE:
                return written
    return written


def _in_turn(draft: PlanDraft) -> list[Lease]:
    """All leases, another one first in each cycle: an owner who wipes fifty messages a cycle silences nobody.

    Those that will have to leave soon are told before all others.
    """
    leases = [draft.state.leases[lease_id] for lease_id in sorted(draft.state.leases)]
    first = draft.state.now_s % max(1, len(leases))
    return sorted(leases[first:] + leases[:first], key=lambda lease: lease.id not in draft.warned)


def _texts(draft: PlanDraft, lease: Lease) -> dict[str, str]:
    """The texts that the lease's VMs should show now; "" means none."""
    wait = draft.waits.get(lease.id)
    waits = wait.text if wait is not None else ""
    texts = {}
    if _has_status(lease):
        if lease.id not in draft.starting:
            texts[LEASE_STATUS] = _status(draft, lease)
    elif not waits and lease.state is LeaseState.WAITING and lease.id not in draft.starting:
        # Room is being made for it, which others read in LEASE_STATUS.
        waits = draft.statuses.get(lease.id, "")
    is_turned_down = lease.verdict is Verdict.CONVERTED and lease.state is LeaseState.WAITING
    objection = lease.objection or (lease.verdict_text if is_turned_down else "")
    if objection:
        # First, for its owner looks for it after a change; why it waits stands in LEASE_STATUS as well.
        waits = f"{objection}. {waits}" if waits else objection
    texts[SCHED_MESSAGE] = OUR_MARK + waits if waits else ""
    return {name: plain_words(text, LENGTH) for name, text in texts.items()}


def _of_vm(draft: PlanDraft, lease: Lease, vm: VirtualMachine, texts: dict[str, str]) -> dict[str, str]:
    """The same for one of them: what was paused when it was sent out does not return with the others."""
    is_kept_out = vm.id in lease.paused_vm_ids and lease.preempted_by is not None and vm.host_id is None
    if is_kept_out and LEASE_STATUS in texts:
        texts = {SCHED_MESSAGE: "", LEASE_STATUS: plain_words(kept_out_status(lease.preempted_by), LENGTH)}
    return _with_rank_problem(draft, vm, texts)


def _with_rank_problem(draft: PlanDraft, vm: VirtualMachine, texts: dict[str, str]) -> dict[str, str]:
    """A rank that cannot be read holds nothing up, so its owner would never notice."""
    problem = draft.matchmaker.rank_problem(vm)
    if not problem:
        return texts
    told = f"{texts[SCHED_MESSAGE]} {problem}" if texts[SCHED_MESSAGE] else OUR_MARK + problem
    return {**texts, SCHED_MESSAGE: plain_words(told, LENGTH)}


def _of_former_lease(draft: PlanDraft, lease: Lease, vm: VirtualMachine) -> dict[str, str]:
    """What LEASE_STATUS still says of terms that count no more, for the attribute or the rule behind them is gone.

    Its owner may have taken that away together with the attribute. What is on record though no rule is for it had one.
    """
    record = draft.state.records.get(lease.id)
    if record is None or _has_status(lease):
        return {}
    told_before = LEASE_STATUS in vm.user_template
    if vm.state is VmState.HOLD and (told_before or not record.rule):
        return {LEASE_STATUS: _LEFT_ON_HOLD}
    return {LEASE_STATUS: ""} if told_before else {}


def _has_status(lease: Lease) -> bool:
    return lease.explicit or lease.terms.type.preemptable


def _status(draft: PlanDraft, lease: Lease) -> str:
    if lease.state is LeaseState.REFUSED:
        return f"{'refused' if lease.verdict is Verdict.REFUSED else 'on hold'}: {lease.refusal_text}"
    if lease.state is LeaseState.INCOMPLETE:
        return f"waits for more VMs: {lease.refusal_text}"
    told = draft.statuses.get(lease.id)
    wait = draft.waits.get(lease.id)
    waiting = told or (wait.text if wait is not None else "Waits for room.")
    if not draft.in_place.vm_ids.isdisjoint(lease.vm_ids):
        return in_place_status(lease.preempted_by) + (f". {wait.text}" if wait is not None else "")
    if lease.state is LeaseState.PREEMPTED:
        return preempted_status(lease.preempted_by, waiting)
    if lease.state is LeaseState.WAITING:
        return converted_status(waiting) if lease.verdict is Verdict.CONVERTED else waiting
    if lease.state in _ON_HOSTS and told:
        return told
    if lease.state is LeaseState.PAUSED_BY_OWNER and (lease.is_served or any(map(says_served, draft.members(lease)))):
        return served_status(lease.terms.type, is_longer=not lease.is_served)
    if _is_being_sent_out(draft, lease):
        return _why_it_leaves(draft, lease)
    if lease.state is LeaseState.STARTING and wait is not None:
        return started_in_part(draft.members(lease), f"waits: {wait.text}")
    return f"{_how_it_stands(draft, lease)} ({lease.terms.type})"


def _how_it_stands(draft: PlanDraft, lease: Lease) -> str:
    if lease.state is LeaseState.RUNNING and any(map(_is_lost_sight_of, draft.members(lease))):
        return "OpenNebula cannot tell whether it runs"
    if lease.state is LeaseState.RUNNING and has_overrun(lease, draft.state.now_s):
        return "running, though its DURATION is over"
    if lease.state in _TEXTS_OF_ONE and len(lease.vm_ids) > 1:
        return _whom_to_see_to(draft, lease)
    return _STATE_TEXTS.get(lease.state, lease.state)


def _why_it_leaves(draft: PlanDraft, lease: Lease) -> str:
    """Why the scheduler ends it stays in its VMs once they are gone, for whoever looks for them."""
    ended_for = {
        record.reason_code
        for record in draft.state.actions.values()
        if record.lease_id == lease.id and record.kind is ActionKind.TERMINATE
    }
    if CANCELLED in ended_for:
        return "terminated, because an administrator has cancelled it"
    if lease.preempted_by is not None:
        return terminated_status(lease.preempted_by) if ended_for else leaving_status(lease.terms.type)
    if OVERRUN in ended_for:
        return "terminated, because its DURATION is over"
    return f"{_STATE_TEXTS[lease.state]} ({lease.terms.type})"


def _whom_to_see_to(draft: PlanDraft, lease: Lease) -> str:
    """Which of its VMs its owner has to see to, unless they are all alike."""
    text, phases = _TEXTS_OF_ONE[lease.state]
    concerned = [vm.id for vm in draft.members(lease) if phase_of(vm) in phases]
    return f"VM {concerned[0]} {text}" if 0 < len(concerned) < len(lease.vm_ids) else _STATE_TEXTS[lease.state]


def _is_being_sent_out(draft: PlanDraft, lease: Lease) -> bool:
    """Its VMs leave, or some have left and the others have not begun to: those of a gang may leave one by one."""
    if lease.state is LeaseState.RETURNING:
        return lease.preempted_by is not None and lease.id in leaving_leases(draft)
    return lease.state is LeaseState.LEAVING


def _is_lost_sight_of(vm: VirtualMachine) -> bool:
    return vm.state is VmState.ACTIVE and vm.lcm_state == LcmState.UNKNOWN


def _changes(vm: VirtualMachine, texts: dict[str, str], oneds_stand: bool) -> tuple[tuple[str, str], ...]:
    changes = []
    for name, text in sorted(texts.items()):
        present = vm.user_template.get(name, ("",))
        now = present[0] if len(present) == 1 and isinstance(present[0], str) else None
        if name == SCHED_MESSAGE and not (_may_write(now, text) or _has_had_its_day(vm, now, oneds_stand)):
            continue
        if now != text and not (text and now and now.endswith(text)):
            changes.append((name, text))
    return tuple(changes)


def _may_write(now: str | None, text: str) -> bool:
    """SCHED_MESSAGE is ours to write when empty or ours; emptying is only for ours. None: not one text, so not ours."""
    return now is not None and (OUR_MARK in now or (not now and bool(text)))


def _has_had_its_day(vm: VirtualMachine, now: str | None, oneds_stand: bool) -> bool:
    """oned wrote why the VM waits, and it runs by now and is to go nowhere; or who wrote it places no more."""
    is_past = (vm.is_running and not vm.resched) or not oneds_stand
    return is_past and now is not None and _ONEDS_HEAD.match(now) is not None


def _says_otherwise(vm: VirtualMachine, wait: Reason | None) -> bool:
    """What oned wrote of hosts is not so any more: it would be written anew in each of its rounds if it were."""
    if vm.state is VmState.HOLD:
        return True  # oned's rounds pass over it
    told = vm.user_template.get(SCHED_MESSAGE, ("",))[0]
    if wait is None or wait.code not in _HAS_HOSTS or not isinstance(told, str):
        return False
    return _ONEDS_NO_HOST.search(told) is not None


def _message(vm: VirtualMachine, lease: Lease, changes: tuple[tuple[str, str], ...]) -> Action:
    return Action(
        id=f"message/{vm.id}",
        kind=ActionKind.MESSAGE,
        vm_id=vm.id,
        lease_id=lease.id,
        reason=Reason("tell-owner", _in_story(dict(changes))),
        expected_uid=vm.uid,
        attributes=changes,
    )


def _in_story(changes: dict[str, str]) -> str:
    """What the lease's story says of it: LEASE_STATUS tells more, and why it waits as well."""
    told = changes.get(LEASE_STATUS) or changes.get(SCHED_MESSAGE, "").removeprefix(OUR_MARK)
    return f"its owner is told: {told}" if told else f"no longer true, and emptied: {' and '.join(changes)}"
