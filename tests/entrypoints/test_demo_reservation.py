"""The second act, whole: what is reserved starts in its second, and others work until just before it."""

from __future__ import annotations

import io
import json
import re
from itertools import groupby, pairwise
from unittest.mock import ANY

import pytest
from rich.console import Console

from one_preempt.entrypoints.demo import run_demo
from one_preempt.entrypoints.demo.screen import Screen
from one_preempt.entrypoints.demo.story import Chart, Doing, Ending, Event, Machines, Narration, Step, step_document

START_S = 1_800_000_180
EXTERNAL = range(12)
LECTURE = range(12, 18)
VICTIMS = [4, 5, 6, 9, 10, 11]
OVERHEAD_S = 43
MARGIN_S = 10


@pytest.fixture(scope="module")
def story() -> list[Step]:
    steps: list[Step] = []
    assert run_demo("reservation", steps.append, speed=0), steps[-1]
    return steps


def events(story: list[Step], change: str, by: str) -> list[tuple[int, int]]:
    """(instant, VM) of every event of that kind."""
    found = [step for step in story if isinstance(step, Event) and (step.change, step.by) == (change, by)]
    return [(event.at_s, vm_id) for event in found for vm_id in event.vm_ids]


def shown(story: list[Step], columns: int, *, terminal: bool) -> list[str]:
    """The lines that a screen of so many columns shows, without colours."""
    output = io.StringIO()
    screen = Screen(Console(file=output, width=columns, force_terminal=terminal, highlight=False))
    for step in story:
        screen.show(step)
    return re.sub(r"\x1b\[[0-9;]*m", "", output.getvalue()).splitlines()


def test_it_ends_well_and_says_what_was_checked(story: list[Step]) -> None:
    (ending,) = (step for step in story if isinstance(step, Ending))
    assert ending.well
    assert len(ending.checks) == 9
    assert story[-1] == ending


def test_it_is_accepted_before_anybody_leaves(story: list[Step]) -> None:
    accepted = events(story, "accepted", "scheduler")
    assert [vm_id for _, vm_id in accepted] == list(LECTURE)
    assert accepted[0][0] < min(at_s for at_s, _ in events(story, "stop", "scheduler")) - 60


def test_victims_leave_as_early_as_saving_them_takes_and_not_earlier(story: list[Step]) -> None:
    asked = events(story, "stop", "scheduler")
    out = events(story, "STOPPED", "cloud")
    assert sorted(vm_id for _, vm_id in asked) == sorted({vm_id for _, vm_id in out}) == VICTIMS
    assert {at_s for at_s, _ in asked} == {START_S - OVERHEAD_S - MARGIN_S}
    assert max(at_s for at_s, _ in out) <= START_S


def test_all_vms_of_the_reservation_are_started_in_its_second_and_then_run(story: list[Step]) -> None:
    started = [(at_s, vm_id) for at_s, vm_id in events(story, "deploy", "scheduler") if vm_id in LECTURE]
    assert started == [(START_S, vm_id) for vm_id in LECTURE]
    assert {vm_id for _, vm_id in events(story, "RUNNING", "cloud")} >= set(LECTURE)


def test_victims_return_once_the_reservation_ends_and_others_never_stop(story: list[Step]) -> None:
    runs = events(story, "RUNNING", "cloud")
    ended_s = min(at_s for at_s, vm_id in events(story, "DONE", "cloud") if vm_id in LECTURE)
    last_s = {vm_id: max(at_s for at_s, found in runs if found == vm_id) for vm_id in EXTERNAL}
    assert all(last_s[vm_id] > ended_s for vm_id in VICTIMS)
    assert all(last_s[vm_id] < START_S for vm_id in EXTERNAL if vm_id not in VICTIMS)
    before, during, after = (
        sorted(lease for machine in step.machines for lease in machine.cpus)
        for step in story
        if isinstance(step, Machines)
    )
    assert before == after
    assert during.count("lecture") == len(LECTURE)


def test_the_reason_names_the_second_and_what_takes_so_long(story: list[Step]) -> None:
    (why,) = (step.text for step in story if isinstance(step, Narration) and "MOML" in step.text)
    assert why.startswith(f"At 08:02:07, {OVERHEAD_S + MARGIN_S} s before the start")
    assert "42.9 s at 35.8 MiB/s" in why


def test_the_chart_shows_what_happened_without_gaps(story: list[Step]) -> None:
    (chart,) = (step for step in story if isinstance(step, Chart))
    rows = {lease: list(stretches) for lease, stretches in groupby(chart.stretches, key=lambda one: one.lease)}
    assert list(rows) == ["climate", "render", "train", "sweep", "promised", "lecture"]
    for stretches in rows.values():
        assert all(one.end_s == other.start_s for one, other in pairwise(stretches))
    (promised,) = rows["promised"]
    assert (promised.start_s, promised.end_s, promised.doing) == (START_S, START_S + 120, Doing.RESERVED)
    doings = [[doing for doing, _ in groupby(one.doing for one in rows[lease])] for lease in ("climate", "sweep")]
    assert doings[0][-1] is Doing.RUNNING
    assert doings[1][-4:] == [Doing.MOVING, Doing.WAITING, Doing.MOVING, Doing.RUNNING]
    first_move = next(one for one in rows["lecture"] if one.doing is Doing.MOVING)
    assert first_move.start_s == START_S + 1, "seen a second after the call"


@pytest.mark.parametrize("columns", [80, 120])
def test_the_chart_is_drawn_under_a_scale_of_minutes(story: list[Step], columns: int) -> None:
    lines = shown(story, columns, terminal=True)
    assert max(map(len, lines)) <= columns
    scale = lines.index("What was promised, and what happened:") + 1
    at = lines[scale].index("|08:03")
    promised = next(line for line in lines[scale:] if line.startswith("promised"))
    assert abs(promised.index("▓") - at) <= 1
    assert "boots, is saved or restored" in lines[scale + 7]


def test_in_a_pipe_it_is_plain_text_of_eighty_columns(story: list[Step]) -> None:
    lines = shown(story, 80, terminal=False)
    assert "\n".join(lines).isascii()
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "Nothing was lost."


def test_every_step_can_be_written_as_json(story: list[Step]) -> None:
    documents = json.loads(json.dumps([step_document(step) for step in story]))
    (chart,) = (document for document in documents if document["kind"] == "chart")
    assert chart["stretches"][0] == {"lease": "climate", "start_s": START_S - 179, "end_s": ANY, "doing": "waiting"}
