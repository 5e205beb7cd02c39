"""What `check` says of host power: what would be done, whose secrets others can read, which controllers answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from one_preempt.adapters.clock import SystemClock
from one_preempt.adapters.opennebula.host_attributes import HostAttributes
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.adapters.opennebula.xml_document import parse_document
from one_preempt.adapters.power_control.controllers import PASSWORD_ATTRIBUTE
from one_preempt.adapters.power_control.factory import make_power_control
from one_preempt.adapters.power_control.secret import SecretError, read_secret
from one_preempt.chosen_policies import power_rules
from one_preempt.core.energy.power_rules import PowerRules
from one_preempt.core.model.host import Host
from one_preempt.core.model.host_name import HOST_NAME_HINT
from one_preempt.core.model.power import PowerStatus
from one_preempt.entrypoints.cli.host_power import method_of
from one_preempt.entrypoints.cli.set_up import Finding, Grade
from one_preempt.explain import printable
from one_preempt.power_settings import power_doubts
from one_preempt.settings import Settings

SUBJECT = "power"
NAMED_HOSTS = 5
LONGEST_NAME = 60
_PASSWORD_PATH = f"TEMPLATE/{PASSWORD_ATTRIBUTE}"


def judge_power(settings: Settings) -> Finding:
    """What would be done about the power of hosts?"""
    power = settings.power
    doubts = power_doubts(power)
    if doubts:
        return Finding(SUBJECT, Grade.WARN, "; ".join(doubts), "see power in docs/administrator/configure.md")
    if power.mode == "enforce":
        return Finding(SUBJECT, Grade.OK, f"hosts are switched by the policy {power.policy}")
    if power.mode == "advise" and power.hosts:
        text = f"power.mode: advise; what {power.policy} would switch is only logged"
    else:
        text = "no host is switched" + (": power.mode is off" if power.mode == "off" else ", for none is handed over")
    return Finding(SUBJECT, Grade.OK, text)


def judge_power_secrets(settings: Settings) -> Iterator[Finding]:
    """Can each file with a password be read by the daemon, and by nobody else?"""
    control = settings.power.control
    given = [
        control.ipmitool.password_file,
        control.redfish.password_file,
        control.wake_on_lan.secure_on_file,
        *(file for host in control.hosts.values() for file in (host.password_file, host.secure_on_file)),
    ]
    for file in sorted({file for file in given if file is not None}):
        try:
            read_secret(Path(file))
        except SecretError as error:
            yield Finding("power secrets", Grade.FAIL, str(error))


def judge_power_passwords(configuration: bytes, hosts: Iterable[Host]) -> Iterator[Finding]:
    """Does oned, by its one.system.config, keep the passwords of controllers encrypted that its hosts name?"""
    named = parse_document(configuration, [], "one.system.config").iterfind("HOST_ENCRYPTED_ATTR")
    having = [printable(host.name, LONGEST_NAME) for host in hosts if host.attributes.get(_PASSWORD_PATH)]
    if having and PASSWORD_ATTRIBUTE not in {(one.text or "").strip() for one in named}:
        text = f"{PASSWORD_ATTRIBUTE} of {_first_of(having)} stands in plain words in OpenNebula"
        mend = f'write HOST_ENCRYPTED_ATTR = "{PASSWORD_ATTRIBUTE}" into oned.conf, restart oned, and set them anew'
        yield Finding("power secrets", Grade.WARN, text, mend)


def judge_reachable_power(settings: Settings, hosts: Mapping[int, Host], transport: OnedTransport) -> Iterator[Finding]:
    """Does the power control of each host that is handed over tell whether it has power?"""
    if settings.power.mode == "off":
        return
    rules = power_rules(settings.power)
    yield from _misnamed(rules, hosts.values())
    handed_over = [hosts[host_id] for host_id in sorted(hosts) if rules.is_handed_over(hosts[host_id])]
    asked = [host.name for host in handed_over if method_of(settings, host) != "none"]
    if not asked:
        return
    silent = _silent(settings, asked, transport)
    if not silent:
        yield Finding("power control", Grade.OK, f"{len(asked)} of {len(asked)} hosts handed over tell their power")
    for host, why in silent[:NAMED_HOSTS]:
        yield Finding("power control", Grade.FAIL, f"host {host}: {why}", "see power.control, or hand it over no more")
    if len(silent) > NAMED_HOSTS:
        yield Finding("power control", Grade.FAIL, f"{len(silent) - NAMED_HOSTS} more hosts do not tell their power")


def _misnamed(rules: PowerRules, hosts: Iterable[Host]) -> Iterator[Finding]:
    """The hosts that were meant, and are never switched for their names."""
    found = [
        printable(host.name, LONGEST_NAME) for host in hosts if rules.names(host) and not rules.is_handed_over(host)
    ]
    if found:
        text = f"never switched, for their names: {_first_of(found)}"
        yield Finding("power control", Grade.WARN, text, f"a name may have {HOST_NAME_HINT}")


def _first_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_HOSTS} more" if len(names) > NAMED_HOSTS else ""
    return ", ".join(names[:NAMED_HOSTS]) + more


def _silent(settings: Settings, hosts: Sequence[str], transport: OnedTransport) -> list[tuple[str, str]]:
    """Which do not tell, and why."""
    clock = SystemClock()
    with closing(transport.another()) as for_attributes, ThreadPoolExecutor(settings.power.calls_at_once) as threads:
        attributes = HostAttributes(for_attributes, clock)
        control = make_power_control(settings.power.control, clock, attributes.of)
        readings = list(threads.map(control.status, hosts))
    return [
        (host, reading.outcome.text)
        for host, reading in zip(hosts, readings, strict=True)
        if reading.status is PowerStatus.UNKNOWN
    ]
