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
from one_preempt.adapters.power_control.authorities import authorities_fault
from one_preempt.adapters.power_control.controllers import PASSWORD_ATTRIBUTE
from one_preempt.adapters.power_control.factory import make_power_control
from one_preempt.adapters.power_control.secret import SecretError, read_secret
from one_preempt.configuration.chosen_policies import power_rules
from one_preempt.configuration.power_settings import power_doubts
from one_preempt.configuration.settings import Settings
from one_preempt.core.energy.power_rules import PowerRules
from one_preempt.core.model.host import Host
from one_preempt.core.model.host_name import HOST_NAME_HINT
from one_preempt.core.model.power import PowerStatus
from one_preempt.core.model.power_standing import PowerAttempt
from one_preempt.core.model.written_time import utc_text
from one_preempt.entrypoints.cli.host_power import PowerView, method_of, power_view
from one_preempt.entrypoints.cli.set_up import NAMED, Finding, Grade, first_of
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import printable

SUBJECT = "power"
LONGEST_NAME = 60
_PASSWORD_PATH = f"TEMPLATE/{PASSWORD_ATTRIBUTE}"


def judge_power(settings: Settings) -> Finding:
    """What would be done about the power of hosts?"""
    power = settings.power
    doubts = power_doubts(power)
    if doubts:
        return Finding(SUBJECT, Grade.WARN, "; ".join(doubts), "see docs/administrator/configure-power.md")
    if power.mode == "enforce":
        return Finding(SUBJECT, Grade.OK, f"hosts are switched by the policy {power.policy}")
    if power.mode == "advise" and power.hosts:
        text = f"power.mode: advise; what {power.policy} would switch is only logged"
    else:
        text = "no host is switched" + (
            ": power.mode is off" if power.mode == "off" else ", because none is handed over"
        )
    return Finding(SUBJECT, Grade.OK, text)


def judge_power_secrets(settings: Settings) -> Iterator[Finding]:
    """Can each file with a password be read by the daemon, and by nobody else, and can the certificates be used?"""
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
    redfish = control.redfish
    if redfish.ca_file is not None and redfish.verify_tls and (fault := authorities_fault(redfish.ca_file)):
        yield Finding("power control", Grade.FAIL, f"redfish.ca_file {redfish.ca_file} {fault}")


def judge_power_passwords(configuration: bytes, hosts: Iterable[Host]) -> Iterator[Finding]:
    """Does oned, by its one.system.config, keep the passwords of controllers encrypted that its hosts name?"""
    named = parse_document(configuration, [], "one.system.config").iterfind("HOST_ENCRYPTED_ATTR")
    having = [printable(host.name, LONGEST_NAME) for host in hosts if host.attributes.get(_PASSWORD_PATH)]
    if having and PASSWORD_ATTRIBUTE not in {(one.text or "").strip() for one in named}:
        text = f"{PASSWORD_ATTRIBUTE} of {_first_of(having)} is stored unencrypted in OpenNebula"
        mend = f'write HOST_ENCRYPTED_ATTR = "{PASSWORD_ATTRIBUTE}" into oned.conf, restart oned, and set them anew'
        yield Finding("power secrets", Grade.WARN, text, mend)


def judge_reachable_power(settings: Settings, hosts: Mapping[int, Host], transport: OnedTransport) -> Iterator[Finding]:
    """Does the power control of each host that is handed over tell whether it has power?"""
    if settings.power.mode == "off":
        return
    view = _power_view(settings, hosts)
    handed_over = [hosts[host_id] for host_id in sorted(hosts) if host_id in view.handed_over]
    switched = [host for host in handed_over if method_of(settings, host) != "none"]
    # A controller that refused our password of late may lock the account: it is left alone here, too.
    asked = [host.name for host in switched if PowerAttempt.LOGIN not in {one.attempt for one in view.pauses(host)}]
    silent = _silent(settings, asked, transport) if asked else []
    if asked and not silent:
        yield Finding(
            "power control", Grade.OK, f"{len(asked)} of {len(switched)} hosts handed over report their power"
        )
    # Most answers name their host first.
    texts = [f"host {host}: {why.removeprefix(f'{host}: ')}" for host, why in silent]
    mend = "see power.control, or take it out of power.hosts"
    found = [Finding("power control", Grade.FAIL, text, mend) for text in texts]
    yield from first_of(found, "more hosts do not report their power")


def judge_power_of_hosts(settings: Settings, hosts: Mapping[int, Host]) -> Iterator[Finding]:
    """Does what is written of hosts mean any, which of them do not obey, and which are gone and without power?"""
    view = _power_view(settings, hosts)
    yield from _left_unpowered(view, hosts)
    if settings.power.mode == "off":
        return
    yield from _meaning_nobody(settings, hosts.values())
    yield from _misnamed(view.rules, hosts.values())
    if view.handed_over and view.rules.floor >= len(view.handed_over):
        text = f"power.floor: {view.rules.floor} keeps all {len(view.handed_over)} hosts handed over on"
        yield Finding(SUBJECT, Grade.WARN, text, "none of them ever sleeps: lower it, or hand over more")
    if view.paused and view.handed_over:
        yield Finding(SUBJECT, Grade.WARN, "power actions are paused: no host is switched", "one-preempt resume")
    left_alone = [_left_alone(view, host) for host in hosts.values() if view.is_left_alone(host)]
    more = "more hosts did not obey, and are left alone for a while"
    yield from first_of(left_alone, more, "one-preempt host list")


def _left_alone(view: PowerView, host: Host) -> Finding:
    name = printable(host.name, LONGEST_NAME)
    mend = f"when mended: one-preempt host on {name}"
    return Finding(SUBJECT, Grade.WARN, f"host {name}: {view.words(host)[1]}", mend)


def _left_unpowered(view: PowerView, hosts: Mapping[int, Host]) -> Iterator[Finding]:
    mend = "by its controller or its button; then onehost create, or leave it: it is named for store.keep_log_days"
    texts = [
        f"host {printable(one.host_name, LONGEST_NAME)}, {utc_text(one.since_s)}: {one.reason_text}"
        for one in view.left_unpowered(hosts.values())
    ]
    found = [Finding(SUBJECT, Grade.WARN, text, mend) for text in texts]
    yield from first_of(found, "more hosts were deleted and may be without power", "one-preempt host list")


def _power_view(settings: Settings, hosts: Mapping[int, Host]) -> PowerView:
    """What is known of them; the configuration alone, where the database cannot be read, which is told elsewhere."""
    try:
        return power_view(settings, hosts)
    except OnePreemptError:
        rules = power_rules(settings.power)
        return PowerView(rules, frozenset(host.id for host in hosts.values() if rules.is_handed_over(host)))


def _meaning_nobody(settings: Settings, hosts: Iterable[Host]) -> Iterator[Finding]:
    """Names and patterns of the configuration for which there is no host."""
    hosts = list(hosts)
    for given, pattern in zip(settings.power.hosts, power_rules(settings.power).handed_over, strict=True):
        if not any(pattern.matches(host) for host in hosts):
            text = f"power.hosts matches none of the {len(hosts)} hosts: host {given.host!r}, cluster {given.cluster!r}"
            yield Finding(SUBJECT, Grade.WARN, text, "one-preempt host list shows their names")
    named = settings.power.control.hosts.keys() - {host.name for host in hosts}
    unknown = [printable(name, LONGEST_NAME) for name in sorted(named)]
    if unknown:
        text = f"power.control.hosts names what is no host: {_first_of(unknown)}"
        yield Finding(SUBJECT, Grade.WARN, text, "one-preempt host list shows their names")


def _misnamed(rules: PowerRules, hosts: Iterable[Host]) -> Iterator[Finding]:
    """The hosts that were meant, and are never switched for their names."""
    found = [
        printable(host.name, LONGEST_NAME) for host in hosts if rules.names(host) and not rules.is_handed_over(host)
    ]
    if found:
        text = f"never switched, for their names: {_first_of(found)}"
        yield Finding("power control", Grade.WARN, text, f"a name may have {HOST_NAME_HINT}")


def _first_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _silent(settings: Settings, hosts: Sequence[str], transport: OnedTransport) -> list[tuple[str, str]]:
    """Which do not tell, and why."""
    clock = SystemClock()
    with closing(transport.another()) as for_attributes, ThreadPoolExecutor(settings.power.calls_at_once) as threads:
        attributes = HostAttributes(for_attributes, clock, power_rules(settings.power).hands_over)
        control = make_power_control(settings.power.control, clock, attributes.of, attributes.hosts_with)
        readings = list(threads.map(control.status, hosts))
    return [
        (host, reading.outcome.text)
        for host, reading in zip(hosts, readings, strict=True)
        if reading.status is PowerStatus.UNKNOWN
    ]
