"""Whatever users write: it costs them their own VM at most, and reaches neither others nor the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import pytest

from one_preempt.simulation.simulated_cloud.objects import Attribute, TemplateDict
from tests.hostile.corpus import INJECTION, TERMINAL, TEXTS
from tests.hostile.front_row import FrontRow, front_row

LEASE_KEYS = ("TYPE", "NAME", "SIZE", "DURATION", "START", "DEADLINE", "MAX_SUSPENSIONS", "SHUTDOWN_OK", "PRIORITY")
HARMLESS = (
    "SCHED_RANK", "RANK", "SCHED_DS_RANK", "USER_PRIORITY", "SERVICE_ID", "SCHED_MESSAGE", "LEASE_STATUS", "ERROR",
)  # fmt: skip
ONE_TEXT: dict[str, list[Attribute]] = {label: [text] for label, text in TEXTS.items()}
SHAPES: dict[str, list[Attribute]] = {
    "a vector": [{"A": "1", "B": INJECTION}],
    "an empty vector": [{}],
    "a repetition": ["first", "second", {"A": "1"}],
    "two vectors": [{"TYPE": "BE-SUSPENDABLE"}, {"TYPE": "BE-CANCELLABLE"}],
}
WRITTEN_BY_US = {"LEASE_STATUS", "SCHED_MESSAGE"}
ROOM = [{"name": "node{}", "count": 2, "cpu": 1000, "memory_mib": 1_000_000}]


@dataclass
class Played:
    """A cloud full of hostile VMs between two plain ones, after the cycles that deal with them."""

    row: FrontRow
    plain: tuple[int, int]
    hostile: dict[int, str]
    before: dict[int, TemplateDict]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with front_row(tmp_path_factory.mktemp("words"), hosts=ROOM, instant=True) as row:
        hostile: dict[int, str] = {}

        def submit(label: str, attributes: TemplateDict) -> int:
            vm_id = row.submit("eva")
            row.vm(vm_id).user_template.update(attributes)
            hostile[vm_id] = label
            return vm_id

        first = row.submit("paul")
        for label, values in {**ONE_TEXT, **SHAPES}.items():
            submit(f"SCHED_REQUIREMENTS: {label}", {"SCHED_REQUIREMENTS": values})
            submit(f"SCHED_DS_REQUIREMENTS: {label}", {"SCHED_DS_REQUIREMENTS": values})
            submit(f"harmless: {label}", dict.fromkeys(HARMLESS, values))
            submit(f"LEASE: {label}", {"LEASE": values, "SCHED_MESSAGE": values})
        for label, text in TEXTS.items():
            submit(f"NAME of a lease: {label}", {"LEASE": [{"TYPE": "BE-SUSPENDABLE", "NAME": text}]})
            named = row.vm(submit(f"called {label}", {"LEASE": [{"TYPE": "DC-MIGRATABLE", "SIZE": "99", "NAME": "x"}]}))
            named.name = named.uname = named.gname = text
        for key in LEASE_KEYS:
            submit(f"{key} of a lease", {"LEASE": [{"TYPE": "BE-SUSPENDABLE", key: INJECTION}]})
        submit("a thousand attributes", {f"A{number}": [TERMINAL] for number in range(1000)})
        last = row.submit("paul")
        before = {vm_id: deepcopy(row.vm(vm_id).user_template) for vm_id in hostile}
        row.run(2)
        yield Played(row, (first, last), hostile, before)


def test_the_vms_of_others_run_at_once(played: Played) -> None:
    assert all(played.row.is_running(vm_id) for vm_id in played.plain)


def test_nothing_but_our_two_messages_is_ever_written(played: Played) -> None:
    for vm_id, label in played.hostile.items():
        was, now = played.before[vm_id], played.row.vm(vm_id).user_template
        changed = {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}
        assert changed <= WRITTEN_BY_US, label


def test_a_foreign_sched_message_stays(played: Played) -> None:
    for vm_id, label in played.hostile.items():
        if played.before[vm_id].get("SCHED_MESSAGE", [""]) != [""]:
            assert played.row.vm(vm_id).user_template["SCHED_MESSAGE"] == played.before[vm_id]["SCHED_MESSAGE"], label


def test_every_line_of_the_log_is_ours_short_and_harmless(played: Played) -> None:
    assert played.row.log
    for line in played.row.log:
        assert len(line) <= 500
        assert line.isprintable(), line
        assert not line.startswith("2026"), "a line was forged"


def test_what_cannot_be_served_waits_and_says_why_once(played: Played) -> None:
    assert played.row.run(2).results == (), "nothing is left to say, and nothing is said again"
    waiting = [vm_id for vm_id in played.hostile if not played.row.is_running(vm_id)]
    assert len(waiting) > 100
    for vm_id in waiting:
        told = played.row.vm(vm_id).user_template
        ours = [told[name][0] for name in ("LEASE_STATUS", "SCHED_MESSAGE") if name in told]
        plain = [text for text in ours if isinstance(text, str) and 20 < len(text) <= 250 and text.isprintable()]
        assert plain, played.hostile[vm_id]
