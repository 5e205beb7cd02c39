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
    UnknownPolicy,
    allocation_policies,
    allocation_policy,
    backfilling_policies,
    backfilling_policy,
    dispatch_policies,
    dispatch_policy,
    energy_policies,
    host_selections,
    image_staging_policies,
    preemption_policies,
    preemption_policy,
    queue_orders,
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
    policies = preemption_policies()
    assert {"NOP", "MOV", "MLIP", "MOML"} <= set(policies)
    assert list(policies) == sorted(policies)
    assert all(policy.description and "\n" not in policy.description for policy in policies.values())


def test_the_backfilling_policies_are_there_and_describe_themselves() -> None:
    policies = backfilling_policies()
    assert {"conservative", "easy", "intermediate", "none"} <= set(policies)
    assert list(policies) == sorted(policies)
    assert all(policy.description and "\n" not in policy.description for policy in policies.values())
    assert backfilling_policy("EASY") is policies["easy"]
    with pytest.raises(UnknownPolicy, match="no backfilling policy is named 'bold'"):
        backfilling_policy("bold")


def test_the_policies_for_several_clusters_are_there_and_describe_themselves() -> None:
    allocation, dispatch = allocation_policies(), dispatch_policies()
    assert {"BCF", "LRF", "PAP", "RR"} <= set(allocation)
    assert {"RND", "RR", "RTDP"} <= set(dispatch)
    described = [policy.description for policy in allocation.values()] + [one.description for one in dispatch.values()]
    assert all(description and "\n" not in description for description in described)
    assert allocation_policy("pap") is allocation["PAP"]
    assert dispatch_policy("rtdp") is dispatch["RTDP"]
    with pytest.raises(UnknownPolicy, match="no workload allocation policy is named 'fair'"):
        allocation_policy("fair")
    with pytest.raises(UnknownPolicy, match="no dispatch policy is named 'fair'"):
        dispatch_policy("fair")


def test_a_policy_is_found_in_upper_or_lower_case() -> None:
    assert preemption_policy("moml") is preemption_policy("MOML") is preemption_policies()["MOML"]


def test_an_unknown_policy_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownPolicy, match=r"no preemption policy is named 'best'; there are: .*MOML.*"):
        preemption_policy("best")


def test_adding_a_policy_is_adding_its_file(folder: Path) -> None:
    a_policy_file(folder, "zz_added_policy", "ADDED")
    assert preemption_policy("added").name == "ADDED"


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
        preemption_policies()


def test_the_names_that_the_settings_take_without_looking_are_those_of_the_shipped_policies() -> None:
    found = {
        "preemption_policy": preemption_policies(),
        "queue_order": queue_orders(),
        "matchmaker.host_policy": host_selections(),
        "time.backfilling": backfilling_policies(),
        "image_staging.policy": [name for name, policy in image_staging_policies().items() if policy.plans_slots],
        "power.policy": energy_policies(),
        "gateway.allocation_policy": allocation_policies(),
        "gateway.fall_back": allocation_policies(),
        "gateway.dispatch_policy": dispatch_policies(),
    }
    assert set(found) == set(SHIPPED_POLICIES)
    missing = {key: SHIPPED_POLICIES[key] - {name.casefold() for name in names} for key, names in found.items()}
    assert not any(missing.values()), missing
