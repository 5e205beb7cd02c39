"""From what accounting tells to streams, and from streams to shares."""

from __future__ import annotations

import math

import numpy
import pytest

from one_preempt.core.gateway.external_stream import external_stream
from one_preempt.core.gateway.requests import GatewayRequest, RequestState
from one_preempt.core.gateway.shares import (
    FullZones,
    NoShares,
    Question,
    ZoneLoad,
    allocated,
    asked,
    common_speeds,
)
from one_preempt.core.gateway.streams import GivenStream, HostRoom, Stream, ZoneMeasure, measured, with_given
from one_preempt.core.gateway.vm_runs import Counted, Stay, VmRun, by_token, requests_in
from one_preempt.core.model.lease import LeaseType
from one_preempt.policy_registry import ALLOCATION_POLICIES

NOW_S, HOUR_S = 1_800_000_000, 3600
WEEK_S = 7 * 24 * HOUR_S
PAP, BCF = ALLOCATION_POLICIES.named("pap"), ALLOCATION_POLICIES.named("bcf")


def run(
    vm_id: int, came_s: int, lasts_s: int, cores: float = 1, living: bool = False, gang: tuple[str, int] = ("", 1)
) -> VmRun:
    """A VM that came so long before now and ran at once."""
    began_s = NOW_S - came_s
    stay = Stay(began_s, None if living else began_s + lasts_s)
    return VmRun(vm_id, 5, cores, cores * 2, began_s, living, (stay,), *gang)


def zone(name: str, cores: float = 64, rate_per_h: float = 0.0, work_h: float = 0.0, speed: float = 1.0) -> ZoneLoad:
    local = Stream(rate_per_h / HOUR_S, work_h * HOUR_S, (work_h * HOUR_S) ** 2 * 2)
    return ZoneLoad(name, speed, ZoneMeasure(NOW_S, WEEK_S, cores, 0.0, None, local), local)


EXTERNAL = Stream(10 / HOUR_S, 2.0 * HOUR_S, 2 * (2.0 * HOUR_S) ** 2)


# -- what accounting tells -------------------------------------------------------------------------------


def test_vms_of_one_lease_are_one_request_and_others_are_one_each() -> None:
    runs = [run(1, 1000, 100), run(2, 900, 100, 2, gang=("a", 2)), run(3, 899, 200, 2, gang=("a", 2)), run(4, 5, 5)]
    found = requests_in(runs, Counted.CPU, NOW_S)
    assert [(NOW_S - one.arrived_at_s, one.work) for one in found] == [(1000, 100), (900, 600), (5, 5)]


def test_a_name_used_again_is_another_request() -> None:
    runs = [run(number, 100 - number, 10, gang=("again", 2)) for number in range(5)]
    assert len(requests_in(runs, Counted.CPU, NOW_S)) == 3


def test_work_counts_all_stays_and_goes_on_while_a_vm_runs() -> None:
    stays = (Stay(NOW_S - 100, NOW_S - 90), Stay(NOW_S - 20, None))
    moved = VmRun(1, 5, 2.0, 8.0, NOW_S - 100, True, stays)
    assert [requests_in([moved], counted, NOW_S)[0].work for counted in Counted] == [60.0, 240.0]
    # Clocks of two machines differ: nothing is taken away for it.
    assert VmRun(1, 5, 2.0, 8.0, NOW_S, True, (Stay(NOW_S + 9, None), Stay(9, 5))).ran_s(NOW_S) == 0


def test_only_tokens_of_the_ledger_make_a_request_external() -> None:
    mine = VmRun(1, 5, 1, 1, NOW_S, True, token="aa")
    forged = VmRun(2, 5, 1, 1, NOW_S, True, token="zz")
    local, external = by_token([mine, forged, run(3, 5, 5)], {"aa": 12})
    assert [one.vm_id for one in local] == [2, 3]
    assert external == {12: [mine]}


def test_rate_and_moments_are_found_again_in_drawn_requests() -> None:
    drawn = numpy.random.default_rng(5)
    arrivals = numpy.cumsum(drawn.exponential(300.0, 1900))
    arrivals = arrivals[arrivals < WEEK_S]
    lasts = drawn.gamma(2.0, 900.0, len(arrivals))
    runs = [
        VmRun(number, 5, 1.0, 1.0, NOW_S - WEEK_S + int(at), False, (
            Stay(NOW_S - WEEK_S + int(at), NOW_S - WEEK_S + int(at + last)),
        ))
        for number, (at, last) in enumerate(zip(arrivals, lasts, strict=True))
    ]  # fmt: skip
    found = measured([HostRoom(16, 64)], runs, Counted.CPU, NOW_S, WEEK_S).local
    assert found.rate_per_s == pytest.approx(1 / 300, rel=0.06)
    assert found.mean_work == pytest.approx(1800, rel=0.06)
    assert found.mean_work_squared == pytest.approx(1.5 * 1800**2, rel=0.12)
    assert found.samples == len(runs)


def test_what_is_older_than_the_window_takes_elements_away_and_is_no_request() -> None:
    services = [run(1, 9 * WEEK_S, 0, cores=10, living=True), run(2, 2 * WEEK_S, 0, cores=4, living=True)]
    half = VmRun(3, 5, 8.0, 1.0, NOW_S - 2 * WEEK_S, True, (Stay(NOW_S - WEEK_S // 2, None),))
    found = measured([HostRoom(32, 64)], [*services, half], Counted.CPU, NOW_S, WEEK_S)
    assert (found.elements, found.standing) == (32, 18.0)
    assert (found.local.rate_per_s, found.local.mean_work) == (0.0, None)


def test_external_vms_that_stay_take_elements_away_as_others_do() -> None:
    """Else a zone that is full of them would look empty, and get still more."""
    stays, comes = run(1, 2 * WEEK_S, 0, cores=10, living=True), run(2, 7200, 3600, cores=4)
    found = measured([HostRoom(32, 64)], [], Counted.CPU, NOW_S, WEEK_S, [stays, comes])
    assert (found.elements, found.standing, found.local.rate_per_s) == (32, 10.0, 0.0)


def test_a_year_that_ended_is_no_request_of_this_week() -> None:
    """As one it would be most of the work that local requests bring, and the zone would count as full for a week."""
    short = [run(number, 7200 * number, 3600) for number in range(1, 21)]
    year = run(99, 52 * WEEK_S, 52 * WEEK_S - WEEK_S // 2, cores=4)
    just_longer, just_shorter = run(97, WEEK_S + 60, WEEK_S + 1), run(98, WEEK_S + 60, WEEK_S)
    found = measured([HostRoom(32, 64)], [*short, year], Counted.CPU, NOW_S, WEEK_S)
    assert (found.standing, found.local.mean_work) == (2.0, 3600)
    assert measured([HostRoom(32, 64)], [*short, just_longer], Counted.CPU, NOW_S, WEEK_S).local.samples == 20
    assert measured([HostRoom(32, 64)], [*short, just_shorter], Counted.CPU, NOW_S, WEEK_S).local.samples == 21


def test_few_that_ended_tell_nothing_so_what_all_did_so_far_counts_and_that_is_said() -> None:
    runs = [run(number, 7200, 0, living=True) for number in range(3)] + [run(9, 7200, 60)]
    found = measured([HostRoom(32, 64)], runs, Counted.CPU, NOW_S, WEEK_S).local
    assert found.mean_work == (3 * 7200 + 60) / 4
    assert "only 1 have ended" in found.known_from


def test_the_mean_speed_is_that_of_elements() -> None:
    hosts = [HostRoom(30, 64, 2.0), HostRoom(10, 64, 4.0), HostRoom(50, 64, None)]
    assert measured(hosts, [], Counted.CPU, NOW_S, WEEK_S).speed_ghz == 2.5
    assert measured(hosts[2:], [], Counted.CPU, NOW_S, WEEK_S).speed_ghz is None


def test_speeds_are_compared_only_where_all_are_known() -> None:
    assert common_speeds({"a": 2.0, "b": 3.0}, {}) == {"a": 2.0, "b": 3.0}
    assert common_speeds({"a": 2.0, "b": None}, {}) == {"a": 1.0, "b": 1.0}
    assert common_speeds({"a": 2.0, "b": None}, {"b": 1.5}) == {"a": 2.0, "b": 1.5}


def test_what_is_configured_stands_in_place_of_what_was_measured() -> None:
    seen = Stream(0.1, 100.0, 20000.0, 50, "50 came")
    assert with_given(seen, GivenStream()) == seen
    assert with_given(seen, GivenStream(rate_per_h=7200)).rate_per_s == 2.0
    given = with_given(seen, GivenStream(mean_work_h=1.0))
    assert given.mean_work_squared == pytest.approx(2 * 3600**2)  # as variable as it was seen to be
    given = with_given(Stream(0.0, None, None), GivenStream(3.6, 1.0, 0.5))
    assert (given.rate_per_s, given.mean_work, given.known_from) == (0.001, 3600.0, "as configured")
    assert given.mean_work_squared == pytest.approx(1.25 * 3600**2)


# -- external requests, from the ledger -------------------------------------------------------------------


def request(number: int, ago_s: int, state: RequestState = RequestState.PLACED, **more: object) -> GatewayRequest:
    told: dict[str, object] = {"duration_s": None, "size": 2} | more
    return GatewayRequest(
        number, f"t{number}", 1000, "eva", LeaseType.BE_SUSPENDABLE, name="", opened_at_s=NOW_S - ago_s, state=state,
        **told,  # type: ignore[arg-type]
    )  # fmt: skip


def test_external_requests_that_reached_no_zone_do_not_count() -> None:
    requests = [
        request(1, 36000, RequestState.REFUSED),
        request(2, 18000, RequestState.ABANDONED),
        request(3, 9000, RequestState.CANCELLED),
        request(4, 8000, RequestState.CANCELLED, vm_ids=(3, 4)),
        request(5, 7000),
    ]
    assert external_stream(requests, NOW_S, WEEK_S).rate_per_s == 2 / 36000
    assert external_stream(requests, NOW_S, 7500).rate_per_s == 1 / 7500
    assert external_stream([], NOW_S, WEEK_S).rate_per_s == 0.0


def test_the_work_of_external_requests_is_observed_or_else_what_was_asked() -> None:
    unknown = [request(number, 9000) for number in range(20)]
    assert external_stream(unknown, NOW_S, WEEK_S).mean_work is None
    asked_for = [request(number, 9000, duration_s=1800) for number in range(20)]
    assert external_stream(asked_for, NOW_S, WEEK_S).mean_work == 3600.0
    done = [request(number, 9000, RequestState.ENDED, work=500.0) for number in range(10)]
    assert external_stream([*asked_for, *done], NOW_S, WEEK_S).mean_work == 500.0


# -- shares ------------------------------------------------------------------------------------------------


def test_every_policy_gives_shares_that_add_up_to_one() -> None:
    question = Question((zone("a"), zone("b", 128, 3, 4.0), zone("c", 256, 9, 8.0, speed=0.5)), EXTERNAL)
    for policy in ALLOCATION_POLICIES.all().values():
        answer = asked(policy, question, FullZones.LEAVE_OUT)
        assert answer.why_not == ""
        assert math.fsum(answer.shares.values()) == pytest.approx(1), policy.name
        assert answer.mean_response_s is not None


def test_pap_gives_less_to_a_zone_whose_own_users_need_it() -> None:
    shares = asked(PAP, Question((zone("idle"), zone("busy", 64, 8, 6.0)), EXTERNAL), FullZones.LEAVE_OUT).shares
    assert shares["idle"] > shares["busy"]
    assert set(
        asked(BCF, Question((zone("idle"), zone("busy", 64, 8, 6.0)), EXTERNAL), FullZones.LEAVE_OUT).shares.values()
    ) == {0.5}


def test_a_zone_that_its_own_users_fill_is_left_out_or_another_policy_answers_as_configured() -> None:
    question = Question((zone("a"), zone("full", 16, 10, 4.0), zone("c")), EXTERNAL)
    left = allocated(PAP, BCF, question, FullZones.LEAVE_OUT, NOW_S)
    assert (left.answer.policy, left.instead_of) == ("PAP", "")
    assert sorted(left.answer.shares) == ["a", "c"]
    assert left.answer.left_out == {"full": "its own users ask for 2.5 times what it has"}
    fell = allocated(PAP, BCF, question, FullZones.FALL_BACK, NOW_S)
    assert fell.answer.policy == "BCF"
    assert fell.instead_of.startswith("PAP has no answer: the local requests of cluster full alone take 2.5 times")
    assert sorted(fell.answer.shares) == ["a", "c", "full"]


def test_more_than_all_zones_can_take_falls_back_and_says_why() -> None:
    flood = Stream(1000 / HOUR_S, 2.0 * HOUR_S, 8.0 * HOUR_S**2)
    found = allocated(PAP, BCF, Question((zone("a"), zone("b")), flood), FullZones.LEAVE_OUT, NOW_S)
    assert found.answer.policy == "BCF"
    assert "local ones leave room for less than" in found.instead_of


def test_as_long_as_nothing_is_known_of_external_requests_pap_has_no_answer() -> None:
    for external, why in (
        (Stream(0.0, None, None), "no external request is on record yet"),
        (Stream(0.1, None, None), "nothing is known of what an external request computes"),
    ):
        found = allocated(PAP, BCF, Question((zone("a"), zone("b", 192)), external), FullZones.LEAVE_OUT, NOW_S)
        assert why in found.instead_of
        assert found.answer.shares == pytest.approx({"a": 0.25, "b": 0.75})
        assert found.by_speed == ("b", "a")


def test_zones_without_measure_hosts_or_room_get_no_share_and_it_is_said_why() -> None:
    dead = ZoneLoad("dead", 1.0, why_not="it does not answer")
    crowded = ZoneLoad("crowded", 1.0, ZoneMeasure(NOW_S, WEEK_S, 8, 8, None, Stream(0.0, None, None)))
    hosts = ZoneLoad("hosts", 1.0, ZoneMeasure(NOW_S, WEEK_S, 0, 0, None, Stream(0.0, None, None)))
    fresh = ZoneLoad("fresh", 1.0)
    found = allocated(
        PAP, BCF, Question((dead, crowded, hosts, fresh, zone("a")), EXTERNAL), FullZones.LEAVE_OUT, NOW_S
    )
    assert found.answer.shares == {"a": 1.0}
    assert found.unmeasured == {
        "dead": "it does not answer",
        "crowded": "VMs that are older than the window take all that its hosts have",
        "hosts": "no host of it takes VMs",
        "fresh": "it was not measured yet",
    }
    with pytest.raises(NoShares, match="dead: it does not answer"):
        allocated(PAP, BCF, Question((dead,), EXTERNAL), FullZones.LEAVE_OUT, NOW_S)
