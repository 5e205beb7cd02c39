"""The section power: what is refused in one clear message, what is doubtful, and what it means to the core."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from one_preempt.configuration.chosen_policies import policies, power_rules
from one_preempt.configuration.doubts import doubts
from one_preempt.configuration.settings import Settings, SettingsError, parse_settings
from one_preempt.core import energy
from one_preempt.core.energy.pemp import PreemptionAware
from one_preempt.core.energy.power_rules import PowerMode, PowerRules
from one_preempt.policy_registry import ENERGY_POLICIES, UnknownPolicy
from tests.core.recounted_cluster import host


def rules_of(text: str) -> PowerRules:
    return power_rules(parse_settings(f"power: {{{text}}}", "one_preempt.conf").power)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mode: act", "power.mode: unknown word 'act'; there are: advise, enforce, off"),
        ("mode: on", "power.mode: unknown word 'on'; there are: advise, enforce, off"),
        ("policy: greedy", "power.policy: no energy policy is named 'greedy'; there are: GESP, PEMP, SESP, always-on"),
        (
            "control: {hosts: {n1: {method: ipmi}}}",
            "power.control.hosts[...].method: unknown word 'ipmi'; there are: command, ipmitool, none, redfish",
        ),
        ("quiet_hours: ['25:00-06:00']", "power.quiet_hours"),
        ("time_zone: Mars/Olympus", "power.time_zone 'Mars/Olympus' is unknown"),
        ("boot_timeout_s: 100", "power.boot_timeout_s (100) must be above boot_s (120)"),
        ("models: [{host: a, boot_s: 1000}]", "must be above boot_s (1000)"),
        ("first_pause_s: 600, longest_pause_s: 300", "power.longest_pause_s is below power.first_pause_s"),
        ("model: {idle_w: 200, peak_w: 100}", "power.model: peak_w (100) is below idle_w (200)"),
        ("models: [{curve_w: [1, 2, 3, 4]}]", "power.models[0].curve_w has 4 powers"),
        ("models: [{curve_w: [300, 200, 100]}]", "power.models[0].curve_w falls"),
        ("most_booting: 0", "power.most_booting"),
        ("control: {patience: {first_pause_s: 900, longest_pause_s: 10}}", "patience.longest_pause_s is below"),
        ('control: {ipmitool: {address: "bmc\\n"}}', "power.control.ipmitool.address"),
        ('control: {ipmitool: {user: "admin\\n"}}', "power.control.ipmitool.user"),
        ('control: {hosts: {"node1\\n": {method: ipmitool}}}', "power.control.hosts"),
        ("hosts: [{hostname: a}]", "unknown key"),
        ("control: {method: command}", "power.control.command.on is missing"),
        ("control: {redfish: {endpoint: 'http://bmc'}}", "power.control.redfish.endpoint must begin with https"),
    ],
)
def test_what_cannot_be_used_is_one_message_that_names_the_key(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        parse_settings(f"power: {{{text}}}", "one_preempt.conf")
    assert message.casefold() in str(raised.value).casefold()
    assert str(raised.value).startswith("one_preempt.conf")
    assert "\n" not in str(raised.value)


def test_an_energy_policy_that_is_none_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownPolicy, match="no energy policy is named 'greedy'; there are: GESP"):
        ENERGY_POLICIES.named("greedy")
    assert rules_of("policy: pemp").policy.name == "PEMP"
    assert {"always-on", "GESP", "look-ahead", "PEMP", "SESP"} <= set(ENERGY_POLICIES.all())
    assert ENERGY_POLICIES.named("gesp").name == "GESP"


def test_on_and_off_are_words() -> None:
    assert rules_of("mode: off").mode is PowerMode.OFF
    vectors = "control: {method: command, command: {on: [/bin/x], off: [/bin/y], status: [/bin/z]}}"
    assert parse_settings(f"power: {{{vectors}}}", "f").power.control.command.off == ("/bin/y",)


def test_as_shipped_no_host_is_handed_over_and_advice_is_given() -> None:
    rules = policies(Settings()).power
    assert (rules.mode, rules.handed_over, rules.policy.name) == (PowerMode.ADVISE, (), "look-ahead")
    assert not rules.is_handed_over(host(0))
    assert not doubts(Settings())


def test_enforcing_without_hosts_or_without_control_is_doubtful() -> None:
    enforced = parse_settings("power: {mode: enforce}", "f")
    assert any("hands no host over" in doubt for doubt in doubts(enforced))
    handed = parse_settings("power: {mode: enforce, hosts: [{host: 'node*'}]}", "f")
    assert any("power.control.method is none" in doubt for doubt in doubts(handed))


@pytest.mark.parametrize(("timing", "is_doubtful"), [
    ("boot_timeout_s: 300, model: {boot_s: 120}", True),
    ("boot_timeout_s: 301, model: {boot_s: 120}", False),
    ("boot_timeout_s: 301, model: {boot_s: 60}, models: [{host: 'node9', boot_s: 150}]", True),
    ("boot_timeout_s: 241, enable_after_s: 60, model: {boot_s: 200}", False),
])  # fmt: skip
def test_a_boot_that_is_given_up_before_oned_looks_twice_is_doubtful(timing: str, is_doubtful: bool) -> None:
    told = doubts(parse_settings(f"power: {{hosts: [{{host: 'node*'}}], {timing}}}", "f"))
    assert any("MONITORING_INTERVAL_HOST" in doubt for doubt in told) is is_doubtful
    nobody = doubts(parse_settings(f"power: {{{timing}}}", "f"))
    assert not any("MONITORING_INTERVAL_HOST" in doubt for doubt in nobody)


def test_programs_that_are_told_no_host_or_cannot_cut_its_power_are_doubtful() -> None:
    vectors = "on: [/bin/on, '{host}'], off: [/bin/off], status: [/bin/status, '-h{host}']"
    told = doubts(parse_settings(f"power: {{control: {{method: command, command: {{{vectors}}}}}}}", "f"))
    assert [doubt.split(" ")[0] for doubt in told] == ["power.control.command.off", "power.control.command.hard_off"]
    vectors += ", hard_off: [/bin/cut, '{host}']"
    unused = parse_settings(f"power: {{control: {{method: none, command: {{{vectors}}}}}}}", "f")
    assert not doubts(unused)


def test_hours_that_end_when_they_begin_are_doubtful_for_they_last_all_day() -> None:
    (doubt,) = doubts(parse_settings("power: {quiet_hours: ['22:00-06:00', '07:00-07:00']}", "f"))
    assert "'07:00-07:00' lasts all day" in doubt


def test_hosts_are_handed_over_by_both_patterns() -> None:
    rules = rules_of("hosts: [{host: 'host-[01]', cluster: default}, {cluster: batch}]")
    assert [rules.is_handed_over(host(number)) for number in range(3)] == [True, True, False]


def test_the_first_model_that_matches_counts() -> None:
    rules = rules_of("model: {idle_w: 50, peak_w: 60}, models: [{host: host-1, curve_w: [90, 350], boot_s: 240}]")
    assert rules.power_of(host(0)).curve.idle_mw == 50_000
    big = rules.power_of(host(1))
    assert (big.curve.peak_mw, big.boot_mw, big.shutdown_mw, big.boot_s) == (350_000, 350_000, 90_000, 240)


def test_alpha_and_mawt_reach_the_policy() -> None:
    policy = rules_of("policy: pemp, waiting_factor: 2.5, promised_wait_s: 600").policy
    assert isinstance(policy, PreemptionAware)
    assert (policy.waiting_factor, policy.promised_wait_s) == (Fraction(5, 2), 600)


PATIENT = """
from msgspec.structs import replace
from one_preempt.core.energy.always_on import AlwaysOn

class Patient(AlwaysOn, frozen=True):
    name: str = "patient"
    promise: tuple = ()

    def with_promise(self, waiting_factor, promised_wait_s):
        return replace(self, promise=(waiting_factor, promised_wait_s))

POLICY = Patient()
"""


def test_alpha_and_mawt_reach_a_policy_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "__path__", [*energy.__path__, str(tmp_path)])
    (tmp_path / "zz_patient.py").write_text(PATIENT)
    policy = rules_of("policy: patient, waiting_factor: 2.5, promised_wait_s: 600").policy
    assert getattr(policy, "promise", None) == (Fraction(5, 2), 600)


def test_quiet_hours_are_told_in_their_zone() -> None:
    rules = rules_of("quiet_hours: ['22:00-06:00'], time_zone: Asia/Tokyo")
    assert rules.is_quiet(14 * 3600)  # 23:00 in Tokyo
    assert not rules.is_quiet(22 * 3600)  # 07:00 there
