"""Random stories about time on hosts with PCI devices, of which some requests ask for one a VM."""

from __future__ import annotations

import os
import random

import pytest

from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import Caller, SimHost, TemplateDict, Vector
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import build_cloud
from one_preempt.simulation.workload.workload import WorkloadRequest
from tests.simulation.time_stories.drawn_story import UNTIL_S, draw_story
from tests.simulation.time_stories.time_judge import judge
from tests.simulation.time_stories.watched_cycle import WatchedCycle

STORIES = int(os.environ.get("ONE_PREEMPT_DEVICE_STORIES", "40"))
KIND: Vector = {"VENDOR": "10de", "DEVICE": "1eb8", "CLASS": "0302"}


def device(number: int) -> Vector:
    address = {"ADDRESS": f"0000:0{number}:00:0", "SHORT_ADDRESS": f"0{number}:00.0", "BUS": f"0{number}"}
    return {"VMID": "-1", "DOMAIN": "0000", "SLOT": "00", "FUNCTION": "0", "NUMA_NODE": "-", **address, **KIND}


def could_have(host: SimHost, request: WorkloadRequest) -> bool:
    """One of its VMs, the largest, fits there beside nobody, and has a device."""
    cpu_centi = max(one.cpu_centi for one in request.vm_sets)
    memory_kib = 1024 * max(one.memory_mib for one in request.vm_sets)
    return bool(host.share.pci_devices) and host.share.max_cpu >= cpu_centi and host.share.max_mem >= memory_kib


def furnish(
    monkeypatch: pytest.MonkeyPatch, cloud: SimulatedCloud, requests: tuple[WorkloadRequest, ...], seed: int
) -> None:
    """Give hosts none, one or two devices, and have some requests ask for one, of those that the cloud can serve."""
    chance = random.Random(seed)
    for host in cloud.hosts.values():
        host.share.pci_devices = [device(number) for number in range(1, 1 + chance.choice((0, 1, 1, 2)))]
    asking = {
        f"r{one.id}"
        for one in requests
        if chance.random() < 0.6 and sum(could_have(host, one) for host in cloud.hosts.values()) >= one.virtual_machines
    }
    add_vms = cloud.add_vms

    def add_with_devices(owner: Caller, template: TemplateDict, count: int, *, hold: bool = False) -> range:
        (lease,) = template["LEASE"]
        assert isinstance(lease, dict)
        wanted: TemplateDict = {"PCI": [dict(KIND)]} if lease["NAME"] in asking else {}
        return add_vms(owner, template | wanted, count, hold=hold)

    monkeypatch.setattr(cloud, "add_vms", add_with_devices)


@pytest.mark.parametrize("seed", range(STORIES))
def test_a_story_about_devices_and_time_ends_well(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    story = draw_story(seed)
    cloud = build_cloud(story.site, keeps_logs=True)
    furnish(monkeypatch, cloud, story.workload.requests, seed)
    watched = WatchedCycle(story.settings, story.policy, cloud, story.stubborn)
    result = Simulator(cloud, watched, story.workload, story.happenings, UNTIL_S).run()
    wrong = judge(story, watched, result, cloud)
    assert not wrong, "\n".join(["", *wrong, "", *story.told(), "", *watched.told()])
