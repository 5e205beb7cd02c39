"""What the administrator grants: types given by rule, and how far the LEASE attributes of users may go.

Without any rule every VM is DC-NON-PREEMPTABLE, nobody may preempt, and a LEASE attribute may ask for nothing
more than that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.admission.lease_attribute import LEASE, MalformedLease, parse_lease_attribute, quoted
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.model.written_time import duration_text

GATEWAY = "LEASE_GATEWAY"
"""In VMs for which a gateway between zones chose this zone. Their owner wrote it, and can take it away."""


def came_through_gateway(vm: VirtualMachine) -> bool:
    """Whether `vm` says that a gateway between zones sent it here."""
    return GATEWAY in vm.user_template


def seen_otherwise(vm: VirtualMachine) -> VirtualMachine:
    """`vm` as if it had come through a gateway where it says nothing of one, and the other way round."""
    template = {name: values for name, values in vm.user_template.items() if name != GATEWAY}
    if not came_through_gateway(vm):
        template[GATEWAY] = ("",)
    return replace(vm, user_template=template)


class BeyondRights(StrEnum):
    """What happens to a claim beyond its owner's rights: the VM waits on HOLD, or is served as without it.

    FALL_BACK never ignores a START or a SIZE, and makes nothing BE-CANCELLABLE: such claims wait on HOLD all the same.
    """

    HOLD = "hold"
    FALL_BACK = "fall_back"


class VmMatch(Struct, frozen=True):
    """Which VMs a rule is for: everything that is given must hold. A user or group is a name, or an id in digits.

    `attributes` are shell patterns by name of a user template attribute. Users write those themselves, so a
    rule that grants anything dear should also name a user or group. `through_gateway` True or False is for VMs that a
    gateway between zones sent here, or did not.
    """

    user: str | None = None
    group: str | None = None
    template_id: int | None = None
    attributes: Mapping[str, str] = {}
    through_gateway: bool | None = None

    def matches(self, vm: VirtualMachine) -> bool:
        """Does everything given hold for `vm`?"""
        return (
            (self.template_id is None or self.template_id == vm.template_id)
            and (self.user is None or _is_called(self.user, vm.uid, vm.uname))
            and (self.group is None or _is_called(self.group, vm.gid, vm.gname))
            and all(_has(vm, name, pattern) for name, pattern in self.attributes.items())
            and self.through_gateway in (None, came_through_gateway(vm))
        )


class LeaseRule(Struct, frozen=True):
    """Gives VMs without a LEASE attribute a type or a duration, and any VM the right to preempt or to lose its lock's
    shield. `type` and `duration_s` None leave it as it is.
    """

    name: str
    match: VmMatch
    type: LeaseType | None = None
    may_preempt: bool = False
    shutdown_ok: bool = False
    max_suspensions: int | None = None
    shielded_by_lock: bool = True
    duration_s: int | None = None

    @property
    def gives_terms(self) -> bool:
        """It makes a lease of a VM without a LEASE attribute."""
        return self.type is not None or self.duration_s is not None

    @property
    def terms(self) -> LeaseTerms:
        """The terms of a VM that this rule gives a type or a duration."""
        terms = LeaseTerms(
            type=self.type or LeaseType.DC_NON_PREEMPTABLE,
            duration_s=self.duration_s,
            max_suspensions=self.max_suspensions,
            shutdown_ok=self.shutdown_ok,
        )
        return replace(terms, max_suspensions=suspension_limit(terms, NO_RIGHTS))


class GroupRights(Struct, frozen=True):
    """What the LEASE attributes of a user or a group may claim; a cap of None caps nothing.

    DC-NON-PREEMPTABLE may be claimed without being granted, for it is what every VM is, unless a rule makes the VM
    preemptable. `least_max_suspensions` and `most_suspensions` bound MAX_SUSPENSIONS (see `suspension_limit`).
    `max_ahead_s` caps how far ahead a START may be; 0 allows neither START nor DEADLINE, but for START = "now".
    `max_leases` counts a user's leases that have not ended. `max_share_percent` of the cloud's capacity may be reserved
    in advance at any instant by all whom this entry is for together. `through_gateway` True or False: these are the
    rights only where a gateway between zones sent the VM here, or did not.
    """

    name: str
    user: str | None = None
    group: str | None = None
    may_claim: tuple[LeaseType, ...] = ()
    may_preempt: bool = False
    max_size: int | None = None
    max_duration_s: int | None = None
    max_ahead_s: int | None = None
    max_leases: int | None = None
    least_max_suspensions: int | None = None
    most_suspensions: int | None = None
    max_share_percent: int | None = None
    through_gateway: bool | None = None

    def matches(self, vm: VirtualMachine) -> bool:
        """Are these the rights of the owner of `vm`?"""
        return (
            (self.user is None or _is_called(self.user, vm.uid, vm.uname))
            and (self.group is None or _is_called(self.group, vm.gid, vm.gname))
            and self.through_gateway in (None, came_through_gateway(vm))
        )


NO_RIGHTS = GroupRights(name="", max_size=1, max_ahead_s=0)


def suspension_limit(terms: LeaseTerms, rights: GroupRights) -> int | None:
    """How often a lease with these rights may be suspended for others (SR11's starvation limit); None: no limit.

    A best-effort lease without an end has none, for one that used it up would stand in everybody's way for good.
    """
    if terms.duration_s is None and terms.type.best_effort:
        return None
    limit, least, most = terms.max_suspensions, rights.least_max_suspensions, rights.most_suspensions
    if limit is None:
        return most
    limit = limit if least is None else max(limit, least)
    return limit if most is None else min(limit, most)


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """All of the above; in `rules` and in `rights` the first entry that matches counts."""

    rules: tuple[LeaseRule, ...] = ()
    rights: tuple[GroupRights, ...] = ()
    beyond_rights: BeyondRights = BeyondRights.HOLD
    # Remembered by owner, for it is asked of thousands of VMs in every cycle.
    _rights_of_owner: dict[tuple[int, int, str, str, bool], GroupRights] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def rule_of(self, vm: VirtualMachine) -> LeaseRule | None:
        """The rule that is for `vm`."""
        for rule in self.rules:
            if rule.match.matches(vm):
                return rule
        return None

    def rights_of(self, vm: VirtualMachine) -> GroupRights:
        """The rights of the owner of `vm`."""
        owner = (vm.uid, vm.gid, vm.uname, vm.gname, GATEWAY in vm.user_template)
        known = self._rights_of_owner.get(owner)
        if known is None:
            known = next((rights for rights in self.rights if rights.matches(vm)), NO_RIGHTS)
            self._rights_of_owner[owner] = known
        return known

    def serve_as_without(self, beyond: LeaseTerms, vm: VirtualMachine) -> bool:
        """A claim `beyond` its owner's rights is as if it were not made, and does not wait.

        Nobody who asked for more falls back to what may be terminated.
        """
        if self.beyond_rights is not BeyondRights.FALL_BACK or beyond.size > 1 or beyond.asks_for_time:
            return False
        return self.terms_without(vm).type is not LeaseType.BE_CANCELLABLE

    def terms_without(self, vm: VirtualMachine) -> LeaseTerms:
        """What counts for `vm` where its LEASE attribute does not."""
        rule = self.rule_of(vm)
        return rule.terms if rule is not None and rule.gives_terms else LeaseTerms()

    def claimed_terms(self, vm: VirtualMachine) -> LeaseTerms | MalformedLease:
        """What the LEASE attribute of `vm` asks for, of what has a bound as much as its owner may have."""
        terms = parse_lease_attribute(vm.user_template[LEASE])
        if isinstance(terms, MalformedLease):
            return terms
        rights = self.rights_of(vm)
        if rights is NO_RIGHTS:
            terms = self._as_long_as_ruled(vm, terms)
        limit = suspension_limit(terms, rights)
        if limit != terms.max_suspensions:
            terms = replace(terms, max_suspensions=limit)
        return self._as_ruled(vm, terms) if rights is NO_RIGHTS else terms

    def _as_long_as_ruled(self, vm: VirtualMachine, terms: LeaseTerms) -> LeaseTerms:
        """Who was granted nothing runs no longer than his rule has it, and is stopped then as others are."""
        rule = self.rule_of(vm)
        if rule is None or rule.duration_s is None or (terms.duration_s or inf) <= rule.duration_s:
            return terms
        return replace(terms, duration_s=rule.duration_s)

    def _as_ruled(self, vm: VirtualMachine, terms: LeaseTerms) -> LeaseTerms:
        """Who was granted nothing leaves as often, and in as many ways, as his rule has it: else he would undo it."""
        rule = self.rule_of(vm)
        if rule is None or not rule.terms.type.preemptable:
            return terms
        limit, given = terms.max_suspensions, rule.terms.max_suspensions
        if limit is not None:
            limit = None if given is None else max(limit, given)
        shutdown_ok = terms.shutdown_ok or rule.shutdown_ok
        if (limit, shutdown_ok) == (terms.max_suspensions, terms.shutdown_ok):
            return terms
        return replace(terms, max_suspensions=limit, shutdown_ok=shutdown_ok)


class BeyondRightsClaim(Struct, frozen=True):
    """A claim that goes too far: how far, and what would be granted."""

    code: str
    text: str


def claim_beyond(terms: LeaseTerms, rules: AdmissionRules, vm: VirtualMachine, now_s: int) -> BeyondRightsClaim | None:
    """The first term of `terms` that the owner of `vm` may not claim at `now_s`, or None."""
    rights = rules.rights_of(vm)
    allowed = _types_allowed(rules, rights, vm)
    if terms.type not in allowed:
        text = f"TYPE {terms.type} is not granted to {_who(vm)}: write {', '.join(allowed) or 'no LEASE attribute'}"
        return BeyondRightsClaim("type-not-granted", text)
    if rights.max_size is not None and terms.size > rights.max_size:
        text = f"SIZE {terms.size}: {_who(vm)} may ask for at most {rights.max_size}"
        return BeyondRightsClaim("size-not-granted", text)
    return _beyond_duration(terms, rights.max_duration_s, vm) or _beyond_ahead(terms, rights.max_ahead_s, vm, now_s)


def _who(vm: VirtualMachine) -> str:
    return f"user {quoted(vm.uname)} in group {quoted(vm.gname)}"


def _types_allowed(rules: AdmissionRules, rights: GroupRights, vm: VirtualMachine) -> tuple[LeaseType, ...]:
    """What a LEASE attribute may name: what is granted, and what the VM is without one."""
    rule = rules.rule_of(vm)
    without = rule.terms.type if rule is not None else LeaseType.DC_NON_PREEMPTABLE
    return tuple(dict.fromkeys((*rights.may_claim, without)))


def _beyond_duration(terms: LeaseTerms, max_duration_s: int | None, vm: VirtualMachine) -> BeyondRightsClaim | None:
    """Room at a time to come is not given without an end where durations are capped; `now` reserves nothing."""
    if max_duration_s is None:
        return None
    is_missing = terms.duration_s is None and terms.asks_for_time and not terms.at_once
    if is_missing or (terms.duration_s or 0) > max_duration_s:
        what = "START and DEADLINE need a DURATION" if is_missing else "DURATION"
        text = f"{what}: {_who(vm)} may ask for at most {duration_text(max_duration_s)}"
        return BeyondRightsClaim("duration-not-granted", text)
    return None


def _beyond_ahead(
    terms: LeaseTerms, max_ahead_s: int | None, vm: VirtualMachine, now_s: int
) -> BeyondRightsClaim | None:
    if max_ahead_s is None:
        return None
    asked_ahead = (terms.start_at_s, terms.start_offset_s, terms.deadline_at_s) != (None, None, None)
    if max_ahead_s == 0 and asked_ahead:
        return BeyondRightsClaim(
            "start-not-granted", f"START and DEADLINE are not granted to {_who(vm)}: leave them out"
        )
    ahead_s = terms.start_offset_s if terms.start_offset_s is not None else (terms.start_at_s or now_s) - now_s
    if ahead_s > max_ahead_s:
        text = f"START is too far ahead: {_who(vm)} may ask for at most {duration_text(max_ahead_s)} from now"
        return BeyondRightsClaim("start-not-granted", text)
    return None


def _is_called(wanted: str, number: int, name: str) -> bool:
    return wanted == name or (wanted.isdecimal() and wanted.isascii() and int(wanted) == number)


def _has(vm: VirtualMachine, name: str, pattern: str) -> bool:
    values = vm.user_template.get(name, ())
    return any(isinstance(value, str) and fnmatchcase(value, pattern) for value in values)
