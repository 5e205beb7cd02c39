"""A cloud and the scheduler's cycle in one process: the whole way over a real socket, without starting anything."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.opennebula.credentials import Credentials
from one_preempt.adapters.opennebula.transport import Limits, OnedTransport, Parameter
from one_preempt.adapters.opennebula.xmlrpc_reply import Reply
from one_preempt.composition import open_cycle
from one_preempt.configuration.settings import Settings, parse_settings
from one_preempt.entrypoints.cycle_log import CycleLog
from one_preempt.scheduling_cycle import CycleReport, SchedulingCycle
from one_preempt.simulation.emulator.described_cloud import described_cloud
from one_preempt.simulation.emulator.description import Description
from one_preempt.simulation.emulator.endpoint_faults import EndpointFaults
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import Caller, SimVm
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState
from tests.stories.world import CYCLE_S, SETTINGS, description

HOSTS = [{"name": "node{}", "count": 2, "cpu": 4, "memory_mib": 16384}]
PATIENT = Limits()
REFUSED = 0x800


class RewrittenAnswers(OnedTransport):
    """The way to oned, with answers changed on it: `rewrite` by the name of the call, ``hostpool.info``, and
    `refuse` by the id of a VM that is to be deployed. `asked` counts the documents.
    """

    rewrite: Mapping[str, Callable[[bytes], bytes]] = {}
    refuse: Mapping[int, str] = {}
    asked = 0
    ahead_s: int | None = None

    def clock_ahead_s(self) -> int | None:
        """The clock of a front row is not that of the machine, by which the emulator dates its answers."""
        return self.ahead_s

    def document(self, method: str, *parameters: Parameter) -> bytes:
        self.asked += 1
        told = super().document(method, *parameters)
        change = self.rewrite.get(method.removeprefix("one."))
        return told if change is None else change(told)

    def call(self, method: str, *parameters: Parameter) -> Reply:
        if method == "one.vm.deploy" and parameters[0] in self.refuse:
            return Reply(False, self.refuse[int(parameters[0])], REFUSED)
        return super().call(method, *parameters)


@dataclass
class FrontRow:
    """One cloud, one cycle after the other, and the log as an administrator reads it."""

    cloud: SimulatedCloud
    cycle: SchedulingCycle
    clock: FixedClock
    faults: EndpointFaults
    transport: RewrittenAnswers
    cycle_log: CycleLog
    written: io.StringIO
    lock: threading.RLock
    folder: Path

    @property
    def log(self) -> list[str]:
        """The lines of the log so far."""
        return self.written.getvalue().splitlines()

    def caller(self, name: str) -> Caller:
        return self.cloud.caller(next(user.id for user in self.cloud.users.values() if user.name == name))

    def submit(self, user: str, *, cpu: str = "1", memory: str = "512", more: str = "") -> int:
        """A VM asked for as template text; its id."""
        text = f'CPU="{cpu}"\nMEMORY="{memory}"\n{more}'
        return self.cloud.vm_allocate(self.caller(user), text, False)

    def vm(self, vm_id: int) -> SimVm:
        return self.cloud.vms[vm_id]

    def run(self, cycles: int = 1, apart_s: int = CYCLE_S) -> CycleReport:
        """Cycles, one interval apart; the report of the last."""
        for _ in range(cycles):
            with self.lock:
                self.cloud.advance(apart_s)
            self.clock.set(int(self.cloud.now_s))
            report = self.cycle.run()
            self.cycle_log.report(report)
        return report

    def is_running(self, vm_id: int) -> bool:
        vm = self.cloud.vms[vm_id]
        return vm.state == VmState.ACTIVE and vm.lcm_state == LcmState.RUNNING


def chosen_settings(folder: Path, settings: dict[str, Any] | None = None) -> Settings:
    """Those of a front row whose database is in `folder`."""
    content = {**SETTINGS, **(settings or {}), "store": {"url": f"sqlite:///{folder}/leases.db"}}
    return parse_settings(yaml.safe_dump(content), "one_preempt.conf")


@contextmanager
def front_row(
    folder: Path,
    settings: dict[str, Any] | None = None,
    hosts: list[dict[str, Any]] | None = None,
    limits: Limits = PATIENT,
    make_clock: Callable[[int], FixedClock] = FixedClock,
    **more: Any,
) -> Iterator[FrontRow]:
    """A small cloud as in the stories, `settings` and further parts of the description laid over theirs."""
    told = description(hosts or HOSTS, **more)
    cloud = described_cloud(msgspec.convert(told, Description))
    chosen = chosen_settings(folder, settings)
    clock, faults, lock = make_clock(int(cloud.now_s)), EndpointFaults(), threading.RLock()
    written = io.StringIO()
    logger = logging.Logger("hostile")
    logger.addHandler(logging.StreamHandler(written))
    with running_emulator(cloud, faults=faults, lock=lock) as url:
        transport = RewrittenAnswers(url, Credentials("oneadmin:opennebula"), limits)
        with open_cycle(chosen, clock, transport) as cycle:
            yield FrontRow(cloud, cycle, clock, faults, transport, CycleLog(logger), written, lock, folder)
