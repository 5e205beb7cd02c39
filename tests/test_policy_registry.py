"""Policies are found by their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from one_preempt.configuration.choices import SHIPPED_POLICIES
from one_preempt.configuration.chosen_policies import match_options
from one_preempt.configuration.settings import parse_settings
from one_preempt.core import host_selection, preemption
from one_preempt.core.host_selection.selection import ByRank
from one_preempt.errors import OnePreemptError
from one_preempt.policy_registry import (
    ALLOCATION_POLICIES,
    BACKFILLING_POLICIES,
    DISPATCH_POLICIES,
    ENERGY_POLICIES,
    HOST_SELECTIONS,
    IMAGE_STAGING_POLICIES,
    PREEMPTION_POLICIES,
    QUEUE_ORDERS,
    UnknownPolicy,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One more folder of preemption policies."""
    monkeypatch.setattr(preemption, "__path__", [*preemption.__path__, str(tmp_path)])
    return tmp_path


def a_policy_file(folder: Path, file: str, name: str) -> None:
    source = (
        "from msgspec.structs import replace\n"
        "from one_preempt.core.preemption.mov import POLICY as MOV\n"
        f"POLICY = replace(MOV, name={name!r})\n"
    )
    (folder / f"{file}.py").write_text(source)


def test_the_policies_of_the_paper_are_there_and_describe_themselves() -> None:
    policies = PREEMPTION_POLICIES.all()
    assert {"NOP", "MOV", "MLIP", "MOML"} <= set(policies)
    assert list(policies) == sorted(policies)
    assert all(policy.description and "\n" not in policy.description for policy in policies.values())


def test_the_backfilling_policies_are_there_and_describe_themselves() -> None:
    policies = BACKFILLING_POLICIES.all()
    assert {"conservative", "easy", "intermediate", "none"} <= set(policies)
    assert list(policies) == sorted(policies)
    assert all(policy.description and "\n" not in policy.description for policy in policies.values())
    assert BACKFILLING_POLICIES.named("EASY") is policies["easy"]
    with pytest.raises(UnknownPolicy, match="no backfilling policy is named 'bold'"):
        BACKFILLING_POLICIES.named("bold")


def test_the_policies_for_several_clusters_are_there_and_describe_themselves() -> None:
    allocation, dispatch = ALLOCATION_POLICIES.all(), DISPATCH_POLICIES.all()
    assert {"BCF", "LRF", "PAP", "RR"} <= set(allocation)
    assert {"RND", "RR", "RTDP"} <= set(dispatch)
    described = [policy.description for policy in allocation.values()] + [one.description for one in dispatch.values()]
    assert all(description and "\n" not in description for description in described)
    assert ALLOCATION_POLICIES.named("pap") is allocation["PAP"]
    assert DISPATCH_POLICIES.named("rtdp") is dispatch["RTDP"]
    with pytest.raises(UnknownPolicy, match="no workload allocation policy is named 'fair'"):
        ALLOCATION_POLICIES.named("fair")
    with pytest.raises(UnknownPolicy, match="no dispatch policy is named 'fair'"):
        DISPATCH_POLICIES.named("fair")


def test_a_policy_is_found_in_upper_or_lower_case() -> None:
    assert PREEMPTION_POLICIES.named("moml") is PREEMPTION_POLICIES.named("MOML") is PREEMPTION_POLICIES.all()["MOML"]


def test_an_unknown_policy_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownPolicy, match=r"no preemption policy is named 'best'; there are: .*MOML.*"):
        PREEMPTION_POLICIES.named("best")


def test_adding_a_policy_is_adding_its_file(folder: Path) -> None:
    a_policy_file(folder, "zz_added_policy", "ADDED")
    assert PREEMPTION_POLICIES.named("added").name == "ADDED"


def test_a_host_selection_of_ones_own_is_chosen_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_selection, "__path__", [*host_selection.__path__, str(tmp_path)])
    (tmp_path / "zz_named.py").write_text(
        "from one_preempt.core.host_selection.selection import ByRank\nPOLICY = ByRank('by-name', '- ID')\n"
    )
    settings = parse_settings("matchmaker: {host_policy: By-Name}", "one_preempt.conf")
    assert match_options(settings).host_selection == ByRank("by-name", "- ID")


def test_custom_goes_by_its_rank_in_upper_or_lower_case() -> None:
    settings = parse_settings("matchmaker: {host_policy: CUSTOM, host_rank: FREE_CPU}", "one_preempt.conf")
    assert match_options(settings).host_selection == ByRank("custom", "FREE_CPU")


@pytest.mark.parametrize("name", ["MOV", "mov"])
def test_two_policies_of_one_name_stop_the_start_in_upper_or_lower_case(folder: Path, name: str) -> None:
    a_policy_file(folder, f"zz_second_{name}", name)
    with pytest.raises(OnePreemptError, match=rf"two policies are named '{name}'.*zz_second_{name}\.py"):
        PREEMPTION_POLICIES.all()


def test_the_names_that_the_settings_take_without_looking_are_those_of_the_shipped_policies() -> None:
    found = {
        "preemption_policy": PREEMPTION_POLICIES.all(),
        "queue_order": QUEUE_ORDERS.all(),
        "matchmaker.host_policy": HOST_SELECTIONS.all(),
        "time.backfilling": BACKFILLING_POLICIES.all(),
        "image_staging.policy": [name for name, policy in IMAGE_STAGING_POLICIES.all().items() if policy.plans_slots],
        "power.policy": ENERGY_POLICIES.all(),
        "gateway.allocation_policy": ALLOCATION_POLICIES.all(),
        "gateway.fall_back": ALLOCATION_POLICIES.all(),
        "gateway.dispatch_policy": DISPATCH_POLICIES.all(),
    }
    assert set(found) == set(SHIPPED_POLICIES)
    missing = {key: SHIPPED_POLICIES[key] - {name.casefold() for name in names} for key, names in found.items()}
    assert not any(missing.values()), missing
