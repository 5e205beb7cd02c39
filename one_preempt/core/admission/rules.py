"""What the administrator grants: types given by rule, and how far the LEASE attributes of users may go.

Without any rule every VM is DC-NON-PREEMPTABLE, nobody may preempt, and a LEASE attribute may ask for nothing
more than that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from one_preempt.core.admission.lease_attribute import quoted
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.virtual_machine import VirtualMachine


class BeyondRights(StrEnum):
    """What happens to a claim beyond its owner's rights: the VM waits on HOLD, or is served as a plain VM.

    FALL_BACK never ignores a START or a SIZE: such claims wait on HOLD all the same.
    """

    HOLD = "hold"
    FALL_BACK = "fall_back"


@dataclass(frozen=True, slots=True)
class VmMatch:
    """Which VMs a rule is for: everything that is given must hold. A user or group is a name, or an id in digits.

    `attributes` are shell patterns by name of a user template attribute. Users write those themselves, so a
    rule that grants anything dear should also name a user or group.
    """

    user: str | None = None
    group: str | None = None
    template_id: int | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    def matches(self, vm: VirtualMachine) -> bool:
        """Does everything given hold for `vm`?"""
        return (
            (self.template_id is None or self.template_id == vm.template_id)
            and (self.user is None or _is_called(self.user, vm.uid, vm.uname))
            and (self.group is None or _is_called(self.group, vm.gid, vm.gname))
            and all(_has(vm, name, pattern) for name, pattern in self.attributes.items())
        )


@dataclass(frozen=True, slots=True)
class LeaseRule:
    """Gives VMs without a LEASE attribute a type, and any VM the right to preempt or to lose its lock's shield.

    `type` None leaves the type as it is.
    """

    name: str
    match: VmMatch
    type: LeaseType | None = None
    may_preempt: bool = False
    shutdown_ok: bool = False
    max_suspensions: int | None = None
    shielded_by_lock: bool = True

    @property
    def terms(self) -> LeaseTerms:
        """The terms of a VM that this rule gives a type."""
        return LeaseTerms(
            type=self.type or LeaseType.DC_NON_PREEMPTABLE,
            max_suspensions=self.max_suspensions,
            shutdown_ok=self.shutdown_ok,
        )


@dataclass(frozen=True, slots=True)
class GroupRights:
    """What the LEASE attributes of a user or a group may claim; a cap of None caps nothing.

    DC-NON-PREEMPTABLE may be claimed without being granted, for it is what every VM is, unless a rule makes the VM
    preemptable. `least_max_suspensions` is the floor of MAX_SUSPENSIONS. `max_ahead_s` caps how far ahead a
    START may be; 0 allows neither START nor DEADLINE. `max_leases` counts a user's leases that have not ended.
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

    def matches(self, vm: VirtualMachine) -> bool:
        """Are these the rights of the owner of `vm`?"""
        return (self.user is None or _is_called(self.user, vm.uid, vm.uname)) and (
            self.group is None or _is_called(self.group, vm.gid, vm.gname)
        )


NO_RIGHTS = GroupRights(name="", max_size=1, max_ahead_s=0)


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """All of the above; in `rules` and in `rights` the first entry that matches counts."""

    rules: tuple[LeaseRule, ...] = ()
    rights: tuple[GroupRights, ...] = ()
    beyond_rights: BeyondRights = BeyondRights.HOLD

    def rule_of(self, vm: VirtualMachine) -> LeaseRule | None:
        """The rule that is for `vm`."""
        return next((rule for rule in self.rules if rule.match.matches(vm)), None)

    def rights_of(self, vm: VirtualMachine) -> GroupRights:
        """The rights of the owner of `vm`."""
        return next((rights for rights in self.rights if rights.matches(vm)), NO_RIGHTS)


@dataclass(frozen=True, slots=True)
class BeyondRightsClaim:
    """A claim that goes too far: how far, and what would be granted."""

    code: str
    text: str


def claim_beyond(terms: LeaseTerms, rules: AdmissionRules, vm: VirtualMachine, now_s: int) -> BeyondRightsClaim | None:
    """The first term of `terms` that the owner of `vm` may not claim at `now_s`, or None."""
    rights = rules.rights_of(vm)
    who = f"user {quoted(vm.uname)} in group {quoted(vm.gname)}"
    allowed = _types_allowed(rules, rights, vm)
    if terms.type not in allowed:
        text = f"TYPE {terms.type} is not granted to {who}: write {', '.join(allowed) or 'no LEASE attribute'}"
        return BeyondRightsClaim("type-not-granted", text)
    least = rights.least_max_suspensions
    if least is not None and terms.max_suspensions is not None and terms.max_suspensions < least:
        return BeyondRightsClaim("suspensions-not-granted", f"MAX_SUSPENSIONS: {who} may ask for {least} or more")
    if rights.max_size is not None and terms.size > rights.max_size:
        return BeyondRightsClaim("size-not-granted", f"SIZE {terms.size}: {who} may ask for at most {rights.max_size}")
    if rights.max_duration_s is not None and (terms.duration_s or 0) > rights.max_duration_s:
        text = f"DURATION: {who} may ask for at most {rights.max_duration_s} seconds"
        return BeyondRightsClaim("duration-not-granted", text)
    return _beyond_ahead(terms, rights.max_ahead_s, who, now_s)


def _types_allowed(rules: AdmissionRules, rights: GroupRights, vm: VirtualMachine) -> tuple[LeaseType, ...]:
    """What a LEASE attribute may name: what is granted, and what the VM is without one."""
    rule = rules.rule_of(vm)
    without = rule.terms.type if rule is not None else LeaseType.DC_NON_PREEMPTABLE
    return tuple(dict.fromkeys((*rights.may_claim, without)))


def _beyond_ahead(terms: LeaseTerms, max_ahead_s: int | None, who: str, now_s: int) -> BeyondRightsClaim | None:
    if max_ahead_s is None:
        return None
    asked_ahead = (terms.start_at_s, terms.start_offset_s, terms.deadline_at_s) != (None, None, None)
    if max_ahead_s == 0 and asked_ahead:
        return BeyondRightsClaim("start-not-granted", f"START and DEADLINE are not granted to {who}: leave them out")
    ahead_s = terms.start_offset_s if terms.start_offset_s is not None else (terms.start_at_s or now_s) - now_s
    if ahead_s > max_ahead_s:
        text = f"START is too far ahead: {who} may ask for at most {max_ahead_s} seconds from now"
        return BeyondRightsClaim("start-not-granted", text)
    return None


def _is_called(wanted: str, number: int, name: str) -> bool:
    return wanted == name or (wanted.isdecimal() and wanted.isascii() and int(wanted) == number)


def _has(vm: VirtualMachine, name: str, pattern: str) -> bool:
    values = vm.user_template.get(name, ())
    return any(isinstance(value, str) and fnmatchcase(value, pattern) for value in values)
