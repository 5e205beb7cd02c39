"""From VMs to leases: what was admitted stands, what is new is judged, everything else is a VM as any other.

Called once a cycle, with the VMs and leases that may have changed; a VM without LEASE and without a rule for it costs
next to nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct, field
from msgspec.structs import replace

from one_preempt.core.admission.gangs import GangKey, form_gangs
from one_preempt.core.admission.lease_attribute import LEASE, MalformedLease, quoted
from one_preempt.core.admission.rules import AdmissionRules, BeyondRightsClaim, GroupRights, claim_beyond
from one_preempt.core.admission.standing import (
    CHANGE_REFUSED,
    JUDGED_BY,
    Review,
    as_without,
    may_preempt,
    review,
    rights_as_admitted,
    stays_as_admitted,
)
from one_preempt.core.admission.time_wish import NOT_STARTED, as_asked, counted_from, impossible_wish
from one_preempt.core.model.lease import Lease, LeaseState, LeaseTerms
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState
from one_preempt.core.reconciliation.concerned import Concerned
from one_preempt.core.reconciliation.counted_on import CountedOn

PLAIN = LeaseTerms()
_DONE = VmState.DONE
_REFUSED, _WAITING = Verdict.REFUSED, LeaseState.WAITING
RESERVATION_REFUSED = "reservation-refused"
_id = attrgetter("id")
# The same is said to newcomers that agree in these.
_received_by = attrgetter("state", *JUDGED_BY)


class AdmissionNote(Struct, frozen=True):
    """Something the administrator may want to know: a code and one sentence."""

    code: str
    text: str
    vm_id: int


class Admission(Struct, frozen=True):
    """The leases of all VMs, by ascending id.

    A lease's `state` is REFUSED or INCOMPLETE, with `refusal_code` and `refusal_text`, where its VMs must wait;
    WAITING stands for "derive it from the states of the VMs". `records` are to be written: leases admitted now,
    and those whose changed terms were admitted.
    """

    leases: tuple[Lease, ...]
    records: tuple[LeaseRecord, ...] = ()
    notes: tuple[AdmissionNote, ...] = ()


NOTHING_NEW = Admission(())


def admit(
    snapshot: PoolSnapshot,
    recorded: Mapping[int, LeaseRecord],
    rules: AdmissionRules,
    now_s: int,
    concerned: Concerned,
    counted_on: CountedOn,
) -> Admission:
    """Sort VMs into leases.

    Args:
        snapshot: the cloud; its VMs that are DONE are passed over.
        recorded: leases admitted before, by id; ended ones are passed over.
        rules: what the administrator grants.
        now_s: the instant of the decision, from which a relative START is counted.
        concerned: the leases and VMs to look at; all others stand as they are, and are not told of.
        counted_on: of which recorded leases others count on that they leave.
    """
    if not (concerned.lease_ids or concerned.vm_ids):
        return NOTHING_NEW
    desk = _AdmissionDesk(snapshot, recorded, rules, now_s, counted_on)
    for lease_id in concerned.lease_ids:
        record = recorded.get(lease_id)
        if record is not None and record.ended_at_s is None:
            desk.keep(record, _present(record.vm_ids, snapshot.vms))
    newcomers = _present(sorted(frozenset(concerned.vm_ids) - desk.served), snapshot.vms)
    # The members of a gang come one after the other, and mostly share one description.
    for _, alike in groupby(newcomers, _received_by):
        desk.receive(list(alike))
    desk.close_gangs()
    return Admission(
        leases=tuple(sorted(desk.leases, key=_id)),
        records=tuple(sorted(desk.records, key=_id)),
        notes=tuple(desk.notes),
    )


def _present(vm_ids: Iterable[int], vms: Mapping[int, VirtualMachine]) -> list[VirtualMachine]:
    return [vm for vm_id in vm_ids if (vm := vms.get(vm_id)) is not None and vm.state is not _DONE]


class _AdmissionDesk(Struct):
    """One admission while it is being worked out. `reviewed`: what was recorded and looked at; None has no VMs left."""

    snapshot: PoolSnapshot
    recorded: Mapping[int, LeaseRecord]
    rules: AdmissionRules
    now_s: int
    counted_on: CountedOn
    leases: list[Lease] = field(default_factory=list)
    records: list[LeaseRecord] = field(default_factory=list)
    notes: list[AdmissionNote] = field(default_factory=list)
    served: set[int] = field(default_factory=set)
    reviewed: dict[int, LeaseRecord | None] = field(default_factory=dict)
    candidates: list[tuple[list[VirtualMachine], LeaseTerms]] = field(default_factory=list)
    leases_of_user: Counter[int] | None = None

    def keep(self, record: LeaseRecord, members: Sequence[VirtualMachine]) -> None:
        """A lease that was admitted before."""
        if not members:
            self.reviewed[record.id] = None
            return
        judged = review(record, members, self.rules, self.now_s, self.counted_on)
        reviewed = self._counted(record, members[0], judged)
        if reviewed.record is not record:
            self.records.append(reviewed.record)
        if reviewed.code:
            self.notes.append(AdmissionNote(reviewed.code, reviewed.text, members[0].id))
        self.reviewed[record.id] = standing = reviewed.record
        unreadable = self.snapshot.unreadable_vm_ids
        all_seen = not unreadable or unreadable.isdisjoint(record.vm_ids)
        rights = rights_as_admitted(standing, members[0], self.rules, self.snapshot.directory)
        lease = _lease(standing, members, rights, all_seen=all_seen)
        if reviewed.objection and (record.explicit or LEASE in members[0].user_template):
            lease = replace(lease, objection=reviewed.objection)
        self.served.update(lease.vm_ids)
        self.leases.append(lease)

    def _counted(self, record: LeaseRecord, first: VirtualMachine, reviewed: Review) -> Review:
        """The review, or a refusal where its owner would have one lease by a LEASE attribute more than is granted.

        One that he has by such an attribute already may have been none of these rights: served as without it, or of
        another group.
        """
        changed = reviewed.record
        gains = changed.may_preempt and not record.may_preempt
        if not changed.explicit or not (gains or reviewed.is_granted_change):
            return reviewed
        ceiling = self.rules.rights_of(first).max_leases
        counted = record.explicit and record.uid == first.uid
        if ceiling is not None and self._leases_of(first.uid) - counted >= ceiling:
            stays = replace(record, may_preempt=False) if record.may_preempt and not changed.may_preempt else record
            return Review(stays, CHANGE_REFUSED, f"{stays_as_admitted(record)}{_too_many(ceiling)}")
        if self.leases_of_user is not None:
            self.leases_of_user[first.uid] += not counted
        return reviewed

    def receive(self, alike: list[VirtualMachine]) -> None:
        """VMs that belong to no lease yet, and that are judged alike."""
        if LEASE in alike[0].user_template:
            self._judge(alike)
            return
        rule = self.rules.rule_of(alike[0]) if self.rules.rules else None
        for vm in alike:
            if rule is None:
                self.leases.append(_plain_lease(vm))
            elif not rule.gives_terms and not rule.may_preempt:
                self.leases.append(replace(_plain_lease(vm), shielded_by_lock=rule.shielded_by_lock))
            else:
                self._record([vm], rule.terms, [vm], explicit=False, by_rights=False)

    def close_gangs(self) -> None:
        """Once all VMs were seen: admit the gangs that are complete, and tell the others what is missing."""
        if not self.candidates:
            return
        gangs = form_gangs(self.candidates, self._running_gangs())
        # Whoever comes after one of these is judged like it.
        firsts = {alike[0].id for alike, _ in self.candidates}
        for key, members in gangs.complete:
            self._admit(members, key.terms, [vm for vm in members if vm.id in firsts])
        for key, members, text in gangs.waiting:
            self.leases.append(_incomplete_lease(key, members, text))
        for vm, text in gangs.extra:
            self._refuse([vm], "lease-complete", text)

    def _standing(self, recorded: Iterable[LeaseRecord]) -> Iterator[LeaseRecord]:
        """Those leases that were admitted before and are not over, as they stand now."""
        for record in recorded:
            standing = self.reviewed.get(record.id, record)
            if standing is not None and standing.ended_at_s is None:
                yield standing

    def _running_gangs(self) -> dict[GangKey, tuple[int, ...]]:
        """The gangs admitted before that candidates may take themselves for members of; of equal ones the youngest."""
        names = {terms.name for _, terms in self.candidates}
        # The NAME and the SIZE of several VMs never change.
        namesakes = [
            record for record in self.recorded.values() if record.terms.name in names and record.terms.size > 1
        ]
        if not namesakes:
            return {}
        gangs = sorted(self._standing(namesakes), key=_id)
        return {GangKey(record.uid, as_asked(record.terms)): record.vm_ids for record in gangs}

    def _leases_of(self, uid: int) -> int:
        """How many leases a user has by LEASE attributes, those of this admission among them."""
        if self.leases_of_user is None:
            known = {record.id: record for record in (*self._standing(self.recorded.values()), *self.records)}
            self.leases_of_user = Counter(record.uid for record in known.values() if record.explicit)
        return self.leases_of_user[uid]

    def _judge(self, alike: list[VirtualMachine]) -> None:
        """What they claim, and what stands against it."""
        first = alike[0]
        terms = self.rules.claimed_terms(first)
        if isinstance(terms, MalformedLease):
            self._refuse(alike, terms.code, terms.text)
            return
        beyond = claim_beyond(terms, self.rules, first, self.now_s)
        # A VM that has started had its START; it is new here only because the ledger was lost.
        impossible = impossible_wish(terms, self.now_s) if first.state in NOT_STARTED else None
        if beyond is not None:
            self._beyond_rights(alike, terms, beyond)
        elif impossible is not None:
            self._refuse(alike, impossible.code, impossible.text)
        elif terms.size > 1:
            self.candidates.append((alike, terms))
        else:
            for vm in alike:
                self._admit([vm], terms, [vm])

    def _beyond_rights(self, alike: list[VirtualMachine], terms: LeaseTerms, claim: BeyondRightsClaim) -> None:
        if not self.rules.serve_as_without(terms, alike[0]):
            self._refuse(alike, claim.code, claim.text)
            return
        for vm in alike:
            self.notes.append(AdmissionNote("fell-back", as_without(claim), vm.id))
            self._record([vm], self.rules.terms_without(vm), [vm], explicit=True, by_rights=False)
            self.leases[-1] = replace(self.leases[-1], objection=as_without(claim))

    def _admit(self, members: Sequence[VirtualMachine], terms: LeaseTerms, unlike: Sequence[VirtualMachine]) -> None:
        """A claim within its owner's rights, but for the number of leases, which depends on the others.

        `unlike`: of the members that are judged alike one.
        """
        first = members[0]
        ceiling = self.rules.rights_of(first).max_leases
        if ceiling is not None and self._leases_of(first.uid) >= ceiling:
            self._refuse(members, "leases-not-granted", _too_many(ceiling))
            return
        self._record(members, terms, unlike, explicit=True, by_rights=True)

    def _record(
        self,
        members: Sequence[VirtualMachine],
        terms: LeaseTerms,
        unlike: Sequence[VirtualMachine],
        *,
        explicit: bool,
        by_rights: bool,
    ) -> None:
        """`by_rights`: what its owner was granted for LEASE attributes counts."""
        first = members[0]
        rule = self.rules.rule_of(first)
        record = LeaseRecord(
            id=first.id,
            terms=counted_from(terms, self.now_s),
            uid=first.uid,
            gid=first.gid,
            vm_ids=tuple([vm.id for vm in members]),
            explicit=explicit,
            may_preempt=may_preempt(unlike, self.rules, by_rights=by_rights),
            admitted_at_s=self.now_s,
            # A gang has arrived when its last VM has: the first one alone keeps no place in the queue.
            arrived_at_s=max([vm.submitted_at_s for vm in members]),
            rule=rule.name if rule is not None else "",
            shielded_by_lock=rule.shielded_by_lock if rule is not None else True,
        )
        self.records.append(record)
        if self.leases_of_user is not None:
            self.leases_of_user[first.uid] += explicit
        self.leases.append(_lease(record, members, self.rules.rights_of(first)))

    def _refuse(self, vms: Iterable[VirtualMachine], code: str, text: str) -> None:
        """They wait on HOLD and say why. What has started already goes on as it would without the attribute."""
        for vm in vms:
            plain = replace(_plain_lease(vm), explicit=True, refusal_code=code, refusal_text=text)
            if vm.state in NOT_STARTED:
                self.leases.append(replace(plain, state=LeaseState.REFUSED))
                continue
            objection = f"its LEASE attribute has no effect: {text}"
            self.notes.append(AdmissionNote(code, objection, vm.id))
            rule = self.rules.rule_of(vm)
            if rule is not None and rule.gives_terms:
                self._record([vm], rule.terms, [vm], explicit=False, by_rights=False)
            else:
                self.leases.append(replace(plain, objection=objection))


def _too_many(ceiling: int) -> str:
    return f"its owner has the {ceiling} leases that are granted: end one"


def _plain_lease(vm: VirtualMachine) -> Lease:
    return Lease(
        id=vm.id,
        terms=PLAIN,
        uid=vm.uid,
        gid=vm.gid,
        vm_ids=(vm.id,),
        state=_WAITING,
        arrived_at_s=vm.submitted_at_s,
    )


def _lease(
    record: LeaseRecord, members: Sequence[VirtualMachine], rights: GroupRights, *, all_seen: bool = True
) -> Lease:
    """A recorded lease. One whose reservation was refused, and of which nothing has started, waits on HOLD.

    So does a gang of which a member was ended before it ever began: it would begin in part.
    """
    refused = record.verdict is _REFUSED and all(vm.state in NOT_STARTED for vm in members)
    if not refused and all_seen and len(members) < len(record.vm_ids) and _never_began(record, members):
        return _incomplete_lease(GangKey(record.uid, record.terms), members, _why_incomplete(record, members), record)
    return Lease(
        id=record.id,
        terms=record.terms,
        uid=record.uid,
        gid=record.gid,
        vm_ids=record.vm_ids if len(members) == len(record.vm_ids) else tuple([vm.id for vm in members]),
        state=LeaseState.REFUSED if refused else LeaseState.WAITING,
        arrived_at_s=record.arrived_at_s,
        explicit=record.explicit,
        may_preempt=record.may_preempt,
        shielded_by_lock=record.shielded_by_lock,
        rights_name=rights.name,
        max_share_percent=rights.max_share_percent,
        refusal_code=RESERVATION_REFUSED if refused else "",
        refusal_text=record.verdict_text if refused else "",
        verdict=record.verdict,
        verdict_text=record.verdict_text,
        served_s=record.served_s,
        run_began_at_s=record.run_began_at_s,
    )


def _never_began(record: LeaseRecord, members: Sequence[VirtualMachine]) -> bool:
    """No member has run, nor is one about to."""
    began = record.run_began_at_s is not None or record.served_s > 0 or record.preempted_by is not None
    return not began and all(vm.state in NOT_STARTED and not vm.history for vm in members)


def _why_incomplete(record: LeaseRecord, members: Sequence[VirtualMachine]) -> str:
    ended, size = len(record.vm_ids) - len(members), len(record.vm_ids)
    text = f"{ended} of the {size} VMs of lease {quoted(record.terms.name)} ended before it began"
    return f"{text}, and it does not begin in part: end the others and create all of them anew"


def _incomplete_lease(
    key: GangKey, members: Sequence[VirtualMachine], text: str, record: LeaseRecord | None = None
) -> Lease:
    return Lease(
        id=members[0].id if record is None else record.id,
        terms=key.terms,
        uid=key.uid,
        gid=members[0].gid,
        vm_ids=tuple(vm.id for vm in members),
        state=LeaseState.INCOMPLETE,
        arrived_at_s=members[0].submitted_at_s,
        explicit=True,
        refusal_code="lease-incomplete",
        refusal_text=text,
    )
