"""What the gateway finds out by itself: loads of zones, what requests computed, which shares follow."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from one_preempt.adapters.lease_store.named_database import LeaseStoreError
from one_preempt.adapters.lease_store.sql_gateway_ledger import SqlGatewayLedger
from one_preempt.adapters.opennebula.zone_watcher import OpenNebulaZone
from one_preempt.configuration.doubts import doubts
from one_preempt.configuration.settings import parse_settings
from one_preempt.core.gateway.requests import RequestState
from one_preempt.entrypoints.cli.gateway import checking, rating
from one_preempt.errors import OnePreemptError
from one_preempt.gateway_composition import open_gateway
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from one_preempt.simulation.simulated_cloud.states import HostStatus
from tests.gateway.federation import STARTS_AT_S, Federation, federation

HOUR_S = 3600
PAP = {"allocation_policy": "pap"}


def local_vms(world: Federation, zone: str, count: int, cores: int = 1) -> list[int]:
    """VMs of the zone's own users, which wait."""
    one = world.zones[zone]
    text = f'CPU="{cores}"\nMEMORY="128"'
    return [one.cloud.vm_allocate(one.caller("lea"), text, True) for _ in range(count)]


def pass_time(world: Federation, seconds: int) -> None:
    """In all zones and for the gateway."""
    for zone in world.zones.values():
        with zone.lock:
            zone.cloud.advance(max(0, world.clock.now_s() + seconds - zone.cloud.clock.now_s()))
    world.clock.set(world.clock.now_s() + seconds)


def test_zones_are_measured_when_it_starts_and_shares_follow_their_cores(world: Federation) -> None:
    document = world.told("oneadmin", "rates")
    assert [zone["free_elements"] for zone in document["zones"]] == [8, 16, 32]
    assert document["in_force"]["answer"]["policy"] == "BCF"
    assert document["in_force"]["by_speed"] == ["west", "south", "north"]
    assert world.said == ["shares by BCF: north 14.3%, south 28.6%, west 57.1%"]


def test_own_users_of_a_zone_keep_external_requests_away_under_pap() -> None:
    with federation(**PAP, external={"rate_per_h": 30, "mean_work_h": 1.0, "variation": 1.0}) as world:
        before = world.told("oneadmin", "rates")["in_force"]["answer"]["shares"]
        for _ in range(20):
            world.zones["west"].run_for(local_vms(world, "west", 24), HOUR_S)
        # The emulated zone's time has moved by the runs: the others and the gateway follow.
        pass_time(world, world.zones["west"].cloud.clock.now_s() - world.clock.now_s())
        world.round(HOUR_S)
        after = world.told("oneadmin", "rates")
        west = next(zone for zone in after["zones"] if zone["name"] == "west")
        assert west["local"]["samples"] == 480
        assert west["local"]["mean_work"] == pytest.approx(HOUR_S, rel=0.05)
        assert after["in_force"]["answer"]["policy"] == "PAP"
        assert after["in_force"]["answer"]["shares"]["west"] <= before["west"]


def test_what_external_requests_computed_is_found_in_their_zone(world: Federation) -> None:
    answers = [world.submitted("--name", "pair", "--size", "2") for _ in range(4)]
    for answer in answers:
        world.zones[answer["zone"]].run_for(answer["vm_ids"], HOUR_S)
    waits = world.submitted()
    pass_time(world, 9 * HOUR_S)
    world.round()
    for answer in answers:
        request = world.request(answer["number"])
        assert request.state is RequestState.ENDED
        assert request.work == pytest.approx(2 * HOUR_S, rel=0.05)
    assert world.request(waits["number"]).state is RequestState.PLACED  # it never ran, and is there
    measured = world.told("oneadmin", "rates")
    assert all(zone["local"]["rate_per_s"] == 0 for zone in measured["zones"]), "external ones are nobody's own"


def test_external_vms_that_run_for_longer_than_the_window_take_away_what_they_occupy(world: Federation) -> None:
    answer = world.submitted()
    zone = world.zones[answer["zone"]]
    with zone.lock:
        for vm_id in answer["vm_ids"]:
            zone.cloud.vm_deploy(ONEADMIN, vm_id, 0)
    world.round(HOUR_S)
    pass_time(world, 14 * 24 * HOUR_S)
    world.round()
    standing = {one["name"]: one["measure"]["standing"] for one in world.told("oneadmin", "rates")["zones"]}
    assert standing == pytest.approx(dict.fromkeys(world.zones, 0.0) | {answer["zone"]: 1.0})


def test_what_a_cancelled_request_computed_until_then_counts_too(world: Federation) -> None:
    """Who asks for no DURATION ends requests by cancelling them: else nothing would be known of such."""
    answer = world.submitted()
    zone = world.zones[answer["zone"]]
    with zone.lock:
        zone.cloud.vm_deploy(ONEADMIN, answer["vm_ids"][0], 0)
    pass_time(world, 2 * HOUR_S)
    assert world.run("eva", "cancel", "1", "--yes").exit_code == 0
    world.round()
    assert world.request(1).work is None  # it is still shutting down
    pass_time(world, HOUR_S)
    world.round()
    assert world.request(1).state is RequestState.CANCELLED
    assert world.request(1).work == pytest.approx(2 * HOUR_S, rel=0.05)
    waits = world.submitted()["number"]
    assert world.run("eva", "cancel", str(waits), "--yes").exit_code == 0
    pass_time(world, HOUR_S)
    world.round()
    assert world.request(waits).work is None  # it never ran


def test_what_runs_by_the_accounting_has_not_ended_though_it_is_not_found(
    world: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its owner has taken the mark away since, or the VM cannot be read: the accounting has it still."""
    answer = world.submitted()
    (vm_id,), zone = answer["vm_ids"], world.zones[answer["zone"]]
    with zone.lock:
        zone.cloud.vm_deploy(ONEADMIN, vm_id, 0)
    monkeypatch.setattr(OpenNebulaZone, "vms_with", lambda _zone, _tokens: {})
    pass_time(world, 2 * HOUR_S)
    world.round()
    assert world.request(1).state is RequestState.PLACED
    with zone.lock:
        zone.cloud.vm_action(ONEADMIN, "terminate-hard", vm_id)
    pass_time(world, HOUR_S)
    world.round()
    assert world.request(1).state is RequestState.ENDED
    assert world.request(1).work == pytest.approx(2 * HOUR_S, rel=0.05)


def test_what_was_ended_before_it_ran_is_over(world: Federation) -> None:
    answer = world.submitted()
    zone = world.zones[answer["zone"]]
    zone.cloud.vm_action(ONEADMIN, "terminate-hard", 0)
    zone.cloud.settle()
    pass_time(world, 2 * HOUR_S)
    world.round()
    assert (world.request(1).state, world.request(1).work) == (RequestState.ENDED, None)


def test_hosts_that_sleep_do_not_count_unless_elements_are_configured() -> None:
    """They tell no capacity while they are OFFLINE: nobody but the administrator knows what a zone of such has."""
    asleep = "zone west: hosts that are OFFLINE do not tell what they have, and do not count"
    with federation() as world:
        for host_id in list(world.zones["west"].cloud.hosts):
            world.zones["west"].cloud.host_status(ONEADMIN, host_id, HostStatus.OFFLINE)
        world.round(HOUR_S)
        assert [text for text in world.said if text.startswith(asleep)] != []
        told = world.run("oneadmin", "check").stdout
        assert ("8 hosts are OFFLINE" in told, "it gets no share" in told) == (True, True)
        assert "west" not in world.told("oneadmin", "rates")["in_force"]["answer"]["shares"]
        world.configure_zones(elements=8)
        world.restart()
        world.said.clear()
        world.round()
        assert [text for text in world.said if "OFFLINE" in text] == []
        told = world.run("oneadmin", "check").stdout
        assert ("hosts are OFFLINE" in told, "it gets no share" in told) == (False, False)
        assert world.told("oneadmin", "rates")["in_force"]["answer"]["shares"]["west"] == pytest.approx(1 / 3)


def test_a_zone_without_hosts_that_take_vms_leaves_the_speeds_of_others_as_they_were(world: Federation) -> None:
    """Where one zone's speed is not known all count as equally fast: that must not come and go with its hosts."""
    for name, speed in (("north", "4000"), ("south", "2000"), ("west", "1000")):
        for host in world.zones[name].cloud.hosts.values():
            host.template["CPUSPEED"] = [speed]
    world.round(HOUR_S)
    assert world.told("oneadmin", "rates")["in_force"]["answer"]["shares"] == pytest.approx(
        {"north": 1 / 3, "south": 1 / 3, "west": 1 / 3}
    )
    for host_id in list(world.zones["west"].cloud.hosts):
        world.zones["west"].cloud.host_status(ONEADMIN, host_id, HostStatus.OFFLINE)
    world.round(HOUR_S)
    shares = {"north": 1 / 2, "south": 1 / 2}
    assert world.told("oneadmin", "rates")["in_force"]["answer"]["shares"] == pytest.approx(shares)
    explained = world.told("oneadmin", "rates", "--explain")["would_be"]["answer"]["shares"]
    assert explained == pytest.approx(shares)


def test_a_zone_that_is_away_keeps_its_last_measure(world: Federation) -> None:
    world.zones["west"].fails()
    pass_time(world, 2 * HOUR_S)
    world.round()
    shares = world.told("oneadmin", "rates")["in_force"]["answer"]["shares"]
    assert set(shares) == {"north", "south", "west"}
    assert [text for text in world.said if text.startswith("zone west:")] != []
    said = len(world.said)
    pass_time(world, 2 * HOUR_S)
    world.round()
    assert len(world.said) == said  # once is enough
    world.zones["west"].faults.clear()
    pass_time(world, 2 * HOUR_S)
    world.round()
    assert "zone west answers again" in world.said


def test_a_zone_that_never_answered_gets_no_share_and_is_tried_last() -> None:
    with federation() as world:
        world.stop()
        (world.folder / "gateway.db").unlink()
        world.zones["west"].fails()
        world.start()
        world.round()
        told = world.run("oneadmin", "rates")
        assert "without a share: west, one.hostpool.info at" in told.stdout
        world.zones["west"].faults.clear()
        assert {world.submitted()["zone"] for _ in range(4)} == {"north", "south"}
        for name in ("north", "south"):
            del world.zones[name].cloud.vm_templates[0]
        assert world.submitted()["zone"] == "west"


def test_without_an_external_stream_pap_falls_back_and_says_so() -> None:
    with federation(**PAP, external={}) as world:
        assert any("PAP has no answer: no external request is on record yet" in text for text in world.said)
        told = world.run("oneadmin", "rates")
        assert told.exit_code == 0
        assert "by BCF" in told.stdout


def test_check_says_of_when_it_is_that_no_external_request_was_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    with federation(**PAP, external={}) as world:
        monkeypatch.setattr(checking, "SystemClock", lambda: world.clock)
        world.submitted()
        world.clock.set(world.clock.now_s() + 60)
        told = " ".join(world.run("oneadmin", "check").stdout.split())
        assert "when the shares were computed, 60 s ago, PAP has no answer: no external request is on record" in told


def test_the_ledger_tells_the_external_stream_once_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with federation(**PAP, external={}) as world:
        monkeypatch.setattr(rating, "SystemClock", lambda: world.clock)
        for _ in range(12):
            world.submitted("--duration", "02:00:00")
        world.round(HOUR_S)
        document = world.told("oneadmin", "rates")
        assert document["in_force"]["answer"]["policy"] == "PAP"
        assert document["external"]["rate_per_s"] == pytest.approx(12 / HOUR_S)
        assert document["external"]["mean_work"] == 2 * HOUR_S


def test_what_is_long_over_is_forgotten(world: Federation) -> None:
    for _ in range(3):
        world.submitted()
    for zone in world.zones.values():
        for vm in zone.living():
            zone.cloud.vm_action(ONEADMIN, "terminate-hard", vm.id)
        zone.cloud.settle()
    pass_time(world, 2 * HOUR_S)
    world.round()
    world.round(91 * 24 * HOUR_S)
    world.round(HOUR_S)
    assert [one["number"] for one in world.told("oneadmin", "list")] == [3]
    assert world.submitted()["number"] == 4


def test_a_clock_that_leaps_ahead_for_a_while_lets_nothing_be_forgotten(world: Federation) -> None:
    for _ in range(3):
        world.submitted()
    for zone in world.zones.values():
        for vm in zone.living():
            zone.cloud.vm_action(ONEADMIN, "terminate-hard", vm.id)
        zone.cloud.settle()
    world.round(HOUR_S)
    assert {world.request(number).state for number in (1, 2, 3)} == {RequestState.ENDED}
    world.round(400 * 24 * HOUR_S)
    world.round(-400 * 24 * HOUR_S)
    assert [one["number"] for one in world.told("oneadmin", "list")] == [3, 2, 1]


def test_a_clock_that_was_set_back_does_not_stop_measuring(world: Federation) -> None:
    world.clock.set(STARTS_AT_S - 10 * HOUR_S)
    world.round()
    assert world.told("oneadmin", "rates")["in_force"]["made_at_s"] < STARTS_AT_S


def test_a_round_gives_a_sign_of_life_after_each_request_however_many_a_zone_needs(world: Federation) -> None:
    """One answer may take two minutes, and be asked for again: the watchdog would end the gateway in between."""
    world.stop()
    world.zones["west"].fails()
    signs: list[int] = []
    opened = open_gateway(world.settings, world.clock, world.said.append, lambda: None, lambda: signs.append(1))
    with opened as (_desk, upkeep):
        upkeep.round()
    # Five documents of each zone that answers, and three attempts at the first of the other.
    assert len(signs) >= 2 * 5 + 3


# -- the administrator's commands -----------------------------------------------------------------------------


def test_rates_explains_every_policy_and_changes_nothing(world: Federation) -> None:
    before = (world.folder / "gateway.db").read_bytes()
    told = world.run("oneadmin", "rates", "--explain")
    assert told.exit_code == 0, told.output
    for name in ("BCF", "LRF", "PAP", "RR", "north", "south", "west", "would be in force"):
        assert name in told.stdout
    document = world.told("oneadmin", "rates", "--explain")
    assert [answer["policy"] for answer in document["policies"]] == ["BCF", "LRF", "PAP", "RR"]
    assert (world.folder / "gateway.db").read_bytes() == before


def test_rates_before_there_is_a_ledger() -> None:
    with federation() as world:
        world.stop()
        (world.folder / "gateway.db").unlink()
        plain = world.run("oneadmin", "rates")
        assert (plain.exit_code, "nothing is in force yet" in plain.stdout) == (1, True)
        explained = world.run("oneadmin", "rates", "--explain")
        assert (explained.exit_code, "there is no ledger yet" in explained.stderr) == (0, True)
        assert not (world.folder / "gateway.db").exists()
        world.start()


def test_rates_of_zones_that_are_all_away(world: Federation) -> None:
    for zone in world.zones.values():
        zone.fails()
    told = world.run("oneadmin", "rates", "--explain")
    assert told.exit_code == 1
    assert "no zone can be given a share" in told.stdout
    assert "Traceback" not in told.output


def test_check_finds_all_well(world: Federation) -> None:
    told = world.run("oneadmin", "check", "--json")
    findings = json.loads(told.stdout)
    assert told.exit_code == 0, told.stdout
    assert [found["text"] for found in findings if found["subject"] == "gateway"] == [f"answers at {world.socket}"]
    assert {found["grade"] for found in findings if found["subject"].startswith("zone ")} == {"ok"}
    (federated,) = [found for found in findings if found["subject"] == "federation"]
    assert (federated["grade"], federated["text"]) == ("ok", "has the zones OpenNebula")


def test_check_tells_what_is_wrong(world: Federation) -> None:
    west = world.zones["west"]
    west.cloud.users[0].name = "root-of-west"
    world.zones["south"].fails()
    world.stop()
    told = world.run("oneadmin", "check")
    assert told.exit_code == 1
    assert "there is no gateway at" in told.stdout
    world.start()


def test_check_without_zones(world: Federation) -> None:
    world.configuration.write_text("preemption: advise")
    told = world.run("oneadmin", "check")
    assert (told.exit_code, "gateway.zones is empty" in told.stdout) == (1, True)
    for command in ("rates", "run"):
        result = world.run("oneadmin", command)
        assert (result.exit_code, "there is no gateway" in result.stderr) == (1, True)


def test_where_requests_would_wait_without_end_the_document_is_json_all_the_same() -> None:
    with federation(external={"rate_per_h": 1e8, "mean_work_h": 10.0}) as world:
        result = world.run("oneadmin", "rates", "--explain", "--json")
    document = json.loads(result.stdout, parse_constant=pytest.fail)
    assert document["would_be"]["answer"]["mean_response_s"] is None


def test_a_ledger_that_cannot_be_written_has_the_zones_read_now_and_then(
    world: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    seen = OpenNebulaZone.seen

    def noted(zone: OpenNebulaZone, from_s: int) -> object:
        read.append(zone.endpoint)
        return seen(zone, from_s)

    def full(*_written: object) -> None:
        raise LeaseStoreError("the disk is full")

    monkeypatch.setattr(OpenNebulaZone, "seen", noted)
    pass_time(world, HOUR_S)
    with monkeypatch.context() as patched:
        patched.setattr(SqlGatewayLedger, "record_measure", full)
        for _ in range(10):
            with suppress(LeaseStoreError):
                world.round(30)
        assert len(read) <= 2
    world.round(300)
    assert len(read) >= len(world.zones), "what failed is made up for before the next hour"


def test_an_endpoint_with_a_password_is_doubted_for_everybody_is_told_it() -> None:
    text = "gateway: {zones: [{name: a, endpoint: 'http://eva:secret@x:2633/RPC2'}, {name: b}]}"
    (doubt,) = doubts(parse_settings(text, "the configuration"))
    assert doubt == "the endpoint of zone 'a' holds a password: every user of the gateway's machine is told it"


def test_one_place_is_no_two_zones() -> None:
    text = "gateway: {zones: [{name: a, endpoint: 'http://x:2633/RPC2'}, {name: b, endpoint: 'http://x:2633/RPC2'}]}"
    with pytest.raises(OnePreemptError, match="two entries with the endpoint http://x:2633/RPC2"):
        parse_settings(text, "the configuration")
