"""Fair share, played: a heavy user and a light one, groups with shares, and that nobody waits for ever."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import pytest
from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.configuration.settings import FairShareSettings, Settings
from one_preempt.simulation.experiments.trial import Played, Trial, play
from one_preempt.simulation.simulator.site import Site, simulation_settings
from one_preempt.simulation.workload.workload import UNKNOWN_ID, MachineSet, Workload, WorkloadRequest

HOUR_S, DAY_S = 3600, 86_400
FOUR_NODES = Site((MachineSet(4, 100, 1024),))
HEAVY, LIGHT = 1, 2


def job(number: int, user: int, at_s: int, lasts_s: int, vms: int = 1, group: int = UNKNOWN_ID) -> WorkloadRequest:
    return WorkloadRequest(number, at_s, (MachineSet(vms, 100, 1024),), lasts_s, lasts_s, user=user, group=group)


def played(
    workload: Workload, queue: str, given: FairShareSettings | None = None, until_s: int | None = None
) -> Played:
    settings = simulation_settings(Settings(queue_order=queue, fair_share=given or FairShareSettings()))
    return play(Trial(workload, FOUR_NODES, settings, until_s=until_s))


def started_at_s(found: Played) -> dict[int, float]:
    return {one.request_id: one.started_at_ms / 1000 for one in found.result.records if one.started_at_ms is not None}


@cache
def a_heavy_user_and_a_light_one(queue: str) -> dict[int, float]:
    """One fills the cloud for ten hours at once; two hours later another one comes with two hours of work."""
    heavy = [job(number, HEAVY, 0, HOUR_S) for number in range(1, 41)]
    light = [job(100, LIGHT, 2 * HOUR_S + 60, HOUR_S), job(101, LIGHT, 2 * HOUR_S + 60, HOUR_S)]
    return started_at_s(played(Workload((*heavy, *light)), queue))


def test_by_priority_and_age_a_light_user_waits_until_the_heavy_one_is_done() -> None:
    starts = a_heavy_user_and_a_light_one("user-priority")
    assert starts[100] == starts[101] == 10 * HOUR_S


def test_by_fair_share_a_light_user_has_the_next_room_that_comes_free() -> None:
    starts = a_heavy_user_and_a_light_one("fair-share")
    assert starts[100] == starts[101] == 3 * HOUR_S
    # The heavy one has lost no more than that, and his own jobs start in their order.
    in_order = [starts[number] for number in range(1, 41)]
    assert in_order == sorted(in_order)
    assert max(in_order) == 10 * HOUR_S


def test_while_nobody_else_waits_a_heavy_user_has_all_of_the_cloud() -> None:
    starts = a_heavy_user_and_a_light_one("fair-share")
    assert [sum(at == hour * HOUR_S for at in starts.values()) for hour in range(10)] == [4] * 10


def test_two_groups_that_always_wait_use_the_cloud_by_their_shares() -> None:
    owners = [(1, 10), (1, 11), (2, 20)]
    requests = tuple(
        job(number, owners[number % 3][1], number // 3, 600 + 7 * (number % 50), group=owners[number % 3][0])
        for number in range(360)
    )
    found = played(Workload(requests), "fair-share", FairShareSettings(shares={"group1": 3.0}), 8 * HOUR_S)
    used: dict[tuple[int, int], float] = defaultdict(float)
    for record in found.result.records:
        used[owners[record.request_id % 3]] += record.served_vm_ms
    assert (used[1, 10] + used[1, 11]) / used[2, 20] == pytest.approx(3, rel=0.1)
    # Within the group, whoever has used less is next.
    assert used[1, 10] / used[1, 11] == pytest.approx(1, rel=0.1)


def test_who_has_used_much_does_not_wait_for_ever_behind_others_who_always_come() -> None:
    """One has used the whole cloud for ten half-lives. Then three come, who always wait with as much as there is."""
    half_life_s = 4320
    arrives_s = 10 * half_life_s
    requests = [job(1, HEAVY, 0, arrives_s, vms=4), job(2, HEAVY, arrives_s, 600)]
    for at_s in range(arrives_s, 15 * half_life_s, 1500):
        requests += [job(len(requests) + 1 + one, 2 + one % 3, at_s, 600) for one in range(12)]
    given = FairShareSettings(half_life_days=half_life_s / DAY_S)
    found = played(Workload(tuple(requests)), "fair-share", given, until_s=15 * half_life_s)
    waited_s = started_at_s(found)[2] - arrives_s
    # What he used fades against what the three use of the same cloud: 2 ** -t is less than a third of the rest of one
    # after two half-lives.
    assert waited_s == pytest.approx(2 * half_life_s, abs=1200)


def test_a_heavy_users_large_request_is_promised_a_start_and_has_it_once_nobody_with_less_waits() -> None:
    requests = [job(number, HEAVY, 0, HOUR_S) for number in range(1, 5)]
    requests.append(job(5, HEAVY, 10, HOUR_S, vms=4))
    requests += [job(6, LIGHT, 20, HOUR_S, vms=2), job(7, LIGHT, 30, HOUR_S, vms=2)]
    starts = started_at_s(played(Workload(tuple(requests)), "fair-share"))
    assert starts[6] == starts[7] == HOUR_S
    assert starts[5] == 2 * HOUR_S


def test_without_owners_in_the_log_the_order_is_that_of_priority_and_age() -> None:
    requests = [replace(job(number, 1, 10 * number, 500 + 9 * number), user=UNKNOWN_ID) for number in range(1, 30)]
    found = [played(Workload(tuple(requests)), queue).result.records for queue in ("user-priority", "fair-share")]
    assert found[0] == found[1]


def test_what_was_measured_is_what_the_guests_had_of_the_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    stores: list[MemoryLeaseStore] = []
    original = MemoryLeaseStore.__init__

    def kept(store: MemoryLeaseStore, *given: object, **more: object) -> None:
        original(store, *given, **more)  # type: ignore[arg-type]
        stores.append(store)

    monkeypatch.setattr(MemoryLeaseStore, "__init__", kept)
    # Short and long, one after the other on four nodes; nothing fades in a day by a half-life of ten years.
    requests = [job(number, 1 + number % 3, 40 * number, 20 + 113 * (number % 7)) for number in range(1, 60)]
    requests.append(job(60, 9, 9000, 10))
    found = played(Workload(tuple(requests)), "fair-share", FairShareSettings(half_life_days=3650.0))
    served: dict[str, float] = defaultdict(float)
    for record in found.result.records:
        served[f"locals-user{requests[record.request_id - 1].user}"] += record.served_vm_ms / 10
    (store,) = stores
    measured = {one.user_name: one.used_cpu_centi_s for one in store.load(0).owner_use}
    measured_until_s = {one.measured_at_s for one in store.load(0).owner_use}
    assert len(measured_until_s) == 1
    for name, amount in served.items():
        if name != "locals-user9":
            assert measured[name] == pytest.approx(amount, rel=1e-3)


def test_every_plan_of_a_queue_by_use_is_sound_and_the_next_run_makes_the_same() -> None:
    requests = [job(number, number % 4, 30 * number, 300 + 31 * (number % 11), 1 + number % 3) for number in range(40)]
    workload = Workload(tuple(requests))
    once, again = played(workload, "fair-share"), played(workload, "fair-share")
    assert once.seen.refused_plans == 0
    assert once.result.records == again.result.records
