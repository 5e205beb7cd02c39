"""From the configuration's words to the values that the core takes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from typing import TypeVar
from zoneinfo import ZoneInfo

import msgspec
from msgspec.structs import replace

from one_preempt.configuration.lease_settings import RightsSettings
from one_preempt.configuration.power_settings import HostPowerSettings, PowerSettings
from one_preempt.configuration.section import Section
from one_preempt.configuration.settings import FairShareSettings, ImageStagingSettings, Settings
from one_preempt.core.admission.rules import AdmissionRules, BeyondRights, GroupRights, LeaseRule
from one_preempt.core.backfilling import intermediate
from one_preempt.core.backfilling.policy import BackfillingPolicy
from one_preempt.core.energy.policy import EnergyPolicy, PromisesWaits
from one_preempt.core.energy.power_model import HostPower, linear_power, milliwatts, power_table
from one_preempt.core.energy.power_rules import HostPattern, PowerMode, PowerRules, QuietHours, utc_minute
from one_preempt.core.host_selection.custom import by_expression
from one_preempt.core.image_staging.image_staging_rules import ImageStagingMode, ImageStagingRules
from one_preempt.core.matching.options import MatchOptions, datastore_rank, network_rank
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
from one_preempt.core.model.time_rules import TimeRules
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

T = TypeVar("T")


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
        limits=_as_named(limits, PreemptionLimits),
        search=_as_named(limits, SearchLimits),
        victims=victim_rules(settings),
        enactment=_as_named(limits, EnactmentLimits),
        backfilling=chosen_backfilling(settings),
        time=_as_named(settings.time, TimeRules),
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
    given = _as_named(settings.victims, VictimRules)
    return replace(given, methods={**DEFAULT_METHODS, **given.methods})


def admission_rules(settings: Settings) -> AdmissionRules:
    """The administrator's rules and rights."""
    return AdmissionRules(
        rules=tuple(_as_named(rule, LeaseRule) for rule in settings.leases.rules),
        rights=tuple(_rights(rights) for rights in settings.leases.rights),
        beyond_rights=BeyondRights(settings.leases.beyond_rights),
    )


def _rights(rights: RightsSettings) -> GroupRights:
    percent = None if rights.max_share is None else round(rights.max_share * 100)
    return replace(_as_named(rights, GroupRights), max_share_percent=percent)


def _as_named(section: Section, kind: type[T]) -> T:
    """A value of which each field is what the key of that name says."""
    return msgspec.convert(section, kind, from_attributes=True)
