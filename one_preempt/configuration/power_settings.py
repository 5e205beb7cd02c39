"""What the configuration says about power: its section `power`. Values are checked here, once.

Which hosts may sleep and who decides it; how they are switched is in `power_control_settings`.
"""

from __future__ import annotations

from typing import Annotated, Literal
from zoneinfo import available_timezones

import msgspec

from one_preempt.configuration.power_control_settings import Count, PowerControlSettings, Span, doubts, faults
from one_preempt.configuration.section import Section

Watts = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
Factor = Annotated[float, msgspec.Meta(ge=0.01, le=1e6)]
DayTimes = Annotated[str, msgspec.Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]\Z")]
Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class HandedOverSettings(Section, frozen=True):
    """Hosts that may be switched on and off: shell patterns of their name and of their cluster's."""

    host: Pattern = "*"
    cluster: Pattern = "*"


class HostPowerSettings(Section, frozen=True):
    """What hosts draw, in watts, and how long they take. `curve_w`: powers at even steps from idle to full use.

    Without a curve `idle_w` and `peak_w` count; while it boots a host is taken to draw the latter, while it shuts down
    the former, if nothing else is given.
    """

    idle_w: Watts = 117.0
    peak_w: Watts = 117.0
    curve_w: Annotated[tuple[Watts, ...], msgspec.Meta(max_length=101)] = ()
    boot_s: Whole = 120
    boot_w: Watts | None = None
    shutdown_s: Whole = 0
    shutdown_w: Watts | None = None
    off_w: Watts = 0.0


class PowerModelSettings(HostPowerSettings, frozen=True):
    """The power of the hosts that match."""

    host: Pattern = "*"
    cluster: Pattern = "*"


class PowerSettings(Section, frozen=True):
    """Host power. As shipped no host is handed over, and what would be done is only said."""

    mode: Literal["off", "advise", "enforce"] = "advise"
    policy: str = "look-ahead"
    waiting_factor: Factor = 5.0
    promised_wait_s: Span | None = None
    period_s: Span = 300
    hosts: tuple[HandedOverSettings, ...] = ()
    floor: Whole = 1
    most_booting: Count = 4
    boot_timeout_s: Span = 900
    shutdown_timeout_s: Span = 600
    emptying_timeout_s: Span = 3600
    first_pause_s: Span = 300
    longest_pause_s: Span = 86400
    least_on_s: Whole = 600
    least_off_s: Whole = 300
    enable_after_s: Whole | None = None
    asleep_reading_s: Whole = 300
    quiet_hours: tuple[DayTimes, ...] = ()
    time_zone: str = "UTC"
    calls_at_once: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    model: HostPowerSettings = HostPowerSettings()
    models: tuple[PowerModelSettings, ...] = ()
    control: PowerControlSettings = PowerControlSettings()


def power_faults(settings: PowerSettings) -> list[str]:
    """What cannot be used, one sentence each that names the key and the mend."""
    found = [f"power.control.{fault}" for fault in faults(settings.control)]
    models = {"model": settings.model} | {f"models[{place}]": one for place, one in enumerate(settings.models)}
    for key, model in models.items():
        steps = len(model.curve_w) - 1
        if model.curve_w and (steps < 1 or 100 % steps):
            found.append(
                f"power.{key}.curve_w has {len(model.curve_w)} powers, which do not divide 0 to 100 % into steps of "
                "whole per cent: give 2, 3, 5, 6, 11, 21, 26, 51 or 101"
            )
        elif model.curve_w and model.curve_w[-1] < model.curve_w[0]:
            found.append(f"power.{key}.curve_w falls: write it from idle to full use")
        elif not model.curve_w and model.peak_w < model.idle_w:
            found.append(f"power.{key}: peak_w ({model.peak_w:g}) is below idle_w ({model.idle_w:g}): exchange them")
    if settings.longest_pause_s < settings.first_pause_s:
        found.append("power.longest_pause_s is below power.first_pause_s: raise it")
    if settings.time_zone != "UTC" and settings.time_zone not in available_timezones():
        found.append(f"power.time_zone '{settings.time_zone}' is unknown here: write one such as Europe/Berlin")
    longest_boot_s = max(model.boot_s for model in models.values())
    if settings.boot_timeout_s <= max(longest_boot_s, settings.enable_after_s or 0):
        found.append(
            f"power.boot_timeout_s ({settings.boot_timeout_s}) must be above boot_s ({longest_boot_s}) and "
            "enable_after_s: no host could come up in time"
        )
    return found


# MONITORING_INTERVAL_HOST of monitord.conf as shipped: so long a host in ERROR is not looked at again.
ONEDS_SECOND_LOOK_S = 180


def power_doubts(settings: PowerSettings) -> list[str]:
    """What can be used and yet is probably not meant, one sentence each."""
    found = [f"power.control.{doubt}" for doubt in doubts(settings.control)]
    if settings.mode == "enforce" and not settings.hosts:
        found.append("power.mode is enforce and power.hosts hands no host over: nothing is switched")
    if settings.mode == "enforce" and settings.hosts and settings.control.methods == {"none"}:
        found.append("power.mode is enforce and power.control.method is none: no host can be switched")
    longest_boot_s = max(model.boot_s for model in (settings.model, *settings.models))
    enabled_s = longest_boot_s if settings.enable_after_s is None else settings.enable_after_s
    if settings.hosts and settings.boot_timeout_s <= enabled_s + ONEDS_SECOND_LOOK_S:
        found.append(
            f"power.boot_timeout_s ({settings.boot_timeout_s}) is not above {enabled_s + ONEDS_SECOND_LOOK_S}: a host "
            f"that does not answer yet when it is enabled, {enabled_s} s after the order, is looked at by OpenNebula "
            f"again after {ONEDS_SECOND_LOOK_S} s only (MONITORING_INTERVAL_HOST), and may have its power cut though "
            "it is up"
        )
    found += [
        f"power.quiet_hours: '{times}' lasts all day: nothing ever begins to be switched"
        for times in settings.quiet_hours
        if times[:5] == times[6:]
    ]
    return found
