"""PCI devices: which one a VM gets, what is written where, and when it comes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.faults import Fault
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, SimHost, SimVm, Vector
from tests.simulation.simulated_cloud.conftest import Stage

SMALL = 'CPU = "1"\nMEMORY = "64"\n'


def device(bus: str, kind: str = "10de:0863:0302", **more: str) -> Vector:
    vendor, model, device_class = kind.split(":")
    return {
        "ADDRESS": f"0000:{bus}:00:0", "SHORT_ADDRESS": f"{bus}:00.0", "DOMAIN": "0000", "BUS": bus, "SLOT": "00",
        "FUNCTION": "0", "VENDOR": vendor, "DEVICE": model, "CLASS": device_class, **more,
    }  # fmt: skip


def holders(host: SimHost) -> list[str]:
    return [entry["VMID"] for entry in host.share.pci_devices]


def deployed(stage: Stage, host: SimHost, requests: str) -> SimVm:
    vm = stage.create(SMALL + requests, ONEADMIN)
    stage.cloud.vm_deploy(ONEADMIN, vm.id, host.id, enforce=True)
    stage.cloud.settle()
    return vm


def test_the_device_of_the_lowest_address_is_given_first(stage: Stage) -> None:
    host = stage.cloud.add_host("gpu", pci_devices=[device("81"), device("02"), device("41")])
    first = deployed(stage, host, 'PCI = [ VENDOR = "10de" ]')
    assert holders(host) == ["-1", str(first.id), "-1"]
    both = deployed(stage, host, 'PCI = [ CLASS = "0302" ]\nPCI = [ SHORT_ADDRESS = "41:00.0" ]')
    assert holders(host) == [str(both.id), str(first.id), str(both.id)]
    assert [request["ADDRESS"] for request in both.template["PCI"] if isinstance(request, dict)] == [
        "0000:81:00:0",
        "0000:41:00:0",
    ]
    assert stage.cloud.audit() == []


def test_numbers_are_compared_as_numbers_and_every_device_is_given_once(stage: Stage) -> None:
    host = stage.cloud.add_host("gpu", pci_devices=[device("02"), device("03", "15b3:1016:0200")])
    deployed(stage, host, 'PCI = [ VENDOR = "0x10DE", DEVICE = "863" ]')
    vm = stage.create(SMALL + 'PCI = [ CLASS = "0200" ]\nPCI = [ CLASS = "0200" ]', ONEADMIN)
    with pytest.raises(OnedError, match="Unavailable PCI device"):
        stage.cloud.vm_deploy(ONEADMIN, vm.id, host.id, enforce=True)


@pytest.mark.parametrize(("version", "kind_is_written"), [("7.4.0", True), ("6.10.0", False)])
def test_after_a_deploy_the_vm_tells_its_device(
    make_stage: Callable[[str], Stage], version: str, kind_is_written: bool
) -> None:
    stage = make_stage(version)
    host = stage.cloud.add_host("gpu", pci_devices=[device("02", NUMA_NODE="1")])
    vm = deployed(stage, host, 'PCI = [ SHORT_ADDRESS = "02:00.0" ]')
    (request,) = vm.template["PCI"]
    assert isinstance(request, dict)
    assert {**device("02", NUMA_NODE="1")}.items() - request.items() == (
        set() if kind_is_written else {("VENDOR", "10de"), ("DEVICE", "0863"), ("CLASS", "0302")}
    )
    assert (request["PCI_ID"], request["VM_ADDRESS"], request["VM_BUS"], request["VM_SLOT"]) == (
        "0",
        "01:01.0",
        "0x01",
        "0x01",
    )
    stage.do(vm, "undeploy")
    stage.cloud.settle()
    assert holders(host) == ["-1"]
    assert "ADDRESS" not in request
    assert request["SHORT_ADDRESS"] == "02:00.0"


def test_after_an_undeploy_a_device_of_the_same_kind_will_do(stage: Stage) -> None:
    host = stage.cloud.add_host("gpu", pci_devices=[device("02"), device("03")])
    first = deployed(stage, host, 'PCI = [ SHORT_ADDRESS = "02:00.0" ]')
    stage.do(first, "undeploy")
    stage.cloud.settle()
    second = deployed(stage, host, 'PCI = [ VENDOR = "10de" ]')
    stage.cloud.vm_deploy(ONEADMIN, first.id, host.id, enforce=True)
    assert holders(host) == [str(second.id), str(first.id)]


def test_a_guest_with_a_device_cannot_be_saved(stage: Stage) -> None:
    host = stage.cloud.add_host("gpu", pci_devices=[device("02")])
    vm = deployed(stage, host, 'PCI = [ VENDOR = "10de" ]')
    for action in ("suspend", "stop"):
        stage.do(vm, action)
        stage.cloud.settle()
        assert vm.lcm_state.name == "RUNNING"
        assert "SAVE: failed" in str(vm.user_template["ERROR"])


@pytest.mark.parametrize("fails", [False, True])
def test_a_move_holds_devices_on_both_hosts_and_ends_with_one(stage: Stage, fails: bool) -> None:
    source = stage.cloud.add_host("source", pci_devices=[device("02")])
    target = stage.cloud.add_host("target", pci_devices=[device("02"), device("01")])
    vm = deployed(stage, source, 'PCI = [ VENDOR = "10de" ]')
    if fails:
        stage.cloud.faults.add(Fault(Operation.SHUTDOWN, vm_id=vm.id))
    stage.cloud.vm_migrate(ONEADMIN, vm.id, target.id, live=False, enforce=True, migration_type=1)
    assert (holders(source), holders(target)) == ([str(vm.id)], ["-1", str(vm.id)])
    stage.cloud.settle()
    (request,) = vm.template["PCI"]
    assert isinstance(request, dict)
    assert "PREV_ADDRESS" not in request
    assert request["ADDRESS"] == ("0000:02:00:0" if fails else "0000:01:00:0")
    assert (holders(source), holders(target)) == (
        ([str(vm.id)], ["-1", "-1"]) if fails else (["-1"], ["-1", str(vm.id)])
    )
    assert stage.cloud.audit() == []


@pytest.mark.parametrize(
    ("request_text", "refusal"),
    [
        ('TYPE = "x"', "SHORT_ADDRESS, DEVICE, VENDOR or CLASS must be defined for PCI."),
        ('SHORT_ADDRESS = "02:00.0", VENDOR = "10de"', "SHORT_ADDRESS cannot be set with DEVICE, VENDOR or CLASS"),
        ('VENDOR = "nvidia"', "Wrong Hex value for PCI attribute VENDOR"),
        ('VENDOR = "10de", VM_BUS = "zz"', "Wrong VM_BUS in PCI attribute"),
    ],
)
def test_a_request_that_names_no_device_is_refused(stage: Stage, request_text: str, refusal: str) -> None:
    with pytest.raises(OnedError) as error:
        stage.create(SMALL + f"PCI = [ {request_text} ]", ONEADMIN)
    assert error.value.message == refusal


def test_a_quota_of_devices_is_kept(stage: Stage) -> None:
    stage.cloud.user_quota(ONEADMIN, stage.alice.uid, 'VM = [ PCI_DEV = "1" ]')
    vms = [stage.create(SMALL + 'PCI = [ VENDOR = "10de" ]', ONEADMIN) for _ in range(2)]
    stage.cloud.vm_chown(ONEADMIN, vms[0].id, stage.alice.uid, stage.alice.gid)
    with pytest.raises(OnedError, match="limit of 1 reached for PCI_DEV quota in VM"):
        stage.cloud.vm_chown(ONEADMIN, vms[1].id, stage.alice.uid, stage.alice.gid)
