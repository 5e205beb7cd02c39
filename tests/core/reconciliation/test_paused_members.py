"""Who of a lease counts as paused by its owner, whatever becomes of him while the lease is sent out."""

from __future__ import annotations

from collections.abc import Container

import pytest
from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseState, LeaseTerms
from one_preempt.core.model.lease_lifecycle import lease_state
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine, VmState
from one_preempt.core.reconciliation.paused_members import with_paused
from one_preempt.core.reconciliation.served_time import clocked
from one_preempt.core.reconciliation.watch import Watch
from tests.core.reconciliation.test_sent_out import STOP
from tests.core.reconciliation.test_served_time_of_gangs import LATER_S, ONE, OTHER, RECORD, at
from tests.core.recounted_cluster import NOW_S

AWAY = (VmState.STOPPED, VmState.UNDEPLOYED, LcmState.EPILOG_STOP, LcmState.EPILOG_UNDEPLOY)
AT_REST = (VmState.SUSPENDED, VmState.POWEROFF)


def paused(
    *vms: VirtualMachine, before: tuple[int, ...] = (), resting: Container[int] = (), is_sent_out: bool = False
) -> tuple[int, ...]:
    record = LeaseRecord(1, LeaseTerms(size=2), 5, 100, (1, 2), True, False, NOW_S, NOW_S, paused_vm_ids=before)
    return with_paused(record, vms, resting, is_sent_out=is_sent_out).paused_vm_ids


@pytest.mark.parametrize("state", [*AT_REST, *AWAY])
def test_its_owner_paused_what_is_at_rest_or_away_of_a_lease_that_nobody_sent_out(state: VmState | LcmState) -> None:
    assert paused(ONE, at(OTHER, state)) == (2,)


@pytest.mark.parametrize("state", AWAY)
def test_what_is_away_of_a_lease_that_was_sent_out_is_so_by_its_owner_if_it_was_before(
    state: VmState | LcmState,
) -> None:
    assert paused(ONE, at(OTHER, state), is_sent_out=True) == ()
    assert paused(ONE, at(OTHER, state), is_sent_out=True, before=(2,)) == (2,)


@pytest.mark.parametrize("state", AT_REST)
def test_what_comes_to_rest_while_the_lease_leaves_is_paused(state: VmState) -> None:
    assert paused(ONE, at(OTHER, state), is_sent_out=True) == (2,)


def test_what_we_suspended_on_its_host_is_not_paused_by_its_owner() -> None:
    assert paused(ONE, at(OTHER, VmState.SUSPENDED), is_sent_out=True, resting={2}) == ()


@pytest.mark.parametrize("state", [VmState.PENDING, VmState.HOLD, LcmState.BOOT_POWEROFF, LcmState.RUNNING])
def test_what_waits_or_runs_again_is_paused_no_more(state: VmState | LcmState) -> None:
    assert paused(at(ONE, VmState.STOPPED), at(OTHER, state), is_sent_out=True, before=(2,)) == ()


def test_a_record_of_which_nothing_is_paused_stays_the_very_object() -> None:
    assert with_paused(RECORD, [ONE, OTHER], (), is_sent_out=False) is RECORD


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (VmState.STOPPED, VmState.UNDEPLOYED, LeaseState.PREEMPTED),
        (LcmState.RUNNING, VmState.UNDEPLOYED, LeaseState.RUNNING),
        (LcmState.BOOT_STOPPED, VmState.UNDEPLOYED, LeaseState.RETURNING),
        (LcmState.RUNNING, LcmState.EPILOG_UNDEPLOY, LeaseState.LEAVING),
        (VmState.STOPPED, VmState.POWEROFF, LeaseState.PAUSED_BY_OWNER),
        (LcmState.EPILOG_STOP_FAILURE, VmState.UNDEPLOYED, LeaseState.FAILED),
    ],
)
def test_of_a_lease_that_was_sent_out_the_others_tell_where_it_stands_once_what_is_paused_is_out(
    one: VmState | LcmState, other: VmState | LcmState, expected: LeaseState
) -> None:
    assert lease_state([at(ONE, one), at(OTHER, other)], preempted=True, paused=(2,)) is expected


def test_a_lease_of_which_all_is_paused_is_so_off_its_hosts() -> None:
    vms = [at(ONE, VmState.STOPPED), at(OTHER, VmState.UNDEPLOYED)]
    assert lease_state(vms, preempted=True, paused=(1, 2)) is LeaseState.PAUSED_BY_OWNER


def test_the_time_of_what_returns_goes_on_beside_what_was_paused_when_it_left() -> None:
    out = at(OTHER, VmState.UNDEPLOYED, ended_at_s=NOW_S + 10)
    record = clocked(replace(RECORD, paused_vm_ids=(2,)), [ONE, out], Watch(LATER_S), sent_out=STOP)
    assert (record.served_s, record.run_began_at_s) == (0, NOW_S)
