"""oned writes a text as it is into a CDATA section: a user who writes the end mark writes elements of his own.

The emulator minds the end mark; here it is made to write as oned does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from one_preempt.simulation.emulator import vm_document, xml_writing
from one_preempt.simulation.emulator.endpoint_faults import EndpointFault, FaultKind
from tests.hostile.front_row import FrontRow, front_row
from tests.stories.world import SETTINGS

LOCALS_GID = 100


def unminded(tag: str, value: int | str) -> str:
    return f"<{tag}><![CDATA[{value}]]></{tag}>"


@pytest.fixture
def row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrontRow]:
    for module in (xml_writing, vm_document):
        monkeypatch.setattr(module, "cdata", unminded)
    quick = {"limits": {**SETTINGS["limits"], "preemption_timeout_s": 60}}
    with front_row(tmp_path, quick, hosts=[{"name": "node", "cpu": 2, "memory_mib": 8192}], instant=True) as made:
        yield made


def smuggle(row: FrontRow, vm_id: int, elements: str) -> None:
    """Put `elements` behind the user template of a VM, as its owner could by one.vm.update."""
    row.vm(vm_id).user_template["A"] = [f"]]></A></USER_TEMPLATE>{elements}<USER_TEMPLATE><A><![CDATA["]


@pytest.mark.parametrize(
    "elements",
    [
        f"<GID>{LOCALS_GID}</GID><GNAME>locals</GNAME><UID>2</UID><UNAME>lea</UNAME>",
        "<ID>0</ID>",
        "<TEMPLATE><CPU>0</CPU><MEMORY>0</MEMORY></TEMPLATE>",
        "<LOCK><LOCKED>1</LOCKED></LOCK><LOCK/>",
    ],
    ids=["the right to preempt", "another VM", "a smaller size", "a lock"],
)
def test_nobody_preempts_or_passes_for_another_by_smuggled_markup(row: FrontRow, elements: str) -> None:
    leases = [row.submit("eva", more='LEASE=[TYPE="BE-SUSPENDABLE"]') for _ in range(2)]
    row.run(3)
    assert all(map(row.is_running, leases))
    intruder = row.submit("paul", cpu="2")
    smuggle(row, intruder, elements)
    report = row.run(4)
    assert all(map(row.is_running, leases)), "nobody left for it"
    assert report.plan is not None
    assert report.plan.preemptions == ()
    told = [line for line in row.log if "smuggled markup" in line]
    assert len(told) == 1
    assert f"VM '{intruder}'" in told[0]


def test_a_victim_that_makes_itself_unreadable_does_not_hold_up_the_request_for_ever(row: FrontRow) -> None:
    for _ in range(2):
        row.submit("eva", more='LEASE=[TYPE="BE-SUSPENDABLE"]')
    row.run(3)
    request = row.submit("lea")
    row.faults.add(EndpointFault(FaultKind.CLOSE, "one.vm.action", count=1))
    report = row.run()
    assert report.plan is not None
    (victim,) = {victim.vm_id for preemption in report.plan.preemptions for victim in preemption.victims}
    smuggle(row, victim, "<ID>0</ID>")
    row.run(12)
    assert row.is_running(request), "another victim was found once the time for this one was over"
    assert row.is_running(victim)


def test_owners_of_vms_that_cannot_be_told_alone_hold_up_nobody_else(row: FrontRow) -> None:
    """Figures stand in one.vm.info alone, and are made on a host by what runs there; anybody edits between readings."""
    torn = [row.submit("eva", cpu="0.4") for _ in range(3)]
    others = [row.submit("paul", cpu="0.4") for _ in range(2)]
    for vm_id in torn:
        row.vm(vm_id).monitoring["GUEST_IP"] = "]]><!-- --><![CDATA["
    row.run(2)
    assert all(map(row.is_running, others))
    assert not any(map(row.is_running, torn))
    for vm_id in torn:
        assert any(f"VM {vm_id} cannot be read" in line for line in row.log)
        row.vm(vm_id).monitoring.clear()
    row.run(12)
    assert all(map(row.is_running, torn)), "they are tried again"


@pytest.mark.parametrize("first", [True, False])
def test_a_victim_that_alone_cannot_be_told_does_not_hold_up_the_request_for_ever(row: FrontRow, first: bool) -> None:
    leases = [row.submit("eva", more='LEASE=[TYPE="BE-SUSPENDABLE"]') for _ in range(2)]
    row.run(3)
    torn, other = leases if first else leases[::-1]
    row.vm(torn).monitoring["GUEST_IP"] = "]]><!-- --><![CDATA["
    request = row.submit("lea")
    row.run(12)
    assert row.is_running(request), "another victim was found"
    assert row.is_running(torn)
    assert not row.is_running(other)
