"""Which hosts could sleep after a plan of migrations: none that is needed, and none that saves nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from one_preempt.core.energy.power_model import HostPower, linear_power
from one_preempt.core.energy.power_rules import HostPattern, PowerMode, PowerRules
from one_preempt.core.energy.sleep_advice import SleepAdvice, sleep_advice
from one_preempt.core.model.host import Host, HostState
from one_preempt.core.model.infrastructure import Datastore, DatastoreType, Permissions
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from tests.core.recounted_cluster import NOW_S, host, running

WATTS = HostPower(linear_power(100, 200), off_mw=5_000)
RULES = PowerRules(mode=PowerMode.ADVISE, handed_over=(HostPattern(),), floor=0, power=WATTS)
VMS = {1: running(1, 0), 2: running(2, 1)}
HOSTS = (host(0, [VMS[1]]), host(1, [VMS[2]]), host(2), host(3))
MOVE = Placement(2, 0, 100)


def advised(
    moves: Sequence[Placement] = (),
    spared: Collection[int] = (),
    rules: PowerRules = RULES,
    hosts: Sequence[Host] = HOSTS,
    datastores: dict[int, Datastore] | None = None,
) -> SleepAdvice | None:
    snapshot = PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, {one.id: one for one in hosts}, VMS)
    return sleep_advice(replace(snapshot, datastores=datastores or {}), moves, spared, rules)


def test_empty_hosts_could_sleep() -> None:
    assert advised() == SleepAdvice((2, 3), 2 * 95_000)


def test_a_host_that_is_emptied_could_sleep_and_its_load_is_drawn_elsewhere() -> None:
    assert advised([MOVE]) == SleepAdvice((1, 2, 3), 3 * 95_000)
    # What moves to a host that draws more for the same load is paid for there.
    steep = replace(WATTS, curve=linear_power(100, 400))
    assert advised([MOVE], rules=replace(RULES, models=((HostPattern("host-0"), steep),))) == SleepAdvice(
        (1, 2, 3), 3 * 95_000 - 100_000
    )


def test_what_is_promised_needed_or_not_handed_over_stays_on() -> None:
    assert advised(spared=(2,)) == SleepAdvice((3,), 95_000)
    assert advised(rules=replace(RULES, handed_over=(HostPattern("host-2"),))) == SleepAdvice((2,), 95_000)
    out_of_use = (*HOSTS[:3], replace(HOSTS[3], state=HostState.DISABLED))
    assert advised(hosts=out_of_use) == SleepAdvice((2,), 95_000)


def test_hosts_through_which_a_datastore_is_reached_stay_on() -> None:
    images = Datastore(
        1, "images", 0, 0, Permissions(), DatastoreType.IMAGE, True, True, (0,), 9, 9, 0, None, "fs",
        {"TEMPLATE/BRIDGE_LIST": ("host-2 host-9",)},
    )  # fmt: skip
    assert advised(datastores={1: images}) == SleepAdvice((3,), 95_000)


def test_the_floor_stays_on_the_most_economical_of_it() -> None:
    hungry = replace(WATTS, curve=linear_power(150, 300))
    rules = replace(RULES, floor=3, models=((HostPattern("host-2"), hungry),))
    assert advised(rules=rules) == SleepAdvice((2,), 145_000)
    assert advised(rules=replace(RULES, floor=4)) is None


def test_nothing_is_advised_that_saves_nothing() -> None:
    assert advised(rules=replace(RULES, power=replace(WATTS, off_mw=100_000))) is None
    assert advised(hosts=HOSTS[:2]) is None
