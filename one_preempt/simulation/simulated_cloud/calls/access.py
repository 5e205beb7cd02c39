"""Users, groups, quotas and rules."""

from __future__ import annotations

from one_preempt.simulation.simulated_cloud.authorization import (
    EVERYTHING,
    ObjectKind,
    Right,
    Subject,
    access_rules_of_group,
    rule_objection,
    rule_text,
)
from one_preempt.simulation.simulated_cloud.calls.vms import parsed
from one_preempt.simulation.simulated_cloud.cloud_state import CloudState, oned_call
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import Caller, SimAcl, SimGroup, SimQuotas
from one_preempt.simulation.simulated_cloud.quotas import METRICS, whole_cloud_quota
from one_preempt.simulation.simulated_cloud.templates import vectors_of

_FIRST_GROUP = 100


class AccessCalls(CloudState):
    """one.group.allocate, one.user.quota, one.group.quota, one.acl.addrule."""

    def authenticate(self, name: str, password: str) -> Caller:
        """Who logs in. Raises AUTHENTICATION."""
        user = next((user for user in self.users.values() if user.name == name), None)
        if user is None or user.password != password or not user.enabled:
            raise OnedError(ErrorCode.AUTHENTICATION, "User couldn't be authenticated, aborting call.")
        return self.caller(user.id)

    def caller(self, uid: int) -> Caller:
        """The user as a caller, without a password."""
        user = self.user(uid)
        return Caller(uid, user.gid, tuple(user.group_ids), user.name)

    @oned_call
    def group_allocate(self, caller: Caller, name: str) -> int:
        """Add a group; its members may manage hosts and use networks and datastores of this zone."""
        self.access.demand(caller, (Right.CREATE, Subject(ObjectKind.GROUP)))
        gid = max(max(self.groups, default=-1) + 1, _FIRST_GROUP)
        self.groups[gid] = SimGroup(gid, name)
        for rule in access_rules_of_group(max(self.acls, default=-1) + 1, gid):
            self.acls[rule.id] = rule
        return gid

    @oned_call
    def user_quota(self, caller: Caller, uid: int, template: str) -> int:
        """Set limits of a user: ``VM = [ CPU = "64", RUNNING_VMS = "20" ]``; what is not named stays."""
        user = self.user(uid)
        self.access.demand(caller, (Right.ADMIN, Subject(ObjectKind.USER, uid, uid, user.gid)))
        _set_limits(user.quotas, template)
        return uid

    @oned_call
    def group_quota(self, caller: Caller, gid: int, template: str) -> int:
        """Set limits of a group, like `user_quota`."""
        group = self.group(gid)
        self.access.demand(caller, (Right.ADMIN, Subject(ObjectKind.GROUP, gid, gid=gid)))
        _set_limits(group.quotas, template)
        return gid

    @oned_call
    def acl_add(self, caller: Caller, user: str, resource: str, rights: str, zone: str = "") -> int:
        """Add a rule of four hexadecimal numbers (the zone may be left out: all zones); returns its id."""
        self.access.demand(caller, (Right.MANAGE, Subject(ObjectKind.ACL)))
        try:
            who, what, may = int(user, 16), int(resource, 16), int(rights, 16)
            where = int(zone, 16) if zone else EVERYTHING
        except ValueError:
            raise OnedError(ErrorCode.INTERNAL, "Error adding rule: not hexadecimal") from None
        if objection := rule_objection(who, what, may, where):
            raise OnedError(ErrorCode.INTERNAL, objection)
        rule_id = max(self.acls, default=-1) + 1
        self.acls[rule_id] = SimAcl(rule_id, who, what, may, where, rule_text(who, what, may, where))
        return rule_id


def _set_limits(quotas: SimQuotas, template: str) -> None:
    for vector in vectors_of(parsed(template, ErrorCode.INTERNAL), "VM"):
        for metric, text in vector.items():
            if metric not in METRICS:
                continue
            try:
                whole_cloud_quota(quotas).limits[metric] = float(text)
            except ValueError:
                raise OnedError(ErrorCode.INTERNAL, f"Invalid value for {metric}") from None
