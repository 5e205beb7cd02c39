"""Many clients at once, and where the time comes from."""

from __future__ import annotations

import threading
import time
import xmlrpc.client
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from one_preempt.simulation.emulator.emulated_time import VirtualTime, WallTime
from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.emulator.server import DEFAULT_LIMITS
from one_preempt.simulation.emulator.serving import running_emulator

ADMIN = "oneadmin:opennebula"
TEMPLATE = 'CPU = "1"\nMEMORY = "64"\n'


def test_calls_of_many_clients_do_not_mix() -> None:
    cloud = shipped_cloud("demo")
    first = len(cloud.vms)

    def create(_: int) -> Any:
        one: Any = xmlrpc.client.ServerProxy(url)
        vm_id = one.one.vm.allocate(ADMIN, TEMPLATE, True)[1]
        return vm_id, one.one.vm.info(ADMIN, vm_id)[1].count(f"<ID>{vm_id}</ID>")

    with (
        running_emulator(cloud, limits=replace(DEFAULT_LIMITS, max_connections=3)) as url,
        ThreadPoolExecutor(12) as pool,
    ):
        created = sorted(pool.map(create, range(60)))
    assert created == [(vm_id, 1) for vm_id in range(first, first + 60)]
    assert cloud.audit() == []


def test_who_holds_the_lock_has_the_cloud_alone() -> None:
    cloud, lock = shipped_cloud("demo"), threading.RLock()
    with running_emulator(cloud, lock=lock) as url, ThreadPoolExecutor(1) as pool:
        one: Any = xmlrpc.client.ServerProxy(url)
        with lock:
            answer = pool.submit(one.one.vm.info, ADMIN, 0)
            with pytest.raises(TimeoutError):
                answer.result(timeout=0.05)
        assert answer.result(timeout=5)[0] is True


def test_virtual_time_stands_still_and_wall_time_follows_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = shipped_cloud("demo")
    began_s = cloud.now_s
    VirtualTime().catch_up(cloud)
    assert cloud.now_s == began_s

    wall_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: wall_s)
    wall = WallTime(speed=10)
    wall.catch_up(cloud)
    assert cloud.now_s == began_s
    wall_s = 106.0
    wall.catch_up(cloud)
    assert cloud.now_s == began_s + 60
    cloud.advance(1000)
    wall.catch_up(cloud)
    assert cloud.now_s == began_s + 1060
