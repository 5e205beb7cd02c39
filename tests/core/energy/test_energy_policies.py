"""Every energy policy keeps to what there is; and each answers as its paper says."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core import energy
from one_preempt.core.energy import always_on, gesp, look_ahead, pemp, sesp
from one_preempt.core.energy.fuzzy.engine import FuzzyEngine, Rule, TriangularSet
from one_preempt.core.energy.load import utilization, violation_risk
from one_preempt.core.energy.policy import (
    BINDING,
    EnergyPolicy,
    Occasion,
    SupplyDecision,
    SupplyQuestion,
)
from one_preempt.core.energy.power_model import HostPower, constant_power
from one_preempt.core.energy.supply_split import split_supply
from tests.core.energy.questions import HOUR_S, a_question, node_counts

POLICIES: list[EnergyPolicy] = [always_on.POLICY, gesp.POLICY, look_ahead.POLICY, pemp.POLICY, sesp.POLICY]
BROKEN_PROMISE = [(6, 30 * HOUR_S, HOUR_S)]
DAY_S = 24 * HOUR_S


def an_engine_that_answers(f: Fraction) -> FuzzyEngine:
    every = {"any": TriangularSet(Fraction(0), Fraction(0), Fraction(0))}
    return FuzzyEngine(every, every, {"f": f}, (Rule("any", "any", "f"),))


def test_the_folder_holds_these_policies_and_all_in_it_describe_themselves() -> None:
    modules = [
        importlib.import_module(f"{energy.__name__}.{one.name}") for one in pkgutil.iter_modules(energy.__path__)
    ]
    found = [module.POLICY for module in modules if hasattr(module, "POLICY")]
    assert {policy.name for policy in POLICIES} <= {policy.name for policy in found}
    assert all(policy.description and "\n" not in policy.description for policy in found)


# -- what holds for all ----------------------------------------------------------------------------------

COUNTS = st.integers(0, 40)


@st.composite
def questions(draw: st.DrawFn) -> SupplyQuestion:
    free, preemptable, others = draw(COUNTS), draw(COUNTS), draw(COUNTS)
    nodes = node_counts(
        on=free + preemptable + others,
        free=free,
        preemptable=preemptable,
        bootable=draw(COUNTS),
        booting=draw(COUNTS),
        unscheduled=draw(st.integers(0, free)),
        required_at_start=draw(COUNTS),
    )
    works = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 90_000), st.integers(1, 90_000)), max_size=4)
    return a_question(
        draw(st.sampled_from(Occasion)),
        asked=draw(COUNTS),
        start_in_s=draw(st.integers(0, 2 * DAY_S)),
        nodes=nodes,
        queue=draw(works),
        running=[(n, -60, end) for n, _start, end in draw(works)],
        put_off=[(n, start, start + lasting) for n, start, lasting in draw(works)],
        emptiable_nodes=draw(st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 10**9)), max_size=free)),
    )


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@settings(derandomize=True, max_examples=60)
@given(question=questions())
def test_a_decision_uses_nodes_that_there_are(policy: EnergyPolicy, question: SupplyQuestion) -> None:
    decision, nodes = policy.decide(question), question.nodes
    assert 0 <= decision.wake <= nodes.bootable
    assert 0 <= decision.preempt <= nodes.preemptable
    assert 0 <= decision.switch_off <= nodes.unscheduled
    assert 0 <= decision.consolidate <= len(question.emptiable.empty_s)
    assert policy.decide(question) == decision


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@settings(derandomize=True, max_examples=60)
@given(question=questions())
def test_a_reservation_gets_its_nodes_if_there_are_enough_or_is_put_off(
    policy: EnergyPolicy, question: SupplyQuestion
) -> None:
    question = dataclasses.replace(question, occasion=Occasion.ARRIVAL)
    decision, nodes = policy.decide(question), question.nodes
    if decision.ask_again_s is not None:
        assert question.now_s < decision.ask_again_s < question.start_s
        assert decision == SupplyDecision(ask_again_s=decision.ask_again_s)
        question = dataclasses.replace(question, occasion=Occasion.DUE, now_s=decision.ask_again_s)
        decision = policy.decide(question)
    assert decision.ask_again_s is None
    supplied = decision.wake + decision.preempt + nodes.free
    assert supplied >= min(question.nodes_asked, nodes.free + nodes.preemptable + nodes.bootable)
    assert decision.preempt <= max(question.nodes_asked - nodes.free, 0)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@settings(derandomize=True, max_examples=40)
@given(question=questions())
def test_an_occasion_is_answered_and_no_other(policy: EnergyPolicy, question: SupplyQuestion) -> None:
    decision = policy.decide(question)
    if question.occasion not in BINDING:
        assert decision.preempt == 0
        assert decision.ask_again_s is None
    if question.occasion != Occasion.IDLE:
        assert decision.switch_off == 0
    elif policy is not always_on.POLICY:
        assert decision.wake == 0


# -- always-on -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("occasion", Occasion)
def test_always_on_wakes_whatever_sleeps_and_lets_nothing_sleep(occasion: Occasion) -> None:
    decision = always_on.POLICY.decide(a_question(occasion, nodes=node_counts(bootable=30, unscheduled=4)))
    assert (decision.wake, decision.switch_off, decision.consolidate) == (30, 0, 0)


def test_always_on_preempts_only_what_free_and_waking_nodes_do_not_cover() -> None:
    nodes = node_counts(free=4, preemptable=10, bootable=0)
    assert always_on.POLICY.decide(a_question(asked=9, nodes=nodes)).preempt == 5


# -- GESP and SESP ---------------------------------------------------------------------------------------


def test_gesp_wakes_only_what_preempting_does_not_give() -> None:
    nodes = node_counts(free=4, preemptable=10, bootable=30)
    for asked, wake, preempt in [(3, 0, 0), (9, 0, 5), (14, 0, 10), (20, 6, 10), (99, 30, 10)]:
        decision = gesp.POLICY.decide(a_question(asked=asked, nodes=nodes, queue=BROKEN_PROMISE))
        assert (decision.wake, decision.preempt) == (wake, preempt)


def test_gesp_wakes_nothing_for_the_queue() -> None:
    assert gesp.POLICY.decide(a_question(Occasion.PERIODIC, queue=BROKEN_PROMISE)) == SupplyDecision()


def test_sesp_wakes_and_preempts_as_many_as_gesp_while_the_promise_is_kept() -> None:
    for waited_s in (0, 5 * HOUR_S - 1):
        question = a_question(asked=12, queue=[(6, waited_s, HOUR_S)])
        assert replace(sesp.POLICY.decide(question), packed=True) == gesp.POLICY.decide(question)


def test_sesp_wakes_all_that_is_asked_for_once_the_promise_is_used_up() -> None:
    question = a_question(asked=12, queue=[(6, 5 * HOUR_S, HOUR_S)])
    assert sesp.POLICY.decide(question) == SupplyDecision(wake=12)
    patient = replace(sesp.POLICY, waiting_factor=Fraction(6))
    assert replace(patient.decide(question), packed=True) == gesp.POLICY.decide(question)


def test_sesp_wakes_for_the_queue_what_is_neither_free_nor_coming() -> None:
    nodes = node_counts(free=2, booting=3)
    question = a_question(Occasion.PERIODIC, asked=9, nodes=nodes, queue=BROKEN_PROMISE)
    assert sesp.POLICY.decide(question) == SupplyDecision(wake=4)


# -- PEMP: the branches of Algorithm 1 -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "wake", "preempt", "consolidate"),
    [
        (Fraction(-1), 10, 0, 0),
        (Fraction(-1, 5), 10, 0, 0),
        (Fraction(0), 10, 0, 0),
        (Fraction(1, 4), 8, 0, 0),
        (Fraction(1, 2), 5, 1, 0),
        (Fraction(3, 4), 3, 3, 0),
        (Fraction(1), 0, 6, 0),
        (Fraction(4, 3), 0, 6, 3),
        (Fraction(2), 0, 6, 8),
    ],
)
def test_pemp_follows_algorithm_1(f: Fraction, wake: int, preempt: int, consolidate: int) -> None:
    policy = replace(pemp.POLICY, engine=an_engine_that_answers(f))
    question = a_question(asked=10, nodes=node_counts(on=20, free=4), emptiable_nodes=[(0, 0)] * 8)
    assert policy.decide(question) == SupplyDecision(wake, preempt, consolidate)


@pytest.mark.parametrize(("required", "consolidate"), [(5, 5), (6, 0)])
def test_pemp_consolidates_only_if_the_nodes_left_cover_what_is_reserved(required: int, consolidate: int) -> None:
    policy = replace(pemp.POLICY, engine=an_engine_that_answers(Fraction(3, 2)))
    nodes = node_counts(on=20, required_at_start=required)
    question = a_question(asked=10, nodes=nodes, emptiable_nodes=[(0, 0)] * 9)
    assert policy.decide(question).consolidate == consolidate


@settings(derandomize=True, max_examples=60)
@given(question=questions())
def test_pemp_asks_its_engine_for_the_utilization_and_the_risk(question: SupplyQuestion) -> None:
    f = pemp.POLICY.engine.infer(utilization(question), violation_risk(question.queue, Fraction(5)))
    split = split_supply(question.nodes_asked, ceil(question.nodes_asked * (1 - f)), question.nodes)
    decision = pemp.POLICY.decide(dataclasses.replace(question, occasion=Occasion.ARRIVAL))
    assert (decision.wake, decision.preempt) == split


def test_pemp_wakes_for_the_head_of_a_queue_that_waited_too_long() -> None:
    question = a_question(Occasion.PERIODIC, asked=9, nodes=node_counts(free=2), queue=BROKEN_PROMISE)
    assert pemp.POLICY.decide(question) == SupplyDecision(wake=7)


# -- look-ahead ------------------------------------------------------------------------------------------


def test_look_ahead_puts_a_reservation_off_until_hosts_must_boot() -> None:
    question = a_question(start_in_s=DAY_S, power=HostPower(boot_s=200))
    assert look_ahead.POLICY.decide(question).ask_again_s == question.start_s - 200


def test_look_ahead_supplies_at_once_what_starts_sooner_than_a_boot() -> None:
    nodes = node_counts(free=4, preemptable=10, bootable=0)
    decision = look_ahead.POLICY.decide(a_question(asked=9, start_in_s=30, nodes=nodes))
    assert decision == SupplyDecision(preempt=5)


def test_look_ahead_takes_free_nodes_then_wakes_then_preempts() -> None:
    nodes = node_counts(free=4, preemptable=10, bootable=6)
    for asked, wake, preempt in [(4, 0, 0), (9, 5, 0), (13, 6, 3), (99, 6, 10)]:
        decision = look_ahead.POLICY.decide(a_question(Occasion.DUE, asked=asked, start_in_s=180, nodes=nodes))
        assert (decision.wake, decision.preempt) == (wake, preempt)


def test_look_ahead_wakes_for_the_whole_queue_less_what_is_free_coming_or_ends_within_a_boot() -> None:
    question = a_question(
        Occasion.PERIODIC,
        nodes=node_counts(free=2, booting=3),
        queue=[(9, 0, HOUR_S), (7, 0, 60)],
        running=[(4, -60, 120), (5, -60, 121), (6, -60, -5)],
    )
    assert look_ahead.POLICY.decide(question) == SupplyDecision(wake=16 - 2 - 3 - 4)


def test_look_ahead_keeps_on_what_is_needed_within_the_break_even_time() -> None:
    power = HostPower(boot_s=120, boot_mw=234_000)
    assert power.break_even_s == 240
    question = a_question(
        Occasion.IDLE, nodes=node_counts(free=9, unscheduled=9), put_off=[(3, 240, 900), (2, 241, 900)], power=power
    )
    assert look_ahead.POLICY.decide(question) == SupplyDecision(switch_off=6)


def test_look_ahead_switches_nothing_off_that_draws_as_much_asleep() -> None:
    power = HostPower(constant_power(5), off_mw=5_000)
    question = a_question(Occasion.IDLE, nodes=node_counts(free=9, unscheduled=9), power=power)
    assert look_ahead.POLICY.decide(question) == SupplyDecision()


def test_look_ahead_empties_nodes_up_to_the_first_that_is_not_worth_it() -> None:
    hour_mj = HOUR_S * 117_000
    nodes = [(HOUR_S, 0), (HOUR_S, hour_mj - 1), (HOUR_S, hour_mj), (HOUR_S, 0)]
    assert look_ahead.POLICY.decide(a_question(Occasion.PERIODIC, emptiable_nodes=nodes)).consolidate == 2
