"""Whoever makes his VM unreadable keeps no host awake but its own; one that may be anywhere keeps them all awake."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.power_sequence import PowerPhase
from one_preempt.simulation.simulator.pool_reader import SimulatedPoolReader
from tests.power.power_play import PowerPlay


def unreadable(monkeypatch: pytest.MonkeyPatch, vm_ids: set[int], untraced: set[int]) -> Callable[[], None]:
    """From now on these cannot be read; returns how to mend them."""
    read = SimulatedPoolReader.read

    def spoiled(reader: SimulatedPoolReader) -> PoolSnapshot:
        seen = read(reader)
        return replace(
            seen,
            vms={vm_id: vm for vm_id, vm in seen.vms.items() if vm_id not in vm_ids},
            unreadable_vm_ids=frozenset(vm_ids),
            untraced_vm_ids=frozenset(untraced),
            changed_vm_ids=None,
            changed_host_ids=None,
        )

    monkeypatch.setattr(SimulatedPoolReader, "read", spoiled)
    return lambda: monkeypatch.setattr(SimulatedPoolReader, "read", read)


def test_hosts_sleep_but_the_one_that_lists_it(monkeypatch: pytest.MonkeyPatch) -> None:
    play = PowerPlay(3)
    vm = play.submit(external=True)
    play.until(lambda: play.host_of(vm) is not None)
    unreadable(monkeypatch, {vm}, set())
    play.until(lambda: len(play.asleep()) == 2)
    play.pass_time(600)
    assert play.host_of(vm) not in play.asleep()


def test_one_that_may_be_anywhere_keeps_all_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    play = PowerPlay(3)
    mended = unreadable(monkeypatch, {999}, {999})
    play.pass_time(900)
    assert set(play.phases()) == {PowerPhase.AWAKE}
    mended()
    play.until(lambda: len(play.asleep()) == 3)
