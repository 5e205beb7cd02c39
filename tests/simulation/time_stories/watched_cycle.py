"""The production cycle, watched: what it said and did in each cycle, and that what it keeps in mind is what is true.

Each cycle is decided a second time with nothing kept in mind: the plan has to be the same, and so has the timeline
that the next cycle starts from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.configuration.settings import Settings
from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.availability.timeline import Stay, Timeline
from one_preempt.core.decide import deliberate
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.owner_use import NOTHING_MEASURED
from one_preempt.core.model.plan import Action, Plan
from one_preempt.core.model.power_sequence import KnownPower
from one_preempt.core.model.reservation import Verdict
from one_preempt.enactment.image_enactment import ImageEnactment
from one_preempt.enactment.power_enactment import PowerEnactment
from one_preempt.ports import Clock, PowerControl
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.states import VmState
from one_preempt.simulation.simulator.enactor import SimulatedEnactor
from one_preempt.simulation.simulator.host_enactor import SimulatedHostEnactor
from one_preempt.simulation.simulator.image_transfer import SimulatedImageTransfer
from one_preempt.simulation.simulator.pool_reader import SimulatedPoolReader
from one_preempt.simulation.simulator.power_calls import ImmediatePowerCalls
from one_preempt.surroundings import Surroundings
from tests.core.reconciled_twice import ReconciledTwice, SeenReader, SeenStore

# The daemon looks again after a while though nothing happens.
LOOKS_EVERY_S = 300


@dataclass(frozen=True, slots=True)
class Looked:
    """One cycle: what was said to leases (`verdicts`), why they wait (`waits`: code and text), and what was called."""

    at_s: int
    verdicts: dict[int, Verdict]
    waits: dict[int, tuple[str, str]]
    done: tuple[Action, ...]
    plan: Plan
    state: ClusterState


@dataclass
class WatchedCycle:
    """A `Scheduler`. With `stubborn` owners the simulator does not hear of refusals, so that nothing is taken back.

    `clock` is the daemon's where it is not the cloud's. `control` switches the cloud's machines.
    """

    settings: Settings
    policy: str
    cloud: SimulatedCloud
    stubborn: bool = False
    clock: Clock | None = None
    control: PowerControl | None = None
    looked: list[Looked] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    _left_alone: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.policies = policies(self.settings, self.policy)
        # The ledger is copied for each cycle, so that what was decided upon can be looked at afterwards.
        self._reader, self._store = SeenReader(SimulatedPoolReader(self.cloud)), SeenStore()
        rules = admission_rules(self.settings)
        self._reconciled = ReconciledTwice(rules)
        clock = self.clock or self.cloud.clock
        around = Surroundings(
            self._reader,
            self._store,
            SimulatedEnactor(self.cloud),
            clock,
            power=self._power(),
            images=self._images(),
        )
        self._cycle = SchedulingCycle(around, self.policies, rules)

    def _power(self) -> PowerEnactment | None:
        if self.control is None:
            return None
        clock = self.clock or self.cloud.clock
        return PowerEnactment(self._store, SimulatedHostEnactor(self.cloud), ImmediatePowerCalls(self.control), clock)

    def _images(self) -> ImageEnactment | None:
        if self.cloud.image_link is None or self.policies.images is None:
            return None
        transfers = SimulatedImageTransfer(self.cloud, self.cloud.image_link)
        return ImageEnactment(self._store, transfers, self.clock or self.cloud.clock)

    def run(self) -> CycleReport:
        """One cycle; what is wrong with it is noted."""
        report = self._cycle.run()
        assert report.plan is not None
        assert report.state is not None
        plan, state = report.plan, report.state
        self.wrong += [f"at {state.now_s}: {one.code}: {one.text}" for one in report.violations]
        assert self._reader.seen is not None
        # What owners have used is measured on its own.
        reconciled = replace(state, use=NOTHING_MEASURED, occupants=None)
        if self.control is not None:
            # Host power is observed on its own.
            told = tuple(one for one in state.discrepancies if not one.code.startswith("power-"))
            reconciled = replace(reconciled, power=KnownPower(), discrepancies=told)
        differences = self._reconciled.differences(self._reader.seen, self._store.loaded, reconciled)
        self.wrong += [f"at {state.now_s}, reconciled: {text}" for text in differences]
        if not report.violations:
            self._compare(plan, state)
        self.wrong += [
            f"at {state.now_s}: {action.id} was {result.outcome}: {result.error_text}"
            for action, result in report.results
            if result.outcome is not Outcome.ACCEPTED
        ]
        self._note(report, plan, state)
        return self._as_heard(report, plan, state)

    def told(self) -> list[str]:
        """What was said and done in each cycle in which there was anything, in lines for people."""
        lines = []
        for looked in self.looked:
            said = [f"{lease_id}: {verdict}" for lease_id, verdict in looked.verdicts.items()]
            waits = [f"{lease_id}: {text}" for lease_id, (_, text) in looked.waits.items()]
            done = [action.id for action in looked.done if action.attributes == ()]
            if said or done or waits:
                lines.append(f"{looked.at_s} said {said} did {done} waits {waits}")
        return lines

    def _note(self, report: CycleReport, plan: Plan, state: ClusterState) -> None:
        verdicts = {given.lease_id: given.verdict for given in plan.verdicts}
        waits = {refusal.lease_id: (refusal.reason.code, refusal.reason.text) for refusal in plan.refusals}
        done = tuple(action for action, _ in report.results)
        self.looked.append(Looked(state.now_s, verdicts, waits, done, plan, state))
        self._left_alone |= {lease_id for lease_id, verdict in verdicts.items() if verdict is Verdict.REFUSED}
        self._left_alone |= {action.lease_id for action in done if action.reason.code == "overrun"}

    def _as_heard(self, report: CycleReport, plan: Plan, state: ClusterState) -> CycleReport:
        """As the simulator hears it, with a look after a while at the latest as long as there is anything to do."""
        busy = any(
            vm.state != VmState.DONE and state.lease_of_vm.get(vm.id) not in self._left_alone
            for vm in self.cloud.vms.values()
        )
        looks_at_s = [
            at_s for at_s in (plan.wake_at_s, state.now_s + LOOKS_EVERY_S if busy else None) if at_s is not None
        ]
        wake_at_s = min((at_s - state.now_s + self.cloud.now_s for at_s in looks_at_s), default=None)
        heard = replace(plan, wake_at_s=wake_at_s)
        if self.stubborn:
            told = tuple(given for given in plan.verdicts if given.verdict is not Verdict.REFUSED)
            heard = replace(heard, verdicts=told, refusals=())
        return replace(report, plan=heard)

    # -- kept in mind, and from scratch ----------------------------------------------------------------------

    def _compare(self, plan: Plan, state: ClusterState) -> None:
        fresh = deliberate(state, self.policies)
        if fresh.plan() != plan:
            self.wrong += [f"at {state.now_s}: from scratch: {text}" for text in plan_differences(plan, fresh.plan())]
        memory = self._cycle.memory
        assert memory is not None
        assert memory.timeline is not None
        texts = timeline_differences(memory.timeline, fresh.timeline)
        self.wrong += [f"at {state.now_s}, kept: {text}" for text in texts]


def plan_differences(kept: Plan, fresh: Plan) -> Iterator[str]:
    """The fields in which two plans differ."""
    for name in Plan.__struct_fields__:
        if getattr(kept, name) != getattr(fresh, name):
            yield f"{name} would be {getattr(fresh, name)} and is {getattr(kept, name)}"


def timeline_differences(kept: Timeline, fresh: Timeline) -> Iterator[str]:
    """What two timelines tell differently of the time from the present on."""
    now_s = fresh.firm_stays.since_s
    kept_stays, fresh_stays = (
        {lease_id: [_from_now(stay, now_s) for stay in stays] for lease_id, stays in one.stays.items()}
        for one in (kept, fresh)
    )
    if kept_stays != fresh_stays:
        yield f"the stays are {kept_stays} instead of {fresh_stays}"
    yield from _table_differences("all stays", kept.all_stays.table, fresh.all_stays.table)
    yield from _table_differences("firm stays", kept.firm_stays, fresh.firm_stays)


def _from_now(stay: Stay, now_s: int) -> Stay:
    return replace(stay, start_s=max(stay.start_s, now_s))


def _table_differences(name: str, kept: SlotTable, fresh: SlotTable) -> Iterator[str]:
    for row in range(len(fresh.free_during(fresh.since_s, None))):
        kept_steps, fresh_steps = kept.free_over_time(row), fresh.free_over_time(row)
        if not all(np.array_equal(one, other) for one, other in zip(kept_steps, fresh_steps, strict=True)):
            yield f"{name}: row {row} has {_steps(kept_steps)} instead of {_steps(fresh_steps)}"


def _steps(steps: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, list[int]]]:
    return list(zip(steps[0].tolist(), steps[1].tolist(), strict=True))
