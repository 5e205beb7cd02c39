"""The stories of a description's VMs: the calls that brought them to where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.faults import Fault
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN

_LONGEST_STEP_S = 86_400


def perform(cloud: SimulatedCloud, stories: Sequence[tuple[int, Sequence[str]]]) -> None:
    """Tell the stories, each a VM's id and its steps, all at once: every VM's first step, then every VM's second, ...

    Raises `OnePreemptError` that names the VM, the step and why the cloud refused it.
    """
    for steps in zip_longest(*(story for _, story in stories)):
        for (vm_id, _), step in zip(stories, steps, strict=True):
            if step is not None:
                _take(cloud, vm_id, step)
        _let_drivers_finish(cloud)


def _take(cloud: SimulatedCloud, vm_id: int, step: str) -> None:
    word, _, argument = step.partition(" ")
    place = f"vms: {cloud.vms[vm_id].name}: {step!r}"
    try:
        _STEPS.get(word, _action)(cloud, vm_id, word, argument.strip())
    except OnedError as error:
        raise OnePreemptError(f"{place} is refused: {error.message}") from error
    except (KeyError, ValueError) as error:
        raise OnePreemptError(f"{place} names nothing known: {error}") from error


def _action(cloud: SimulatedCloud, vm_id: int, word: str, _argument: str) -> None:
    cloud.vm_action(ONEADMIN, word, vm_id)


def _deploy(cloud: SimulatedCloud, vm_id: int, _word: str, hosts: str) -> None:
    """To the first of the hosts where it fits."""
    *others, last = hosts.split()
    for host in others:
        try:
            cloud.vm_deploy(ONEADMIN, vm_id, _id_of_host(cloud, host), enforce=True)
        except OnedError:
            continue
        return
    cloud.vm_deploy(ONEADMIN, vm_id, _id_of_host(cloud, last), enforce=True)


def _migrate(cloud: SimulatedCloud, vm_id: int, word: str, host: str) -> None:
    cloud.vm_migrate(ONEADMIN, vm_id, _id_of_host(cloud, host), word == "live-migrate")


def _lock(cloud: SimulatedCloud, vm_id: int, _word: str, level: str) -> None:
    cloud.vm_lock(ONEADMIN, vm_id, int(level))


def _unlock(cloud: SimulatedCloud, vm_id: int, _word: str, _argument: str) -> None:
    cloud.vm_unlock(ONEADMIN, vm_id)


def _chown(cloud: SimulatedCloud, vm_id: int, _word: str, name: str) -> None:
    user = {user.name: user for user in cloud.users.values()}[name]
    cloud.vm_chown(ONEADMIN, vm_id, user.id, user.gid)


def _fail(cloud: SimulatedCloud, vm_id: int, _word: str, operation: str) -> None:
    cloud.faults.add(Fault(Operation(operation), vm_id=vm_id))


_STEPS: dict[str, Callable[[SimulatedCloud, int, str, str], None]] = {
    "deploy": _deploy,
    "migrate": _migrate,
    "live-migrate": _migrate,
    "lock": _lock,
    "unlock": _unlock,
    "chown": _chown,
    "fail": _fail,
}


def _id_of_host(cloud: SimulatedCloud, name: str) -> int:
    return {host.name: host.id for host in cloud.hosts.values()}[name]


def _let_drivers_finish(cloud: SimulatedCloud) -> None:
    """Run until no driver works any more; an operation that hangs is waited for a day and no longer."""
    end_s = cloud.now_s + _LONGEST_STEP_S
    while cloud.drivers.running() and (at_s := cloud.next_event_at()) is not None and at_s <= end_s:
        cloud.run_until(at_s)
