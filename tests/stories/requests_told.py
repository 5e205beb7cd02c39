"""What people ask for in a story: plain VMs, leases, gangs, devices, pinning, roles of a group, automatic NICs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.stories.clouds import VM_GROUP
from tests.stories.world import World

OWNERS = {"lea": "locals", "eva": "externals", "evan": "externals", "paul": "plain"}
TYPES = ["BE-SUSPENDABLE", "BE-SUSPENDABLE", "BE-CANCELLABLE", "DC-MIGRATABLE"]
ADMINISTRATOR = "root"
AUTOMATIC_NIC = 'NIC=[NETWORK_MODE="auto"]\n'
DEVICE = 'PCI=[VENDOR="10de", CLASS="0302"]\n'


@dataclass
class Told:
    """What people did to a VM, as far as the judge must know."""

    owner: str
    types: set[str] = field(default_factory=set)
    gang: bool = False
    may_shut_down: bool = False
    role: str = ""
    timed: bool = False
    ended_by_people: bool = False


@dataclass
class Requests:
    """The requests of one story; each returns what happened, in words."""

    world: World
    seed: int
    vms: dict[int, Told] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def external_request(self) -> str:
        user = self.random.choice(["eva", "evan"])
        return f"{user} asks for {self._submit(user, {'TYPE': self.random.choice(TYPES)})}"

    def local_request(self) -> str:
        return f"lea asks for {self._submit('lea', None, self.random.choice([1, 2, 2]))}"

    def plain_request(self) -> str:
        return f"paul asks for {self._submit('paul', None)}"

    def gang_request(self) -> str:
        user = self.random.choice(["eva", "lea"])
        kind = "DC-NON-PREEMPTABLE" if user == "lea" else self.random.choice(TYPES)
        size = self.random.choice([2, 2, 3])
        lease = {"TYPE": kind, "NAME": f"gang{len(self.vms)}", "SIZE": size}
        return f"{user} asks for the gang {[self._submit(user, lease, 1) for _ in range(size)]}"

    def malformed_request(self) -> str:
        lease = self.random.choice([{"TYPE": "ALWAYS"}, {"SIZE": "-1"}, {"TYPE": "BE-SUSPENDABLE", "SIZE": "x" * 5000}])
        return f"paul asks for {self._submit('paul', lease)} with nonsense"

    def device_request(self) -> str:
        user, lease = self._somebody()
        if lease is not None and self.random.random() < 0.7:
            lease["SHUTDOWN_OK"] = "YES"
        count = self.random.choice([1, 1, 2])
        return f"{user} asks for {self._given(user, lease, 0.5, DEVICE * count)} with {count} devices"

    def pinned_request(self) -> str:
        user, lease = self._somebody()
        vcpu, policy = self.random.choice([1, 2, 2]), self.random.choice(["CORE", "CORE", "THREAD"])
        more = f'VCPU="{vcpu}"\nTOPOLOGY=[PIN_POLICY="{policy}"]\n'
        return f"{user} asks for {self._given(user, lease, vcpu, more)} pinned to {vcpu} of {policy}"

    def grouped_request(self) -> str:
        user, lease = self._somebody()
        role = self.random.choice(["front", "back"])
        vm_id = self._submit(user, lease, 0.5, f'VMGROUP=[VMGROUP_ID="{VM_GROUP}", ROLE="{role}"]\n')
        if vm_id is not None:
            self.vms[vm_id].role = role
        return f"{user} asks for {vm_id} in the role {role}"

    def networked_request(self) -> str:
        user, lease = self._somebody()
        count = self.random.choice([1, 2])
        return f"{user} asks for {self._submit(user, lease, None, AUTOMATIC_NIC * count)} with {count} automatic NICs"

    def _somebody(self) -> tuple[str, dict[str, Any] | None]:
        user = self.random.choice(["lea", "lea", "eva", "evan", "eva"])
        return user, None if user == "lea" else {"TYPE": self.random.choice(TYPES)}

    def _submit(self, user: str, lease: dict[str, Any] | None, cpu: float | None = None, more: str = "") -> int | None:
        """A VM of the user; None where a quota forbids it."""
        cpu = cpu if cpu is not None else self.random.choice([0.5, 1, 1, 2])
        memory = self.random.choice([256, 512, 1024, 2048])
        vm_id = self.world.try_to_submit(user, cpu=cpu, memory=memory, lease=lease, more=more)
        if vm_id is not None:
            self._tell(vm_id, user, lease)
        return vm_id

    def _given(self, user: str, lease: dict[str, Any] | None, cpu: float, more: str) -> int | None:
        """What only an administrator may ask for, asked for by one and given to the user; a quota may forbid that."""
        memory = self.random.choice([256, 512, 1024])
        vm_id = self.world.submit(ADMINISTRATOR, cpu=cpu, memory=memory, lease=lease, more=more, hold=True)
        accepted, _ = self.world.emulator.call(ADMINISTRATOR, "one.vm.chown", vm_id, *self.world.user_ids[user])
        if not accepted:
            self.world.action(ADMINISTRATOR, "terminate-hard", vm_id)
            return None
        self.world.action(ADMINISTRATOR, "release", vm_id)
        self._tell(vm_id, user, lease)
        return vm_id

    def _tell(self, vm_id: int, user: str, lease: dict[str, Any] | None) -> None:
        told = Told(user, gang=bool(lease and lease.get("SIZE")))
        if OWNERS[user] == "externals" and lease and lease.get("TYPE") in TYPES:
            told.types.add(lease["TYPE"])
            told.may_shut_down = lease.get("SHUTDOWN_OK") == "YES"
        self.vms[vm_id] = told
