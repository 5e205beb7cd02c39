"""SCHED_MESSAGE as oned's own rounds of placing leave it on a VM, and what the lease's story keeps of what was told."""

from __future__ import annotations

from typing import Any

import pytest

from one_preempt.core.model.plan import Action, ActionKind
from one_preempt.core.sched_message import OUR_MARK
from one_preempt.entrypoints.driver.plain_placement import WAITS_FOR_THE_DAEMON
from tests import scenario_reader

ONEDS = "Thu Nov  6 20:59:34 2026: Cannot dispatch VM: No host meets SCHED_REQUIREMENTS"
SERIES_6 = "Thu Nov 26 20:59:34 2026: Cannot dispatch VM: No host meets SCHED_REQUIREMENTS"
NO_HOST = 'NAME = "no such host"'


def written(message: str, version: str = "7.4.0", **vm: Any) -> list[tuple[str, str]]:
    """What is written to a VM that shows this message."""
    return [one for action in messages(message, version, **vm) for one in action.attributes]


def messages(message: str, version: str = "7.4.0", **vm: Any) -> list[Action]:
    """The same as actions of the plan."""
    given = {"user": "paul", "attributes": {"SCHED_MESSAGE": message}, **vm}
    hosts = {0: {"cpu": 2}, 1: {"cpu": 2}}
    document = {"story": "", "version": version, "hosts": hosts, "vms": {1: given}, "expect": {}}
    plan = scenario_reader.play(document).plan
    return [action for action in plan.actions if action.kind is ActionKind.MESSAGE]


@pytest.mark.parametrize("message", [ONEDS, SERIES_6])
def test_why_it_waited_is_emptied_once_it_runs(message: str) -> None:
    assert written(message, host=0) == [("SCHED_MESSAGE", "")]


def test_a_rank_that_cannot_be_read_is_told_in_its_place() -> None:
    ((name, text),) = written(ONEDS, host=0, rank="3 +")
    assert (name, "cannot be read" in text) == ("SCHED_MESSAGE", True)


def test_while_it_waits_oneds_words_stand() -> None:
    assert written(ONEDS, requirements=NO_HOST) == []


@pytest.mark.parametrize("said", ["No host meets SCHED_REQUIREMENTS", "No hosts enabled to run VMs"])
def test_that_no_host_suits_is_replaced_once_one_does_for_oned_does_not_take_it_back(said: str) -> None:
    ((name, text),) = written(f"Thu Nov  6 20:59:34 2026: Cannot dispatch VM: {said}", cpu=3)
    assert (name, "smaller than that" in text) == ("SCHED_MESSAGE", True)


def test_what_oned_says_of_datastores_stands_beside_hosts_that_are_too_small() -> None:
    said = "Thu Nov  6 20:59:34 2026: Cannot dispatch VM: No system datastore meets SCHED_DS_REQUIREMENTS"
    assert written(said, cpu=3) == []


def test_on_hold_oned_says_nothing_new_and_LEASE_STATUS_tells_why() -> None:
    told = written(ONEDS, lease={"type": "BE-SUSPENDABLE"}, state="HOLD", requirements=NO_HOST)
    assert ("SCHED_MESSAGE", "") in told


def test_what_place_said_while_the_daemon_was_away_is_replaced_for_place_says_nothing_new() -> None:
    message = f"Fri Nov 27 06:02:58 2026: {OUR_MARK}{WAITS_FOR_THE_DAEMON}"
    ((name, text),) = written(message, requirements=NO_HOST)
    assert (name, text.startswith("one_preempt: No host for VM 1")) == ("SCHED_MESSAGE", True)


def test_what_mm_sched_left_is_replaced_for_nobody_else_tells_why_it_waits() -> None:
    ((name, text),) = written(SERIES_6, version="6.10.0", requirements=NO_HOST)
    assert (name, text.startswith("one_preempt: No host for VM 1")) == ("SCHED_MESSAGE", True)


def test_so_they_do_where_it_is_to_be_moved() -> None:
    assert written(ONEDS, host=0, resched=True, requirements=NO_HOST) == []


def test_words_that_oned_did_not_write_are_left_alone() -> None:
    assert written("my own note", host=0) == []
    assert written("my own note", version="6.10.0", requirements=NO_HOST) == []


def test_the_story_of_a_lease_keeps_what_its_owner_was_told_last() -> None:
    (told,) = messages("", requirements=NO_HOST)
    assert told.reason.text.startswith("its owner is told: No host for VM 1")
    (emptied,) = messages(ONEDS, host=0)
    assert emptied.reason.text == "no longer true, and emptied: SCHED_MESSAGE"
    (status,) = messages(ONEDS, lease={"type": "BE-SUSPENDABLE"}, state="HOLD")
    assert status.reason.text.startswith("its owner is told: on hold: TYPE BE-SUSPENDABLE is not granted")
