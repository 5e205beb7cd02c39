"""What goes wrong on demand: driver operations that fail, hang or drag, by VM, by host, by count or by chance."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec import Struct

from one_preempt.simulation.simulated_cloud.durations import Operation


class Misbehaviour(StrEnum):
    """How an operation goes wrong."""

    FAIL = "fail"
    HANG = "hang"
    SLOW = "slow"


class Fault(Struct):
    """`operation` on `vm_id` and `host_id` (None = any) misbehaves the next `count` times (None = always), each time
    with `probability`; SLOW multiplies the duration by `factor`."""

    operation: Operation
    misbehaviour: Misbehaviour = Misbehaviour.FAIL
    vm_id: int | None = None
    host_id: int | None = None
    count: int | None = 1
    probability: float = 1.0
    factor: float = 10.0


@dataclass(slots=True)
class FaultPlan:
    """The faults to come, consulted once when an operation starts; the same seed misbehaves the same way."""

    seed: int = 0
    faults: list[Fault] = field(default_factory=list)
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def add(self, fault: Fault) -> None:
        """Let `fault` happen."""
        self.faults.append(fault)

    def clear(self) -> None:
        """Let everything go well again."""
        self.faults.clear()

    def strike(self, operation: Operation, vm_id: int, host_id: int) -> Fault | None:
        """The fault that hits this operation, counted down, or None."""
        for fault in self.faults:
            if fault.operation != operation or fault.count == 0:
                continue
            if fault.vm_id not in (None, vm_id) or fault.host_id not in (None, host_id):
                continue
            if fault.probability < 1.0 and self._random.random() >= fault.probability:
                continue
            if fault.count is not None:
                fault.count -= 1
            return fault
        return None
