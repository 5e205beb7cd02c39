"""Time to plan a lease with a deadline, in one piece or in several, on hosts that differ and on nodes that are alike.

Run with `python benchmarks/pieces.py`; it prints the CPU time of one call, the limit and how many times better it is,
and exits with 1 when a limit is missed. Times are the best of three.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from one_preempt.core.availability.alike_nodes import AlikeNodes
from one_preempt.core.availability.gang_demand import GangDemand
from one_preempt.core.availability.pieces import DemandT, PieceRules, RoomOverTime, plan_pieces
from one_preempt.core.availability.slot_reservation import SlotReservation
from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.availability.timed_request import TimedRequest
from tests.core.availability.like_vms import like_vms

HOSTS, NODES, RESERVATIONS, LIMIT_MS = 1_250, 512, 2_000, 50.0
HOUR_S = 3_600
DAY_S = 24 * HOUR_S
RULES = PieceRules(splittable=True, minimum_piece_s=600, resume_s=120, suspend_s=120)
CORE = (100, 4 * 1024)


def busy_hosts() -> SlotTable:
    """Hosts of 16 to 64 cores, all taken but 4 cores, and reservations of these on 4 hosts each in two days."""
    random = np.random.default_rng(3)
    cores = random.choice([16, 32, 48, 64], HOSTS)
    table = SlotTable(np.outer(cores, CORE), 0)
    for row, count in enumerate(cores.tolist()):
        taken = ((count - 4) * CORE[0], (count - 4) * CORE[1])
        table.reserve(SlotReservation(row, 0, None, (row,), (taken,)))
    for lease_id in range(HOSTS, HOSTS + RESERVATIONS):
        start_s, rows = int(random.integers(0, 2 * DAY_S)), tuple(random.choice(HOSTS, 4).tolist())
        end_s = start_s + int(random.integers(HOUR_S, 12 * HOUR_S))
        amounts = ((4 * CORE[0], 4 * CORE[1]),) * len(rows)
        table.reserve(SlotReservation(lease_id, start_s, end_s, rows, amounts))
    return table


def busy_nodes() -> AlikeNodes:
    """Nodes of which many are taken for some minutes or hours, again and again for two days."""
    random = np.random.default_rng(4)
    nodes = AlikeNodes(NODES)
    for lease_id in range(RESERVATIONS):
        start_s, length_s = int(random.integers(0, 2 * DAY_S)), int(random.integers(600, 4 * HOUR_S))
        nodes.hold(TimedRequest(lease_id, int(random.integers(1, 7)), length_s), start_s)
    return nodes


def judge(what: str, table: RoomOverTime[DemandT], demand: DemandT, hours: int) -> bool:
    measured = []
    for _ in range(3):
        start = time.process_time()
        plan = plan_pieces(table, demand, hours * HOUR_S, 0, 2 * DAY_S, RULES)
        measured.append(1_000 * (time.process_time() - start))
    taken_ms = min(measured)
    found = "no plan" if plan is None else f"{len(plan)} pieces, ends after {plan[-1].end_s / HOUR_S:.1f} h"
    print(f"{taken_ms:8.3f} ms   at most {LIMIT_MS:6.1f} ms   x {LIMIT_MS / taken_ms:7.1f}   {what}: {found}")
    return taken_ms <= LIMIT_MS


def main() -> int:
    table, nodes, random = busy_hosts(), busy_nodes(), np.random.default_rng(5)
    all_hosts, some_hosts = random.random(HOSTS) < 2, random.random(HOSTS) < 0.005
    kept = [
        judge(f"{hours} h of {count} VMs anywhere", table, like_vms(count, CORE, all_hosts), hours)
        for count, hours in ((1, 2), (1, 30), (64, 30), (512, 30), (1_024, 30), (2_048, 4), (2_048, 30))
    ]
    for count in (1, 4):
        what = f"30 h of {count} VMs on {some_hosts.sum()} of the hosts"
        kept.append(judge(what, table, like_vms(count, CORE, some_hosts), 30))
    wide = (4 * CORE[0], 4 * CORE[1])
    for count in (8, 32):
        needs = np.array([CORE] * (count // 2) + [wide] * (count // 2), dtype=np.int64)
        for where, allowed in (("anywhere", all_hosts), (f"on {some_hosts.sum()} of the hosts", some_hosts)):
            demand = GangDemand(needs, np.tile(allowed, (count, 1)))
            kept.append(judge(f"30 h of {count} VMs of two kinds {where}", table, demand, 30))
    for count in (1, 128, 160):
        kept += [judge(f"30 h of {count} of {NODES} nodes that are alike", nodes, count, 30)]
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main())
