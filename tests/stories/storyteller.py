"""Random stories: requests, ends, failures, restarts, and owners and administrators who act at random moments.

A story is its seed. What people did is remembered, so that the judge can say what the daemon was allowed to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.stories.group_rules import broken_rules
from tests.stories.paused_vms import PausedVms
from tests.stories.processes import DaemonDied
from tests.stories.promises_kept import late_without_a_word, started_against_a_word
from tests.stories.requests_told import ADMINISTRATOR, OWNERS, TYPES
from tests.stories.timed_requests import TimedRequests

ENABLED, DISABLED, OFFLINE = 0, 1, 2
SYSTEM_DATASTORE = 100
LIFTED = -2
NO_LIMITS = {"VMS": LIFTED, "RUNNING_VMS": LIFTED, "CPU": LIFTED, "RUNNING_CPU": LIFTED}


@dataclass
class Story(TimedRequests):
    """One story being told."""

    reports: list[dict[str, Any]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    overcommitted: list[str] = field(default_factory=list)
    broken_rules: list[str] = field(default_factory=list)
    broken_promises: list[str] = field(default_factory=list)
    paused: PausedVms = field(default_factory=PausedVms)
    endpoint_was_faulty: bool = False
    endpoint_is_faulty: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hosts = self._host_ids()
        self.calls: list[dict[str, Any]] = []

    def tell(self, steps: int) -> None:
        """External leases fill the cloud; then some events, some time, a cycle, `steps` times."""
        requests = [self.external_request, self.gang_request, self.device_request, self.pinned_request]
        requests += [self.external_request, self.grouped_request, self.networked_request]
        for _ in range(2 * len(self.hosts) + self.random.randint(1, 3)):
            self.events.append(self.random.choice(requests)())
        self.step(30)
        self.step(30)
        for _ in range(steps):
            for _ in range(self.random.randint(0, 2)):
                self._event()
            self.step(self.random.choice([5, 15, 15, 30, 60]))

    def step(self, seconds: int) -> None:
        """Let time pass and the daemon take a cycle; a dead one is started again."""
        now_s = self.world.emulator.advance(seconds)
        states = self.world.states()
        try:
            self.reports.append(self.world.daemon.step(now_s))
        except DaemonDied:
            self.world.restart_daemon()
        calls = self.world.emulator.log(len(self.calls))
        self.calls += calls
        self.paused.note(calls, states)
        self._look_at_hosts()
        # Rules of VM groups are the daemon's duty: oned breaks them without a word.
        self.broken_rules += broken_rules(self.world, self.roles(), calls)
        self.broken_promises += started_against_a_word(self.world, calls)
        if not self.endpoint_is_faulty:
            self.broken_promises += late_without_a_word(self.world, self.calls, now_s)

    def roles(self) -> dict[int, str]:
        """The roles of the members of the VM group."""
        return {vm_id: told.role for vm_id, told in self.vms.items() if told.role}

    def _look_at_hosts(self) -> None:
        for host in self.world.host_documents():
            if host["max_cpu"] > 0 and (host["cpu"] > host["max_cpu"] or host["memory"] > host["max_memory"]):
                self.overcommitted.append(f"after {self.events[-1:]}: {host}")

    # -- events ------------------------------------------------------------------------------------------

    def _event(self) -> None:
        kinds: list[tuple[int, Callable[[], str]]] = [
            (4, self.external_request),
            (6, self.local_request),
            (1, self.plain_request),
            (2, self.gang_request),
            (1, self.malformed_request),
            (4, self.device_request),
            (3, self.pinned_request),
            (3, self.grouped_request),
            (3, self.networked_request),
            (6, self.reserved_request),
            (3, self.deadline_request),
            (2, self.immediate_request),
            (3, self.limited_request),
            (3, self._owner_ends),
            (6, self._owner_acts),
            (2, self._owner_updates),
            (2, self._owner_locks),
            (1, self._chown),
            (2, self._administrator_deploys),
            (1, self._administrator_migrates),
            (2, self._administrator_switches_host),
            (1, self._administrator_sets_a_quota),
            (1, self._datastore_fills_or_empties),
            (2, self._driver_fails),
            (1, self._host_dies_or_comes_back),
            (1, self._endpoint_fails),
            (1, self._daemon_is_killed),
            (1, self._daemon_is_down_for_a_while),
        ]
        weights = [weight for weight, _ in kinds]
        _, event = self.random.choices(kinds, weights)[0]
        self.events.append(event())

    def _some_vm(self) -> int | None:
        living = [vm_id for vm_id, told in self.vms.items() if not told.ended_by_people]
        return self.random.choice(living) if living else None

    def _owner_ends(self) -> str:
        vm_id = self._some_vm()
        if vm_id is None:
            return "nobody ends anything"
        told = self.vms[vm_id]
        accepted = self.world.action(told.owner, self.random.choice(["terminate", "terminate-hard"]), vm_id)
        told.ended_by_people |= accepted
        return f"{told.owner} ends {vm_id}: {accepted}"

    def _owner_acts(self) -> str:
        vm_id = self._some_vm()
        if vm_id is None:
            return "nobody acts"
        action = self.random.choice(["release", "resume", "suspend", "stop", "poweroff", "hold", "resume", "release"])
        accepted = self.world.action(self.vms[vm_id].owner, action, vm_id)
        return f"{self.vms[vm_id].owner} says {action} {vm_id}: {accepted}"

    def _owner_updates(self) -> str:
        vm_id = self._some_vm()
        if vm_id is None:
            return "nobody updates"
        told = self.vms[vm_id]
        wanted = self.random.choice([*TYPES, "DC-NON-PREEMPTABLE", ""])
        text = f'LEASE=[TYPE="{wanted}"]' if wanted else 'NOTE="nothing"'
        append = self.random.choice([0, 1])
        accepted, _ = self.world.emulator.call(told.owner, "one.vm.update", vm_id, text, append)
        if accepted and wanted in TYPES and OWNERS[told.owner] == "externals":
            told.types.add(wanted)
        return f"{told.owner} updates {vm_id} to {wanted or 'nothing'}: {accepted}"

    def _owner_locks(self) -> str:
        vm_id = self._some_vm()
        if vm_id is None:
            return "nobody locks"
        owner = self.vms[vm_id].owner
        if self.random.random() < 0.5:
            accepted, _ = self.world.emulator.call(owner, "one.vm.unlock", vm_id)
            return f"{owner} unlocks {vm_id}: {accepted}"
        accepted, _ = self.world.emulator.call(owner, "one.vm.lock", vm_id, self.random.choice([1, 2, 3]), False)
        return f"{owner} locks {vm_id}: {accepted}"

    def _chown(self) -> str:
        vm_id = self._some_vm()
        if vm_id is None:
            return "nobody gives a VM away"
        new = self.random.choice(list(OWNERS))
        uid, gid = self.world.user_ids[new]
        accepted, _ = self.world.emulator.call(ADMINISTRATOR, "one.vm.chown", vm_id, uid, gid)
        if accepted:
            self.vms[vm_id].owner = new
            self.vms[vm_id].types |= self._claims_now(vm_id, new)
        return f"{vm_id} is given to {new}: {accepted}"

    def _claims_now(self, vm_id: int, owner: str) -> set[str]:
        if OWNERS[owner] != "externals":
            return set()
        claimed = self.world.vm(vm_id).findtext("USER_TEMPLATE/LEASE/TYPE")
        return {claimed} if claimed in TYPES else set()

    def _administrator_deploys(self) -> str:
        vm_id = self._some_vm()
        if vm_id is None:
            return "the administrator deploys nothing"
        host_id = self.random.choice(self.hosts)
        accepted, _ = self.world.emulator.call(ADMINISTRATOR, "one.vm.deploy", vm_id, host_id, True, -1, "")
        return f"the administrator deploys {vm_id} on {host_id}: {accepted}"

    def _administrator_migrates(self) -> str:
        vm_id = self._some_vm()
        if vm_id is None:
            return "the administrator migrates nothing"
        host_id, live = self.random.choice(self.hosts), self.random.random() < 0.5
        call = self.world.emulator.call
        accepted, _ = call(ADMINISTRATOR, "one.vm.migrate", vm_id, host_id, live, True, -1, 0)
        return f"the administrator migrates {vm_id} to {host_id}: {accepted}"

    def _administrator_switches_host(self) -> str:
        host_id = self.random.choice(self.hosts)
        status = self.random.choice([ENABLED, ENABLED, DISABLED, OFFLINE])
        self.world.emulator.must(ADMINISTRATOR, "one.host.status", host_id, status)
        if status == DISABLED and self.random.random() < 0.3:
            self._flush(host_id)
            return f"the administrator flushes host {host_id}"
        return f"the administrator sets host {host_id} to {status}"

    def _flush(self, host_id: int) -> None:
        """What `onehost flush` does after disabling: every VM on the host is marked for rescheduling."""
        for vm_id in self.world.running_on(host_id):
            self.world.action(ADMINISTRATOR, "resched", vm_id)

    def _administrator_sets_a_quota(self) -> str:
        name = self.random.choice([*OWNERS, *set(OWNERS.values())])
        limits = self.random.choice(
            [
                {"RUNNING_VMS": self.random.randint(0, 3)},
                {"RUNNING_CPU": self.random.randint(1, 3)},
                {"VMS": 4},
                NO_LIMITS,
            ]
        )
        self.world.set_quota(name, limits)
        return f"the quota of {name} becomes {limits}"

    def _datastore_fills_or_empties(self) -> str:
        free_mib = self.random.choice([0, 300, 1000, -1])
        self.world.emulator.control("fill_datastore", SYSTEM_DATASTORE, free_mib)
        return f"the datastore has {free_mib} MiB left"

    def _driver_fails(self) -> str:
        operation = self.random.choice(
            ["save", "restore", "boot", "prolog", "epilog_stop", "prolog_resume", "shutdown"]
        )
        how = self.random.choice(["fail", "fail", "slow"])
        self.world.emulator.control("cloud_fault", operation, how, -1, -1, self.random.choice([1, 1, 3]))
        return f"the next {operation} will {how}"

    def _host_dies_or_comes_back(self) -> str:
        host_id = self.random.choice(self.hosts)
        what = self.random.choice(["kill_host", "revive_host", "revive_host"])
        self.world.emulator.control(what, host_id)
        return f"{what} {host_id}"

    def _endpoint_fails(self) -> str:
        kind = self.random.choice(["close", "html", "500", "truncated", "lost_reply"])
        method = self.random.choice(["one.vm.action", "one.vm.deploy", "one.vm.info", "one.vmpool.infoextended"])
        self.world.emulator.control("fault", kind, method, 1, self.random.randint(0, 2), 0.0)
        self.endpoint_was_faulty = self.endpoint_is_faulty = True
        # A cycle at once, and no fault left behind: it is the daemon that is to meet it.
        self.step(15)
        self.endpoint_is_faulty = False
        self.world.emulator.control("clear_faults")
        return f"{method} met {kind}"

    def _daemon_is_killed(self) -> str:
        self.world.restart_daemon()
        return "the daemon is killed"

    def _daemon_is_down_for_a_while(self) -> str:
        self.world.daemon.kill()
        seconds = self.random.choice([40, 100, 300])
        self.world.emulator.advance(seconds)
        self.world.restart_daemon()
        return f"the daemon is down for {seconds} s"

    def _host_ids(self) -> list[int]:
        return [host["id"] for host in self.world.host_documents()]
