"""The act: a user reserves for a time to come; best-effort leases work until just before it, and go on after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from one_preempt.core.model.plan import ActionKind, Preemption
from one_preempt.core.model.reservation import Reservation, Verdict
from one_preempt.core.model.written_time import utc_text
from one_preempt.entrypoints.demo.chart import chart_of
from one_preempt.entrypoints.demo.checks import checks_of_every_act
from one_preempt.entrypoints.demo.stage import ENDED, RUNNING, STOPPED, Stage
from one_preempt.entrypoints.demo.story import Check, Ending, Narration, listed
from one_preempt.scheduling_cycle import CycleReport

LOCAL_USER = "local1"
LECTURE = "lecture"
LECTURE_VMS = 6
LECTURE_S = 120
AHEAD_S = 120
WORKS_FIRST_S = 20

TEMPLATE = """
NAME = "{name}-{number}" CPU = "1" VCPU = "1" MEMORY = "{memory_mib}" DISK = [ IMAGE_ID = "0" ]
LEASE = [ {lease} ]
"""


class Work(Struct, frozen=True):
    """A best-effort lease of so many VMs of one CPU."""

    owner: str
    name: str
    vms: int
    memory_mib: int

    @property
    def templates(self) -> list[str]:
        """What its owner writes for its VMs."""
        lease = f'TYPE = "BE-SUSPENDABLE", NAME = "{self.name}", SIZE = "{self.vms}"'
        return [
            TEMPLATE.format(name=self.name, number=number, memory_mib=self.memory_mib, lease=lease)
            for number in range(1, self.vms + 1)
        ]


# Twelve VMs for the twelve CPUs of the demonstration cloud.
BEST_EFFORT = (
    Work("external1", "climate", 4, 512),
    Work("external2", "render", 3, 512),
    Work("external3", "train", 2, 1024),
    Work("external3", "sweep", 3, 256),
)


def play(stage: Stage) -> Ending:
    """Play the act; what must hold at its end."""
    external = _best_effort_fills_the_cloud(stage)
    lecture, start_at_s = _a_user_reserves(stage)
    preemption = _others_leave_in_time(stage, start_at_s)
    stage.until("the reservation runs", lambda: stage.all_are(RUNNING, lecture))
    stage.tell_machines()
    stage.pass_time(start_at_s + LECTURE_S - stage.now_s)
    stage.tell(
        Narration("The lecture is over. There is room again, and the suspended leases go on where they stopped.")
    )
    stage.terminate(LOCAL_USER, lecture, "the lecture is over")
    stage.until("every best-effort lease runs again", lambda: stage.all_are(RUNNING, external))
    stage.until("the reservation has ended", lambda: stage.all_are(ENDED, lecture))
    stage.pass_time(WORKS_FIRST_S)
    stage.tell_machines()
    stage.tell(Narration("What was promised, and what happened:"))
    stage.tell(chart_of(stage, start_at_s, start_at_s + LECTURE_S))
    return Ending(tuple(_checks(stage, preemption, external, lecture, start_at_s)))


def _best_effort_fills_the_cloud(stage: Stage) -> list[int]:
    """External users submit their leases, which are placed; the ids of their VMs."""
    stage.tell(
        Narration(
            "Three external users fill its 12 CPUs with four best-effort leases. They run as long as nobody more "
            "important needs the room; then they are suspended, with their memory saved."
        )
    )
    stage.brief = True
    vm_ids: list[int] = []
    for work in BEST_EFFORT:
        wish = f"{work.vms} x {work.memory_mib} MiB, BE-SUSPENDABLE"
        vm_ids += stage.submit(work.owner, work.name, work.templates, wish)
    stage.until("all best-effort leases run", lambda: stage.all_are(RUNNING, vm_ids))
    stage.pass_time(WORKS_FIRST_S)
    stage.tell_machines()
    stage.brief = False
    return vm_ids


def _a_user_reserves(stage: Stage) -> tuple[list[int], int]:
    """A local user asks for a START to come, and is answered; the ids of the VMs, and the start."""
    start_at_s = -(-(stage.now_s + AHEAD_S) // 60) * 60
    stage.tell(
        Narration(
            f"A lecture begins at {_clock(start_at_s)}: a local user reserves {LECTURE_VMS} VMs for {LECTURE_S // 60} "
            "minutes from then on. No CPU is free. Can that be promised?"
        )
    )
    answers: list[Reservation] = []

    def answered() -> bool:
        plan = stage.reports[-1].plan
        answers.extend(one for booking in (plan.bookings if plan else ()) for one in booking.reservations if one.firm)
        return bool(answers)

    lecture = stage.submit(LOCAL_USER, LECTURE, _lecture(start_at_s), f'START = "{utc_text(start_at_s)}"')
    stage.until("the reservation is answered", answered)
    hosts = listed(sorted(map(stage.host_name, set(answers[0].host_ids))))
    stage.tell(
        Narration(
            f"Yes: others can be stopped in time. From {_clock(answers[0].start_at_s)} on, room for its VMs is "
            f"reserved, for now on {hosts}; the VMs wait on HOLD. Until then, only best-effort leases may run there."
        )
    )
    return lecture, start_at_s


def _lecture(start_at_s: int) -> list[str]:
    lease = (
        f'TYPE = "DC-NON-PREEMPTABLE", NAME = "{LECTURE}", SIZE = "{LECTURE_VMS}", START = "{utc_text(start_at_s)}", '
        f'DURATION = "00:{LECTURE_S // 60:02}:00"'
    )
    return [
        TEMPLATE.format(name=LECTURE, number=number, memory_mib=256, lease=lease)
        for number in range(1, LECTURE_VMS + 1)
    ]


def _others_leave_in_time(stage: Stage, start_at_s: int) -> Preemption:
    """Time passes until somebody has to leave: what was decided then, and why just then."""
    decided: list[Preemption] = []

    def explain(report: CycleReport) -> None:
        assert report.plan is not None
        decided.extend(report.plan.preemptions)
        stage.tell(Narration(_why_now(stage, decided[0], start_at_s)))

    stage.on_decision = explain
    stage.until("others leave for the reservation", lambda: bool(decided))
    stage.until("they have left", lambda: stage.all_are(STOPPED, [victim.vm_id for victim in decided[0].victims]))
    stage.until("the reservation is due", lambda: stage.now_s >= start_at_s)
    return decided[0]


def _why_now(stage: Stage, preemption: Preemption, start_at_s: int) -> str:
    names = listed(sorted({stage.leases[victim.vm_id] for victim in preemption.victims}))
    hosts = listed(sorted({stage.host_name(place.host_id) for place in preemption.placements}))
    saving_s = _saving_s(stage, preemption)
    longest = max(saving_s, key=lambda host_id: (saving_s[host_id], -host_id))
    rate, margin_s = stage.settings.overhead.suspend_mib_per_s, stage.settings.time.preparation_margin_s
    return (
        f"At {_clock(stage.now_s)}, {start_at_s - stage.now_s} s before the start, others must begin to leave. "
        f"{preemption.policy} chooses {names}, so the lecture will run on {hosts}. A host saves one VM after another; "
        f"{stage.host_name(longest)} needs longest, {saving_s[longest]:.1f} s at {rate:.1f} MiB/s, plus a margin of "
        f"{margin_s} s."
    )


def _saving_s(stage: Stage, preemption: Preemption) -> Mapping[int, float]:
    """By host: how long it takes to save its victims."""
    saved_mib: dict[int, int] = {}
    for victim in preemption.victims:
        saved_mib[victim.host_id] = saved_mib.get(victim.host_id, 0) + stage.vms[victim.vm_id].memory_mib
    return {host_id: mib / stage.settings.overhead.suspend_mib_per_s for host_id, mib in saved_mib.items()}


def _checks(
    stage: Stage, preemption: Preemption, external: Sequence[int], lecture: Sequence[int], start_at_s: int
) -> Iterator[Check]:
    """What must hold at the end."""
    records = {record.terms.name: record for record in stage.ledger()}
    yield Check("the reservation was accepted", records[LECTURE].verdict is Verdict.ACCEPTED)
    victims = [victim.vm_id for victim in preemption.victims]
    lead_s = start_at_s - preemption.decided_at_s
    out_s = start_at_s - max(stage.times(vm_id, STOPPED)[0] for vm_id in victims)
    in_time = f"{len(victims)} VMs were told to leave {lead_s} s before its start, and all were out {out_s} s before"
    yield Check(in_time, 0 <= out_s < lead_s)
    starts = _start_calls(stage, lecture)
    exactly = f"its {len(starts)} VMs were started at {_clock(start_at_s)}, in that second"
    yield Check(exactly, starts == [start_at_s] * LECTURE_VMS)
    running_s = max(stage.times(vm_id, RUNNING)[0] for vm_id in lecture) - start_at_s
    yield Check(f"the last of them ran {running_s} s later", running_s >= 0)
    names = sorted({stage.leases[vm_id] for vm_id in victims})
    back = [records[name].preemptions == 1 and records[name].preempted_by is None for name in names]
    yield Check(f"{listed(names)} were suspended once and have returned", all(back))
    others = [vm_id for vm_id in external if vm_id not in victims]
    undisturbed = sum(len(stage.times(vm_id, RUNNING)) == 1 for vm_id in others)
    yield Check(f"{undisturbed} of the {len(others)} other VMs kept running undisturbed", undisturbed == len(others))
    yield from checks_of_every_act(stage)


def _start_calls(stage: Stage, vm_ids: Sequence[int]) -> list[int]:
    """The instants at which VMs were deployed."""
    return [
        report.plan.made_at_s
        for report in stage.reports
        for action, _ in report.results
        if report.plan is not None and action.kind is ActionKind.DEPLOY and action.vm_id in vm_ids
    ]


def _clock(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%S")
