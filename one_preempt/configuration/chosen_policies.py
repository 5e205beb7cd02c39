"""From the configuration's words to the values that the core takes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

from one_preempt.configuration.lease_settings import LeaseRuleSettings, RightsSettings
from one_preempt.configuration.power_settings import HostPowerSettings, PowerSettings
from one_preempt.configuration.settings import (
    FairShareSettings,
    ImageStagingSettings,
    Settings,
)
from one_preempt.core.admission.rules import AdmissionRules, BeyondRights, GroupRights, LeaseRule, VmMatch
from one_preempt.core.backfilling import intermediate
from one_preempt.core.backfilling.policy import BackfillingPolicy
from one_preempt.core.energy.policy import EnergyPolicy, PromisesWaits
from one_preempt.core.energy.power_model import HostPower, linear_power, milliwatts, power_table
from one_preempt.core.energy.power_rules import HostPattern, PowerMode, PowerRules, QuietHours, utc_minute
from one_preempt.core.host_selection.custom import by_expression
from one_preempt.core.image_staging.image_staging_rules import ImageStagingMode, ImageStagingRules
from one_preempt.core.matching.options import MatchOptions, datastore_rank, network_rank
from one_preempt.core.model.lease import LeaseType, PreemptionMethod
from one_preempt.core.model.modes_and_limits import (
    DEFAULT_METHODS,
    EnactmentLimits,
    Mode,
    PreemptionLimits,
    VictimRules,
)
from one_preempt.core.model.owner_use import UseRules
from one_preempt.core.model.plan import MigrationType
from one_preempt.core.model.time import seconds_to_ms
from one_preempt.core.model.time_rules import Exclusion, Overrun, RefusedReservation, Suspension, TimeRules
from one_preempt.core.overhead.rates import OverheadRates
from one_preempt.core.policies import Policies
from one_preempt.core.preemption.problem import SearchLimits
from one_preempt.core.queue_order.fair_share import ONE_SHARE_MILLI, FairShare
from one_preempt.core.queue_order.fair_share import POLICY as FAIR_SHARE
from one_preempt.core.queue_order.order import QueueOrder
from one_preempt.policy_registry import (
    BACKFILLING_POLICIES,
    ENERGY_POLICIES,
    HOST_SELECTIONS,
    PREEMPTION_POLICIES,
    QUEUE_ORDERS,
    slot_planning_policy,
)

DAY_S = 86_400


def policies(settings: Settings, preemption: str | None = None) -> Policies:
    """The policies and limits; `preemption` names another preemption policy than the configured one."""
    limits = settings.limits
    return Policies(
        preemption=PREEMPTION_POLICIES.named(preemption or settings.preemption_policy),
        queue_order=chosen_queue_order(settings),
        mode=Mode(settings.preemption),
        match=match_options(settings),
        overhead=overhead_rates(settings),
        learns_overheads=settings.overhead.learn,
        limits=PreemptionLimits(
            victims_in_flight=limits.victims_in_flight,
            victims_per_hour=limits.victims_per_hour,
            minimum_run_time_s=limits.minimum_run_time_s,
            cooldown_s=limits.cooldown_s,
            attempts=limits.attempts,
            victim_retry_s=limits.victim_retry_s,
            preemption_timeout_s=limits.preemption_timeout_s,
        ),
        search=SearchLimits(enumerated_leases=limits.enumerated_leases),
        victims=victim_rules(settings),
        enactment=EnactmentLimits(retry_delay_s=limits.retry_delay_s, gang_attempts=limits.gang_attempts),
        backfilling=chosen_backfilling(settings),
        time=time_rules(settings),
        power=power_rules(settings.power),
        images=image_staging_rules(settings.image_staging),
    )


def chosen_backfilling(settings: Settings) -> BackfillingPolicy:
    """The backfilling policy; intermediate with as many promises as are configured."""
    policy = BACKFILLING_POLICIES.named(settings.time.backfilling)
    return (
        intermediate.with_promises(settings.time.promised_leases) if policy.name == intermediate.POLICY.name else policy
    )


def chosen_queue_order(settings: Settings) -> QueueOrder:
    """The order of the queue; fair-share with the half-life and the shares that are configured."""
    policy = QUEUE_ORDERS.named(settings.queue_order)
    return fair_share_order(settings.fair_share) if policy.name == FAIR_SHARE.name else policy


def fair_share_order(given: FairShareSettings) -> FairShare:
    """The order `fair-share` as it is configured, whether it is chosen or not."""
    rules = UseRules(round(given.half_life_days * DAY_S), counts_memory=given.counts == "cpu-and-memory")
    shares_milli = {group: round(share * ONE_SHARE_MILLI) for group, share in given.shares.items()}
    return FairShare(measures=rules, shares_milli=shares_milli)


def time_rules(settings: Settings) -> TimeRules:
    """How time is handed out."""
    time = settings.time
    return TimeRules(
        suspension=Suspension(time.suspension),
        least_run_before_suspension_s=time.least_run_before_suspension_s,
        refused_reservation=RefusedReservation(time.refused_reservation),
        overrun=Overrun(time.overrun),
        overrun_grace_s=time.overrun_grace_s,
        grace_s=time.grace_s,
        preparation_margin_s=time.preparation_margin_s,
        exclusion=Exclusion(time.exclusion),
    )


def image_staging_rules(images: ImageStagingSettings) -> ImageStagingRules | None:
    """By which policy images are brought to hosts beforehand, and within which bounds; None where they are not."""
    if images.mode == "off":
        return None
    return ImageStagingRules(
        mode=ImageStagingMode(images.mode),
        policy=slot_planning_policy(images.policy),
        link_megabit_per_s=images.link_megabit_per_s,
        quantum_s=images.quantum_s,
        pool_mib=images.pool_mib,
        margin_s=images.margin_s,
        kept_after_start_s=images.kept_after_start_s,
        attempts=images.attempts,
        retry_delay_s=images.retry_delay_s,
        cached_only=images.transfer.method == "tm-cache",
        ahead_s=images.ahead_s,
    )


def power_rules(power: PowerSettings) -> PowerRules:
    """Which hosts may sleep, who decides it, and within which bounds."""
    return PowerRules(
        mode=PowerMode(power.mode),
        policy=chosen_energy_policy(power),
        period_s=power.period_s,
        handed_over=tuple(HostPattern(one.host, one.cluster) for one in power.hosts),
        floor=power.floor,
        most_booting=power.most_booting,
        boot_timeout_s=power.boot_timeout_s,
        shutdown_timeout_s=power.shutdown_timeout_s,
        emptying_timeout_s=power.emptying_timeout_s,
        first_pause_s=power.first_pause_s,
        longest_pause_s=power.longest_pause_s,
        least_on_s=power.least_on_s,
        least_off_s=power.least_off_s,
        enable_after_s=power.enable_after_s,
        asleep_reading_s=power.asleep_reading_s,
        quiet_hours=tuple(map(_quiet_hours, power.quiet_hours)),
        minute_of_day=_clock_in(power.time_zone),
        models=tuple((HostPattern(one.host, one.cluster), host_power(one)) for one in power.models),
        power=host_power(power.model),
    )


def chosen_energy_policy(power: PowerSettings) -> EnergyPolicy:
    """The energy policy, with the wait that is promised where it looks at that."""
    policy = ENERGY_POLICIES.named(power.policy)
    if isinstance(policy, PromisesWaits):
        return policy.with_promise(Fraction(str(power.waiting_factor)), power.promised_wait_s)
    return policy


def host_power(model: HostPowerSettings) -> HostPower:
    """What hosts draw and how long they take."""
    curve = power_table(model.curve_w) if model.curve_w else linear_power(model.idle_w, model.peak_w)
    return HostPower(
        curve=curve,
        boot_s=model.boot_s,
        boot_mw=curve.peak_mw if model.boot_w is None else milliwatts(model.boot_w),
        shutdown_s=model.shutdown_s,
        shutdown_mw=curve.idle_mw if model.shutdown_w is None else milliwatts(model.shutdown_w),
        off_mw=milliwatts(model.off_w),
    )


def _clock_in(time_zone: str) -> Callable[[int], int]:
    """The minute of the day at instants, in that zone."""
    if time_zone == "UTC":
        return utc_minute
    zone = ZoneInfo(time_zone)

    def minute_of_day(now_s: int) -> int:
        now = datetime.fromtimestamp(now_s, zone)
        return now.hour * 60 + now.minute

    return minute_of_day


def _quiet_hours(times: str) -> QuietHours:
    begins, ends = (60 * int(time[:2]) + int(time[3:]) for time in times.split("-"))
    return QuietHours(begins, ends)


def match_options(settings: Settings) -> MatchOptions:
    """What the matchmaker's part takes from sched.conf and rank.conf."""
    matchmaker = settings.matchmaker
    return MatchOptions(
        max_vm=matchmaker.max_vm,
        max_dispatch=matchmaker.max_dispatch,
        max_host=matchmaker.max_host,
        host_selection=(
            by_expression(matchmaker.host_rank)
            if matchmaker.host_policy.casefold() == "custom"
            else HOST_SELECTIONS.named(matchmaker.host_policy)
        ),
        datastore_rank=datastore_rank(matchmaker.datastore_policy, matchmaker.datastore_rank),
        network_rank=network_rank(matchmaker.network_policy, matchmaker.network_rank),
        different_networks=matchmaker.different_networks,
        accept_unmonitored_datastores=matchmaker.accept_unmonitored_datastores,
        memory_system_ds_scale=matchmaker.memory_system_datastore_scale,
        live_rescheds=matchmaker.live_rescheds,
        cold_migrate_mode=MigrationType[matchmaker.cold_migrate_mode.upper().replace("-", "_")],
    )


def overhead_rates(settings: Settings) -> OverheadRates:
    """The rates of the overhead models."""
    overhead = settings.overhead
    return OverheadRates(
        suspend_mib_per_s=overhead.suspend_mib_per_s,
        resume_mib_per_s=overhead.resume_mib_per_s,
        copy_mib_per_s=overhead.copy_mib_per_s,
        pause_ms=seconds_to_ms(overhead.pause_s),
        reschedule_ms=seconds_to_ms(overhead.reschedule_s),
        shutdown_ms=seconds_to_ms(overhead.shutdown_s),
        boot_ms=seconds_to_ms(overhead.boot_s),
    )


def victim_rules(settings: Settings) -> VictimRules:
    """Who may be a victim, and how; types without methods of their own keep those shipped."""
    given = {
        LeaseType(name): tuple(PreemptionMethod(method) for method in methods)
        for name, methods in settings.victims.methods.items()
    }
    return VictimRules(
        methods={**DEFAULT_METHODS, **given},
        service_members=settings.victims.service_members,
        virtual_routers=settings.victims.virtual_routers,
        suspend_in_place=settings.victims.suspend_in_place,
        least_valuable_first=settings.victims.least_valuable_first,
        paused_by_owner=settings.victims.paused_by_owner,
    )


def admission_rules(settings: Settings) -> AdmissionRules:
    """The administrator's rules and rights."""
    return AdmissionRules(
        rules=tuple(_rule(rule) for rule in settings.leases.rules),
        rights=tuple(_rights(rights) for rights in settings.leases.rights),
        beyond_rights=BeyondRights(settings.leases.beyond_rights),
    )


def _rule(rule: LeaseRuleSettings) -> LeaseRule:
    return LeaseRule(
        name=rule.name,
        match=VmMatch(
            user=rule.match.user,
            group=rule.match.group,
            template_id=rule.match.template_id,
            attributes=dict(rule.match.attributes),
            through_gateway=rule.match.through_gateway,
        ),
        type=LeaseType(rule.type) if rule.type is not None else None,
        may_preempt=rule.may_preempt,
        shutdown_ok=rule.shutdown_ok,
        max_suspensions=rule.max_suspensions,
        shielded_by_lock=rule.shielded_by_lock,
        duration_s=rule.duration_s,
    )


def _rights(rights: RightsSettings) -> GroupRights:
    return GroupRights(
        name=rights.name,
        user=rights.user,
        group=rights.group,
        through_gateway=rights.through_gateway,
        may_claim=tuple(LeaseType(name) for name in rights.may_claim),
        may_preempt=rights.may_preempt,
        max_size=rights.max_size,
        max_duration_s=rights.max_duration_s,
        max_ahead_s=rights.max_ahead_s,
        max_leases=rights.max_leases,
        least_max_suspensions=rights.least_max_suspensions,
        most_suspensions=rights.most_suspensions,
        max_share_percent=round(rights.max_share * 100) if rights.max_share is not None else None,
    )
