"""Time to choose victims: all candidate sets of 18 leases, and greedy among thousands.

Run with `python benchmarks/candidate_sets.py`; it prints CPU seconds (best of three) per case and exits with 1 when a
case of 18 leases takes more than half a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np

from one_preempt.core.preemption import moml
from one_preempt.core.preemption.problem import Choice, PreemptableLease, PreemptionProblem, SearchLimits
from one_preempt.core.preemption.victim_choice import choose_victims

LIMIT_S = 0.5
ENUMERATED = 18
LIMITS = SearchLimits(enumerated_leases=ENUMERATED)


def situation(
    leases: int, hosts: int, vms_per_lease: int, request: list[tuple[int, int]], separate: bool = False, seed: int = 1
) -> PreemptionProblem:
    """Full hosts with leases of VMs of 1 to 4 cores anywhere; `request` is (cores, GiB) of each VM."""
    random = np.random.default_rng(seed)
    needs = np.array([(cores * 100, gib * 1024) for cores, gib in request], dtype=np.int64)
    victims = []
    for lease_id in range(leases):
        cores = random.integers(1, 5, vms_per_lease)
        memory = cores * 1024 * random.integers(1, 5, vms_per_lease)
        victims.append(
            PreemptableLease(
                id=lease_id,
                overhead_ms=int(memory.sum() * 280),
                vm_count=vms_per_lease,
                host_index=random.integers(0, hosts, vms_per_lease),
                releases=np.stack([cores * 100, memory], axis=1),
            )
        )
    return PreemptionProblem(
        free=np.stack([random.integers(0, 100, hosts), random.integers(0, 1024, hosts)], axis=1),
        needs=needs,
        allowed=np.ones((len(request), hosts), dtype=np.bool_),
        leases=tuple(victims),
        delta_ms=2300,
        separate=(tuple(range(len(request))),) if separate else (),
    )


def cases() -> Iterator[tuple[str, PreemptionProblem]]:
    """The shapes that differ in what they cost."""
    alike, mixed = [(2, 4)], [(1, 2), (2, 4), (4, 8)]
    yield "18 leases of 1 VM, 6 hosts, 6 like VMs", situation(18, 6, 1, alike * 6)
    yield "18 leases of 4 VMs, 20 hosts, 12 like VMs", situation(18, 20, 4, alike * 12)
    yield "18 leases of 8 VMs, 60 hosts, 16 like VMs", situation(18, 60, 8, alike * 16)
    yield "18 leases of 32 VMs, 300 hosts, 64 like VMs", situation(18, 300, 32, alike * 64)
    yield "18 leases of 4 VMs, 20 hosts, 9 mixed VMs", situation(18, 20, 4, mixed * 3)
    yield "18 leases of 8 VMs, 60 hosts, 18 mixed VMs", situation(18, 60, 8, mixed * 6)
    yield "18 leases of 4 VMs, 20 hosts, 6 VMs all different", situation(18, 20, 4, [(i, 2 * i) for i in range(1, 7)])
    yield "18 leases of 4 VMs, 20 hosts, 8 VMs apart", situation(18, 20, 4, alike * 8, separate=True)
    yield "18 leases of 12 VMs on 1 host, 9 mixed VMs", situation(18, 1, 12, mixed * 3)
    yield "500 leases of 2 VMs, 200 hosts, 16 like VMs", situation(500, 200, 2, alike * 16)
    yield "5000 leases of 1 VM, 1250 hosts, 1 VM", situation(5000, 1250, 1, alike)
    yield "5000 leases of 2 VMs, 1250 hosts, 32 like VMs", situation(5000, 1250, 2, alike * 32)
    yield "5000 leases of 2 VMs, 1250 hosts, 12 mixed VMs", situation(5000, 1250, 2, mixed * 4)


def main() -> int:
    slow = False
    for name, problem in cases():
        seconds = []
        for _ in range(3):
            start = time.process_time()
            answer = choose_victims(problem, moml.POLICY, LIMITS)
            seconds.append(time.process_time() - start)
        sets = f"{answer.candidate_count} sets" if isinstance(answer, Choice) else answer.reason.code
        gap = f", bound {answer.bound_ms / answer.overhead_ms:.2f}" if isinstance(answer, Choice) else ""
        print(f"{min(seconds):8.3f} s  {name}: {sets}{gap}")
        slow |= len(problem.leases) <= ENUMERATED and min(seconds) > LIMIT_S
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
