"""What was accepted keeps its share, whatever its owner does with its VMs: another group, or the mark of a gateway."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.admission.rules import AdmissionRules, GroupRights
from one_preempt.core.model.access import Directory, Group
from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import VmState
from tests.core.admission.lease_requests import admitted, only_lease, standing, vm

GROUPS = ("users", "others")


@pytest.mark.parametrize("gname", ["plain", "others"])
def test_an_accepted_start_counts_for_the_share_of_the_group_as_which_it_was_accepted(gname: str) -> None:
    """Whoever gives its VM to another group of his does not free that share, nor takes more of another one."""
    shares = (GroupRights(name, group=name, may_claim=tuple(LeaseType), max_share_percent=20) for name in GROUPS)
    rules = AdmissionRules(rights=tuple(shares))
    lease = {"TYPE": "DC-NON-PREEMPTABLE", "START": "+01:00:00", "DURATION": "01:00:00"}
    records = standing(lease, Verdict.ACCEPTED, rules=rules)
    elsewhere = replace(vm(1, lease, VmState.HOLD), gid=101, gname=gname)
    directory = Directory(groups={100: Group(100, "users"), 101: Group(101, gname)})
    there = admitted(elsewhere, records=records, rules=rules, directory=directory)
    assert (only_lease(there).rights_name, only_lease(there).max_share_percent) == ("users", 20)
    assert [note.code for note in there.notes] == ["change-refused"]


def test_an_accepted_start_keeps_its_share_though_its_owner_says_that_a_gateway_sent_it() -> None:
    rules = AdmissionRules(
        rights=(
            GroupRights("from elsewhere", group="users", through_gateway=True, max_ahead_s=0),
            GroupRights("own", group="users", max_share_percent=50),
        )
    )
    lease = {"TYPE": "DC-NON-PREEMPTABLE", "START": "+01:00:00", "DURATION": "01:00:00"}
    records = standing(lease, Verdict.ACCEPTED, rules=rules)
    marked = vm(1, lease, VmState.HOLD)
    marked = replace(marked, user_template={**marked.user_template, "LEASE_GATEWAY": ("7",)})
    told = only_lease(admitted(marked, records=records, rules=rules))
    assert (told.rights_name, told.max_share_percent) == ("own", 50)
