"""The cloud of the demonstration as its users and its operator reach it: by XML-RPC, over a socket on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager

import msgspec
from msgspec import Struct

from one_preempt.adapters.opennebula.credentials import Credentials
from one_preempt.adapters.opennebula.transport import OnedTransport, Parameter
from one_preempt.adapters.opennebula.virtual_machine_reader import read_vm_pool
from one_preempt.adapters.opennebula.xml_document import parse_document
from one_preempt.adapters.opennebula.xmlrpc_reply import Value
from one_preempt.core.model.host import HostState
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.simulation.emulator.described_cloud import described_cloud
from one_preempt.simulation.emulator.described_infrastructure import template_of
from one_preempt.simulation.emulator.description import Description, VmEntry
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.templates import write_template

OPERATOR = Credentials("oneadmin:opennebula")
_TAKEN = PowerOutcome(PowerAnswer.ACCEPTED, "taken")
_ALL, _FROM_FIRST, _TO_LAST, _NOT_DONE = -2, -1, -1, -1


class HostSight(Struct, frozen=True):
    """One host as its operator sees it; `vms` are so many VMs on it."""

    name: str
    state: HostState
    vms: int
    has_power: bool


class EmulatedCloud:
    """One endpoint. Whatever is asked of it goes through the socket, with the session of whoever asks."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._operator = self.connect()

    def connect(self, credentials: Credentials = OPERATOR) -> OnedTransport:
        """A new connection; the caller closes it."""
        return OnedTransport(self.endpoint, credentials)

    def close(self) -> None:
        """Close the operator's connection."""
        self._operator.close()

    def submit(self, user: str, template: str) -> int:
        """`user` creates a VM; its id."""
        return int(self._call_as(user, "one.vm.allocate", template, False))

    def terminate(self, user: str, vm_id: int) -> None:
        """`user` ends a VM."""
        self._call_as(user, "one.vm.action", "terminate", vm_id)

    def vms(self) -> dict[int, VirtualMachine]:
        """All VMs that have not ended, by id."""
        pool = self._operator.document("one.vmpool.infoextended", _ALL, _FROM_FIRST, _TO_LAST, _NOT_DONE)
        return read_vm_pool(pool, [])

    def advance(self, duration_s: int) -> int:
        """Let the cloud's time pass; the new time in seconds since the epoch."""
        return int(self._operator.call("one_preempt.emulator.advance", duration_s).checked())

    def hosts(self) -> list[HostSight]:
        """All hosts, by id: what OpenNebula says of each, and whether its machine has power."""
        pool = parse_document(self._operator.document("one.hostpool.info"), [], "the host pool")
        found = []
        for host in sorted(pool.iterfind("HOST"), key=lambda one: int(one.findtext("ID") or 0)):
            name = host.findtext("NAME") or ""
            state, vms = HostState(int(host.findtext("STATE") or 0)), len(host.findall("VMS/ID"))
            found.append(HostSight(name, state, vms, self.power(name, "status") is PowerStatus.ON))
        return found

    def power(self, host: str, order: str) -> PowerStatus:
        """Order a machine on or off, or ask for its status; whether it has power now."""
        return PowerStatus(str(self._operator.call("one_preempt.emulator.power", host, order).checked()))

    def set_power_times(self, boot_s: int, shutdown_s: int) -> None:
        """How long machines take to come up and to shut down."""
        self._operator.call("one_preempt.emulator.power_times", boot_s, shutdown_s).checked()

    def audit(self) -> list[str]:
        """What is wrong in the cloud's books after a recount, in words."""
        found: list[str] = json.loads(str(self._operator.call("one_preempt.emulator.audit").checked()))
        return found

    def _call_as(self, user: str, method: str, *parameters: Parameter) -> Value:
        """In the demonstration everybody's password is the name."""
        with closing(self.connect(Credentials(f"{user}:{user}"))) as connection:
            return connection.call(method, *parameters).checked()


class EmulatedPower:
    """Implements `ports.PowerControl`: the machines of the demonstration, through their operator."""

    def __init__(self, cloud: EmulatedCloud) -> None:
        self._cloud = cloud

    def switch_on(self, host: str) -> PowerOutcome:
        """Start a machine."""
        self._cloud.power(host, "on")
        return _TAKEN

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        """Shut a machine down."""
        self._cloud.power(host, "hard-off" if hard else "off")
        return _TAKEN

    def status(self, host: str) -> PowerReading:
        """Whether it has power."""
        return PowerReading(self._cloud.power(host, "status"), _TAKEN)


@contextmanager
def emulated_cloud(description: Description) -> Iterator[EmulatedCloud]:
    """Serve the described cloud without its VMs on a free port of loopback; its time stands still until advanced."""
    empty = described_cloud(msgspec.structs.replace(description, vms=[]))
    with running_emulator(empty, control=True) as endpoint, closing(EmulatedCloud(endpoint)) as cloud:
        yield cloud


def vm_template(entry: VmEntry, name: str) -> str:
    """The template that a user writes for one VM of an entry."""
    return write_template({**template_of(entry.template), "NAME": [name]})
