"""The third act, whole: idle hosts sleep, are woken for a request, and sleep again; nobody comes to harm."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from one_preempt.entrypoints.demo import run_demo
from one_preempt.entrypoints.demo.screen import Screen
from one_preempt.entrypoints.demo.story import Ending, Event, Machines, Step

SLEEPERS = ["node1", "node2"]
BOOT_S = 60


@pytest.fixture(scope="module")
def story() -> list[Step]:
    steps: list[Step] = []
    assert run_demo("energy", steps.append, speed=0), steps[-1]
    return steps


def changes(story: list[Step], host: str) -> list[tuple[int, str]]:
    """What happened to a host, with its instants."""
    return [(step.at_s, step.change) for step in story if isinstance(step, Event) and step.lease == host]


def test_it_ends_well_and_says_what_was_saved(story: list[Step]) -> None:
    ending = story[-1]
    assert isinstance(ending, Ending)
    assert len(ending.checks) == 9
    assert any("% saved" in check.text for check in ending.checks)


@pytest.mark.parametrize("host", SLEEPERS)
def test_a_host_takes_every_step_to_sleep_and_back(story: list[Step], host: str) -> None:
    down = ["disable", "emptying", "going-offline", "checking", "switching-off", "asleep"]
    assert [change for _, change in changes(story, host)] == [*down, "wake", "enabling", "awake", *down]


def test_nothing_is_started_on_a_woken_host_before_it_has_booted(story: list[Step]) -> None:
    woken_at_s = next(at_s for at_s, change in changes(story, SLEEPERS[0]) if change == "wake")
    (started_at_s,) = (
        step.at_s for step in story if isinstance(step, Event) and (step.lease, step.change) == ("assay", "deploy")
    )
    assert started_at_s >= woken_at_s + BOOT_S


def test_hosts_are_shown_asleep_and_at_work(story: list[Step]) -> None:
    asleep, at_work, again = (
        {machine.name: machine.power for machine in step.machines} for step in story if isinstance(step, Machines)
    )
    assert [asleep[host] for host in SLEEPERS] == [again[host] for host in SLEEPERS] == ["asleep", "asleep"]
    assert set(at_work.values()) == {"on"}


def test_it_fits_eighty_columns(story: list[Step]) -> None:
    output = io.StringIO()
    screen = Screen(Console(file=output, width=80, highlight=False))
    for step in story:
        screen.show(step)
    lines = output.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert any("wake      node1" in line for line in lines)
