"""A zone as the gateway's administrator sees it, over a real socket; and accounting that is not as it should be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from lxml import etree
from msgspec.structs import replace

from one_preempt.adapters.opennebula.accounting_reader import read_accounting
from one_preempt.adapters.opennebula.credentials import Credentials
from one_preempt.adapters.opennebula.transport import Limits, OnedTransport
from one_preempt.adapters.opennebula.xml_document import UnreadableDocument
from one_preempt.adapters.opennebula.zone_watcher import OpenNebulaZone, endpoints_of_zones
from one_preempt.core.gateway.streams import HostRoom
from one_preempt.core.gateway.vm_runs import Stay
from one_preempt.gateway_ports import AnotherZone
from one_preempt.ports import CloudUnavailable
from one_preempt.simulation.emulator.described_cloud import described_cloud
from one_preempt.simulation.emulator.description import Description
from one_preempt.simulation.emulator.endpoint_faults import EndpointFault, EndpointFaults, FaultKind
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, SimZone
from tests.stories.world import description

IMPATIENT = Limits(connect_s=1, idle_s=2, total_s=4, attempts=1)


@pytest.fixture
def cloud() -> SimulatedCloud:
    told = description(
        [
            {"name": "node{}", "count": 2, "cpu": 4, "memory_mib": 16384, "template": {"CPUSPEED": "2500"}},
            {"name": "away", "cpu": 64, "memory_mib": 16384, "status": "disabled"},
        ]
    )
    return described_cloud(msgspec.convert(told, Description))


@pytest.fixture
def faults() -> EndpointFaults:
    return EndpointFaults()


@pytest.fixture
def transport(cloud: SimulatedCloud, faults: EndpointFaults) -> Iterator[OnedTransport]:
    with running_emulator(cloud, faults=faults) as url:
        connection = OnedTransport(url, Credentials("oneadmin:opennebula"), IMPATIENT)
        yield connection
        connection.close()


def allocated(cloud: SimulatedCloud, more: str = "") -> int:
    return cloud.vm_allocate(ONEADMIN, f'CPU="2"\nMEMORY="2048"\n{more}', True)


def test_hosts_that_take_vms_and_what_ran_are_seen(cloud: SimulatedCloud, transport: OnedTransport) -> None:
    ended, runs, waits = allocated(cloud), allocated(cloud, 'LEASE_SUBMISSION="abc"'), allocated(cloud)
    for vm_id in (ended, runs):
        cloud.vm_deploy(ONEADMIN, vm_id, vm_id % 2)
    cloud.settle()
    began_s = cloud.clock.now_s()
    cloud.advance(600)
    cloud.vm_action(ONEADMIN, "terminate-hard", ended)
    cloud.settle()
    seen = OpenNebulaZone(transport, "north").seen(0)
    assert seen.hosts == (HostRoom(4.0, 16.0, 2.5),) * 2
    assert seen.problems == ()
    first, second = seen.runs
    assert (first.vm_id, first.cores, first.memory_gib, first.is_living, first.token) == (ended, 2.0, 2.0, False, "")
    assert first.ran_s(began_s + 9999) == pytest.approx(600, abs=60)
    assert (second.vm_id, second.is_living, second.token) == (runs, True, "abc")
    assert second.ran_s(began_s + 600) == pytest.approx(600, abs=60)
    assert waits not in {run.vm_id for run in seen.runs}
    assert OpenNebulaZone(transport, "north").seen(cloud.clock.now_s() + 1).runs == (second,)


def test_vms_are_found_by_their_tokens(cloud: SimulatedCloud, transport: OnedTransport) -> None:
    found = [allocated(cloud, f'LEASE_SUBMISSION="{token}"') for token in ("aa", "bb", "aa", "cc")]
    cloud.vm_action(ONEADMIN, "terminate-hard", found[1])
    cloud.settle()
    zone = OpenNebulaZone(transport, "north")
    assert zone.vms_with({"aa", "bb", "dd"}) == {"aa": [found[0], found[2]]}


@pytest.mark.parametrize("kind", [FaultKind.HTML, FaultKind.CLOSE, FaultKind.SERVER_ERROR, FaultKind.TRUNCATED])
def test_a_zone_that_fails_is_told_in_one_sentence(
    kind: FaultKind, transport: OnedTransport, faults: EndpointFaults
) -> None:
    faults.add(EndpointFault(kind, "one.vmpool.accounting"))
    with pytest.raises(CloudUnavailable, match=r"one\.vmpool\.accounting at http://127"):
        OpenNebulaZone(transport, "north").seen(0)


def test_nothing_is_looked_for_in_another_zone_until_it_is_the_right_one(
    cloud: SimulatedCloud, transport: OnedTransport
) -> None:
    cloud.join_federation(0, [MASTER, NORTH])
    zone = OpenNebulaZone(transport, "north")
    for question in (lambda: zone.seen(0), zone.version, lambda: zone.vms_with({"token"})):
        with pytest.raises(AnotherZone):
            question()
    cloud.join_federation(100, [MASTER, NORTH])
    zone.seen(0)
    assert zone.vms_with({"token"}) == {}
    assert zone.version()


def test_credentials_that_a_zone_does_not_know_are_named(cloud: SimulatedCloud) -> None:
    with running_emulator(cloud) as url:
        connection = OnedTransport(url, Credentials("eva:wrong"), IMPATIENT)
        with pytest.raises(CloudUnavailable, match="does not know the gateway's user: "):
            OpenNebulaZone(connection, "north").seen(0)
        connection.close()


def test_what_oned_cannot_send_costs_its_own_user_alone(cloud: SimulatedCloud, transport: OnedTransport) -> None:
    """An emoji in one VM, and in the user's own template: the others are seen, and their requests found."""
    zone = OpenNebulaZone(transport, "north")
    eva, lea = (next(user.id for user in cloud.users.values() if user.name == name) for name in ("eva", "lea"))
    template = 'CPU="1"\nMEMORY="64"\nLEASE_SUBMISSION="aa"'
    untold, told = (cloud.vm_allocate(cloud.caller(uid), template, True) for uid in (eva, lea))
    for host_id, vm_id in enumerate((untold, told)):
        cloud.vm_deploy(ONEADMIN, vm_id, host_id)
    cloud.settle()
    before = zone.seen(0)
    cloud.vms[untold].user_template["A"] = ["\U0001f600"]
    cloud.users[eva].template["A"] = ["\U0001f600"]
    seen = zone.seen(0)
    assert seen.runs == tuple(run for run in before.runs if run.vm_id != untold)
    assert [problem for problem in seen.problems if "it is read user by user" in problem]
    assert zone.vms_with({"aa"}) == {"aa": [told]}


def test_the_federation_says_where_zones_are(transport: OnedTransport) -> None:
    assert endpoints_of_zones(transport) == {"OpenNebula": "http://localhost:2633/RPC2"}


# -- in a federation ---------------------------------------------------------------------------------------


MASTER = SimZone(0, "OpenNebula", "http://master.example:2633/RPC2")
NORTH = SimZone(100, "north", "http://north.example:2633/RPC2")
FEDERATION = Path(__file__).parents[2] / "recordings" / "7.4.0" / "federation"


@pytest.mark.parametrize("recorded", ["zonepool.info", "zonepool.info.north_disabled"])
def test_the_emulator_tells_of_a_federation_as_oned_does(
    recorded: str, cloud: SimulatedCloud, transport: OnedTransport
) -> None:
    cloud.join_federation(100, [MASTER, replace(NORTH, is_enabled=recorded == "zonepool.info")])
    assert transport.document("one.zonepool.info").decode() == (FEDERATION / f"{recorded}.xml").read_text()
    told = etree.fromstring(transport.document("one.system.config")).find("FEDERATION/MODE")
    real = etree.fromstring((FEDERATION / "system.config.xml").read_bytes()).find("FEDERATION/MODE")
    assert told is not None
    assert real is not None
    assert told.text == real.text == "SLAVE"


def test_every_zone_tells_where_all_are(cloud: SimulatedCloud, transport: OnedTransport) -> None:
    cloud.join_federation(100, [MASTER, NORTH, SimZone(101, "south", "")])
    assert endpoints_of_zones(transport) == {"OpenNebula": MASTER.endpoint, "north": NORTH.endpoint}


def test_a_zone_that_is_the_one_that_is_meant_is_looked_at(cloud: SimulatedCloud, transport: OnedTransport) -> None:
    cloud.join_federation(100, [MASTER, NORTH])
    assert len(OpenNebulaZone(transport, "north").seen(0).hosts) == 2


def test_an_endpoint_of_another_zone_is_not_taken_for_the_zone(cloud: SimulatedCloud, transport: OnedTransport) -> None:
    cloud.join_federation(0, [MASTER, NORTH])
    with pytest.raises(AnotherZone, match=r"is zone OpenNebula \(0\), not north \(100\): correct ENDPOINT"):
        OpenNebulaZone(transport, "north").seen(0)


def test_a_zone_that_the_federation_does_not_know_may_have_any_name(
    cloud: SimulatedCloud, transport: OnedTransport
) -> None:
    cloud.join_federation(0, [MASTER, NORTH])
    assert len(OpenNebulaZone(transport, "the other cloud").seen(0).hosts) == 2


def test_a_disabled_zone_has_no_hosts_that_take_vms(cloud: SimulatedCloud, transport: OnedTransport) -> None:
    running = allocated(cloud)
    cloud.vm_deploy(ONEADMIN, running, 0)
    cloud.settle()
    cloud.join_federation(100, [MASTER, replace(NORTH, is_enabled=False)])
    seen = OpenNebulaZone(transport, "north").seen(0)
    assert seen.hosts == ()
    assert [run.vm_id for run in seen.runs] == [running]
    assert seen.problems == ("it is disabled, and takes no VMs: onezone enable 100, at its own endpoint",)
    assert seen.is_disabled


# -- accounting that is not as it should be ---------------------------------------------------------------


def record(vm_id: object = 7, **texts: object) -> str:
    told = {"RSTIME": 100, "RETIME": 150, "ETIME": 160, "CPU": 1, "MEMORY": 1024, "USER": ""} | texts
    return (
        f"<HISTORY><OID>{vm_id}</OID><RSTIME>{told['RSTIME']}</RSTIME><RETIME>{told['RETIME']}</RETIME>"
        f"<ETIME>{told['ETIME']}</ETIME><VM><ID>{vm_id}</ID><UID>5</UID><STIME>90</STIME>"
        f"<TEMPLATE><CPU>{told['CPU']}</CPU><MEMORY>{told['MEMORY']}</MEMORY></TEMPLATE>"
        f"<USER_TEMPLATE>{told['USER']}</USER_TEMPLATE></VM></HISTORY>"
    )


def read(*records: str, living: tuple[int, ...] = ()) -> tuple[object, list[str]]:
    problems: list[str] = []
    document = f"<HISTORY_RECORDS>{''.join(records)}</HISTORY_RECORDS>".encode()
    return read_accounting(document, living, problems), problems


def stays_of(*records: str, living: tuple[int, ...] = ()) -> tuple[Stay, ...]:
    document = f"<HISTORY_RECORDS>{''.join(records)}</HISTORY_RECORDS>".encode()
    (run,) = read_accounting(document, living, [])
    return run.stays


def test_stays_of_one_vm_are_put_together() -> None:
    stays = stays_of(record(), record(RSTIME=0, RETIME=0), record(RSTIME=200, RETIME=0, ETIME=0), living=(7,))
    assert stays == (Stay(100, 150), Stay(200, None))


def test_a_stay_whose_end_was_never_written_ends_with_its_record() -> None:
    assert stays_of(record(RETIME=0)) == (Stay(100, 160),)
    assert stays_of(record(RETIME=0, ETIME=0)) == (Stay(100, 100),)


@pytest.mark.parametrize(
    "broken",
    [
        record("x"),
        record(CPU="nan"),
        record(CPU="-1"),
        record(MEMORY="1e300"),
        record(RSTIME="soon"),
        "<HISTORY><OID>3</OID></HISTORY>",
        "<HISTORY/>",
    ],
)
def test_a_record_that_cannot_be_read_costs_itself_alone(broken: str) -> None:
    runs, problems = read(broken, record(9))
    assert [run.vm_id for run in runs] == [9]  # type: ignore[attr-defined]
    (problem,) = problems
    assert "the accounting of VM" in problem


def test_many_broken_records_do_not_flood_the_log() -> None:
    _runs, problems = read(*[record("x")] * 100)
    assert problems[-1] == "95 more records of the accounting cannot be read"
    assert len(problems) == 6


@pytest.mark.parametrize(
    ("lease", "found"),
    [
        ("<LEASE><NAME>sweep</NAME><SIZE>4</SIZE></LEASE>", ("sweep", 4)),
        ("<LEASE><NAME>one</NAME></LEASE>", ("", 1)),
        ("<LEASE><SIZE>many</SIZE></LEASE>", ("", 1)),
        ("<LEASE><SIZE>2</SIZE></LEASE><LEASE><SIZE>3</SIZE></LEASE>", ("", 1)),
        ("<LEASE>text</LEASE>", ("", 1)),
        ("", ("", 1)),
    ],
)
def test_leases_of_several_are_recognised(lease: str, found: tuple[str, int]) -> None:
    (run,) = read_accounting(f"<HISTORY_RECORDS>{record(USER=lease)}</HISTORY_RECORDS>".encode(), (), [])
    assert (run.lease_name, run.lease_size) == found


@pytest.mark.parametrize("document", [b"", b"<VM_POOL/>", b"no", b"<HISTORY_RECORDS><HISTORY>"])
def test_another_document_is_refused(document: bytes) -> None:
    with pytest.raises(UnreadableDocument):
        read_accounting(document, (), [])
