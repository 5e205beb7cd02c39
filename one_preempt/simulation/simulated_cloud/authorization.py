"""Who may do what: object permissions and ACL rules as oned packs them, and locks.

A rule is four numbers: who, on what, which rights, in which zone. Who and what carry a selector in bits 32 to 35
(one id, members of a group, everything, objects of a cluster); what also carries the kinds of objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

from msgspec import Struct, field

from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import Caller, SimAcl, SimPermissions

INDIVIDUAL = 0x1_0000_0000
OF_GROUP = 0x2_0000_0000
EVERYTHING = 0x4_0000_0000
OF_CLUSTER = 0x8_0000_0000
_ID_BITS = 0xFFFF_FFFF
_SELECTORS = INDIVIDUAL | OF_GROUP | EVERYTHING | OF_CLUSTER


class ObjectKind(IntEnum):
    """Kinds of objects, as bits of a rule."""

    VM = 0x10_0000_0000
    HOST = 0x20_0000_0000
    NET = 0x40_0000_0000
    IMAGE = 0x80_0000_0000
    USER = 0x100_0000_0000
    TEMPLATE = 0x200_0000_0000
    GROUP = 0x400_0000_0000
    ACL = 0x800_0000_0000
    DATASTORE = 0x1000_0000_0000
    CLUSTER = 0x2000_0000_0000
    DOCUMENT = 0x4000_0000_0000
    ZONE = 0x8000_0000_0000
    SECGROUP = 0x1_0000_0000_0000
    VDC = 0x2_0000_0000_0000
    VROUTER = 0x4_0000_0000_0000
    MARKETPLACE = 0x8_0000_0000_0000
    MARKETPLACEAPP = 0x10_0000_0000_0000
    VMGROUP = 0x20_0000_0000_0000
    VNTEMPLATE = 0x40_0000_0000_0000
    BACKUPJOB = 0x100_0000_0000_0000


class Right(IntEnum):
    """Rights, as bits of a rule. A lock of level n stops every right whose number is at least n."""

    USE = 1
    MANAGE = 2
    ADMIN = 4
    CREATE = 8


class Subject(Struct, frozen=True):
    """What a right is asked on; `permissions` is None for objects that have none (hosts, clusters, users)."""

    kind: ObjectKind
    id: int = -1
    uid: int = -1
    gid: int = -1
    permissions: SimPermissions | None = None
    cluster_ids: tuple[int, ...] = ()
    lock_level: int = 0


class AccessControl(Struct):
    """The ACL rules, of which those for other zones have no force."""

    rules: dict[int, SimAcl] = field(default_factory=dict)
    zone_id: int = 0

    def demand(self, caller: Caller, *demands: tuple[Right, Subject], heed_locks: bool = True) -> None:
        """Raise AUTHORIZATION, naming all demands that are not met, unless the caller may do everything asked."""
        reasons = [
            reason for right, subject in demands if (reason := self._objection(caller, right, subject, heed_locks))
        ]
        if reasons:
            raise refusal(caller, "; ".join(reasons))

    def allows(self, caller: Caller, right: Right, subject: Subject) -> bool:
        """The caller's right alone, whatever locks say."""
        if caller.is_admin or _own_permission(caller, right, subject):
            return True
        return any(
            rule.rights & right
            and rule.zone in (EVERYTHING, INDIVIDUAL | self.zone_id)
            and _names_caller(rule, caller)
            and _names_subject(rule, subject)
            for rule in self.rules.values()
        )

    def _objection(self, caller: Caller, right: Right, subject: Subject, heed_locks: bool) -> str:
        number = f" [{subject.id}]" if subject.id != -1 else ""
        locked = heed_locks and 0 < subject.lock_level <= right
        if caller.is_admin:
            return f"{subject.kind.name} is locked.{number}" if locked else ""
        if locked or not self.allows(caller, right, subject):
            return f"Not authorized to perform {right.name} {subject.kind.name}{number}"
        return ""


def refusal(caller: Caller, reason: str) -> OnedError:
    """AUTHORIZATION, worded as oned does."""
    return OnedError(ErrorCode.AUTHORIZATION, f"User [{caller.uid}] : {reason}.")


def _own_permission(caller: Caller, right: Right, subject: Subject) -> bool:
    permissions = subject.permissions
    if permissions is None or right == Right.CREATE:
        return False
    letter = {Right.USE: "u", Right.MANAGE: "m", Right.ADMIN: "a"}[right]
    holders = ["other"]
    if caller.uid == subject.uid:
        holders.append("owner")
    if subject.gid in caller.group_ids:
        holders.append("group")
    return any(getattr(permissions, f"{holder}_{letter}") for holder in holders)


def _names_caller(rule: SimAcl, caller: Caller) -> bool:
    number = rule.user & _ID_BITS
    if rule.user & EVERYTHING:
        return True
    if rule.user & OF_GROUP:
        return number in caller.group_ids
    return number == caller.uid


def _names_subject(rule: SimAcl, subject: Subject) -> bool:
    if not rule.resource & subject.kind:
        return False
    number = rule.resource & _ID_BITS
    if rule.resource & EVERYTHING:
        return True
    if rule.resource & OF_GROUP:
        return number == subject.gid
    if rule.resource & OF_CLUSTER:
        return number in subject.cluster_ids
    return number == subject.id


def rule_text(user: int, resource: int, rights: int, zone: int) -> str:
    """ACL/STRING: "@1 VM+IMAGE/* CREATE *"."""
    kinds = "+".join(kind.name for kind in ObjectKind if resource & kind)
    names = "+".join(right.name for right in Right if rights & right)
    return f"{_selector_text(user)} {kinds}/{_selector_text(resource)} {names} {_selector_text(zone)}"


def _selector_text(value: int) -> str:
    number = value & _ID_BITS
    marks = {INDIVIDUAL: f"#{number}", OF_GROUP: f"@{number}", EVERYTHING: "*", OF_CLUSTER: f"%{number}"}
    return marks.get(value & _SELECTORS, "??")


def rule_objection(user: int, resource: int, rights: int, zone: int) -> str:
    """What is wrong with the four numbers of a rule, or an empty string."""
    if rights == 0 or rights & ~sum(Right):
        return "[rights] is missing or wrong"
    if not any(resource & kind for kind in ObjectKind):
        return "[resource] is missing one of the resource types"
    for name, value in (("user", user), ("resource", resource), ("zone", zone)):
        if (value & _SELECTORS) not in (INDIVIDUAL, OF_GROUP, EVERYTHING, OF_CLUSTER):
            return f"[{name}] is missing one of the ID types"
    return ""


def shipped_rules() -> Iterator[SimAcl]:
    """The rules of a fresh installation: members of group 1 create VMs, images and templates; everybody sees zones
    and marketplaces."""
    yield creation_rule(0, 1)
    yield _rule(1, EVERYTHING, _kinds(["ZONE"]), Right.USE)
    yield _rule(2, EVERYTHING, _kinds(["MARKETPLACE", "MARKETPLACEAPP"]), Right.USE)


def _kinds(names: Iterable[str]) -> int:
    return EVERYTHING | sum(ObjectKind[name] for name in names)


def _rule(rule_id: int, user: int, resource: int, rights: int) -> SimAcl:
    return SimAcl(rule_id, user, resource, rights, EVERYTHING, rule_text(user, resource, rights, EVERYTHING))


_CREATED_BY_USERS = ("VM", "IMAGE", "TEMPLATE", "DOCUMENT", "SECGROUP", "VMGROUP", "BACKUPJOB")


def creation_rule(rule_id: int, gid: int) -> SimAcl:
    """Members of the group create VMs and what belongs to them."""
    return _rule(rule_id, OF_GROUP | gid, _kinds(_CREATED_BY_USERS), Right.CREATE)


def access_rules_of_group(first_id: int, gid: int) -> list[SimAcl]:
    """What oned grants a new group in this zone: manage its hosts, use its networks and datastores."""
    zone, user = INDIVIDUAL, OF_GROUP | gid
    grants = [("HOST", Right.MANAGE), ("NET", Right.USE), ("DATASTORE", Right.USE)]
    return [
        SimAcl(first_id + index, user, _kinds([kind]), right, zone, rule_text(user, _kinds([kind]), right, zone))
        for index, (kind, right) in enumerate(grants)
    ]
