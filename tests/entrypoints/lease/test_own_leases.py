"""Own leases hold the same VMs as the admission would put together, and draw as they will run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.adapters.opennebula.credentials import Credentials
from one_preempt.adapters.opennebula.owner_account import OwnerAccount
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.core.lease_status import converted_status
from one_preempt.core.model.lease import LeaseState, LeaseTerms, LeaseType
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.reservation import Reservation, Verdict
from one_preempt.core.model.virtual_machine import AttributeValue, HistoryRecord, LcmState, VirtualMachine, VmState
from one_preempt.core.model.written_time import utc_text
from one_preempt.entrypoints.cli.gantt import Bar, BarKind
from one_preempt.entrypoints.cli.lease.bars import own_bars, recorded_bars
from one_preempt.entrypoints.cli.lease.own_leases import Promise, own_leases
from tests.core.admission.lease_requests import admitted
from tests.hostile.front_row import front_row

NOW_S = 1_800_000_000


def stay(started_at_s: int, ended_at_s: int = 0) -> HistoryRecord:
    """A stay on a host, as long as it ran."""
    return HistoryRecord(0, 1, "node1", 0, 0, 0, started_at_s, ended_at_s, 0, 0, started_at_s, ended_at_s, 0)


def vm(vm_id: int, lease: Mapping[str, str] | None, *stays: HistoryRecord) -> VirtualMachine:
    """A VM of ann, on HOLD, or RUNNING where its last stay goes on."""
    running = bool(stays) and not stays[-1].end_at_s
    template: dict[str, tuple[AttributeValue, ...]] = {} if lease is None else {"LEASE": (dict(lease),)}
    return VirtualMachine(
        id=vm_id, name=f"vm-{vm_id}", uid=5, gid=100, uname="ann", gname="users",
        state=VmState.ACTIVE if running else VmState.HOLD, lcm_state=LcmState.RUNNING if running else LcmState.LCM_INIT,
        resched=False, submitted_at_s=NOW_S - 1000, ended_at_s=0, cpu_centi=100, memory_mib=1024, history=stays,
        user_template=template,
    )  # fmt: skip


attributes = st.none() | st.fixed_dictionaries(
    {"TYPE": st.sampled_from(["BE-SUSPENDABLE", "BE-CANCELLABLE", "WRONG"])},
    optional={"NAME": st.sampled_from(["a", "b"]), "SIZE": st.sampled_from(["1", "2", "3"])},
)


@settings(derandomize=True, max_examples=300)
@given(asked=st.lists(attributes, max_size=8))
def test_vms_are_put_together_as_the_admission_does_it(asked: list[dict[str, str] | None]) -> None:
    vms = {vm_id: vm(vm_id, lease) for vm_id, lease in enumerate(asked)}
    judged = [lease for lease in admitted(*vms.values()).leases if "LEASE" in vms[lease.id].user_template]
    told = own_leases(vms.values())
    assert [(lease.id, tuple(one.id for one in lease.vms)) for lease in told] == [
        (lease.id, lease.vm_ids) for lease in judged
    ]
    for own, lease in zip(told, judged, strict=True):
        assert own.problem == lease.refusal_text
        if lease.state is LeaseState.WAITING:
            assert own.terms == lease.terms


def bars_of(lease: Mapping[str, str], *stays: HistoryRecord) -> list[tuple[int, int | None, BarKind]]:
    bars = own_bars(own_leases([vm(7, lease, *stays)]), NOW_S)
    return [(bar.start_s - NOW_S, None if bar.end_s is None else bar.end_s - NOW_S, bar.kind) for bar in bars]


def test_a_running_lease_ends_when_all_its_stays_make_up_its_duration() -> None:
    lease = {"TYPE": "BE-SUSPENDABLE", "DURATION": "01:00:00"}
    assert bars_of(lease, stay(NOW_S - 600)) == [(-600, 3000, BarKind.RUNNING)]
    assert bars_of(lease, stay(NOW_S - 2000, NOW_S - 1000), stay(NOW_S - 600)) == [(-600, 2000, BarKind.RUNNING)]
    assert bars_of(lease, stay(NOW_S - 9000)) == [(-9000, 1, BarKind.RUNNING)]
    assert bars_of({"TYPE": "BE-SUSPENDABLE"}, stay(NOW_S - 600)) == [(-600, None, BarKind.RUNNING)]


def test_what_waits_is_drawn_until_its_start_or_for_good() -> None:
    assert bars_of({"TYPE": "BE-SUSPENDABLE"}) == [(0, None, BarKind.WAITING)]
    asked = {"TYPE": "BE-SUSPENDABLE", "START": "+01:00:00", "DURATION": "00:30:00"}
    assert bars_of(asked) == [(0, 2600, BarKind.WAITING), (2600, 4400, BarKind.EXPECTED)]
    late = {"TYPE": "DC-MIGRATABLE", "DEADLINE": "2027-02-01T00:00:00Z", "DURATION": "00:30:00"}
    assert bars_of(late)[1][2] is BarKind.DEADLINE
    assert bars_of({"TYPE": "WRONG"}) == [(0, None, BarKind.WAITING)]


def told(status: str) -> list[tuple[int, int | None, BarKind]]:
    """The bars of a lease of half an hour with this LEASE_STATUS."""
    waiting = vm(7, {"TYPE": "BE-SUSPENDABLE", "DURATION": "00:30:00"})
    speaking = replace(waiting, user_template={**waiting.user_template, "LEASE_STATUS": (status,)})
    bars = own_bars(own_leases([speaking]), NOW_S)
    return [(bar.start_s - NOW_S, None if bar.end_s is None else bar.end_s - NOW_S, bar.kind) for bar in bars]


def test_a_start_that_lease_status_tells_of_is_drawn_there() -> None:
    waits = (0, 600, BarKind.WAITING)
    at = utc_text(NOW_S + 600)
    assert told(f"reserved: starts at {at}") == [waits, (600, 2400, BarKind.RESERVED)]
    assert told(f"waits for room; starts at {at} at the latest as things stand") == [
        waits,
        (600, 2400, BarKind.EXPECTED),
    ]
    for nonsense in ("reserved: starts at 9999-99-99T99:99:99Z", f"late: it was to start at {at}; no room"):
        assert told(nonsense) == [(0, None, BarKind.WAITING)]


def test_what_was_refused_is_marked_and_has_no_stay() -> None:
    mark = [(0, 1, BarKind.REFUSED)]
    assert told("refused: no host has room from its START on") == mark
    assert told("on hold: TYPE=DC-NON-PREEMPTABLE is not for you") == mark
    asked = LeaseTerms(type=LeaseType.BE_SUSPENDABLE, duration_s=3600, start_at_s=NOW_S + 600)
    at_once = LeaseTerms(type=LeaseType.BE_SUSPENDABLE, at_once=True)
    refused = [record(number, terms=terms, verdict=Verdict.REFUSED) for number, terms in enumerate((asked, at_once))]
    assert list(recorded_bars(refused, {}, NOW_S)) == [
        Bar("0", NOW_S, NOW_S + 1, BarKind.REFUSED),
        Bar("1", NOW_S, NOW_S + 1, BarKind.REFUSED),
    ]


def test_what_waits_in_the_queue_instead_is_not_drawn_at_its_start() -> None:
    asking = vm(7, {"TYPE": "BE-SUSPENDABLE", "DURATION": "00:30:00", "START": utc_text(NOW_S + 600)})
    status = converted_status("No host for VM 7.")
    told_so = replace(asking, user_template={**asking.user_template, "LEASE_STATUS": (status,)})
    assert [bar.kind for bar in own_bars(own_leases([told_so]), NOW_S)] == [BarKind.WAITING]
    asked = LeaseTerms(type=LeaseType.BE_SUSPENDABLE, duration_s=1800, start_at_s=NOW_S + 600)
    on_record = record(7, terms=asked, verdict=Verdict.CONVERTED)
    assert [bar.kind for bar in recorded_bars([on_record], {}, NOW_S)] == [BarKind.WAITING]


def test_what_the_scheduler_says_of_a_start_is_understood(tmp_path: Path) -> None:
    """An accepted reservation fills the cloud and another lease has to wait for it: told by a real cycle."""
    with front_row(tmp_path, {"time": {"backfilling": "conservative", "suspension": "none"}}) as row:
        start_at_s = row.clock.now_s() + 7200
        asked = f'TYPE="DC-MIGRATABLE",DURATION="01:00:00",START="{utc_text(start_at_s)}",NAME="ar",SIZE="2"'
        for _ in range(2):
            row.submit("eva", cpu="4", more=f"LEASE=[{asked}]")
        row.run(2)
        blocked = 'LEASE=[TYPE="BE-SUSPENDABLE",DURATION="04:00:00"]'
        row.submit("eva", cpu="3", more=blocked)
        row.run(2)
        with closing(OnedTransport(row.transport.endpoint, Credentials("eva:eva"))) as transport:
            reserved, waiting = own_leases(OwnerAccount(transport).vms([]).values())
        assert (reserved.promise, reserved.state) == (Promise(start_at_s, firm=True), LeaseState.WAITING)
        assert waiting.promise is not None
        assert not waiting.promise.firm
        # Behind the reservation and what it takes to end it.
        assert start_at_s + 3600 <= waiting.promise.start_at_s < start_at_s + 3900


def record(lease_id: int, **changes: object) -> LeaseRecord:
    """A lease of one VM for an hour."""
    terms = LeaseTerms(type=LeaseType.BE_SUSPENDABLE, name=f"job-{lease_id}", duration_s=3600)
    values: dict[str, object] = {
        "id": lease_id, "terms": terms, "uid": 5, "gid": 100, "vm_ids": (lease_id,), "explicit": True,
        "may_preempt": False, "admitted_at_s": NOW_S, "arrived_at_s": NOW_S,
    }  # fmt: skip
    return LeaseRecord(**(values | changes))  # type: ignore[arg-type]


def test_the_administrators_rows_are_stays_reservations_and_promises() -> None:
    records = [
        record(1, run_began_at_s=NOW_S - 600, served_s=1000),
        record(2),
        record(3),
        record(4, preempted_by=1),
    ]
    promised = {
        1: (Reservation(1, NOW_S - 600, NOW_S + 2000, firm=True),),
        2: (
            Reservation(2, NOW_S + 100, NOW_S + 700, firm=True),
            Reservation(2, NOW_S + 900, NOW_S + 3900, firm=True),
        ),
        3: (Reservation(3, NOW_S + 50, None),),
    }
    assert list(recorded_bars(records, promised, NOW_S)) == [
        Bar("1 job-1", NOW_S - 600, NOW_S + 2000, BarKind.RUNNING),
        Bar("2 job-2", NOW_S, NOW_S + 100, BarKind.WAITING),
        Bar("2 job-2", NOW_S + 100, NOW_S + 700, BarKind.RESERVED),
        Bar("2 job-2", NOW_S + 900, NOW_S + 3900, BarKind.RESERVED),
        Bar("3 job-3", NOW_S, NOW_S + 50, BarKind.WAITING),
        Bar("3 job-3", NOW_S + 50, None, BarKind.EXPECTED),
        Bar("4 job-4", NOW_S, None, BarKind.WAITING),
    ]
