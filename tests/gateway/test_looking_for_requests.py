"""When the gateway looks into zones for requests of which it has heard nothing, and what follows from what is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from one_preempt.adapters.daemon_socket.gateway_client import ask_gateway
from one_preempt.adapters.opennebula.zone_watcher import OpenNebulaZone
from one_preempt.core.gateway.requests import RequestState
from one_preempt.gateway.upkeep import LOOK_EVERY_S
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from tests.gateway.federation import PATIENCE_S, Federation

HOUR_S = 3600


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the gateway asked zones, by question."""
    counted: Counter[str] = Counter()

    def counting(name: str, whole: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*given: Any) -> Any:
            counted[name] += 1
            return whole(*given)

        return asked

    for name in ("version", "seen", "vms_with"):
        monkeypatch.setattr(OpenNebulaZone, name, counting(name, getattr(OpenNebulaZone, name)))
    return counted


def opened(world: Federation, size: int = 1) -> dict[str, Any]:
    """A request whose command says nothing more."""
    fields = {"type": "BE-SUSPENDABLE", "size": size, "name": "sweep" if size > 1 else ""}
    turn: dict[str, Any] = ask_gateway(str(world.socket), "open", fields)
    return turn


def created(world: Federation, turn: dict[str, Any], count: int) -> list[int]:
    """VMs of it, which its owner has made without a word to the gateway."""
    zone = world.zones[turn["zone"]]
    text = f'CPU="1"\nMEMORY="128"\nLEASE_SUBMISSION="{turn["token"]}"'
    return [zone.cloud.vm_allocate(zone.caller("eva"), text, True) for _ in range(count)]


def test_who_says_again_and_again_that_a_zone_is_away_has_it_looked_at_once_a_minute(
    world: Federation, looks: Counter[str]
) -> None:
    for _ in range(60 // 5):
        turn = opened(world)
        fields = {"request": turn["number"], "zone": turn["zone"], "text": "away!", "reached": False}
        ask_gateway(str(world.socket), "refused", fields)
        world.round(5)
    assert looks["vms_with"] == looks["seen"] == 0, "whether a zone is there is asked without reading its VMs"
    assert 1 <= looks["version"] <= len(world.zones)
    assert "answers again" not in " ".join(world.said)
    world.round(LOOK_EVERY_S)
    assert looks["version"] <= 2 * len(world.zones), "what was doubted meanwhile is looked at then"


def test_requests_that_die_one_after_the_other_have_their_zone_looked_at_once_a_minute(
    world: Federation, looks: Counter[str]
) -> None:
    for _ in range(24):
        opened(world)
        world.round(5)
    assert looks["vms_with"] == 0
    for _ in range(24):
        world.round(5)
    assert looks["vms_with"] <= 3 * len(world.zones)
    world.round(PATIENCE_S)
    world.round(LOOK_EVERY_S)
    states = {request["state"] for request in world.told("eva", "list")}
    assert states == {"abandoned"}


def test_a_request_of_which_some_is_there_is_looked_for_once_and_then_with_the_measuring(
    world: Federation, looks: Counter[str]
) -> None:
    turn = opened(world, size=3)
    (vm_id,) = created(world, turn, 1)
    for _ in range(8):
        world.round(PATIENCE_S + 1)
    assert looks["vms_with"] == 1
    assert world.request(1).text.startswith("1 of 3 VMs are there")
    zone = world.zones[turn["zone"]]
    zone.cloud.vm_action(ONEADMIN, "terminate-hard", vm_id)
    zone.cloud.settle()
    world.round(HOUR_S)
    request = world.request(1)
    assert (request.state, request.vm_ids, world.balances()) == (RequestState.ABANDONED, (), {})


def test_a_request_that_was_given_up_is_found_when_its_vms_come_after_all(world: Federation) -> None:
    turn = opened(world)
    charged = world.balances()
    world.round(PATIENCE_S + 1)
    assert (world.request(1).state, world.balances()) == (RequestState.ABANDONED, {})
    vm_ids = created(world, turn, 1)
    world.round(HOUR_S)
    request = world.request(1)
    assert (request.state, list(request.vm_ids), request.ended_at_s) == (RequestState.PLACED, vm_ids, None)
    assert world.balances() == charged != {}, "its zone has had that turn"
    assert "request 1 of root: placed, its VMs were found there" in world.said[-1]
    world.zones[turn["zone"]].run_for(vm_ids, 60)
    world.round(HOUR_S)
    assert world.request(1).state is RequestState.ENDED


def test_a_command_that_says_after_all_what_it_has_created_has_its_zone_charged_again(world: Federation) -> None:
    turn = opened(world)
    charged = world.balances()
    world.round(PATIENCE_S + 1)
    fields = {"request": 1, "zone": turn["zone"], "vm_ids": created(world, turn, 1)}
    for _ in range(2):  # its answer may be lost
        ask_gateway(str(world.socket), "placed", fields)
        assert (world.request(1).state, world.balances()) == (RequestState.PLACED, charged)


def test_of_a_request_that_was_given_up_some_vms_are_its_owners_affair(world: Federation) -> None:
    turn = opened(world, size=2)
    charged = world.balances()
    world.round(PATIENCE_S + 1)
    created(world, turn, 1)
    world.round(HOUR_S)
    assert (world.request(1).state, world.balances()) == (RequestState.UNANSWERED, charged)
    assert world.request(1).text.startswith("1 of 2 VMs are there: continue it")
    world.clock.set(world.clock.now_s() + PATIENCE_S)
    assert world.run("eva", "cancel", "1", "--yes").exit_code == 0
    assert (world.request(1).state, sum(world.vms().values())) == (RequestState.CANCELLED, 0)
    assert world.balances() == {}


def test_large_requests_that_are_invented_fill_the_ledger_for_an_hour_at_most(world: Federation) -> None:
    """Everybody may claim 4096 VMs some hundred times an hour, and what is over stays on record for months."""
    for number in (1, 2):
        turn = opened(world, size=4096)
        fields = {"request": number, "zone": turn["zone"], "vm_ids": list(range(4096))}
        ask_gateway(str(world.socket), "placed", fields)
    ask_gateway(str(world.socket), "cancelled", {"request": 2})
    world.round(HOUR_S)
    assert [(world.request(number).state, len(world.request(number).vm_ids)) for number in (1, 2)] == [
        (RequestState.ENDED, 20),
        (RequestState.CANCELLED, 20),
    ]
    assert world.request(2).is_sent


def test_vms_that_are_still_ending_take_up_no_request_that_was_cancelled(world: Federation) -> None:
    turn = opened(world)
    created(world, turn, 1)
    world.round(PATIENCE_S + 1)
    ask_gateway(str(world.socket), "cancelled", {"request": 1})
    world.round(HOUR_S)
    assert (world.request(1).state, sum(world.vms().values())) == (RequestState.CANCELLED, 1)


def test_more_vms_than_were_asked_are_told_of_a_request_that_was_placed(world: Federation) -> None:
    """As when a command that was stopped goes on after another one has continued its request."""
    turn = opened(world)
    vm_ids = created(world, turn, 1)
    ask_gateway(str(world.socket), "placed", {"request": 1, "zone": turn["zone"], "vm_ids": vm_ids})
    more = created(world, turn, 1)
    world.round(HOUR_S)
    request = world.request(1)
    assert (request.state, list(request.vm_ids)) == (RequestState.PLACED, [*vm_ids, *more])
    assert request.text == "2 VMs were found there, 1 were asked: end the others"
    world.zones[turn["zone"]].run_for(more, 60)
    world.round(HOUR_S)
    request = world.request(1)
    assert (request.state, list(request.vm_ids), request.text) == (RequestState.PLACED, vm_ids, "")
