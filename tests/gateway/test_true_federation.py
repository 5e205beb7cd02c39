"""Zones that are a federation: they know of each other, and rules say in which of them a group has resources."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from one_preempt.gateway.desk import SET_ASIDE_S
from one_preempt.simulation.emulator.endpoint_faults import FaultKind
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN
from tests.gateway.federation import Federation, join, true_federation

EXTERNALS = "200000065"
HOSTS, STORES = "2000000000", "100000000000"
MANAGE, USE = "2", "1"


@pytest.fixture
def world() -> Iterator[Federation]:
    with true_federation() as all_of_it:
        yield all_of_it


def give(world: Federation, zone: str, kind: str, right: str) -> None:
    """What onevdc addcluster does for the group: all objects of a kind in this zone, and in it alone."""
    cloud = world.zones[zone].cloud
    resource = f"{int(kind, 16) | 0x4_0000_0000:x}"
    cloud.acl_add(ONEADMIN, EXTERNALS, resource, right, f"{0x1_0000_0000 | cloud.zone_id:x}")


def checked(world: Federation) -> str:
    """What `gateway check` tells the administrator, in one line."""
    told = world.run("oneadmin", "check")
    assert "Traceback" not in told.output
    return " ".join(told.stdout.split())


def test_zones_are_found_where_the_federation_says_that_they_are(world: Federation) -> None:
    assert world.submitted()["endpoint"] == world.zones["north"].url
    told = checked(world)
    for name, zone in world.zones.items():
        assert f"zone {name} {zone.url} answers" in told


def test_a_new_zone_is_in_no_vdc_so_requests_go_elsewhere_until_it_is(world: Federation) -> None:
    assert {world.submitted()["zone"] for _ in range(4)} == {"north"}
    told = checked(world)
    assert "none of 4 users may use a system datastore there: nobody is sent there" in told
    assert "onevdc addcluster VDC 101 ALL" in told
    for kind, right in ((HOSTS, MANAGE), (STORES, USE)):
        give(world, "west", kind, right)
    assert "west" in {world.submitted()["zone"] for _ in range(4)}
    assert "2 of 4 users may use hosts and system datastores there; the others are sent elsewhere" in checked(world)


def test_who_has_datastores_and_no_hosts_would_wait_for_ever(world: Federation) -> None:
    give(world, "west", STORES, USE)
    told = checked(world)
    assert "eva, evan may use a system datastore there and none of the hosts: their VMs would wait for ever" in told


def test_a_zone_that_is_registered_at_the_endpoint_of_another_one_is_told(world: Federation) -> None:
    world.stop()
    world.zones["west"].url = world.zones["north"].url
    join(world.zones.values())
    world.start()
    world.round()
    assert "is zone north (0), not west (101)" in checked(world)
    assert any("is zone north (0), not west (101): correct ENDPOINT" in text for text in world.said)


def test_nobody_is_sent_to_a_zone_whose_endpoint_is_that_of_another_one(world: Federation) -> None:
    """It would be made there, under the wrong name, as soon as the zone is no longer set aside."""
    for kind, right in ((HOSTS, MANAGE), (STORES, USE)):
        give(world, "west", kind, right)
    assert "west" in {world.submitted()["zone"] for _ in range(4)}
    world.stop()
    own = world.zones["west"].url
    world.zones["west"].url = world.zones["north"].url
    join(world.zones.values())
    world.start()
    world.round()
    world.clock.set(world.clock.now_s() + SET_ASIDE_S)
    assert {world.submitted()["zone"] for _ in range(4)} == {"north"}
    world.zones["west"].url = own
    join(world.zones.values())
    world.restart()
    world.round()
    assert "west" in {world.submitted()["zone"] for _ in range(4)}


def test_a_zone_that_has_moved_is_told_until_the_gateway_is_started_anew(world: Federation) -> None:
    former = world.zones["west"].url
    world.zones["west"].url = former.replace("127.0.0.1", "localhost")
    join(world.zones.values())
    assert f"requests for zone west go to {former}, and it is at {world.zones['west'].url}" in checked(world)
    world.restart()
    assert "requests for zone west go to" not in checked(world)


def test_a_zone_is_not_blamed_for_a_federation_that_does_not_answer(world: Federation) -> None:
    world.zones["north"].fails(FaultKind.SERVER_ERROR, "one.zonepool.info")
    told = checked(world)
    assert "its address is not known, because the federation does not answer" in told
    assert "the federation does not know it" not in told


def test_a_gateway_says_what_it_lacks_to_start_while_the_federation_does_not_answer(world: Federation) -> None:
    world.stop()
    world.zones["north"].fails(FaultKind.SERVER_ERROR, "one.zonepool.info")
    told = world.run("oneadmin", "rates", "--explain")
    assert told.exit_code == 1
    assert "where zones are is not known: one.zonepool.info at" in told.stderr
    assert "or write endpoints in gateway.zones" in told.stderr
    world.zones["north"].faults.clear()
    world.start()


def test_a_disabled_zone_gets_no_share(world: Federation) -> None:
    world.stop()
    join(world.zones.values(), disabled="west")
    (world.folder / "gateway.db").unlink()
    world.start()
    world.round()
    told = checked(world)
    assert "it is disabled, and takes no VMs: onezone enable 101" in told
    assert "enable hosts there" not in told
    shares = world.told("oneadmin", "rates")["in_force"]["answer"]["shares"]
    assert (shares.get("west", 0), sum(shares.values())) == (0, pytest.approx(1))


def test_a_disabled_zone_gets_no_share_whatever_elements_are_configured() -> None:
    with true_federation(elements=8) as world:
        assert world.told("oneadmin", "rates")["in_force"]["answer"]["shares"].keys() == world.zones.keys()
        join(world.zones.values(), disabled="west")
        world.round(3600)
        in_force = world.told("oneadmin", "rates")["in_force"]
        assert in_force["answer"]["shares"].keys() == {"north", "south"}
        assert in_force["unmeasured"] == {"west": "it is disabled"}
