"""What a decision knows of promises of devices, cores and places beside VM groups: found when first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from one_preempt.core.availability.steps import END_OF_TIME_S
from one_preempt.core.memory.lease_concerns import Concern
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.phases.devices_and_groups.matched_promises import MatchedPromise, MatchedPromises, groups_of
from one_preempt.core.phases.devices_and_groups.matched_then import need_matching
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import giving_way, preemptions_under_way
from one_preempt.core.phases.reservations.stays import vms_of_stay


def promises_if_any(draft: PlanDraft) -> MatchedPromises | None:
    """What is known of them; None where there are none."""
    concerns_some = bool(draft.concerns.all(Concern.PROMISED_MATCHED) or draft.verdicts)
    if not (concerns_some or draft.has_matched):
        # As in most clouds: nobody has asked before.
        return None
    if draft.matched.promises is None and (not concerns_some or next(_stays_ahead(draft), None) is None):
        return None
    return promises_ahead(draft)


def promises_ahead(draft: PlanDraft) -> MatchedPromises:
    """What is known of them, be there any or not; found out when first asked for."""
    if draft.matched.promises is None:
        giving = frozenset(one.lease.id for one in giving_way(draft))
        draft.matched.promises = MatchedPromises(draft.matched.room_then, giving)
    return draft.matched.promises


def promises_near(
    draft: PlanDraft, rows: Set[int], groups: Set[int], from_s: int = 0, until_s: int = END_OF_TIME_S
) -> list[MatchedPromise]:
    """Those that `MatchedPromises.near` names, as things stand now."""
    return _as_they_stand(draft).near(rows, groups, from_s, until_s)


def rows_with_promises(draft: PlanDraft) -> list[int]:
    """The rows of all hosts of which something is promised, as things stand now."""
    return _as_they_stand(draft).rows


def guests_near(draft: PlanDraft, near: Sequence[MatchedPromise]) -> list[VirtualMachine]:
    """Who is on a host of these promises, or in a VM group of theirs, and has more than CPU and memory."""
    groups = frozenset[int]().union(*[one.groups for one in near])
    return draft.matched.guests.near({row for one in near for row in one.stay.host_rows}, groups)


def _as_they_stand(draft: PlanDraft) -> MatchedPromises:
    """All promises, learned anew once a stay has changed."""
    known = promises_ahead(draft)
    under_way = len(draft.preemptions), len(draft.ended)
    as_of = (draft.timeline.firm_stays.number, len(draft.starting), len(draft.verdicts), *under_way)
    if as_of != known.as_of:
        known.learn(_stays_ahead(draft), as_of)
    return known


def _stays_ahead(draft: PlanDraft) -> Iterator[MatchedPromise]:
    """All that still lie ahead, and those of them whose time has come while their lease is on no host yet.

    So is that of a preemptor for which others are leaving: what it will have is as good as promised.
    """
    known, leases, now_s = draft.concerns.all(Concern.PROMISED_MATCHED), draft.state.leases, draft.state.now_s
    found = [one.lease_id for one in draft.verdicts.values() if one.verdict is Verdict.ACCEPTED]
    found += [one.preemptor_lease_id for one in preemptions_under_way(draft)]
    others = {lease_id: leases[lease_id] for lease_id in found if lease_id in leases and lease_id not in known}
    for lease in (*known.values(), *others.values()):
        stays = [one for one in draft.timeline.stays.get(lease.id, ()) if one.firm]
        if not stays:
            continue
        vms = tuple(draft.members(lease))
        if lease.id in draft.starting or any(vm.host_id is not None for vm in vms):
            # Of a gang some VMs may have been deployed by hand before its start: the others come then.
            some_wait = lease.id not in draft.starting and any(vm.host_id is None for vm in vms)
            stays = [one for one in stays if one.start_s > now_s - some_wait]
        if stays and need_matching(vms):
            # Of a gang that has lost a host the others keep what they were promised on theirs.
            of_each = ((one, tuple(vms_of_stay(draft, one, vms))) for one in stays)
            yield from (
                MatchedPromise(lease, those, one, groups_of(those))
                for one, those in of_each
                if len(one.host_rows) == len(those) and need_matching(those)
            )
