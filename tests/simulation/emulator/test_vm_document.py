"""What a VM's document says that follows from its id, in gangs whose members share their templates."""

from __future__ import annotations

from lxml import etree

from one_preempt.simulation.emulator.vm_document import vm_full
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN


def test_members_of_a_gang_have_numbers_and_uuids_of_their_own() -> None:
    cloud = SimulatedCloud()
    vm_ids = cloud.add_vms(ONEADMIN, 'CPU = 1\nMEMORY = 64\nOS = [ ARCH = "x86_64" ]', 3)
    documents = [etree.fromstring(vm_full(cloud.vms[vm_id], "7.4.0", in_pool=False)) for vm_id in vm_ids]
    assert [document.findtext("TEMPLATE/VMID") for document in documents] == ["0", "1", "2"]
    assert len({document.findtext("TEMPLATE/OS/UUID") for document in documents}) == 3
    assert {document.findtext("TEMPLATE/OS/ARCH") for document in documents} == {"x86_64"}


def test_a_uuid_that_was_given_stays() -> None:
    cloud = SimulatedCloud()
    (vm_id,) = cloud.add_vms(ONEADMIN, 'CPU = 1\nMEMORY = 64\nOS = [ UUID = "given" ]', 1)
    document = etree.fromstring(vm_full(cloud.vms[vm_id], "7.4.0", in_pool=True))
    assert document.findtext("TEMPLATE/OS/UUID") == "given"


def test_who_may_use_one_member_of_a_gang_is_changed_for_it_alone() -> None:
    cloud = SimulatedCloud()
    first, second = cloud.add_vms(ONEADMIN, "CPU = 1\nMEMORY = 64", 2)
    cloud.vm_chmod(ONEADMIN, first, -1, -1, -1, -1, -1, -1, 1, -1, -1)
    assert cloud.vms[first].permissions.other_u
    assert not cloud.vms[second].permissions.other_u
