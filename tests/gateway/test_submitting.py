"""Requests for VMs in whichever zone, as users hand them in: over real sockets, to a gateway between three zones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from one_preempt.core.gateway.requests import Attempt, AttemptOutcome, RequestState
from one_preempt.simulation.emulator.endpoint_faults import FaultKind
from one_preempt.simulation.simulated_cloud.cloud_state import ALONE
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, SimZone
from tests.gateway.federation import PATIENCE_S, Federation, federation

GANG = ("--name", "sweep", "--size", "3")


def tried_in(world: Federation, zone: str) -> list[Attempt]:
    """What became of a zone's turns."""
    numbers = [request["number"] for request in world.told("eva", "list")]
    return [attempt for number in numbers for attempt in world.request(number).attempts if attempt.zone == zone]


def test_a_request_goes_to_one_zone_with_all_its_vms_and_the_owner_has_them(world: Federation) -> None:
    answer = world.submitted(*GANG, "--duration", "02:00:00")
    zone = world.zones[answer["zone"]]
    assert sorted(world.vms().values()) == [0, 0, 3]
    assert answer["vm_ids"] == [vm.id for vm in zone.living()]
    assert answer["endpoint"] == zone.url
    request = world.request(answer["number"])
    for vm in zone.living():
        assert (vm.uname, vm.state.name) == ("eva", "HOLD")
        assert vm.user_template["LEASE"] == [
            {"TYPE": "BE-SUSPENDABLE", "NAME": "sweep", "SIZE": "3", "DURATION": "02:00:00"}
        ]
        assert vm.user_template["LEASE_GATEWAY"] == ["1"]
        assert vm.user_template["LEASE_SUBMISSION"] == [request.token]
    assert (request.state, request.vm_ids, request.duration_s) == (RequestState.PLACED, (0, 1, 2), 7200)


def test_over_many_requests_the_zones_get_their_shares(world: Federation) -> None:
    went = Counter(world.submitted()["zone"] for _ in range(28))
    for zone, cores in (("north", 8), ("south", 16), ("west", 32)):  # by BCF
        assert abs(went[zone] - 28 * cores / 56) <= 1, went


def test_types_are_spread_each_by_itself(world: Federation) -> None:
    went: Counter[tuple[str, str]] = Counter()
    for number in range(28):
        kind = ("BE-SUSPENDABLE", "BE-CANCELLABLE")[number % 2]
        result = world.run("eva", "submit", "--template", "worker", "--type", kind, "--json")
        assert result.exit_code == 0, result.output
        went[kind, json.loads(result.stdout)["zone"]] += 1
    for kind in ("BE-SUSPENDABLE", "BE-CANCELLABLE"):
        for zone, cores in (("north", 8), ("south", 16), ("west", 32)):
            assert abs(went[kind, zone] - 14 * cores / 56) <= 1, went


def test_a_template_in_a_file_is_taken_anywhere(world: Federation, tmp_path: Path) -> None:
    file = tmp_path / "vm.txt"
    file.write_text('NAME = "own"\nCPU = "1"\nMEMORY = "128"\nLEASE_GATEWAY = "99"')
    result = world.run("eva", "submit", "--file", str(file), "--type", "BE-CANCELLABLE")
    assert result.exit_code == 0, result.output
    assert sum(world.vms().values()) == 1
    file.write_text("<TEMPLATE><CPU>1</CPU><MEMORY>128</MEMORY><LEASE_GATEWAY>99</LEASE_GATEWAY></TEMPLATE>")
    assert world.run("eva", "submit", "--file", str(file), "--type", "BE-CANCELLABLE").exit_code == 0
    marks = [vm.user_template["LEASE_GATEWAY"] for zone in world.zones.values() for vm in zone.living()]
    assert ["2"] in marks


def test_a_file_with_a_mark_of_its_own_is_refused_for_its_vms_would_not_be_found(
    world: Federation, tmp_path: Path
) -> None:
    file = tmp_path / "vm.txt"
    file.write_text('CPU = "1"\nMEMORY = "128"\nLEASE_SUBMISSION = "99"')
    result = world.run("eva", "submit", "--file", str(file), "--type", "BE-CANCELLABLE")
    assert result.exit_code == 1
    assert "the template has a LEASE_SUBMISSION of its own: remove it" in result.stderr
    assert sum(world.vms().values()) == 0


def test_who_waits_in_vain_is_told_by_the_number_of_the_request(world: Federation) -> None:
    result = world.submit("--wait", "--timeout", "0")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("request 1: it does not run yet")


# -- zones that do not take it -----------------------------------------------------------------------------


def test_a_zone_without_the_template_is_passed_over_and_the_reason_is_told(world: Federation) -> None:
    del world.zones["west"].cloud.vm_templates[0]
    results = [world.submit("--json") for _ in range(4)]
    assert {json.loads(result.stdout)["zone"] for result in results} == {"north", "south"}
    refused = tried_in(world, "west")
    assert {attempt.outcome for attempt in refused} == {AttemptOutcome.REFUSED}
    assert "no VM template that you may use is called 'worker'" in refused[0].text
    told = "".join(result.stderr for result in results)
    assert "zone west: no VM template that you may use is called 'worker'" in told


def test_a_zone_whose_resources_the_user_was_not_given_is_passed_over(world: Federation) -> None:
    # Every group may create VMs in all zones: what is created there would wait for ever.
    west = world.zones["west"]
    west.cloud.join_federation(100, [ALONE, SimZone(100, "west", west.url)])
    results = [world.submit("--json") for _ in range(4)]
    assert {json.loads(result.stdout)["zone"] for result in results} == {"north", "south"}
    assert "zone west: you may use no system datastore there" in "".join(result.stderr for result in results)
    west.cloud.acl_add(ONEADMIN, "200000065", "100400000000", "1", "100000064")  # @101 DATASTORE/* USE #100
    assert "west" in {world.submitted()["zone"] for _ in range(4)}


def test_a_quota_that_stops_the_second_vm_undoes_the_first_and_the_next_zone_has_all(world: Federation) -> None:
    west = world.zones["west"]
    west.cloud.user_quota(ONEADMIN, west.caller("eva").uid, 'VM = [ VMS = "2", CPU = "-2", MEMORY = "-2" ]')
    answers = [world.submitted(*GANG) for _ in range(4)]
    assert (world.vms()["west"], sum(world.vms().values())) == (0, 12)
    assert "VM 3 of 3 could not be created" in tried_in(world, "west")[0].text
    assert "What had been created was terminated again" in tried_in(world, "west")[0].text
    assert all(answer["zone"] != "west" for answer in answers)


def test_a_zone_that_does_not_answer_costs_the_others_nothing_to_catch_up(world: Federation) -> None:
    world.zones["west"].fails()
    assert {world.submitted()["zone"] for _ in range(6)} == {"north", "south"}
    world.zones["west"].faults.clear()
    went = Counter(world.submitted()["zone"] for _ in range(7))
    assert went["west"] in (3, 4, 5)


def test_a_zone_that_was_seen_to_be_away_is_not_tried_first(world: Federation) -> None:
    world.zones["west"].fails()
    for _ in range(4):
        world.submitted()
    world.round(1)  # somebody said that it is away: now it is seen
    assert any(text.startswith("zone west: ") for text in world.said)
    for _ in range(4):
        number = world.submitted()["number"]
        assert [attempt.zone for attempt in world.request(number).attempts] in (["north"], ["south"])
    world.zones["west"].faults.clear()
    # A clock that is set back leaves it aside for no longer.
    world.clock.set(world.clock.now_s() - 86_400)
    assert "west" in {world.submitted()["zone"] for _ in range(3)}


def test_a_zone_that_was_seen_to_be_away_is_tried_again_after_a_while(world: Federation) -> None:
    world.zones["west"].fails()
    for _ in range(4):
        world.submitted()
    world.round(1)
    world.zones["west"].faults.clear()
    world.clock.set(world.clock.now_s() + 299)
    assert "west" not in {world.submitted()["zone"] for _ in range(3)}
    world.clock.set(world.clock.now_s() + 1)
    assert "west" in {world.submitted()["zone"] for _ in range(3)}


def test_what_a_user_says_of_a_zone_is_not_believed_by_others(world: Federation) -> None:
    from one_preempt.adapters.daemon_socket.gateway_client import ask_gateway

    socket = str(world.socket)
    turn = ask_gateway(socket, "open", {"type": "BE-SUSPENDABLE", "size": 1})
    lied_of = turn["zone"]
    ask_gateway(
        socket, "refused", {"request": turn["number"], "zone": lied_of, "text": "it is away!", "reached": False}
    )
    world.round(1)
    assert lied_of in {world.submitted()["zone"] for _ in range(4)}


def test_where_every_zone_refuses_nothing_is_left_and_all_reasons_are_told(world: Federation) -> None:
    for zone in world.zones.values():
        del zone.cloud.vm_templates[0]
    result = world.submit()
    assert result.exit_code == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: request 1 is in no zone. ")
    for name in world.zones:
        assert f"{name}: no VM template that you may use" in last
    request = world.request(1)
    assert (request.state, request.charges, len(request.attempts)) == (RequestState.REFUSED, {}, 3)
    assert world.balances() == {}


def test_all_zones_away_is_told_in_one_line(world: Federation) -> None:
    for zone in world.zones.values():
        zone.fails(FaultKind.HTML)
    result = world.submit()
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert "does the URL end in /RPC2" in result.stderr.splitlines()[-1]


def test_a_user_whom_a_zone_does_not_know_is_served_by_another(world: Federation) -> None:
    west = world.zones["west"]
    west.cloud.users[west.caller("eva").uid].name = "somebody"
    assert {world.submitted()["zone"] for _ in range(4)} == {"north", "south"}
    assert "does not know you" in tried_in(world, "west")[0].text


# -- a call without an answer ------------------------------------------------------------------------------


def test_after_a_call_without_an_answer_no_other_zone_is_asked(world: Federation) -> None:
    for zone in world.zones.values():
        zone.fails(FaultKind.LOST_REPLY, "one.template.instantiate", 1)
        zone.fails(FaultKind.CLOSE, "one.vmpool.infoextended", 10)
    result = world.submit()
    assert result.exit_code == 1
    assert "request 1 stays at zone" in result.stderr
    assert f"after {PATIENCE_S} s: the same command with --continue 1" in result.stderr
    assert sorted(world.vms().values()) == [0, 0, 1]  # it was created all the same
    assert world.request(1).state is RequestState.UNANSWERED
    for zone in world.zones.values():
        zone.faults.clear()
    early = world.submit("--continue", "1")
    assert early.exit_code == 1
    assert f"continue in {PATIENCE_S} s" in early.stderr
    world.clock.set(world.clock.now_s() + PATIENCE_S)
    again = world.submit("--continue", "1", "--json")
    assert again.exit_code == 0, again.output
    assert sorted(world.vms().values()) == [0, 0, 1]
    assert world.request(1).state is RequestState.PLACED


def test_the_gateway_finds_it_by_itself(world: Federation) -> None:
    for zone in world.zones.values():
        zone.fails(FaultKind.LOST_REPLY, "one.template.instantiate", 1)
        zone.fails(FaultKind.CLOSE, "one.vmpool.infoextended", 3)
    assert world.submit().exit_code == 1
    for zone in world.zones.values():
        zone.faults.clear()
    world.round(PATIENCE_S)
    assert world.request(1).state is RequestState.UNANSWERED  # not a second too early
    world.round(1)
    assert (world.request(1).state, world.request(1).vm_ids) == (RequestState.PLACED, (0,))
    assert any(text.startswith("request 1 of ") and "found there" in text for text in world.said)


# -- mistakes of users ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (("--template", "worker"), 2, "Missing option '--type'"),
        (("--type", "BE-SUSPENDABLE"), 2, "give either --template or --file"),
        (("--template", "0", "--type", "BE-SUSPENDABLE"), 2, "write the --template by its name"),
        (("--template", "worker", "--type", "BEST"), 2, "BEST"),
        (("--template", "worker", "--type", "BE-SUSPENDABLE", "--size", "3"), 2, "NAME"),
        (("--file", "/nowhere/vm.txt", "--type", "BE-SUSPENDABLE"), 1, "cannot be read"),
        (("--template", "worker", "--type", "BE-SUSPENDABLE", "--continue", "7"), 1, "you have no request 7"),
        (("--template", "worker", "--type", "BE-SUSPENDABLE", "--name", "x", "--size", "5000"), 2, "4096 at most"),
    ],
)
def test_a_mistake_is_told_in_words_and_opens_no_request(
    options: tuple[str, ...], code: int, told: str, world: Federation
) -> None:
    result = world.run("eva", "submit", *options)
    assert (result.exit_code, told in result.output) == (code, True), result.output
    assert world.told("eva", "list") == []
    assert sum(world.vms().values()) == 0


def test_without_a_gateway_the_user_is_told_what_to_do(world: Federation) -> None:
    world.stop()
    result = world.submit()
    assert result.exit_code == 1
    assert "there is no gateway at" in result.stderr
    assert "one-preempt lease submit" in result.stderr
    world.start()


def test_nobody_makes_more_than_so_many_requests_in_an_hour_whatever_becomes_of_them() -> None:
    with federation(requests_an_hour=2) as world:
        assert [world.submit().exit_code for _ in range(2)] == [0, 0]
        result = world.submit()
        assert result.exit_code == 1
        assert "you have made 2 requests within an hour" in result.stderr
        assert "the next one in 3600 s" in result.stderr
        world.clock.set(world.clock.now_s() + 3600)
        assert world.submit().exit_code == 0


def test_requests_in_hand_are_limited_for_each_user() -> None:
    with federation(requests_in_hand=1) as world:
        for zone in world.zones.values():
            zone.fails(FaultKind.LOST_REPLY, "one.template.instantiate", 1)
            zone.fails(FaultKind.CLOSE, "one.vmpool.infoextended", 3)
        assert world.submit().exit_code == 1
        result = world.submit()
        assert result.exit_code == 1
        assert "you have 1 requests without an outcome" in result.stderr
