"""The act: a local request preempts external leases, which return when it has ended.

The leases and the request are those of CCPE13 Table II, so that the policies choose what the paper published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from one_preempt.entrypoints.demo.checks import checks_of_every_act
from one_preempt.entrypoints.demo.emulated_cloud import vm_template
from one_preempt.entrypoints.demo.explanation import explained
from one_preempt.entrypoints.demo.stage import ENDED, RUNNING, Stage
from one_preempt.entrypoints.demo.story import Check, Decision, Ending, Narration, listed
from one_preempt.scheduling_cycle import CycleReport

LOCAL_USER = "local1"
REQUEST = "urgent"
REQUEST_VMS = 5
REQUEST_TEMPLATE = f"""
NAME = "urgent-%d" CPU = "1" VCPU = "1" MEMORY = "128" DISK = [ IMAGE_ID = "0" ]
LEASE = [ TYPE = "DC-NON-PREEMPTABLE", NAME = "{REQUEST}", SIZE = "{REQUEST_VMS}" ]
"""
FULL_FOR_S = 45
AT_WORK_S = 30


def play(stage: Stage) -> Ending:
    """Play the act; what must hold at its end."""
    external = _external_leases_fill_the_cloud(stage)
    decision, request = _a_local_request_arrives(stage)
    stage.until("the local request runs", lambda: stage.all_are(RUNNING, request))
    stage.tell_machines()
    _an_owner_looks(stage, decision)
    stage.pass_time(AT_WORK_S)
    stage.tell(Narration("The local request has finished. There is room again, and the victims return."))
    stage.terminate(LOCAL_USER, request, "the work is done")
    stage.until("every external lease runs again", lambda: stage.all_are(RUNNING, external))
    stage.until("the local request has ended", lambda: stage.all_are(ENDED, request))
    stage.pass_time(stage.settings.cycle_interval_s)
    stage.tell_machines()
    return Ending(tuple(_checks(stage, decision, external, request)))


def _external_leases_fill_the_cloud(stage: Stage) -> list[int]:
    """External users submit their leases, which are placed; the ids of their VMs."""
    stage.tell(
        Narration(
            "Three external users fill its 12 CPUs with six best-effort leases (those of CCPE13 Table II). Such a "
            "lease may be stopped when somebody more important needs room; its memory is saved, and it returns later."
        )
    )
    stage.brief = True
    vm_ids: list[int] = []
    for entry in stage.description.vms:
        lease = entry.template["LEASE"]
        assert isinstance(lease, dict)
        templates = [vm_template(entry, entry.name.format(number)) for number in range(1, entry.count + 1)]
        wish = f"{entry.count} x {entry.template['MEMORY']} MiB, {lease['TYPE']}"
        vm_ids += stage.submit(entry.owner, str(lease["NAME"]), templates, wish)
    stage.until("all external leases run", lambda: stage.all_are(RUNNING, vm_ids))
    stage.pass_time(FULL_FOR_S)
    stage.tell_machines()
    stage.brief = False
    return vm_ids


def _a_local_request_arrives(stage: Stage) -> tuple[Decision, list[int]]:
    """A local user submits a request for which others must leave; what was decided, and the ids of its VMs."""
    stage.tell(
        Narration(
            f"A local user, who has the right to preempt, needs {REQUEST_VMS} VMs, all of them or none. "
            "No CPU is free. Which leases could be stopped to make room, and at what cost?"
        )
    )
    decided: list[Decision] = []

    def explain(report: CycleReport) -> None:
        assert report.plan is not None
        assert report.state is not None
        (preemption,) = report.plan.preemptions
        decided.append(explained(preemption, report.state, stage.settings))
        stage.tell(decided[0])
        stage.tell(
            Narration("Now this is done. Each step waits until the one before it was observed: stop, deploy, RUNNING.")
        )

    stage.on_decision = explain
    templates = [REQUEST_TEMPLATE % number for number in range(1, REQUEST_VMS + 1)]
    request = stage.submit(LOCAL_USER, REQUEST, templates, f"{REQUEST_VMS} x 128 MiB, DC-NON-PREEMPTABLE")
    stage.until("a preemption is decided", lambda: bool(decided))
    return decided[0], request


def _an_owner_looks(stage: Stage, decision: Decision) -> None:
    """What the owner of a victim is told meanwhile, in the VM itself."""
    victim = stage.vms[decision.victims[0]]
    told = victim.user_template.get("LEASE_STATUS", ("",))[0]
    stage.tell_event([victim.id], "reads", victim.uname, f"LEASE_STATUS = {told}")


def _checks(stage: Stage, decision: Decision, external: Sequence[int], request: Sequence[int]) -> Iterator[Check]:
    """What must hold at the end."""
    records = {record.terms.name: record for record in stage.ledger()}
    running = sum(stage.state(vm_id) == RUNNING for vm_id in external)
    yield Check(f"{running} of {len(external)} external VMs run", running == len(external))
    victims = decision.chosen.leases
    back = [records[name].preemptions == 1 and records[name].preempted_by is None for name in victims]
    yield Check(f"{listed(victims)} were preempted once and have returned", all(back))
    others = [vm_id for vm_id in external if stage.leases[vm_id] not in victims]
    undisturbed = sum(len(stage.times(vm_id, RUNNING)) == 1 for vm_id in others)
    yield Check(f"{undisturbed} of the {len(others)} other VMs kept running undisturbed", undisturbed == len(others))
    ends = [end.fulfilled for report in stage.reports if report.plan for end in report.plan.ended_preemptions]
    yield Check("one preemption was decided, and it was completed", ends == [True])
    lived = sum(bool(stage.times(vm_id, RUNNING)) and stage.state(vm_id) == ENDED for vm_id in request)
    yield Check(f"{lived} of {len(request)} VMs of {REQUEST} ran and ended", lived == len(request))
    yield from checks_of_every_act(stage)
