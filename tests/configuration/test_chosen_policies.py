"""From the words of the configuration to the rules about time and rights."""

from __future__ import annotations

import msgspec
import pytest

from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.configuration.doubts import doubts
from one_preempt.configuration.lease_settings import LeaseRuleSettings, MatchSettings, RightsSettings
from one_preempt.configuration.section import Section
from one_preempt.configuration.settings import (
    LimitSettings,
    Settings,
    SettingsError,
    TimeSettings,
    VictimSettings,
    parse_settings,
)
from one_preempt.core.admission.rules import GroupRights, LeaseRule, VmMatch
from one_preempt.core.backfilling import intermediate
from one_preempt.core.model.lease import LeaseType, PreemptionMethod
from one_preempt.core.model.modes_and_limits import EnactmentLimits, PreemptionLimits, VictimRules
from one_preempt.core.model.owner_use import UseRules
from one_preempt.core.model.time_rules import Exclusion, Overrun, RefusedReservation, Suspension, TimeRules
from one_preempt.core.policies import Policies
from one_preempt.core.queue_order.fair_share import POLICY as FAIR_SHARE
from one_preempt.core.queue_order.fair_share import FairShare
from one_preempt.policy_registry import BACKFILLING_POLICIES


def chosen(text: str) -> Policies:
    return policies(parse_settings(text, "here"))


def test_the_shipped_configuration_gives_the_rules_their_own_defaults() -> None:
    assert policies(Settings()).time == TimeRules()
    assert policies(Settings()).backfilling is BACKFILLING_POLICIES.named("easy")


def test_every_key_about_time_reaches_the_core() -> None:
    written = {
        "suspension": "serial-only",
        "least_run_before_suspension_s": 1,
        "refused_reservation": "queue",
        "overrun": "terminate",
        "overrun_grace_s": 2,
        "grace_s": 3,
        "preparation_margin_s": 4,
        "exclusion": "host",
    }
    rules = policies(Settings(time=msgspec.convert(written, TimeSettings))).time
    assert msgspec.structs.asdict(rules) == written
    elsewhere = {"backfilling", "promised_leases"}
    assert set(written) == {field.name for field in msgspec.structs.fields(TimeSettings)} - elsewhere


@pytest.mark.parametrize(
    ("kind", "section"),
    [
        (PreemptionLimits, LimitSettings),
        (EnactmentLimits, LimitSettings),
        (VictimRules, VictimSettings),
        (LeaseRule, LeaseRuleSettings),
        (VmMatch, MatchSettings),
        (GroupRights, RightsSettings),
    ],
)
def test_what_goes_by_its_name_has_a_key_of_that_name(kind: type[msgspec.Struct], section: type[Section]) -> None:
    assert set(kind.__struct_fields__) - {"max_share_percent"} <= set(section.__struct_fields__)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("suspension", Suspension),
        ("refused_reservation", RefusedReservation),
        ("overrun", Overrun),
        ("exclusion", Exclusion),
    ],
)
def test_every_word_of_the_core_may_be_written(key: str, words: type[Suspension]) -> None:
    for word in words:
        assert getattr(chosen(f"time: {{{key}: {word}}}").time, key) is word
    with pytest.raises(SettingsError, match=rf"time\.{key}"):
        parse_settings(f"time: {{{key}: sometimes}}", "here")


def test_the_backfilling_policy_is_chosen_by_name_and_intermediate_has_its_number() -> None:
    for name, policy in BACKFILLING_POLICIES.all().items():
        assert chosen(f"time: {{backfilling: {name}}}").backfilling == policy
    assert chosen("time: {backfilling: intermediate, promised_leases: 7}").backfilling == intermediate.with_promises(7)
    assert chosen("time: {promised_leases: 7}").backfilling is BACKFILLING_POLICIES.named("easy")
    with pytest.raises(SettingsError, match="no backfilling policy is named 'bold'; there are: conservative, easy"):
        chosen("time: {backfilling: bold}")
    with pytest.raises(SettingsError, match="promised_leases"):
        parse_settings("time: {promised_leases: 0}", "here")


def test_rights_and_rules_about_time_reach_the_core() -> None:
    rules = admission_rules(
        parse_settings(
            """
            leases:
              rules:
                - {name: short, match: {group: web}, duration_s: 600}
                - {name: jobs, match: {group: jobs}, type: BE-SUSPENDABLE, duration_s: 7200, max_suspensions: 2}
              rights:
                - {name: half, group: a, max_share: 0.5, most_suspensions: 4, least_max_suspensions: 4}
                - {name: third, group: b, max_share: 0.335}
                - {name: whole, group: c, max_share: 1}
                - {name: unbounded, group: d}
            """,
            "here",
        )
    )
    assert [rights.max_share_percent for rights in rules.rights] == [50, 34, 100, None]
    assert [rights.most_suspensions for rights in rules.rights] == [4, None, None, None]
    given = [(rule.terms.type, rule.terms.duration_s, rule.terms.max_suspensions) for rule in rules.rules]
    assert given == [(LeaseType.DC_NON_PREEMPTABLE, 600, None), (LeaseType.BE_SUSPENDABLE, 7200, 2)]


@pytest.mark.parametrize("share", ["0", "0.009", "1.01", "-0.5", "25", "half"])
def test_a_share_is_a_fraction_of_the_cloud(share: str) -> None:
    with pytest.raises(SettingsError, match=r"leases\.rights\[0\]\.max_share: expected"):
        parse_settings(f"leases: {{rights: [{{name: r, group: g, max_share: {share}}}]}}", "here")


def test_bounds_that_cross_are_refused() -> None:
    rights = "{name: r, group: g, least_max_suspensions: 3, most_suspensions: 2}"
    with pytest.raises(SettingsError, match=r"'r': least_max_suspensions \(3\) is above most_suspensions \(2\)"):
        parse_settings(f"leases: {{rights: [{rights}]}}", "here")


# -- doubts ----------------------------------------------------------------------------------------------

DOUBTFUL = {
    "promises of another policy": ("time: {promised_leases: 9}", "intermediate, not easy"),
    "a threshold for nothing": (
        "time: {suspension: none, least_run_before_suspension_s: 60}",
        "least_run_before_suspension_s has no effect",
    ),
    "started to be spared": ("limits: {minimum_run_time_s: 900}", "limits.minimum_run_time_s (900 s)"),
    "a grace for nothing": ("time: {overrun: preempt, overrun_grace_s: 60}", "overrun_grace_s has no effect"),
    "an end that nobody wrote": (
        "time: {overrun: terminate}\nleases: {rules: [{name: web, match: {group: w}, duration_s: 600}]}",
        "rule 'web' gives a duration to VMs whose owners wrote none",
    ),
    "a warning that outlives the preemption": (
        "time: {grace_s: 600}\nlimits: {preemption_timeout_s: 600}",
        "time.grace_s is not less than limits.preemption_timeout_s",
    ),
    "a guard without an end": (
        "leases: {rules: [{name: jobs, match: {group: j}, type: BE-SUSPENDABLE, max_suspensions: 2}]}",
        "rule 'jobs': max_suspensions has no effect without duration_s",
    ),
    "a right that bounds no reservation": (
        "leases: {rights: [{name: r, group: g, may_claim: [BE-SUSPENDABLE]}]}",
        "right 'r' does not limit reservations",
    ),
    "metrics for everybody": ("metrics: {listen: '0.0.0.0:9640'}", "whoever reaches this port can read the metrics"),
    "metrics for a network": ("metrics: {listen: '[2001:db8::1]:9640'}", "let a firewall keep it"),
    "a share of nothing": (
        "leases: {rights: [{name: r, group: g, max_share: 0.5, max_ahead_s: 0}]}",
        "right 'r': max_share has no effect",
    ),
    "shares in another order": (
        "fair_share: {shares: {a: 2}}",
        "fair_share has no effect, because queue_order is user-priority",
    ),
    "the same share for all": (
        "{queue_order: fair-share, fair_share: {shares: {a: 1, b: 1.0}}}",
        "all shares in it are 1",
    ),
    "shares, and starts that are kept": (
        "{queue_order: fair-share, time: {backfilling: conservative}}",
        "queue_order is fair-share and time.backfilling is conservative: all that wait keep the starts",
    ),
}


@pytest.mark.parametrize(("text", "told"), DOUBTFUL.values(), ids=DOUBTFUL.keys())
def test_what_is_probably_not_meant_is_said(text: str, told: str) -> None:
    (doubt,) = doubts(parse_settings(text, "here"))
    assert told in doubt


@pytest.mark.parametrize(
    "text",
    [
        "",
        "time: {backfilling: Intermediate, promised_leases: 9}",
        "time: {suspension: none}\nlimits: {minimum_run_time_s: 900}",
        "time: {least_run_before_suspension_s: 900}\nlimits: {minimum_run_time_s: 900}",
        "time: {overrun: stop, overrun_grace_s: 60}",
        "time: {overrun_grace_s: 60}",
        "time: {overrun: preempt}\nleases: {rules: [{name: web, match: {group: w}, duration_s: 600}]}",
        "leases: {rules: [{name: j, match: {group: j}, type: DC-MIGRATABLE, max_suspensions: 2}]}",
        "leases: {rules: [{name: j, match: {group: j}, type: BE-SUSPENDABLE, duration_s: 9, max_suspensions: 2}]}",
        "metrics: {listen: '127.0.0.1:9640'}",
        "metrics: {listen: '[::1]:9640'}",
        "leases: {rights: [{name: r, group: g, max_share: 0.5}]}",
        "leases: {rights: [{name: r, group: g, max_ahead_s: 0}]}",
    ],
)
def test_what_may_well_be_meant_is_not_doubted(text: str) -> None:
    assert doubts(parse_settings(text, "here")) == []


# -- suspending in place ---------------------------------------------------------------------------------


def test_suspending_in_place_is_off_as_shipped() -> None:
    shipped = policies(Settings()).victims
    assert not shipped.suspend_in_place
    assert not any(PreemptionMethod.SUSPEND in methods for methods in shipped.methods.values())


def test_suspending_in_place_is_listed_and_allowed() -> None:
    text = "victims: {suspend_in_place: true, methods: {BE-SUSPENDABLE: [suspend, stop]}}"
    rules = chosen(text).victims
    assert rules.suspend_in_place
    assert rules.methods[LeaseType.BE_SUSPENDABLE] == (PreemptionMethod.SUSPEND, PreemptionMethod.STOP)
    assert doubts(parse_settings(text, "here")) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("victims: {methods: {BE-SUSPENDABLE: [suspend]}}", "set victims.suspend_in_place to true"),
        ("victims: {suspend_in_place: true, methods: {BE-CANCELLABLE: [suspend]}}", "for BE-SUSPENDABLE and DC-MIG"),
    ],
)
def test_suspending_in_place_by_half_is_refused(text: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        parse_settings(text, "here")


def test_allowing_what_nobody_lists_is_doubted() -> None:
    assert "has no effect" in doubts(parse_settings("victims: {suspend_in_place: true}", "here"))[0]


def test_fair_share_has_its_half_life_its_shares_and_what_counts() -> None:
    text = "{queue_order: Fair-Share, fair_share: {half_life_days: 0.5, counts: cpu, shares: {a: 2, '104': 0.25}}}"
    order = chosen(text).queue_order
    assert isinstance(order, FairShare)
    assert order.measures == UseRules(43_200, counts_memory=False)
    assert order.shares_milli == {"a": 2000, "104": 250}
    assert chosen("queue_order: fair-share").queue_order == FAIR_SHARE


def test_fair_share_as_it_is_meant_leaves_no_doubt() -> None:
    assert doubts(parse_settings("{queue_order: fair-share, fair_share: {shares: {a: 3, b: 1}}}", "here")) == []
