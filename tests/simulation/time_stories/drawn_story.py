"""A random story about time: a small cloud, rules about time, what is asked for, and what happens meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from one_preempt.configuration.settings import OverheadSettings, Settings, TimeSettings
from one_preempt.core.model.lease import LeaseType
from one_preempt.simulation.simulated_cloud.durations import INSTANT, Operation
from one_preempt.simulation.simulated_cloud.faults import Fault, Misbehaviour
from one_preempt.simulation.simulator.site import START_S, Site, simulation_settings
from one_preempt.simulation.simulator.timed_fault import DriverFails, HostDies, HostReturns, TimedFault
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest
from tests.simulation.time_stories.happenings import PLAIN, CalmDown, OwnerEnds, PlainVm, PlainVmEnds

CALM_AT_S = 3600
CALM_AGAIN_AT_S = 4200
UNTIL_S = 40_000
LOCAL_TYPES = (LeaseType.DC_NON_PREEMPTABLE, LeaseType.DC_NON_PREEMPTABLE, LeaseType.BE_SUSPENDABLE)
EXTERNAL_TYPES = (LeaseType.BE_SUSPENDABLE, LeaseType.BE_SUSPENDABLE, LeaseType.DC_MIGRATABLE, LeaseType.BE_CANCELLABLE)


@dataclass(frozen=True, slots=True)
class DrawnStory:
    """One story. `faulty`: machines and drivers fail in it; `stubborn`: nobody takes back what was refused."""

    seed: int
    site: Site
    settings: Settings
    policy: str
    workload: Workload
    happenings: tuple[TimedFault, ...]
    faulty: bool
    stubborn: bool

    def told(self) -> list[str]:
        """The story in lines for people."""
        hosts = ", ".join(f"{one.count} x {one.cpu_centi / 100:g} CPU {one.memory_mib} MiB" for one in self.site.hosts)
        lines = [f"seed {self.seed}: {hosts}; policy {self.policy}; {self.settings.time}; {self.site.durations}"]
        for one in self.workload.requests:
            vms = " + ".join(f"{part.count} x ({part.cpu_centi}, {part.memory_mib})" for part in one.vm_sets)
            lines.append(
                f"{one.submitted_at_s:5} r{one.id} {'external' if one.external else 'local'} {one.lease_type} "
                f"{one.start}: {vms} for {one.requested_duration_s} s (in truth {one.actual_duration_s}), "
                f"START {one.start_at_s}, DEADLINE {one.deadline_at_s}, MAX_SUSPENSIONS {one.max_suspensions}"
            )
        return lines + [f"{one.at_s:5} {one}" for one in sorted(self.happenings, key=lambda one: one.at_s)]


def draw_story(seed: int) -> DrawnStory:
    """The story of a seed."""
    chance = random.Random(seed)
    site = _site(chance)
    faulty = chance.random() < 0.3
    workload = Workload(tuple(_Requests(chance, site).drawn(chance.randint(5, 9))))
    happenings: list[TimedFault] = [*_plain_vms(chance), *_owners_ends(chance, workload)]
    if faulty:
        happenings += _faults(chance, sum(one.count for one in site.hosts))
    return DrawnStory(
        seed=seed,
        site=site,
        settings=_settings(chance, site),
        policy=chance.choice(("MOML", "MOML", "MOV", "NOP")),
        workload=workload,
        happenings=(*happenings, CalmDown(CALM_AT_S), CalmDown(CALM_AGAIN_AT_S)),
        faulty=faulty,
        stubborn=chance.random() < 0.5,
    )


# -- the cloud -----------------------------------------------------------------------------------------------


def _site(chance: random.Random) -> Site:
    count = chance.randint(2, 6)
    if chance.random() < 0.5:
        hosts: tuple[MachineSet, ...] = (
            MachineSet(count, chance.choice((100, 200, 400)), chance.choice((1024, 2048))),
        )
    else:
        hosts = tuple(
            MachineSet(1, chance.choice((100, 200, 300, 400)), chance.choice((1024, 2048, 4096))) for _ in range(count)
        )
    slow = replace(
        INSTANT,
        boot_s=chance.choice((0, 5, 20)),
        save_mib_per_s=chance.choice((0, 16, 64)),
        restore_mib_per_s=chance.choice((0, 32, 64)),
        shutdown_s=chance.choice((0, 0, 2)),
        copy_s=chance.choice((0, 1)),
        monitor_host_s=5,
        notice_dead_host_s=20,
    )
    return Site(hosts, chance.choice((INSTANT, slow, slow)), start_s=START_S + chance.randint(0, 10_000))


def _settings(chance: random.Random, site: Site) -> Settings:
    """The rates are those of the cloud, so that what is promised can be kept."""
    durations = site.durations
    overhead = OverheadSettings(
        boot_s=durations.boot_s,
        suspend_mib_per_s=durations.save_mib_per_s or 1e6,
        resume_mib_per_s=durations.restore_mib_per_s or 1e6,
        copy_mib_per_s=1e6,
        pause_s=durations.copy_s,
        shutdown_s=durations.shutdown_s,
    )
    time = TimeSettings(
        backfilling=chance.choice(("none", "easy", "easy", "intermediate", "conservative", "conservative")),
        promised_leases=chance.choice((1, 2, 4)),
        suspension=chance.choice(("none", "serial-only", "all", "all", "all")),
        least_run_before_suspension_s=chance.choice((0, 30, 120)),
        refused_reservation=chance.choice(("refuse", "queue")),
        overrun=chance.choice(("keep", "keep", "preempt", "stop", "terminate")),
        overrun_grace_s=chance.choice((0, 60)),
        grace_s=chance.choice((0, 0, 10)),
        preparation_margin_s=chance.choice((0, 5, 30)),
        exclusion=chance.choice(("host", "shared-storage", "none")),
    )
    settings = simulation_settings(Settings(time=time, overhead=overhead))
    limits = msgspec.structs.replace(settings.limits, victim_retry_s=300)
    return msgspec.structs.replace(settings, limits=limits)


# -- what is asked for ---------------------------------------------------------------------------------------


class _Requests:
    """Requests one after the other; a story has the most of what it is about."""

    def __init__(self, chance: random.Random, site: Site) -> None:
        self._chance = chance
        self._hosts = [one for one in site.hosts for _ in range(one.count)]
        self._kinds: list[Callable[[WorkloadRequest], WorkloadRequest]] = [
            self._best_effort, self._best_effort, self._best_effort, self._advance, self._advance, self._advance,
            self._deadline, self._deadline, self._immediate, self._local,
        ]  # fmt: skip

    def drawn(self, count: int) -> Iterator[WorkloadRequest]:
        """The requests in the order in which they come."""
        at_s = 0
        for number in range(1, count + 1):
            at_s += self._chance.choice((0, 0, 5, 20, 60, 130))
            yield self._chance.choice(self._kinds)(self._vms(number, at_s))

    def _vms(self, number: int, at_s: int) -> WorkloadRequest:
        chance = self._chance
        count = chance.choice((1, 1, 1, 2, 2, 3, 4))
        sets = [MachineSet(count, chance.choice((50, 100, 100, 200)), chance.choice((256, 512, 1024)))]
        if count > 1 and chance.random() < 0.3:
            sets = [
                replace(sets[0], count=count - 1),
                MachineSet(1, chance.choice((50, 100)), chance.choice((256, 512))),
            ]
        lasts_s = chance.choice((30, 60, 120, 200, 400, 700))
        if not _fits_when_empty(sets, self._hosts):
            sets = [MachineSet(1, 50, 256)]
        return WorkloadRequest(number, at_s, tuple(sets), lasts_s, lasts_s)

    def _untrue(self, one: WorkloadRequest) -> WorkloadRequest:
        """Nobody knows exactly how long he takes."""
        known_s = one.actual_duration_s
        truth_s = self._chance.choice(
            (known_s, known_s, known_s, known_s // 3, known_s // 2, known_s + 45, 2 * known_s)
        )
        return replace(one, actual_duration_s=truth_s)

    def _best_effort(self, one: WorkloadRequest) -> WorkloadRequest:
        kind = self._chance.choice(EXTERNAL_TYPES)
        limit = self._chance.choice((None, None, 0, 1, 2)) if kind.best_effort else None
        one = replace(self._untrue(one), lease_type=kind, external=True, max_suspensions=limit)
        return replace(one, requested_duration_s=None) if self._chance.random() < 0.25 else one

    def _local(self, one: WorkloadRequest) -> WorkloadRequest:
        one = replace(self._untrue(one), lease_type=LeaseType.DC_NON_PREEMPTABLE)
        return replace(one, requested_duration_s=None) if self._chance.random() < 0.25 else one

    def _immediate(self, one: WorkloadRequest) -> WorkloadRequest:
        return replace(self._somebody(self._untrue(one)), start=StartKind.IMMEDIATE)

    def _advance(self, one: WorkloadRequest) -> WorkloadRequest:
        ahead_s = self._chance.choice((0, 30, 90, 200, 400, 600, 900))
        one = self._somebody(self._untrue(one))
        one = replace(one, start=StartKind.EXACT, start_at_s=one.submitted_at_s + ahead_s)
        return replace(one, requested_duration_s=None) if self._chance.random() < 0.1 else one

    def _deadline(self, one: WorkloadRequest) -> WorkloadRequest:
        external = self._chance.random() < 0.6
        kind = self._chance.choice((LeaseType.DC_MIGRATABLE, LeaseType.DC_MIGRATABLE, LeaseType.DC_NON_PREEMPTABLE))
        one = replace(self._untrue(one), lease_type=kind, external=external)
        earliest_s = one.submitted_at_s + self._chance.choice((0, 0, 60, 300))
        assert one.requested_duration_s is not None
        slack_s = self._chance.choice((40, 120, 400, 1000))
        return replace(
            one,
            start=StartKind.DEADLINE,
            start_at_s=earliest_s if earliest_s > one.submitted_at_s else None,
            deadline_at_s=earliest_s + one.requested_duration_s + slack_s,
        )

    def _somebody(self, one: WorkloadRequest) -> WorkloadRequest:
        external = self._chance.random() < 0.4
        return replace(
            one, external=external, lease_type=self._chance.choice(EXTERNAL_TYPES if external else LOCAL_TYPES)
        )


def _fits_when_empty(sets: list[MachineSet], hosts: list[MachineSet]) -> bool:
    """First fit, the largest VM first: nobody asks for what the cloud can never give."""
    left = [[host.cpu_centi, host.memory_mib] for host in hosts]
    for vm in sorted((vm for vm in sets for _ in range(vm.count)), key=lambda vm: (-vm.memory_mib, -vm.cpu_centi)):
        room = next((one for one in left if one[0] >= vm.cpu_centi and one[1] >= vm.memory_mib), None)
        if room is None:
            return False
        room[0] -= vm.cpu_centi
        room[1] -= vm.memory_mib
    return True


# -- what happens meanwhile ----------------------------------------------------------------------------------


def _plain_vms(chance: random.Random) -> Iterator[TimedFault]:
    for number in range(chance.choice((0, 0, 1, 2, 3))):
        at_s = chance.randint(0, 700)
        yield PlainVm(at_s, f"{PLAIN}{number}", chance.choice((50, 100, 200)), chance.choice((256, 512)))
        yield PlainVmEnds(at_s + chance.choice((50, 300, 1500)), f"{PLAIN}{number}")


def _owners_ends(chance: random.Random, workload: Workload) -> Iterator[TimedFault]:
    for request in workload.requests:
        if chance.random() < 0.1:
            yield OwnerEnds(request.submitted_at_s + chance.randint(1, 500), request.id)


def _faults(chance: random.Random, hosts: int) -> Iterator[TimedFault]:
    if chance.random() < 0.5:
        host_id, at_s = chance.randrange(hosts), chance.randint(20, 900)
        yield HostDies(at_s, host_id)
        yield HostReturns(at_s + chance.choice((100, 400)), host_id, guests_survived=chance.random() < 0.5)
    for _ in range(chance.randint(0, 2)):
        operation = chance.choice((Operation.SAVE, Operation.RESTORE, Operation.BOOT, Operation.EPILOG_STOP))
        how = chance.choice((Misbehaviour.FAIL, Misbehaviour.FAIL, Misbehaviour.SLOW))
        yield DriverFails(chance.randint(0, 900), Fault(operation, how, count=chance.choice((1, 2))))
