"""Terms that were admitted stand. What its owner changes afterwards is a request, judged by the same rules.

Less protection is granted at once. More protection is granted as it would be to a new VM, but never while a
preemption of the lease is decided or under way. SIZE and the NAME of a gang are fixed; about START, DEADLINE and
DURATION see `time_wish`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.admission.lease_attribute import LEASE, MalformedLease
from one_preempt.core.admission.rules import (
    AdmissionRules,
    BeyondRightsClaim,
    GroupRights,
    claim_beyond,
    seen_otherwise,
)
from one_preempt.core.admission.time_wish import as_asked, asks_anew, counted_from, spared_after, why_wish_stays
from one_preempt.core.model.access import Directory
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.reconciliation.counted_on import CountedOn

CHANGE_ACCEPTED, CHANGE_REFUSED = "change-accepted", "change-refused"
# Whatever is said to the claims of a VM is said to all that agree in these: the rules look at nothing else.
JUDGED_BY = ("uid", "gid", "uname", "gname", "template_id", "user_template")
_judged_by = attrgetter(*JUDGED_BY)
_PROTECTION = {lease_type: rank for rank, lease_type in enumerate(LeaseType)}


class Review(Struct, frozen=True):
    """The record as it stands now (the same object where nothing changed), and what there is to say about it.

    Without a `code` the administrator was told of it before.
    """

    record: LeaseRecord
    code: str = ""
    text: str = ""

    @property
    def is_granted_change(self) -> bool:
        """Its owner asked for something else, or is another one, and that was granted."""
        return self.code == CHANGE_ACCEPTED

    @property
    def objection(self) -> str:
        """Why what it asks for now does not count; "" where it does."""
        return "" if self.is_granted_change else self.text


class _Request(Struct, frozen=True):
    """What a VM asks for now: by its LEASE attribute, or by the rule that is for it."""

    terms: LeaseTerms | MalformedLease
    explicit: bool
    rule: str = ""


def stays_as_admitted(record: LeaseRecord) -> str:
    """How the refusal of a change begins; why it is refused follows."""
    return f"the terms of lease {record.id} stay as admitted: "


def as_without(claim: BeyondRightsClaim) -> str:
    """What is said of a lease that is served as it would be without its LEASE attribute."""
    return f"served as without LEASE: {claim.text}"


def requested(vm: VirtualMachine, rules: AdmissionRules) -> _Request:
    """What `vm` asks for now."""
    rule = rules.rule_of(vm)
    rule_name = rule.name if rule is not None else ""
    if LEASE in vm.user_template:
        return _Request(rules.claimed_terms(vm), True, rule_name)
    return _Request(rule.terms if rule is not None else LeaseTerms(), False, rule_name)


def rights_as_admitted(
    record: LeaseRecord, vm: VirtualMachine, rules: AdmissionRules, directory: Directory
) -> GroupRights:
    """Those by which the owner of a lease reserved what was accepted: nothing that he does afterwards frees his share.

    `vm` is a VM of it. Whether that came through a gateway its owner writes as he likes.
    """
    vm = _as_admitted(record, vm, directory)
    rights = rules.rights_of(vm)
    if record.verdict is not Verdict.ACCEPTED or rights.max_share_percent is not None:
        return rights
    otherwise = rules.rights_of(seen_otherwise(vm))
    return rights if otherwise.max_share_percent is None else otherwise


def _as_admitted(record: LeaseRecord, vm: VirtualMachine, directory: Directory) -> VirtualMachine:
    """It may be another's or of another group by now, which was not granted."""
    if (vm.uid, vm.gid) == (record.uid, record.gid):
        return vm
    user, group = directory.users.get(record.uid), directory.groups.get(record.gid)
    return replace(
        vm,
        uid=record.uid,
        gid=record.gid,
        uname=user.name if user is not None else "",
        gname=group.name if group is not None else "",
    )


def may_preempt(vms: Sequence[VirtualMachine], rules: AdmissionRules, *, by_rights: bool) -> bool:
    """Every one was granted it: by a rule for it, or by the rights of its owner where it has a LEASE.

    Of members that ask alike one is enough. `by_rights` False: the LEASE does not count, so rights do not either.
    """
    return not [vm for vm in vms if not _granted_preemption(vm, rules, by_rights=by_rights)]


def _one_of_each(vms: Sequence[VirtualMachine]) -> list[VirtualMachine]:
    """The first one, and every one that does not ask like the one before it: hundreds of a gang are judged as one."""
    return [next(alike) for _, alike in groupby(vms, _judged_by)]


def _granted_preemption(vm: VirtualMachine, rules: AdmissionRules, *, by_rights: bool) -> bool:
    rule = rules.rule_of(vm)
    if rule is not None and rule.may_preempt:
        return True
    return by_rights and LEASE in vm.user_template and rules.rights_of(vm).may_preempt


def review(
    record: LeaseRecord, vms: Sequence[VirtualMachine], rules: AdmissionRules, now_s: int, counted_on: CountedOn
) -> Review:
    """Judge what the members of `record` ask for now against what was admitted."""
    first, unlike = vms[0], _one_of_each(vms)
    request = requested(first, rules)
    same_owner = all((vm.uid, vm.gid) == (record.uid, record.gid) for vm in unlike)
    fell_back = _fell_back(record, first, request, rules, now_s)
    # A LEASE attribute that says what a rule gave brings its owner's rights, and counts among his leases.
    stands = fell_back is not None or (request.terms == as_asked(record.terms) and request.explicit <= record.explicit)
    if same_owner and stands and _agree(unlike[1:], request, rules):
        preempts = may_preempt(unlike, rules, by_rights=request.explicit and fell_back is None)
        return Review(_preempting(record, preempts), text="" if fell_back is None else as_without(fell_back))
    granted = _granted(record, vms, request, rules, now_s, counted_on)
    if isinstance(granted, str):
        # A wish that is not granted brings no right either; one that was withdrawn is lost.
        preempts = may_preempt(unlike, rules, by_rights=record.explicit and record.may_preempt)
        return Review(_preempting(record, preempts), CHANGE_REFUSED, f"{stays_as_admitted(record)}{granted}")
    anew = asks_anew(record, vms, granted, now_s)
    changed = replace(
        _preempting(record, may_preempt(unlike, rules, by_rights=request.explicit)),
        terms=counted_from(granted, now_s) if anew else replace(granted, start_at_s=record.terms.start_at_s),
        uid=first.uid,
        gid=first.gid,
        explicit=request.explicit,
        rule=request.rule,
    )
    if anew or not granted.asks_for_time:
        changed = replace(changed, verdict=Verdict.NONE, verdict_text="")
    return Review(changed, CHANGE_ACCEPTED, f"the changed terms or owner of lease {record.id} were admitted")


def _preempting(record: LeaseRecord, preempts: bool) -> LeaseRecord:
    return record if preempts == record.may_preempt else replace(record, may_preempt=preempts)


def _fell_back(
    record: LeaseRecord, vm: VirtualMachine, request: _Request, rules: AdmissionRules, now_s: int
) -> BeyondRightsClaim | None:
    """The claim for which it was admitted as without LEASE, as was said then; None where it was not."""
    asked = request.terms
    if not (record.explicit and request.explicit) or isinstance(asked, MalformedLease):
        return None
    if record.terms not in (rules.terms_without(vm), LeaseTerms()):
        return None
    return claim_beyond(asked, rules, vm, now_s) if rules.serve_as_without(asked, vm) else None


def _agree(others: Sequence[VirtualMachine], request: _Request, rules: AdmissionRules) -> bool:
    return all(requested(vm, rules).terms == request.terms for vm in others)


def _granted(
    record: LeaseRecord,
    vms: Sequence[VirtualMachine],
    request: _Request,
    rules: AdmissionRules,
    now_s: int,
    counted_on: CountedOn,
) -> LeaseTerms | str:
    """The terms asked for, or why they cannot be granted."""
    asked, first = request.terms, vms[0]
    if isinstance(asked, MalformedLease):
        return asked.text
    if not _agree(vms[1:], request, rules) or any((vm.uid, vm.gid) != (first.uid, first.gid) for vm in vms):
        return "its VMs no longer have the same owner, group and LEASE attribute"
    if _fixed(asked) != _fixed(record.terms):
        return "SIZE and the NAME of several VMs cannot change: create new VMs"
    by_owner = _is_owners_change(record, request, rules)
    wish_stays = why_wish_stays(record, vms, asked, now_s, counted_on, by_owner=by_owner)
    if wish_stays:
        return wish_stays
    if request.explicit:
        claim = claim_beyond(asked, rules, first, now_s)
        if claim is not None:
            return claim.text
        is_anothers = (first.uid, first.gid) != (record.uid, record.gid)
        if is_anothers and record.verdict is Verdict.ACCEPTED and rules.rights_of(first).max_share_percent is not None:
            return "what was accepted for others is not added to what all who share a right may reserve together"
    if _protects_more(asked, record.terms) and (record.preempted_by is not None or record.id in counted_on):
        return "more protection is not granted while a preemption of it is decided or under way"
    return asked


def _is_owners_change(record: LeaseRecord, request: _Request, rules: AdmissionRules) -> bool:
    """Did its owner write what it asks for now, or take away what its rule goes by? Else the rules have changed."""
    if record.explicit or request.explicit:
        return True
    stands = any(rule.name == record.rule and rule.terms == record.terms for rule in rules.rules)
    return request.rule != record.rule and stands


def _fixed(terms: LeaseTerms) -> tuple[int, str]:
    return terms.size, terms.name if terms.size > 1 else ""


def _protects_more(new: LeaseTerms, old: LeaseTerms) -> bool:
    """Is anything in `new` harder to preempt?"""
    if _PROTECTION[new.type] > _PROTECTION[old.type] or (old.shutdown_ok and not new.shutdown_ok):
        return True
    return spared_after(new) < spared_after(old)
