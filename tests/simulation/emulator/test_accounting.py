"""one.vmpool.accounting of the emulator, as a real oned 7.4.0 with dummy drivers answers."""

from __future__ import annotations

import xmlrpc.client
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from lxml import etree

from one_preempt.simulation.emulator.described_cloud import described_cloud
from one_preempt.simulation.emulator.description import Description
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from tests.stories.world import description

# The children of HISTORY that oned 7.4.0 wrote for a VM of which a stay has ended, and those of its VM.
HISTORY = (
    "OID SEQ HOSTNAME HID CID STIME ETIME VM_MAD TM_MAD DS_ID PLAN_ID ACTION_ID PSTIME PETIME RSTIME RETIME ESTIME "
    "EETIME ACTION UID GID REQUEST_ID VM"
)
VM = (
    "ID UID GID UNAME GNAME NAME PERMISSIONS LAST_POLL STATE LCM_STATE PREV_STATE PREV_LCM_STATE RESCHED STIME ETIME "
    "DEPLOY_ID MONITORING SCHED_ACTIONS TEMPLATE USER_TEMPLATE HISTORY_RECORDS BACKUPS"
)
Server = xmlrpc.client.ServerProxy


@pytest.fixture
def cloud() -> SimulatedCloud:
    told = description([{"name": "node{}", "count": 2, "cpu": 4, "memory_mib": 16384}])
    return described_cloud(msgspec.convert(told, Description))


@pytest.fixture
def server(cloud: SimulatedCloud) -> Iterator[Server]:
    with running_emulator(cloud) as url, xmlrpc.client.ServerProxy(url) as proxy:
        yield proxy


def accounting(server: Server, *arguments: int, session: str = "oneadmin:opennebula") -> etree._Element:
    answer: Any = server.one.vmpool.accounting(session, *arguments)
    done, text, *_rest = answer
    assert done, text
    return etree.fromstring(str(text))


def ran(cloud: SimulatedCloud, lasts_s: int) -> int:
    """A VM that ran for so long and has ended."""
    vm_id = cloud.vm_allocate(ONEADMIN, 'CPU="1"\nMEMORY="128"\nLEASE_GATEWAY="7"', True)
    cloud.vm_deploy(ONEADMIN, vm_id, 0)
    cloud.settle()
    cloud.advance(lasts_s)
    cloud.vm_action(ONEADMIN, "terminate-hard", vm_id)
    cloud.settle()
    return vm_id


def test_stays_are_told_as_oned_writes_them(cloud: SimulatedCloud, server: Server) -> None:
    vm_id = ran(cloud, 100)
    (record,) = accounting(server, -2, -1, -1)
    assert " ".join(str(child.tag) for child in record) == HISTORY
    vm = record.find("VM")
    assert vm is not None
    assert " ".join(str(child.tag) for child in vm) == VM
    assert (record.findtext("OID"), vm.findtext("ID")) == (str(vm_id), str(vm_id))
    # The VM is told as it was when the stay began: from its end nothing is seen here.
    assert (vm.findtext("STATE"), vm.findtext("LCM_STATE"), vm.findtext("ETIME")) == ("3", "1", "0")
    assert vm.findtext("USER_TEMPLATE/LEASE_GATEWAY") == "7"
    assert int(record.findtext("RETIME") or 0) - int(record.findtext("RSTIME") or 0) >= 100


def test_a_window_leaves_out_what_was_over_before_and_what_came_later(cloud: SimulatedCloud, server: Server) -> None:
    first = ran(cloud, 100)
    between_s = cloud.clock.now_s() + 10
    cloud.advance(20)
    second = ran(cloud, 100)
    ids = [[record.findtext("OID") for record in accounting(server, -2, *window)] for window in (
        (-1, -1), (between_s, -1), (-1, between_s), (0, 1),
    )]  # fmt: skip
    assert ids == [[str(first), str(second)], [str(second)], [str(first)], []]


def test_users_are_told_of_what_they_may_see_alone(cloud: SimulatedCloud, server: Server) -> None:
    ran(cloud, 10)
    assert len(accounting(server, -2, -1, -1, session="eva:eva")) == 0
    answer: Any = server.one.vmpool.accounting("oneadmin:opennebula", -5, -1, -1)
    done, text, *_rest = answer
    assert (done, str(text).endswith("Incorrect filter_flag")) == (False, True)
