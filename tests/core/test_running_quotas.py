"""Whether a running quota stands against what is stopped, held against a plain count, quota by quota."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from one_preempt.core.model.access import Directory, Group, Quota, User
from one_preempt.core.model.virtual_machine import VirtualMachine, VmState
from one_preempt.core.quotas import QuotaBook
from tests.core.matching.small_cloud import vm

METRICS = ("RUNNING_CPU", "RUNNING_MEMORY", "RUNNING_VMS")
SCALES = {"RUNNING_CPU": 1.0, "RUNNING_MEMORY": 1000.0, "RUNNING_VMS": 1.0}


def drawn_quotas(chance: random.Random) -> tuple[Quota, ...]:
    found = []
    for _ in range(chance.randrange(3)):
        limits = {one: chance.choice((-2, -1, 0, 2, 4)) for one in METRICS if chance.random() < 0.6}
        scaled = {one: amount * SCALES[one] if amount > 0 else float(amount) for one, amount in limits.items()}
        used = {one: chance.randrange(3) * SCALES[one] for one in METRICS if chance.random() < 0.6}
        found.append(Quota((100,) if chance.random() < 0.3 else (), scaled, used))
    return tuple(found)


def drawn_directory(chance: random.Random) -> Directory:
    return Directory(
        users={uid: User(uid, f"u{uid}", 1, "g1", (1,), vm_quotas=drawn_quotas(chance)) for uid in (0, 1, 2)},
        groups={gid: Group(gid, f"g{gid}", vm_quotas=drawn_quotas(chance)) for gid in (0, 1)},
        default_user_vm_quotas=drawn_quotas(chance),
        default_group_vm_quotas=drawn_quotas(chance),
    )


def drawn_vms(chance: random.Random, first_id: int) -> list[VirtualMachine]:
    states = (VmState.STOPPED, VmState.UNDEPLOYED, VmState.PENDING)
    return [
        replace(vm(first_id + n), uid=chance.randrange(4), gid=chance.randrange(3), state=chance.choice(states))
        for n in range(chance.randrange(1, 4))
    ]


def limit_of(quota: Quota, defaults: Sequence[Quota], name: str) -> float:
    own = quota.limits.get(name, -1.0)
    if own == -1:
        own = defaults[0].limits.get(name, -2.0) if defaults else -2.0
    return own


def counted(directory: Directory, vms: Sequence[VirtualMachine], promised: Sequence[VirtualMachine]) -> str | None:
    """The first limit that all of them would exceed, users before groups."""
    anew = [one for one in vms if one.state is not VmState.PENDING]
    held = [one for one in promised if one.state is not VmState.PENDING]
    for who in ("user", "group"):
        ids = sorted({one.uid if who == "user" else one.gid for one in anew} - {0})
        for number in ids:
            holder: User | Group | None = directory.users.get(number) if who == "user" else directory.groups.get(number)
            theirs = [one for one in (*held, *anew) if number == (one.uid if who == "user" else one.gid)]
            wanted = {
                "RUNNING_CPU": sum(one.cpu_centi for one in theirs) / 100,
                "RUNNING_MEMORY": sum(one.memory_mib for one in theirs),
                "RUNNING_VMS": len(theirs),
            }
            defaults = directory.default_user_vm_quotas if who == "user" else directory.default_group_vm_quotas
            for quota in holder.vm_quotas if holder is not None else ():
                for name in METRICS:
                    limit = limit_of(quota, defaults, name)
                    if not quota.cluster_ids and 0 <= limit < quota.used.get(name, 0.0) + wanted[name]:
                        called = theirs[0].uname if who == "user" else theirs[0].gname
                        return f"the {name} quota of {who} '{called}'"
    return None


@pytest.mark.parametrize("seed", range(60))
def test_what_stands_against_a_start_is_what_a_plain_count_says(seed: int) -> None:
    chance = random.Random(seed)
    directory = drawn_directory(chance)
    book, promised = QuotaBook(directory), list[VirtualMachine]()
    for number in range(6):
        asking = drawn_vms(chance, 10 * number)
        told = book.obstacle(asking)
        assert told == counted(directory, asking, promised)
        if told is None:
            book.promise(asking)
            promised += asking


def test_some_of_these_stories_have_an_obstacle() -> None:
    told = set()
    for seed in range(60):
        chance = random.Random(seed)
        told.add(QuotaBook(drawn_directory(chance)).obstacle(drawn_vms(chance, 0)))
    assert None in told
    assert len(told) > 4


@pytest.mark.parametrize(
    ("used", "cpu_centi", "limit", "stands"),
    [
        (0.07, 8, 0.15, False),  # more than the limit in double precision
        (1.1, 220, 3.3, True),  # in single precision as well
        (0.5, 350, 4.0, False),
        (0.5, 351, 4.0, True),
        (1e300, 100, 1e301, False),
    ],
)
def test_fractions_are_added_as_oned_adds_them(used: float, cpu_centi: int, limit: float, stands: bool) -> None:
    quota = Quota((), {"RUNNING_CPU": limit}, {"RUNNING_CPU": used})
    directory = Directory(users={5: User(5, "ann", 1, "users", (1,), vm_quotas=(quota,))})
    stopped = replace(vm(1, cpu_centi), state=VmState.STOPPED)

    assert (QuotaBook(directory).obstacle([stopped]) is not None) is stands
