"""A zone that is taken out of the configuration: its requests are kept or given up, and found should it come back."""

from __future__ import annotations

import json

import pytest

from one_preempt.adapters.daemon_socket.gateway_client import GatewayDeclined, ask_gateway
from one_preempt.core.gateway.requests import RequestState
from tests.gateway.federation import PATIENCE_S, Federation
from tests.gateway.test_looking_and_cancelling import as_unix_user
from tests.gateway.test_looking_for_requests import created, opened

HOUR_S = 3600


def in_zone(world: Federation, zone: str, size: int) -> int:
    """The number of a request that was told this zone; those that were told another are refused there."""
    turn = opened(world, size)
    while turn["zone"] != zone:
        fields = {"request": turn["number"], "zone": turn["zone"], "text": "no"}
        turn = ask_gateway(str(world.socket), "refused", fields)
    return int(turn["number"])


def left_behind(world: Federation) -> None:
    """Zone north has request 1 with all VMs, 2 with some, 3 with none; then it is taken out."""
    for size, there in ((1, 1), (2, 1), (1, 0)):
        number = in_zone(world, "north", size)
        created(world, {"zone": "north", "token": world.request(number).token}, there)
    world.round(PATIENCE_S + 1)
    assert [world.request(number).state for number in (1, 2)] == [RequestState.PLACED, RequestState.OPEN]
    number = in_zone(world, "north", 1)
    assert number == 4
    world.restart(without="north")


def test_what_is_left_in_a_zone_that_was_taken_out_is_given_up_by_the_administrator(world: Federation) -> None:
    left_behind(world)
    world.round(PATIENCE_S + 1)
    (said,) = (text for text in world.said if "gateway give-up ZONE" in text)
    assert said.startswith("zone north is no longer configured, and requests are left there: put it back")
    checked = json.loads(world.run("oneadmin", "check", "--json").stdout)
    (left,) = [found["text"] for found in checked if found["subject"] == "zone north"]
    assert left == "it is not configured any more, and 3 requests are left there"
    assert world.run("oneadmin", "give-up", "north", typed="n\n").exit_code == 1
    assert world.request(4).state is RequestState.OPEN
    given_up = world.run("oneadmin", "give-up", "north", typed="y\n")
    assert (given_up.exit_code, given_up.stdout.splitlines()[-1]) == (0, "3 requests are given up"), given_up.output
    assert {world.request(number).state for number in (1, 2, 3, 4)} == {RequestState.ABANDONED}
    assert world.request(2).text == (
        "its zone was taken out of the gateway, and its administrator gave it up; VMs of it may be there: 1"
    )
    assert world.balances() == {}
    again = world.run("oneadmin", "give-up", "north", "--yes")
    assert (again.exit_code, "no request is left in a zone named 'north'" in again.stderr) == (1, True)
    world.round(91 * 24 * HOUR_S)
    world.round(HOUR_S)
    assert [one["number"] for one in world.told("oneadmin", "list")] == [4], "nothing keeps them on record for ever"


def test_nothing_of_it_is_lost_should_the_zone_be_put_back(world: Federation) -> None:
    left_behind(world)
    world.round()
    charged = world.request(1).charges
    assert world.run("oneadmin", "give-up", "north", "--yes").exit_code == 0
    world.restart()
    world.round()
    states = [world.request(number).state for number in (1, 2, 4)]
    assert states == [RequestState.PLACED, RequestState.UNANSWERED, RequestState.ABANDONED]
    assert (world.request(1).vm_ids, world.request(1).charges) == ((0,), charged)


def test_zones_that_are_configured_are_not_given_up(world: Federation) -> None:
    number = in_zone(world, "north", 1)
    result = world.run("oneadmin", "give-up", "north", "--yes")
    assert result.exit_code == 1
    assert "zone 'north' is configured, and the gateway looks there itself" in result.stderr
    assert world.request(number).state is RequestState.OPEN


def test_a_zone_that_is_misspelt_gives_nothing_up_and_the_right_ones_are_told(world: Federation) -> None:
    left_behind(world)
    result = world.run("oneadmin", "give-up", "nrth", "--yes")
    assert result.exit_code == 1
    assert "zones that were taken out have: north (3)" in result.stderr


def test_users_give_up_nothing_and_are_told_nothing_of_others(world: Federation) -> None:
    left_behind(world)
    with as_unix_user(4711):
        assert ask_gateway(str(world.socket), "status", {})["zones_taken_out"] == {}
        with pytest.raises(GatewayDeclined, match="only root and the gateway's user"):
            ask_gateway(str(world.socket), "give_up", {"zone": "north"})
    result = world.run("eva", "cancel", "2", "--yes")
    assert result.exit_code == 1
    assert "or to give up what is there (gateway give-up)" in result.stderr


def test_vms_of_a_former_zone_are_not_those_of_the_next(world: Federation) -> None:
    turn = opened(world, size=2)
    first = turn["zone"]
    created(world, turn, 1)
    world.round(PATIENCE_S + 1)
    assert len(world.request(1).vm_ids) == 1
    world.clock.set(world.clock.now_s() + PATIENCE_S)
    ask_gateway(str(world.socket), "continue", {"request": 1})
    ask_gateway(str(world.socket), "refused", {"request": 1, "zone": first, "text": "no"})
    assert world.request(1).vm_ids == ()
