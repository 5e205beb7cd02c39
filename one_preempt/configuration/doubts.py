"""What the configuration says and probably does not mean: for `config check`, and the daemon's log at its start."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator

from one_preempt.configuration.choices import SHIPPED_POLICIES
from one_preempt.configuration.gateway_settings import gateway_doubts
from one_preempt.configuration.image_transfer_settings import transfer_doubts
from one_preempt.configuration.lease_settings import lease_doubts
from one_preempt.configuration.places import LONGEST_SOCKET_PATH_BYTES, listening_address
from one_preempt.configuration.power_settings import power_doubts
from one_preempt.configuration.settings import (
    FairShareSettings,
    ImageStagingSettings,
    OverheadSettings,
    Settings,
    TimeSettings,
    VictimSettings,
)

FAIR_SHARE = "fair-share"
NOBODY_LEAVES = "DC-NON-PREEMPTABLE"
_RATES_OF_STORAGE = ("suspend_mib_per_s", "resume_mib_per_s", "copy_mib_per_s")


def doubts(settings: Settings) -> list[str]:
    """What can be used and yet is probably not meant, one sentence each."""
    return [
        *lease_doubts(settings.leases),
        *_doubts_about_time(settings),
        *_doubts_about_fair_share(settings),
        *power_doubts(settings.power),
        *_doubts_about_images(settings.image_staging, settings.time.backfilling),
        *_doubts_about_victims(settings.victims),
        *_doubts_about_acting(settings),
        *_doubts_about_places(settings),
        *_doubts_about_metrics(settings.metrics.listen),
        *gateway_doubts(settings.gateway, settings.store.url),
    ]


def _doubts_about_fair_share(settings: Settings) -> Iterator[str]:
    given, order = settings.fair_share, settings.queue_order.casefold()
    if given != FairShareSettings() and order in SHIPPED_POLICIES["queue_order"] - {FAIR_SHARE}:
        yield f"fair_share has no effect, because queue_order is {settings.queue_order}, not {FAIR_SHARE}"
    elif given.shares and set(given.shares.values()) == {1.0}:
        yield "fair_share.shares has no effect: all shares in it are 1, as are those of all other groups"
    if order == FAIR_SHARE and settings.time.backfilling.casefold() == "conservative":
        yield (
            "queue_order is fair-share and time.backfilling is conservative: all that wait keep the starts that they "
            "were promised, so whoever has used less only gets what comes free early; choose easy"
        )


def _doubts_about_images(images: ImageStagingSettings, backfilling: str) -> Iterator[str]:
    yield from (f"image_staging.{doubt}" for doubt in transfer_doubts(images.transfer, acts=images.mode == "act"))
    if images.mode == "off" and images.transfer.method != "none":
        yield "image_staging.transfer.method has no effect, because image_staging.mode is off"
    if images.mode == "off" and images.ahead_s is not None:
        yield "image_staging.ahead_s has no effect, because image_staging.mode is off"
    elif images.ahead_s is not None and backfilling.casefold() == "none":
        yield (
            "image_staging.ahead_s is set and time.backfilling is none: nobody in the queue is promised a start, so "
            "images come ahead of slots before a DEADLINE only; choose easy"
        )


def _doubts_about_victims(victims: VictimSettings) -> Iterator[str]:
    if victims.suspend_in_place and not any("suspend" in methods for methods in victims.methods.values()):
        yield "victims.suspend_in_place has no effect: no type of victims.methods lists suspend"
    for name, methods in sorted(victims.methods.items()):
        key = f"victims.methods.{name}"
        if name == NOBODY_LEAVES:
            if methods:
                yield f"{key} has no effect: nobody preempts these leases"
            continue
        if "terminate" in methods and name != "BE-CANCELLABLE":
            yield f"{key} lists terminate, which has no effect: only BE-CANCELLABLE leases may be ended"
        yield from (f"{key} lists {one} twice" for one in sorted(set(methods)) if methods.count(one) > 1)
        if not set(methods) - ({"terminate"} if name != "BE-CANCELLABLE" else set()):
            yield f"{key} lists nothing by which such a lease could leave: none is ever preempted"


def _doubts_about_acting(settings: Settings) -> Iterator[str]:
    """Somebody preempts: who, and is it known what that takes?"""
    if settings.preemption != "act":
        return
    rules, rights = settings.leases.rules, settings.leases.rights
    if not any([rule.may_preempt for rule in rules] + [right.may_preempt for right in rights]):
        yield (
            "preemption is act and nobody may preempt: may_preempt is true in none of leases.rules and leases.rights"
        )
    elif not any((rule.type or NOBODY_LEAVES) != NOBODY_LEAVES for rule in rules) and not any(
        set(right.may_claim) - {NOBODY_LEAVES} for right in rights
    ):
        yield (
            "preemption is act and nobody may be preempted: no entry of leases.rules has a type that can be, and no "
            "may_claim of leases.rights lists one"
        )
    shipped = OverheadSettings()
    if all(getattr(settings.overhead, rate) == getattr(shipped, rate) for rate in _RATES_OF_STORAGE):
        yield (
            "preemption is act and the overhead rates are the shipped ones, from a paper of 2013: by these it takes 43 "
            "minutes to stop a VM of 16 GiB, and prices and reservations are planned with that until enough stops were "
            f"observed; set {', '.join(f'overhead.{rate}' for rate in _RATES_OF_STORAGE)} to what your storage does"
        )


def _doubts_about_places(settings: Settings) -> Iterator[str]:
    matchmaker = settings.matchmaker
    for key, policy, rank in (
        ("host", matchmaker.host_policy.casefold(), matchmaker.host_rank),
        ("datastore", matchmaker.datastore_policy, matchmaker.datastore_rank),
        ("network", matchmaker.network_policy, matchmaker.network_rank),
    ):
        if rank and policy != "custom":
            yield f"matchmaker.{key}_rank has no effect, because matchmaker.{key}_policy is {policy}, not custom"
        elif policy == "custom" and not rank:
            yield f"matchmaker.{key}_policy is custom and matchmaker.{key}_rank is empty: all count as equal"
    if len(os.fsencode(settings.socket.path)) > LONGEST_SOCKET_PATH_BYTES:
        yield (
            f"socket.path is longer than the {LONGEST_SOCKET_PATH_BYTES} bytes that the system takes for a socket: "
            "the daemon goes on without it"
        )


def _doubts_about_metrics(listen: str | None) -> Iterator[str]:
    address = listening_address(listen) if listen is not None else None
    if address is not None and not ipaddress.ip_address(address[0]).is_loopback:
        yield (
            f"metrics.listen {listen}: whoever reaches this port can read the metrics: there are neither passwords nor "
            "encryption; let a firewall keep it for your Prometheus"
        )


def _doubts_about_time(settings: Settings) -> Iterator[str]:
    time, shipped, limits = settings.time, TimeSettings(), settings.limits
    if time.promised_leases != shipped.promised_leases and time.backfilling.casefold() != "intermediate":
        yield f"time.promised_leases has no effect: it is for backfilling intermediate, not {time.backfilling}"
    if time.suspension == "none" and time.least_run_before_suspension_s != shipped.least_run_before_suspension_s:
        yield "time.least_run_before_suspension_s has no effect, because time.suspension is none"
    if time.suspension != "none" and limits.minimum_run_time_s > time.least_run_before_suspension_s:
        yield (
            f"what runs for less than limits.minimum_run_time_s ({limits.minimum_run_time_s} s) is left alone, yet may "
            f"be started {time.least_run_before_suspension_s} s before it is to be suspended: raise "
            "time.least_run_before_suspension_s to at least the same"
        )
    if time.overrun == "preempt" and time.overrun_grace_s != shipped.overrun_grace_s:
        yield "time.overrun_grace_s has no effect, because time.overrun is preempt: room is made once DURATION is over"
    if time.overrun in ("stop", "terminate"):
        yield from (
            f"rule '{rule.name}' gives a duration to VMs whose owners wrote none, and time.overrun is {time.overrun}: "
            "they are made to leave then, though their owners never set an end"
            for rule in settings.leases.rules
            if rule.duration_s is not None
        )
    if time.grace_s >= limits.preemption_timeout_s:
        yield "time.grace_s is not less than limits.preemption_timeout_s: a preemption is given up before anybody left"
