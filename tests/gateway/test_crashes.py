"""Whoever dies, between whichever two steps: no VM is made twice, and what there is is found again."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from one_preempt.adapters.daemon_socket import gateway_client
from one_preempt.adapters.daemon_socket.gateway_client import ask_gateway
from one_preempt.adapters.lease_store.named_database import LeaseStoreError
from one_preempt.adapters.lease_store.sql_gateway_ledger import SqlGatewayLedger
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.core.gateway.requests import RequestState
from one_preempt.entrypoints.cli.gateway import asking, dispatching
from one_preempt.entrypoints.cli.lease.creation import create_all
from one_preempt.simulation.emulator.endpoint_faults import FaultKind
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from tests.gateway.federation import PATIENCE_S, Federation, federation
from tests.mortal import Killed, Mortal

GANG = ("--name", "sweep", "--size", "3")
MUTATING = ("one.template.instantiate", "one.vm.action", "one.vm.allocate")


def death(step: int, *, before: bool) -> Mortal:
    """Of whose steps one is the last: it dies just before it, or just after it."""
    return Mortal(2 * step + (1 if before else 2))


@contextmanager
def dying_command(dies: Mortal, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every message to the gateway and every call that changes a zone is a step."""
    call = OnedTransport.call
    step = dies.mortal(call)

    def called(transport: OnedTransport, method: str, *parameters: Any) -> Any:
        return (step if method in MUTATING else call)(transport, method, *parameters)

    with monkeypatch.context() as patched:
        patched.setattr(asking, "ask_gateway", dies.mortal(ask_gateway))
        patched.setattr(OnedTransport, "call", called)
        yield


def submit_and_die(world: Federation, dies: Mortal, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    with dying_command(dies, monkeypatch):
        try:
            world.submit(*GANG, *options)
        except Killed:
            assert dies.has_died


# open, three VMs, placed: each before and after.
STEPS = [(step, before) for step in range(5) for before in (True, False)]


@pytest.mark.parametrize(("step", "before"), STEPS)
def test_a_command_that_died_is_continued(
    step: int, before: bool, world: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies = death(step, before=before)
    submit_and_die(world, dies, monkeypatch)
    assert dies.has_died
    if (step, before) == (0, True):
        assert world.submitted(*GANG)["number"] == 1  # nobody heard of it
        return
    world.clock.set(world.clock.now_s() + PATIENCE_S)
    if (step, before) != (4, False):
        answer = world.submitted(*GANG, "--continue", "1")
        assert answer["number"] == 1
    request = world.request(1)
    assert request.state is RequestState.PLACED
    assert sorted(world.vms().values()) == [0, 0, 3]
    assert [vm.id for vm in world.zones[request.zone].living()] == list(request.vm_ids)
    assert sum(abs(balance) for balance in world.balances().values()) > 0
    assert len(request.attempts) == 1


@pytest.mark.parametrize(("step", "before"), STEPS[1:])
def test_a_command_that_died_and_nobody_continues_is_settled_by_the_gateway(
    step: int, before: bool, world: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_and_die(world, death(step, before=before), monkeypatch)
    world.round(PATIENCE_S + 1)
    request, there = world.request(1), sum(world.vms().values())
    if there == 0:
        assert (request.state, request.charges) == (RequestState.ABANDONED, {})
        assert world.balances() == {}
        return
    if there == 3:
        assert (request.state, len(request.vm_ids)) == (RequestState.PLACED, 3)
        return
    assert request.state is RequestState.OPEN
    assert request.text.startswith(f"{there} of 3 VMs are there")
    assert world.run("eva", "cancel", "1", "--yes").exit_code == 0
    assert (world.request(1).state, sum(world.vms().values())) == (RequestState.CANCELLED, 0)
    assert world.balances() == {}


@pytest.mark.parametrize("second", range(7))
@pytest.mark.parametrize("first", [1, 2, 3])
def test_who_continues_may_die_as_well(
    first: int, second: int, world: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_and_die(world, death(first, before=False), monkeypatch)
    world.clock.set(world.clock.now_s() + PATIENCE_S)
    submit_and_die(world, death(second, before=False), monkeypatch, "--continue", "1")
    world.round(PATIENCE_S + 1)
    if world.request(1).state in (RequestState.OPEN, RequestState.UNANSWERED):
        world.submitted(*GANG, "--continue", "1")
    if world.request(1).state is RequestState.ABANDONED:
        assert sum(world.vms().values()) == 0
        return
    assert world.request(1).state is RequestState.PLACED
    assert sorted(world.vms().values()) == [0, 0, 3]


# Two zones refuse, the third takes it: every write of the gateway, before and after.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("step", range(4))
def test_a_gateway_that_died_goes_on_from_its_ledger(
    step: int, before: bool, world: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("north", "south"):
        del world.zones[name].cloud.vm_templates[0]
    dies = death(step, before=before)
    with monkeypatch.context() as patched:
        patched.setattr(SqlGatewayLedger, "record", dies.mortal(SqlGatewayLedger.record))
        result = world.submit(*GANG)
    assert dies.has_died or result.exit_code == 0
    world.restart()
    numbers = [request["number"] for request in _list(world)]
    there = sum(world.vms().values())
    assert there in (0, 3)
    if not numbers:
        assert there == 0
        return
    if world.request(1).state is RequestState.OPEN:
        world.clock.set(world.clock.now_s() + PATIENCE_S)
        world.submitted(*GANG, "--continue", "1")
    assert world.request(1).state is RequestState.PLACED
    assert world.vms() == {"north": 0, "south": 0, "west": 3}
    assert [attempt.zone for attempt in world.request(1).attempts].count("west") == 1


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("step", range(3))
def test_a_gateway_that_died_while_it_looked_looks_again(
    step: int, before: bool, world: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_and_die(world, death(0, before=False), monkeypatch)  # nothing is there
    submit_and_die(world, death(3, before=False), monkeypatch)  # all are there
    dies = death(step, before=before)
    with monkeypatch.context() as patched:
        patched.setattr(SqlGatewayLedger, "record", dies.mortal(SqlGatewayLedger.record))
        try:
            world.round(PATIENCE_S + 1)
        except Killed:
            assert dies.has_died
    world.restart()
    world.round(1)
    assert [world.request(number).state for number in (1, 2)] == [RequestState.ABANDONED, RequestState.PLACED]
    whole = sum(world.balances().values())
    assert whole == pytest.approx(0, abs=1e-8)


def test_a_gateway_that_is_away_while_vms_are_created_finds_them_when_it_is_back(world: Federation) -> None:
    whole = create_all

    def created(*arguments: Any) -> Any:
        vm_ids = whole(*arguments)
        world.stop()
        return vm_ids

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dispatching, "create_all", created)
        result = world.submit(*GANG)
    assert result.exit_code == 0
    assert "the gateway was not told: it finds them by itself" in result.stderr
    world.start()
    world.round(PATIENCE_S + 1)
    assert (world.request(1).state, world.request(1).vm_ids) == (RequestState.PLACED, (0, 1, 2))


def test_what_is_cancelled_while_its_vms_are_created_is_ended() -> None:
    with federation() as world, pytest.MonkeyPatch.context() as patched:
        whole = create_all

        def created(*arguments: Any) -> Any:
            vm_ids = whole(*arguments)
            world.clock.set(world.clock.now_s() + PATIENCE_S)
            assert world.run("eva", "cancel", "1", "--yes").exit_code == 0
            return vm_ids

        patched.setattr(dispatching, "create_all", created)
        result = world.submit(*GANG)
        assert result.exit_code == 1
        assert "was cancelled meanwhile" in result.stderr
        assert (world.request(1).state, sum(world.vms().values())) == (RequestState.CANCELLED, 0)


def test_while_vms_are_being_created_nobody_looks_for_them(world: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatching, "SIGN_OF_LIFE_S", 0.0)
    whole = create_all

    def slowly(account: Any, source: Any, asked: Any, progress: Any, marks: Any) -> Any:
        def later(step: int) -> None:
            world.clock.set(world.clock.now_s() + PATIENCE_S - 1)
            progress(step)
            world.round()
            assert world.request(1).state is RequestState.OPEN
            assert world.request(1).text == ""

        return whole(account, source, asked, later, marks)

    monkeypatch.setattr(dispatching, "create_all", slowly)
    assert world.submitted(*GANG)["number"] == 1
    assert world.request(1).state is RequestState.PLACED


def _list(world: Federation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.told("eva", "list")
    return found


def test_vms_that_are_there_outlive_a_gateway_that_has_no_time_to_hear_of_them(world: Federation) -> None:
    whole = create_all

    with pytest.MonkeyPatch.context() as patched, ExitStack() as others:

        def created(*arguments: Any) -> Any:
            vm_ids = whole(*arguments)
            for _ in range(16):
                other = others.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                other.connect(str(world.socket))
            return vm_ids

        patched.setattr(dispatching, "create_all", created)
        patched.setattr(gateway_client, "ASK_AGAIN_S", 3600)
        result = world.submit(*GANG)
    assert result.exit_code == 0, result.output
    assert "16 others of the same user are being answered" in result.stderr
    assert "it finds them by itself" in result.stderr
    world.round(PATIENCE_S + 1)
    assert (world.request(1).state, sum(world.vms().values())) == (RequestState.PLACED, 3)


def test_vms_that_are_there_outlive_a_ledger_that_cannot_be_written(world: Federation) -> None:
    whole, record = create_all, SqlGatewayLedger.record

    def full(*arguments: Any) -> None:
        raise LeaseStoreError("the database gateway.db: disk is full")

    with pytest.MonkeyPatch.context() as patched:

        def created(*arguments: Any) -> Any:
            vm_ids = whole(*arguments)
            patched.setattr(SqlGatewayLedger, "record", full)
            return vm_ids

        patched.setattr(dispatching, "create_all", created)
        result = world.submit(*GANG)
        patched.setattr(SqlGatewayLedger, "record", record)
    assert result.exit_code == 0, result.output
    assert "disk is full" in result.stderr
    world.round(PATIENCE_S + 1)
    assert (world.request(1).state, sum(world.vms().values())) == (RequestState.PLACED, 3)


def test_a_zone_refuses_and_the_gateway_is_gone_the_user_is_told_how_to_go_on(world: Federation) -> None:
    templates = {name: zone.cloud.vm_templates.pop(0) for name, zone in world.zones.items()}
    record = SqlGatewayLedger.record

    def opened_alone(ledger: Any, request: Any, charges: Any) -> None:
        if request.attempts[0].outcome is not None:
            raise LeaseStoreError("the disk is full")
        record(ledger, request, charges)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SqlGatewayLedger, "record", opened_alone)
        result = world.submit(*GANG)
    assert result.exit_code == 1
    assert "does not take request 1: no VM template that you may use is called 'worker'" in result.stderr
    assert "the disk is full. Nothing of it is in that zone; to have the next one tried" in result.stderr
    assert "the same command with --continue 1" in result.stderr
    world.clock.set(world.clock.now_s() + PATIENCE_S)
    for name, zone in world.zones.items():
        zone.cloud.vm_templates[0] = templates[name]
    world.submitted(*GANG, "--continue", "1")
    assert sorted(world.vms().values()) == [0, 0, 3]


def test_who_interrupts_a_command_is_told_where_to_look(world: Federation) -> None:
    def interrupted(*_arguments: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dispatching, "create_all", interrupted)
        result = world.submit(*GANG)
    assert result.exit_code == 1
    zone = world.request(1).zone
    assert f"request 1 was interrupted in zone {zone}: see gateway show 1" in result.stderr


def test_what_may_be_in_a_zone_that_is_configured_no_more_is_not_made_elsewhere(
    world: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_and_die(world, death(2, before=False), monkeypatch)
    gone = world.request(1).zone
    world.restart(without=gone)
    world.clock.set(world.clock.now_s() + PATIENCE_S)
    result = world.submit(*GANG, "--continue", "1")
    assert result.exit_code == 1
    assert f"request 1 stays at zone {gone}" in result.stderr
    assert "took it out of gateway.zones, and has to put it back for what is there to be found, or to give up" in (
        result.stderr
    )
    assert sorted(world.vms().values()) == [0, 0, 2]
    world.restart()
    world.clock.set(world.clock.now_s() + PATIENCE_S)
    world.submitted(*GANG, "--continue", "1")
    assert (world.request(1).zone, sorted(world.vms().values())) == (gone, [0, 0, 3])


def test_where_what_was_made_cannot_be_ended_no_other_zone_is_asked(world: Federation) -> None:
    for zone in world.zones.values():
        zone.cloud.user_quota(ONEADMIN, zone.caller("eva").uid, 'VM = [ VMS = "2", CPU = "-2", MEMORY = "-2" ]')
        zone.fails(FaultKind.CLOSE, "one.vm.action")
    result = world.submit(*GANG)
    assert result.exit_code == 1
    assert "2 could not be terminated: onevm terminate 0 1. To go on" in result.stderr
    assert (world.request(1).state, sorted(world.vms().values())) == (RequestState.UNANSWERED, [0, 0, 2])
    had = world.request(1).zone
    for zone in world.zones.values():
        zone.faults.clear()
        if zone.name != had:
            zone.cloud.user_quota(ONEADMIN, zone.caller("eva").uid, 'VM = [ VMS = "3", CPU = "-2", MEMORY = "-2" ]')
    world.clock.set(world.clock.now_s() + PATIENCE_S)
    assert world.submitted(*GANG, "--continue", "1")["zone"] != had
    assert sorted(world.vms().values()) == [0, 0, 3]


def test_a_clock_that_is_set_back_keeps_no_request_for_as_long(
    world: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = world.clock.now_s()
    world.clock.set(now_s + 400 * 86_400)
    submit_and_die(world, death(2, before=False), monkeypatch)
    world.clock.set(now_s)
    assert world.run("eva", "cancel", "1", "--yes").exit_code == 1
    world.round()
    assert f"cancel in {PATIENCE_S} s" in world.run("eva", "cancel", "1", "--yes").stderr
    world.round(PATIENCE_S)
    assert world.run("eva", "cancel", "1", "--yes").exit_code == 0
    assert (world.request(1).state, sum(world.vms().values())) == (RequestState.CANCELLED, 0)


def test_a_command_that_was_stopped_and_goes_on_after_it_was_continued_ends_what_it_made(world: Federation) -> None:
    whole = create_all

    with pytest.MonkeyPatch.context() as patched:

        def stopped(account: Any, source: Any, asked: Any, progress: Any, marks: Any) -> Any:
            def after_first(step: int) -> None:
                progress(step)
                if world.request(1).state is RequestState.OPEN:
                    patched.setattr(dispatching, "create_all", whole)
                    world.clock.set(world.clock.now_s() + PATIENCE_S)
                    world.submitted(*GANG, "--continue", "1")

            return whole(account, source, asked, after_first, marks)

        patched.setattr(dispatching, "create_all", stopped)
        result = world.submit(*GANG)
    assert result.exit_code == 1
    assert "request 1 had been given other VMs meanwhile" in result.stderr
    request = world.request(1)
    assert (request.state, request.vm_ids) == (RequestState.PLACED, (1, 2, 3))
    assert [vm.id for vm in world.zones[request.zone].living()] == [1, 2, 3]
