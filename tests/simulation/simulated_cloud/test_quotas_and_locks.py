"""Quotas of users and groups, locks, and who may do what."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, Caller, SimVm
from tests.simulation.simulated_cloud.conftest import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud

CHANGES = ("stop", "suspend", "poweroff", "undeploy", "terminate-hard", "resched")


def used(stage: Stage, metric: str) -> int:
    """What alice and her group have booked, which must agree while she is the only member."""
    of_user = stage.cloud.users[stage.alice.uid].quotas.vm[0].used[metric]
    assert of_user == stage.project.quotas.vm[0].used[metric]
    return of_user


def test_running_quota_follows_the_state(stage: Stage, any_state: str) -> None:
    stage.bring(any_state)
    at_rest = any_state in ("SUSPENDED", "POWEROFF", "STOPPED", "UNDEPLOYED", "DONE")
    moving_at_rest = any_state.startswith(("PROLOG_MIGRATE_POWEROFF", "PROLOG_MIGRATE_SUSPEND"))
    assert used(stage, "RUNNING_VMS") == (0 if at_rest or moving_at_rest else 1)
    assert used(stage, "CPU") == (0 if any_state == "DONE" else 100)
    assert used(stage, "MEMORY") == (0 if any_state == "DONE" else 1024)


def test_an_exceeded_quota_refuses_creation_deploy_and_resume_each_in_its_way(stage: Stage) -> None:
    stopped, suspended = stage.bring("STOPPED"), stage.bring("SUSPENDED")
    stage.create()
    stage.cloud.user_quota(ONEADMIN, stage.alice.uid, 'VM = [ RUNNING_VMS = "1", VMS = "3" ]')
    reached = rf"user \[{stage.alice.uid}\] limit of 1 reached for RUNNING_VMS quota in VM"
    with pytest.raises(OnedError, match=rf"User \[0\] : {reached}\.") as deploy:
        stage.do(stopped, "deploy")
    assert deploy.value.code == ErrorCode.AUTHORIZATION
    for vm in (stopped, suspended):
        with pytest.raises(OnedError, match=f"^{reached}$") as resume:
            stage.do(vm, "resume")
        assert resume.value.code == ErrorCode.ACTION
    with pytest.raises(OnedError, match="limit of 3 reached for VMS quota"):
        stage.create()
    assert stage.cloud.audit() == []


def test_6_10_0_deploys_a_stopped_vm_over_its_quota_and_does_not_count_it_there() -> None:
    stage = Stage("6.10.0")
    stopped = stage.bring("STOPPED")
    stage.create()
    stage.cloud.user_quota(ONEADMIN, stage.alice.uid, 'VM = [ RUNNING_VMS = "1" ]')
    with pytest.raises(OnedError, match="limit of 1 reached for RUNNING_VMS quota"):
        stage.do(stopped, "resume")
    stage.do(stopped, "deploy")
    of_user, of_group = stage.cloud.users[stage.alice.uid].quotas.vm[0], stage.project.quotas.vm[0]
    assert (of_user.used["RUNNING_VMS"], of_group.used["RUNNING_VMS"]) == (1, 2)
    stage.cloud.settle()
    stage.do(stopped, "stop")
    stage.cloud.settle()
    assert (of_user.used["RUNNING_VMS"], of_group.used["RUNNING_VMS"]) == (0, 1)


def test_a_group_limit_counts_all_members(stage: Stage) -> None:
    second = stage.cloud.caller(stage.cloud.add_user("carol", stage.project.id).id)
    stage.cloud.group_quota(ONEADMIN, stage.project.id, 'VM = [ CPU = "1.5" ]')
    stage.create()
    with pytest.raises(OnedError, match=rf"group \[{stage.project.id}\] limit of 1.5 reached for CPU quota"):
        stage.create(caller=second)


def test_a_lowered_quota_stops_nothing_that_runs(stage: Stage) -> None:
    vm = stage.bring("RUNNING")
    stage.cloud.user_quota(ONEADMIN, stage.alice.uid, 'VM = [ RUNNING_VMS = "0" ]')
    stage.do(vm, "suspend")
    stage.cloud.settle()
    with pytest.raises(OnedError, match="limit of 0 reached for RUNNING_VMS"):
        stage.do(vm, "resume")
    stage.cloud.user_quota(ONEADMIN, stage.alice.uid, 'VM = [ RUNNING_VMS = "-1" ]')
    stage.do(vm, "resume")
    stage.cloud.settle()
    assert vm.lcm_state.name == "RUNNING"


def test_chown_moves_what_the_vm_counts(stage: Stage) -> None:
    vm = stage.bring("RUNNING")
    stage.cloud.vm_chown(ONEADMIN, vm.id, stage.bob.uid, stage.bob.gid)
    assert (vm.uname, vm.gname, used(stage, "VMS")) == ("bob", "users", 0)
    assert stage.cloud.audit() == []


def _act(cloud: SimulatedCloud, caller: Caller, action: str, vm: SimVm) -> int:
    return cloud.vm_action(caller, action, vm.id)


def attempts(stage: Stage, caller: Caller) -> dict[str, Callable[[SimVm], object]]:
    """What a lock may stop."""
    cloud = stage.cloud
    calls: dict[str, Callable[[SimVm], object]] = {action: partial(_act, cloud, caller, action) for action in CHANGES}
    return calls | {
        "update": lambda vm: cloud.vm_update(caller, vm.id, 'NOTE = "x"', 1),
        "migrate": lambda vm: cloud.vm_migrate(caller, vm.id, 1, True),
        "chown": lambda vm: cloud.vm_chown(caller, vm.id, -1, 0),
        "deploy": lambda vm: cloud.vm_deploy(caller, vm.id, 1),
    }


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.parametrize("word", [*CHANGES, "update", "migrate", "chown", "deploy"])
def test_a_lock_stops_oneadmin_as_observed(stage: Stage, level: int, word: str) -> None:
    vm = stage.bring("PENDING" if word == "deploy" else "RUNNING")
    stage.cloud.vm_lock(ONEADMIN, vm.id, level)
    call = attempts(stage, ONEADMIN)[word]
    if level == 3 and word not in ("deploy", "migrate", "resched"):
        call(vm)
        return
    with pytest.raises(OnedError, match=rf"VM is locked. \[{vm.id}\]") as refused:
        call(vm)
    assert refused.value.code == ErrorCode.AUTHORIZATION
    stage.cloud.vm_unlock(ONEADMIN, vm.id)
    call(vm)


def test_a_lock_of_the_scheduler_refuses_the_owner_and_only_the_scheduler_opens_it(stage: Stage) -> None:
    vm = stage.bring("SUSPENDED")
    stage.cloud.vm_lock(ONEADMIN, vm.id, 2)
    for action in ("resume", "terminate"):
        with pytest.raises(OnedError, match=rf"Not authorized to perform MANAGE VM \[{vm.id}\]"):
            stage.cloud.vm_action(stage.alice, action, vm.id)
    with pytest.raises(OnedError, match="Lock is owned by another user"):
        stage.cloud.vm_unlock(stage.alice, vm.id)
    with pytest.raises(OnedError, match="Error trying to lock the resource"):
        stage.cloud.vm_lock(stage.alice, vm.id, 1)
    assert stage.cloud.vm_info(stage.alice, vm.id) is vm
    stage.cloud.vm_unlock(ONEADMIN, vm.id)
    stage.cloud.vm_action(stage.alice, "resume", vm.id)


def test_lock_all_is_stored_as_use_and_other_levels_are_refused(stage: Stage) -> None:
    vm = stage.create()
    stage.cloud.vm_lock(stage.alice, vm.id, 4)
    assert vm.lock is not None
    assert (vm.lock.level, vm.lock.owner_uid) == (1, stage.alice.uid)
    with pytest.raises(OnedError, match="Wrong lock level specified"):
        stage.cloud.vm_lock(ONEADMIN, vm.id, 5)


def test_owners_manage_but_do_not_administer(stage: Stage) -> None:
    vm = stage.bring("RUNNING")
    calls: list[Callable[[], int]] = [
        lambda: stage.cloud.vm_migrate(stage.alice, vm.id, 1, True),
        lambda: stage.cloud.vm_action(stage.alice, "resched", vm.id),
        lambda: stage.cloud.vm_recover(stage.alice, vm.id, 3),
    ]
    for call in calls:
        with pytest.raises(OnedError, match=rf"Not authorized to perform ADMIN VM \[{vm.id}\]"):
            call()
    with pytest.raises(OnedError, match=r"Not authorized to perform ADMIN HOST \[0\]"):
        stage.cloud.host_status(stage.alice, 0, 1)
    with pytest.raises(OnedError, match=r"Not authorized to perform MANAGE VM"):
        stage.cloud.vm_action(stage.bob, "suspend", vm.id)
    with pytest.raises(OnedError, match=r"Not authorized to perform MANAGE USER"):
        stage.cloud.vm_chown(stage.alice, vm.id, stage.bob.uid, -1)
    stage.cloud.vm_action(stage.alice, "suspend", vm.id)


def test_permissions_and_rules_open_what_they_name(stage: Stage) -> None:
    vm = stage.bring("RUNNING")
    assert stage.cloud.vm_pool(stage.bob) == []
    stage.cloud.vm_chmod(stage.alice, vm.id, -1, -1, -1, -1, -1, -1, 1, -1, -1)
    assert stage.cloud.vm_pool(stage.bob) == [vm]
    stage.cloud.acl_add(ONEADMIN, hex(0x100000000 | stage.bob.uid), hex(0x1100000000 | vm.id), "0x6")
    stage.cloud.vm_action(stage.bob, "resched", vm.id)
    assert stage.cloud.acls[max(stage.cloud.acls)].text == f"#{stage.bob.uid} VM/#{vm.id} MANAGE+ADMIN *"
    other = stage.create()
    with pytest.raises(OnedError, match="Not authorized"):
        stage.cloud.vm_action(stage.bob, "terminate", other.id)


def test_without_the_cluster_s_right_a_host_is_out_of_reach(stage: Stage) -> None:
    stage.cloud.acls.clear()
    stage.cloud.acl_add(ONEADMIN, hex(0x100000000 | stage.bob.uid), "0x1400000000", "0x7")
    vm = stage.create(caller=ONEADMIN)
    with pytest.raises(OnedError, match=r"MANAGE HOST \[0\]; Not authorized to perform USE DATASTORE \[100\]"):
        stage.cloud.vm_deploy(stage.bob, vm.id, 0)
    stage.cloud.acl_add(ONEADMIN, hex(0x100000000 | stage.bob.uid), hex(0x2000000000 | 0x800000000), "0x2")
    stage.cloud.acl_add(ONEADMIN, hex(0x100000000 | stage.bob.uid), hex(0x100400000000), "0x1")
    stage.cloud.vm_deploy(stage.bob, vm.id, 0)


@pytest.mark.parametrize(("flag", "seen"), [(-2, [2, 1, 0]), (-3, [0]), (-4, [1, 0]), (-1, [1, 0]), (0, [2]), (99, [])])
def test_pools_are_filtered_and_newest_first(stage: Stage, flag: int, seen: list[int]) -> None:
    carol = stage.cloud.caller(stage.cloud.add_user("carol", stage.project.id).id)
    mine, theirs, other = stage.create(), stage.create(caller=carol), stage.create(caller=ONEADMIN)
    theirs.permissions.group_u = other.permissions.other_u = True
    assert [vm.id for vm in stage.cloud.vm_pool(stage.alice, flag)] == seen
    assert mine.id == 0


def test_pools_come_in_pages_ranges_and_sets(stage: Stage) -> None:
    for _ in range(8):
        stage.create()
    stage.do(stage.cloud.vms[7], "terminate")
    pages = [(0, -5), (5, -5), (3, 6), (-1, -1)]
    answers = [[vm.id for vm in stage.cloud.vm_pool(ONEADMIN, -2, start, end)] for start, end in pages]
    assert answers == [[6, 5, 4, 3, 2], [1, 0], [6, 5, 4, 3], [6, 5, 4, 3, 2, 1, 0]]
    assert [vm.id for vm in stage.cloud.vm_pool(ONEADMIN, -2, -1, -1, 6)] == [7]
    assert [vm.id for vm in stage.cloud.vm_set(ONEADMIN, "1,3-4,99")] == [4, 3, 1]
