"""From the configuration to one `PowerControl`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from one_preempt.adapters.power_control.advice_only import AdviceOnlyPowerControl
from one_preempt.adapters.power_control.by_host import PowerControlByHost
from one_preempt.adapters.power_control.command import CommandPowerControl
from one_preempt.adapters.power_control.controllers import AttributesOf, Controllers, UsualLogin, no_attributes
from one_preempt.adapters.power_control.guarded import GuardedPowerControl
from one_preempt.adapters.power_control.ipmitool import IpmitoolPowerControl
from one_preempt.adapters.power_control.redfish import RedfishPowerControl
from one_preempt.adapters.power_control.unshared import HostsWith, UnsharedPowerControl, no_others
from one_preempt.adapters.power_control.wake_on_lan import WakeOnLanPowerControl
from one_preempt.configuration.power_control_settings import Method, PowerControlSettings, faults
from one_preempt.errors import OnePreemptError
from one_preempt.ports import Clock, PowerControl


def make_power_control(
    settings: PowerControlSettings,
    clock: Clock,
    attributes_of: AttributesOf = no_attributes,
    hosts_with: HostsWith = no_others,
) -> GuardedPowerControl:
    """The control that the configuration asks for, with its patience.

    `attributes_of` gives the template attributes of a host by its name, decrypted; `hosts_with` all hosts among which
    that one is. Both may raise `CloudUnavailable`. Raises `OnePreemptError` where the configuration cannot be used.
    """
    found = faults(settings)
    if found:
        raise OnePreemptError(f"power.control.{found[0]}")
    controls = {method: _makers(settings, attributes_of)[method]() for method in sorted(settings.methods)}
    named = {name: controls[host.method] for name, host in settings.hosts.items() if host.method is not None}
    control = PowerControlByHost(controls[settings.method], named)
    return GuardedPowerControl(UnsharedPowerControl(control, settings, hosts_with), clock, settings.patience)


def _makers(settings: PowerControlSettings, attributes_of: AttributesOf) -> Mapping[Method, Callable[[], PowerControl]]:
    ipmi, redfish = settings.ipmitool, settings.redfish
    return {
        "none": AdviceOnlyPowerControl,
        "ipmitool": lambda: IpmitoolPowerControl(
            Controllers(UsualLogin(ipmi.address, ipmi.user, ipmi.password_file), settings.hosts, attributes_of), ipmi
        ),
        "redfish": lambda: RedfishPowerControl(
            Controllers(
                UsualLogin(redfish.endpoint, redfish.user, redfish.password_file, redfish.system),
                settings.hosts,
                attributes_of,
            ),
            redfish,
        ),
        "wake-on-lan": lambda: WakeOnLanPowerControl(settings.wake_on_lan, settings.hosts, attributes_of),
        "command": lambda: CommandPowerControl(settings.command),
    }
