"""Kilowatt-hours from the history of host use, recounted second by second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.energy.energy_account import EnergyAccount, accounts, added
from one_preempt.core.energy.power_model import HostPower, linear_power
from one_preempt.core.model.power_history import HostUse, HostUseStay, HostUseTotal, with_stay

WATTS = HostPower(linear_power(100, 200), boot_s=60, boot_mw=150_000, shutdown_s=30, shutdown_mw=80_000, off_mw=5_000)
PLAIN = HostUseStay(1, "node1", "rack", HostUse.ON, "PEMP", 0)
HOUR_S = 3600


def counted(*stays: HostUseStay, from_s: int = 0, until_s: int = HOUR_S) -> tuple[EnergyAccount, ...]:
    return accounts(stays, (), lambda _host, _cluster: WATTS, from_s, until_s)


def test_a_host_that_is_on_takes_by_its_load_and_saves_nothing() -> None:
    (account,) = counted(replace(PLAIN, load_percent=25))
    assert (account.taken_kwh, account.always_on_kwh, account.saved_kwh, account.saved_share) == (0.125, 0.125, 0, 0)
    assert (account.on_s, account.counted_s, account.boots) == (HOUR_S, HOUR_S, 0)


def test_a_host_that_sleeps_and_wakes_takes_its_boot_and_shutdown() -> None:
    down = replace(PLAIN, use=HostUse.SHUTTING_DOWN, until_s=20)
    off = replace(PLAIN, use=HostUse.OFF, since_s=20, until_s=1000)
    # Monitored 40 s after its boot should be over: for so long it draws what an idle one does.
    up = replace(PLAIN, use=HostUse.BOOTING, since_s=1000, until_s=1100)
    (account,) = counted(down, off, up, replace(PLAIN, since_s=1100, load_percent=100), until_s=1200)
    assert account.taken_mj == 20 * 80_000 + 980 * 5_000 + 60 * 150_000 + 40 * 100_000 + 100 * 200_000
    assert account.always_on_mj == 1100 * 100_000 + 100 * 200_000
    assert (account.on_s, account.coming_s, account.off_s, account.boots) == (100, 120, 980, 1)


def test_a_host_that_fails_counts_as_idle() -> None:
    (account,) = counted(replace(PLAIN, use=HostUse.FAILED))
    assert (account.taken_kwh, account.always_on_kwh, account.failed_s) == (0.1, 0.1, HOUR_S)


def test_only_what_lies_between_the_instants_counts() -> None:
    up = replace(PLAIN, use=HostUse.BOOTING, since_s=100, until_s=300)
    assert counted(up, until_s=100) == counted(up, from_s=300) == ()
    (later,) = counted(up, from_s=140, until_s=200)
    assert (later.taken_mj, later.boots) == (20 * 150_000 + 40 * 100_000, 0)
    (first,) = counted(up, until_s=140)
    assert (first.taken_mj, first.boots) == (40 * 150_000, 1)


def test_each_policy_and_host_has_its_account() -> None:
    found = counted(
        replace(PLAIN, until_s=10),
        replace(PLAIN, since_s=10, policy=""),
        replace(PLAIN, host_id=0, host_name="node0"),
    )
    assert [(one.policy, one.host_name, one.on_s) for one in found] == [
        ("", "node1", 3590), ("PEMP", "node0", HOUR_S), ("PEMP", "node1", 10),
    ]  # fmt: skip


def test_a_host_that_was_renamed_is_counted_under_its_last_name_and_by_the_model_of_that() -> None:
    old = HostUseTotal(1, "older", "attic", HostUse.ON, "", 0, stays=1, lasted_s=60, first_s=-120, last_s=-60)
    stays = [replace(PLAIN, host_name="old", until_s=60), replace(PLAIN, since_s=60, until_s=120, cluster_name="hall")]

    def power_of(host: str, cluster: str) -> HostPower:
        return WATTS if (host, cluster) == ("node1", "hall") else replace(WATTS, curve=linear_power(900, 900))

    found = accounts(stays, [old], power_of, -200, 120)
    assert [(one.policy, one.host_name, one.taken_mj) for one in found] == [
        ("", "node1", 60 * 100_000), ("PEMP", "node1", 120 * 100_000),
    ]  # fmt: skip


def test_hosts_are_counted_by_their_own_models() -> None:
    found = accounts(
        [PLAIN, replace(PLAIN, host_id=2, host_name="big")],
        (),
        lambda host, cluster: replace(WATTS, curve=linear_power(300 if host == "big" else 100, 400)),
        0,
        HOUR_S,
    )
    assert [one.taken_kwh for one in found] == [0.1, 0.3]


STAYS = st.lists(
    st.tuples(
        st.sampled_from(HostUse), st.integers(1, 200), st.sampled_from([0, 35, 100]), st.sampled_from(["", "PEMP"])
    ),
    min_size=1,
    max_size=12,
)


def stays_of(drawn: list[tuple[HostUse, int, int, str]]) -> list[HostUseStay]:
    """One after the other."""
    found: list[HostUseStay] = []
    since_s = 0
    for use, lasted_s, load_percent, policy in drawn:
        load = load_percent if use is HostUse.ON else 0
        found.append(HostUseStay(1, "node1", "rack", use, policy, since_s, since_s + lasted_s, load))
        since_s += lasted_s
    return found


@given(drawn=STAYS, window=st.tuples(st.integers(0, 2000), st.integers(0, 2000)))
def test_the_account_is_the_sum_of_every_second(
    drawn: list[tuple[HostUse, int, int, str]], window: tuple[int, int]
) -> None:
    stays, (from_s, until_s) = stays_of(drawn), window
    taken = always_on = 0
    for second in range(from_s, until_s):
        stay = next((one for one in stays if one.since_s <= second < (one.until_s or 0)), None)
        if stay is not None:
            powers = {
                HostUse.ON: 100_000 + 1000 * stay.load_percent,
                HostUse.BOOTING: 150_000 if second < stay.since_s + WATTS.boot_s else 100_000,
                HostUse.SHUTTING_DOWN: 80_000,
                HostUse.OFF: 5_000,
                HostUse.FAILED: 100_000,
            }
            taken += powers[stay.use]
            always_on += powers[HostUse.ON]
    found = counted(*stays, from_s=from_s, until_s=until_s)
    assert (sum(one.taken_mj for one in found), sum(one.always_on_mj for one in found)) == (taken, always_on)
    assert sum(one.counted_s for one in found) == max(0, min(until_s, stays[-1].until_s or 0) - from_s)


@given(drawn=STAYS)
def test_what_was_pruned_is_accounted_as_it_was(drawn: list[tuple[HostUse, int, int, str]]) -> None:
    # Boots that end in time: of others a total knows only the sum.
    stays = stays_of([(use, 60 if use is HostUse.BOOTING else s, load, policy) for use, s, load, policy in drawn])
    totals: dict[tuple[int, str, str, int], HostUseTotal] = {}
    for stay in stays:
        totals[stay.key] = with_stay(totals.get(stay.key), stay)
    pruned = accounts((), totals.values(), lambda _host, _cluster: WATTS, 0, 0)
    assert pruned == counted(*stays, until_s=10**6)


def test_accounts_add_up() -> None:
    one, other = counted(PLAIN, replace(PLAIN, host_id=2, use=HostUse.OFF))
    both = added(one, other)
    assert (both.taken_kwh, both.always_on_kwh, both.on_s, both.off_s) == (0.105, 0.2, HOUR_S, HOUR_S)
