"""Which part of the external requests each zone gets, by which policy, and why not by another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from one_preempt.core.gateway.streams import Stream, ZoneMeasure
from one_preempt.core.workload_allocation.policy import AllocationPolicy
from one_preempt.core.workload_allocation.problem import AllocationProblem, ClusterLoad, mean_response_s
from one_preempt.errors import OnePreemptError


class FullZones(StrEnum):
    """What happens where the policy has no answer since the own users of zones fill these."""

    LEAVE_OUT = "leave_out"
    FALL_BACK = "fall_back"


class ZoneLoad(Struct, frozen=True):
    """A zone with its measure, its speed in the unit of all zones, and its local stream as it counts.

    `why_not` is not empty where it can be given no share: it was never measured, say.
    """

    name: str
    speed: float
    measure: ZoneMeasure | None = None
    local: Stream | None = None
    why_not: str = ""

    @property
    def free_elements(self) -> int:
        """Processing elements that come free now and then."""
        return 0 if self.measure is None else int(self.measure.elements - self.measure.standing)


class Answer(Struct, frozen=True):
    """What one policy says: shares by zone, which add up to 1, or why it has none."""

    policy: str
    shares: dict[str, float] = {}
    why_not: str = ""
    left_out: dict[str, str] = {}
    mean_response_s: float | None = None


class Allocation(Struct, frozen=True):
    """What is in force.

    Attributes:
        made_at_s: When it was computed.
        answer: Of the policy that is followed.
        instead_of: The configured one, and why it has no answer; '' where it is followed itself.
        by_speed: Zones with a measure, first the one in which external requests take least.
        unmeasured: Zones without a share for want of a measure, and why.
    """

    made_at_s: int
    answer: Answer
    instead_of: str = ""
    by_speed: tuple[str, ...] = ()
    unmeasured: dict[str, str] = {}


class NoShares(OnePreemptError):
    """No zone can be given a share; the message says why."""


class Question(Struct, frozen=True):
    """The zones and the external stream, whose work is that of elements of speed 1."""

    zones: tuple[ZoneLoad, ...]
    external: Stream

    @property
    def usable(self) -> tuple[ZoneLoad, ...]:
        """Zones that were measured and of which something comes free."""
        return tuple(zone for zone in self.zones if not self.why_unusable(zone))

    def why_unusable(self, zone: ZoneLoad) -> str:
        """Why this zone cannot be given a share; '' where it can."""
        if zone.why_not or zone.measure is None:
            return zone.why_not or "it was not measured yet"
        if zone.measure.elements < 1:
            return "no host of it takes VMs"
        if zone.free_elements < 1:
            return "VMs that are older than the window take all that its hosts have"
        return ""

    @property
    def why_unknown(self) -> str:
        """Why rate and work of external requests are not known; '' where they are."""
        if self.external.rate_per_s <= 0:
            return "no external request is on record yet, and gateway.external.rate_per_h is not set"
        if not self.external.mean_work:
            return (
                "nothing is known of what an external request computes: none has ended, few had a DURATION, and "
                "gateway.external.mean_work_h is not set"
            )
        return ""

    def problem(self, zones: Sequence[ZoneLoad]) -> AllocationProblem:
        """For the policies. What is not known of external requests is 1, which only PAP looks at."""
        external = self.external
        mean = external.mean_work or 1.0
        squared = max(external.mean_work_squared or 0.0, mean**2)
        return AllocationProblem(
            tuple(_cluster(zone, mean, squared) for zone in zones),
            external.rate_per_s if external.rate_per_s > 0 else 1.0,
        )


def asked(policy: AllocationPolicy, question: Question, full_zones: FullZones) -> Answer:
    """What a policy says; where it has none, zones that own users fill are left out, if that is allowed."""
    zones = list(question.usable)
    if not zones:
        return Answer(policy.name, why_not="no zone was measured that has room")
    if policy.needs_service_times and question.why_unknown:
        return Answer(policy.name, why_not=question.why_unknown)
    first = _answer(policy, question, zones, {})
    if not first.why_not or full_zones is not FullZones.LEAVE_OUT:
        return first
    full = {
        zone.name: f"its own users ask for {cluster.local_utilization:.3g} times what it has"
        for zone, cluster in zip(zones, question.problem(zones).clusters, strict=True)
        if cluster.local_utilization >= 1
    }
    left = [zone for zone in zones if zone.name not in full]
    if not full or not left:
        return first
    return _answer(policy, question, left, full)


def allocated(
    policy: AllocationPolicy, fall_back: AllocationPolicy, question: Question, full_zones: FullZones, now_s: int
) -> Allocation:
    """By the policy, or, where it has no answer, by the one to fall back to. Raises `NoShares`."""
    answer, instead_of = asked(policy, question, full_zones), ""
    if answer.why_not:
        instead_of = f"{policy.name} has no answer: {_without_name(answer.why_not, policy.name)}"
        answer = asked(fall_back, question, full_zones)
    unusable = {zone.name: why for zone in question.zones if (why := question.why_unusable(zone))}
    if answer.why_not:
        told = "; ".join(f"{name}: {why}" for name, why in unusable.items()) or answer.why_not
        raise NoShares(f"no zone can be given a share: {told}")
    return Allocation(now_s, answer, instead_of, _by_speed(question), unusable)


def _without_name(text: str, policy: str) -> str:
    return text.removeprefix(f"{policy}: ")


def _answer(
    policy: AllocationPolicy, question: Question, zones: Sequence[ZoneLoad], left_out: Mapping[str, str]
) -> Answer:
    problem = question.problem(zones)
    try:
        rates = policy.allocate(problem)
    except OnePreemptError as error:
        return Answer(policy.name, why_not=str(error), left_out=dict(left_out))
    whole = sum(rates)
    return Answer(
        policy.name,
        {zone.name: rate / whole for zone, rate in zip(zones, rates, strict=True)},
        left_out=dict(left_out),
        mean_response_s=None if question.why_unknown else mean_response_s(problem, rates),
    )


def _cluster(zone: ZoneLoad, mean: float, squared: float) -> ClusterLoad:
    elements, local = zone.free_elements, zone.local or Stream(0.0, None, None)
    capability = elements * zone.speed
    local_work = local.mean_work or 0.0
    return ClusterLoad(
        name=zone.name,
        processing_elements=elements,
        speed=zone.speed,
        external_service_s=mean / capability,
        external_service_s2=squared / capability**2,
        # What local requests computed was computed here: the speed is in it.
        local_service_s=local_work / elements,
        local_service_s2=max((local.mean_work_squared or 0.0) / elements**2, (local_work / elements) ** 2),
        local_rate_per_s=local.rate_per_s,
    )


def _by_speed(question: Question) -> tuple[str, ...]:
    """The one with the least theta first; of equal ones the first."""
    zones = question.usable
    places = sorted(range(len(zones)), key=lambda place: (-zones[place].free_elements * zones[place].speed, place))
    return tuple(zones[place].name for place in places)


def common_speeds(told_ghz: Mapping[str, float | None], given: Mapping[str, float]) -> dict[str, float]:
    """The speed of each zone: as configured, else as its hosts tell in GHz.

    Speeds in different units would mean nothing beside one another: where one zone's is known neither way, all that
    are not configured count as 1.
    """
    untold = any(speed is None and name not in given for name, speed in told_ghz.items())
    return {name: given.get(name, 1.0 if untold else speed or 1.0) for name, speed in told_ghz.items()}
