"""One character in one object keeps oned from sending the pool that it is in: the others are served all the same."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from one_preempt.adapters.opennebula import untold_pools
from one_preempt.adapters.opennebula.oned_errors import OtherFault
from one_preempt.adapters.opennebula.untold_pools import AGAIN
from one_preempt.ports import CloudUnavailable
from one_preempt.simulation.emulator import vm_document, xml_writing
from tests.hostile.front_row import front_row
from tests.hostile.test_smuggled_markup import unminded

EMOJI = "\U0001f600"
PLACES = {"name": f'NAME="{EMOJI}"', "lease": f'LEASE=[TYPE="{EMOJI}"]', "words": f'NOTE="{EMOJI}"'}


@pytest.mark.parametrize("place", PLACES)
def test_a_vm_that_cannot_be_told_is_left_out_and_the_others_are_served(tmp_path: Path, place: str) -> None:
    with front_row(tmp_path) as row:
        before = row.submit("eva", more='LEASE=[TYPE="BE-SUSPENDABLE"]')
        untold = row.submit("paul", more=PLACES[place])
        after = row.submit("paul")
        with pytest.raises(OtherFault):
            row.transport.document("one.vmpool.infoextended", -2, -1, -1, -1)
        report = row.run(3)
        assert report.plan is not None
        assert row.is_running(before), row.log
        assert row.is_running(after), row.log
        assert not row.vm(untold).history
        assert f"VM '{untold}' was left out: oned cannot send it" in "\n".join(row.log)


def test_a_user_who_cannot_be_told_costs_nobody_a_start(tmp_path: Path) -> None:
    with front_row(tmp_path) as row:
        paul = row.caller("paul")
        row.cloud.users[paul.uid].template["NOTE"] = [EMOJI]
        with pytest.raises(OtherFault):
            row.transport.document("one.userpool.info")
        vm = row.submit("eva")
        row.run(3)
        assert row.is_running(vm), row.log


def test_a_group_that_cannot_be_told_costs_no_other_group_its_name(tmp_path: Path) -> None:
    """One by one those are read whose members have VMs: a rule for one of them is found by its name."""
    with front_row(tmp_path) as row:
        row.cloud.groups[0].template["NOTE"] = [EMOJI]
        with pytest.raises(OtherFault):
            row.transport.document("one.grouppool.info")
        vm = row.submit("eva")
        report = row.run()
        assert report.state is not None
        group_id = row.caller("eva").gid
        assert report.state.snapshot.directory.groups[group_id].name == row.cloud.groups[group_id].name
        row.run(2)
        assert row.is_running(vm), row.log


def test_what_cannot_be_told_is_searched_for_once(tmp_path: Path) -> None:
    """Forty of them, each of which takes dozens of calls to find, keep the cycles going; mended ones are served."""
    with front_row(tmp_path) as row:
        untold = [row.submit("paul", more=f'NOTE="{EMOJI}"') for _ in range(40)]
        vm = row.submit("eva")
        row.run(3)
        assert row.is_running(vm), row.log
        before = row.transport.asked
        row.run()
        assert row.transport.asked - before < 80
        row.vm(untold[7]).user_template["NOTE"] = ["mended"]
        row.run(3)
        assert row.is_running(untold[7]), row.log
        assert not row.vm(untold[8]).history


def test_hundreds_of_them_cost_no_call_each_in_every_reading(tmp_path: Path) -> None:
    """They are asked for again by turns: whoever has his mended is served a few readings later."""
    with front_row(tmp_path) as row:
        untold = [row.submit("paul", cpu="0.1", memory="1", more=f'NOTE="{EMOJI}"') for _ in range(2 * AGAIN + 9)]
        row.run()
        before = row.transport.asked
        row.run()
        assert row.transport.asked - before < AGAIN + 20
        for mended in (untold[0], untold[AGAIN], untold[-1]):
            row.vm(mended).user_template["NOTE"] = ["mended"]
        row.run(5)
        assert [vm for vm in untold if row.is_running(vm)] == [untold[0], untold[AGAIN], untold[-1]], row.log


def test_with_a_flood_of_objects_beside_it_the_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What keeps a pool from being sent is found before it is asked who has forged objects in it, and not met again."""
    for module in (xml_writing, vm_document):
        monkeypatch.setattr(module, "cdata", unminded)
    with front_row(tmp_path) as row:
        flood = "]]></A><n:x/>" + "".join(f"<VM><ID>{vm_id}</ID></VM>" for vm_id in range(100)) + "<A><![CDATA["
        intruders = [row.submit("paul") for _ in range(3)]
        vm = row.submit("eva")
        intruders += [row.submit("paul") for _ in range(3)]
        for intruder in intruders[::2]:
            row.vm(intruder).user_template["A"] = [flood]
        for intruder in intruders[1::2]:
            row.vm(intruder).user_template["A"] = [EMOJI]
        report = row.run()
        assert report.state is not None
        assert report.state.snapshot.vms.keys() == {vm}
        assert report.state.snapshot.unreadable_vm_ids == {*intruders}
        row.run(2)
        assert row.is_running(vm), row.log


def test_of_more_than_one_reading_can_find_the_next_ones_find_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands between those that are known costs a call each, and takes nothing from the search."""
    monkeypatch.setattr(untold_pools, "MOST_SPLITS", 40)
    with front_row(tmp_path) as row:
        crowd = [row.submit("paul", cpu="0.1", memory="1") for _ in range(32)]
        for untold in crowd[::2]:
            row.vm(untold).user_template["A"] = [EMOJI]
        with pytest.raises(CloudUnavailable, match="an emoji, or another character"):
            row.run()
        with suppress(CloudUnavailable):
            row.run()
        report = row.run()
        assert report.state is not None
        assert report.state.snapshot.vms.keys() == {*crowd[1::2]}
        assert report.state.snapshot.unreadable_vm_ids == {*crowd[::2]}
