"""A small cloud for every test, and the ways that lead a VM into each state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.faults import Fault
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, Caller, SimVm
from one_preempt.simulation.simulated_cloud.states import VmState

TEMPLATE = 'CPU = "1"\nMEMORY = "1024"\n'
FAILING = {
    "BOOT_FAILURE": (Operation.BOOT, ["deploy"]),
    "BOOT_MIGRATE_FAILURE": (Operation.RESTORE, ["deploy", "migrate"]),
    "PROLOG_MIGRATE_FAILURE": (Operation.PROLOG_MIGRATE, ["deploy", "migrate"]),
    "PROLOG_FAILURE": (Operation.PROLOG, ["deploy"]),
    "EPILOG_FAILURE": (Operation.EPILOG, ["deploy", "terminate"]),
    "EPILOG_STOP_FAILURE": (Operation.EPILOG_STOP, ["deploy", "stop"]),
    "EPILOG_UNDEPLOY_FAILURE": (Operation.EPILOG_STOP, ["deploy", "undeploy"]),
    "PROLOG_MIGRATE_POWEROFF_FAILURE": (Operation.PROLOG_MIGRATE, ["deploy", "poweroff", "migrate"]),
    "PROLOG_MIGRATE_SUSPEND_FAILURE": (Operation.PROLOG_MIGRATE, ["deploy", "suspend", "migrate"]),
    "PROLOG_MIGRATE_UNKNOWN_FAILURE": (Operation.PROLOG_MIGRATE, ["deploy", "die", "migrate"]),
    "BOOT_STOPPED_FAILURE": (Operation.RESTORE, ["deploy", "stop", "deploy"]),
    "PROLOG_RESUME_FAILURE": (Operation.PROLOG_RESUME, ["deploy", "stop", "deploy"]),
    "PROLOG_UNDEPLOY_FAILURE": (Operation.PROLOG_RESUME, ["deploy", "undeploy", "deploy"]),
}
RESTING = {
    "PENDING": [],
    "HOLD": ["hold"],
    "RUNNING": ["deploy"],
    "UNKNOWN": ["deploy", "die"],
    "SUSPENDED": ["deploy", "suspend"],
    "POWEROFF": ["deploy", "poweroff"],
    "STOPPED": ["deploy", "stop"],
    "UNDEPLOYED": ["deploy", "undeploy"],
    "DONE": ["terminate"],
}
UNDER_WAY = {
    "PROLOG": ["deploy"],
    "BOOT": ["deploy"],
    "MIGRATE": ["deploy", "live"],
    "SAVE_STOP": ["deploy", "stop"],
    "SAVE_SUSPEND": ["deploy", "suspend"],
    "SAVE_MIGRATE": ["deploy", "migrate"],
    "PROLOG_MIGRATE": ["deploy", "migrate"],
    "BOOT_MIGRATE": ["deploy", "migrate"],
    "PROLOG_RESUME": ["deploy", "stop", "deploy"],
    "BOOT_STOPPED": ["deploy", "stop", "deploy"],
    "PROLOG_UNDEPLOY": ["deploy", "undeploy", "deploy"],
    "BOOT_UNDEPLOY": ["deploy", "undeploy", "deploy"],
    "EPILOG_STOP": ["deploy", "stop"],
    "EPILOG_UNDEPLOY": ["deploy", "undeploy"],
    "EPILOG": ["deploy", "terminate"],
    "SHUTDOWN": ["deploy", "terminate"],
    "SHUTDOWN_POWEROFF": ["deploy", "poweroff"],
    "SHUTDOWN_UNDEPLOY": ["deploy", "undeploy"],
    "BOOT_SUSPENDED": ["deploy", "suspend", "resume"],
    "BOOT_POWEROFF": ["deploy", "poweroff", "resume"],
    "PROLOG_MIGRATE_POWEROFF": ["deploy", "poweroff", "migrate"],
    "PROLOG_MIGRATE_SUSPEND": ["deploy", "suspend", "migrate"],
    "PROLOG_MIGRATE_UNKNOWN": ["deploy", "die", "migrate"],
}
ALL_STATES = (*RESTING, *UNDER_WAY, *FAILING)


def state_name(vm: SimVm) -> str:
    """The name that says where the VM is."""
    return vm.lcm_state.name if vm.state == VmState.ACTIVE else vm.state.name


class Stage:
    """A cloud of three hosts, alice (project) and bob (users), and short words for what is done to VMs."""

    def __init__(self, version: str = "7.4.0") -> None:
        self.cloud = SimulatedCloud(version=version)
        self.system = self.cloud.add_datastore("system", template={"DS_MIGRATE": ["YES"]})
        self.hosts = [self.cloud.add_host(f"node0{number}") for number in (1, 2, 3)]
        self.project = self.cloud.add_group("project")
        self.alice: Caller = self.cloud.caller(self.cloud.add_user("alice", self.project.id).id)
        self.bob: Caller = self.cloud.caller(self.cloud.add_user("bob").id)

    def create(self, template: str = TEMPLATE, caller: Caller | None = None) -> SimVm:
        """A PENDING VM, alice's unless told otherwise."""
        return self.cloud.vms[self.cloud.vm_allocate(caller or self.alice, template)]

    def do(self, vm: SimVm, word: str) -> None:
        """One step, not waited for; `die` kills the host and waits until it was noticed."""
        target = self.hosts[1] if vm.history and vm.history[-1].host_id == self.hosts[0].id else self.hosts[0]
        if word == "deploy":
            self.cloud.vm_deploy(ONEADMIN, vm.id, self.hosts[0].id)
        elif word in ("migrate", "live"):
            self.cloud.vm_migrate(ONEADMIN, vm.id, target.id, word == "live")
        elif word == "die":
            self.cloud.kill_host(vm.history[-1].host_id)
            self.cloud.settle()
        else:
            self.cloud.vm_action(ONEADMIN, word, vm.id)

    def bring(self, name: str, template: str = TEMPLATE) -> SimVm:
        """A VM in the state called `name`."""
        vm = self.create(template)
        operation, words = FAILING.get(name, (None, RESTING.get(name) or UNDER_WAY.get(name, [])))
        for index, word in enumerate(words):
            last = index == len(words) - 1
            if last and operation is not None:
                self.cloud.faults.add(Fault(operation, vm_id=vm.id))
            self.do(vm, word)
            if last and name in UNDER_WAY:
                self._wait_for(vm, name)
            else:
                self.cloud.settle()
        assert state_name(vm) == name
        return vm

    def _wait_for(self, vm: SimVm, name: str) -> None:
        while state_name(vm) != name:
            at_s = self.cloud.next_event_at()
            assert at_s is not None, f"never came to {name}, stayed {state_name(vm)}"
            self.cloud.run_until(at_s)


@pytest.fixture
def stage() -> Stage:
    """A fresh stage."""
    return Stage()


@pytest.fixture
def make_stage() -> Callable[[str], Stage]:
    """Stages of any version."""
    return Stage


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`any_state` runs a test once a state."""
    if "any_state" in metafunc.fixturenames:
        metafunc.parametrize("any_state", ALL_STATES)
