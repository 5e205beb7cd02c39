"""Scenario files: what they make, and how mistakes in them are told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import inspect
from msgspec.structs import replace

from one_preempt.configuration.settings import OverheadSettings
from one_preempt.core.model.lease import LeaseType
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.scenario.description import Scenario, read_scenario
from one_preempt.simulation.scenario.faults import timed_fault
from one_preempt.simulation.scenario.overheads import planned_overhead, simulated_durations
from one_preempt.simulation.scenario.recipe import hosts_of, workload_of
from one_preempt.simulation.scenario.trace import SourceKind, TraceReading, kind_of, read_trace
from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.faults import Fault, Misbehaviour
from one_preempt.simulation.simulator.timed_fault import DriverFails, HostReturns, TimedFault
from one_preempt.simulation.workload.lwf_writing import write_lwf
from one_preempt.simulation.workload.swf_workload import SwfReading
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest

SMALL: dict[str, Any] = {
    "site": {"hosts": [{"count": 8, "cpu": 2, "memory_mib": 2048}], "durations": {"boot_s": 5}},
    "workload": {"lublin99": {"requests": 40}, "span_s": 86_400, "mean_vms": 2, "mean_duration_s": 3600},
    "leases": {"local": 15, "types": {"BE-SUSPENDABLE": 0.5, "DC-MIGRATABLE": 0.5}, "deadline_factor": 2},
}


def write(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_recipe_gives_the_site_and_the_workload_it_describes(tmp_path: Path) -> None:
    scenario = read_scenario(write(tmp_path, SMALL))
    (hosts,) = hosts_of(scenario)
    assert (hosts.count, hosts.cpu_centi, hosts.memory_mib) == (8, 200, 2048)
    workload = workload_of(scenario, tmp_path, 3)
    assert len(workload) == 40
    assert workload.span_s == 86_400
    assert sum(one.virtual_machines for one in workload.requests) == 80
    assert sum(not one.external for one in workload.requests) == 15
    for one in workload.requests:
        if one.external:
            assert (one.start is StartKind.DEADLINE) == (one.lease_type is LeaseType.DC_MIGRATABLE)
    assert workload == workload_of(scenario, tmp_path, 3) != workload_of(scenario, tmp_path, 4)


def test_the_scheduler_plans_with_the_durations_that_are_simulated() -> None:
    configured = OverheadSettings(suspend_mib_per_s=10, boot_s=40)
    durations = simulated_durations(configured, {"boot_s": 5, "restore_mib_per_s": 0})
    assert (durations.boot_s, durations.save_mib_per_s, durations.restore_mib_per_s) == (5, 10, 0)
    planned = planned_overhead(configured, durations)
    assert (planned.boot_s, planned.suspend_mib_per_s, planned.shutdown_s) == (5, 10, 0)
    assert planned.resume_mib_per_s >= 1e9
    assert planned.reschedule_s == configured.reschedule_s


@pytest.mark.parametrize("copies", [{}, {"copy_mib_per_s": 50}, {"live_migrate_mib_per_s": 50}])
def test_where_storage_is_not_shared_copies_take_time_and_are_planned_so(copies: dict[str, float]) -> None:
    configured = OverheadSettings(copy_mib_per_s=100)
    assert simulated_durations(configured, copies).copy_mib_per_s == copies.get("copy_mib_per_s", 0)
    durations = simulated_durations(configured, copies, shared_storage=False)
    assert durations.copy_mib_per_s == copies.get("copy_mib_per_s", 100)
    assert planned_overhead(configured, durations).copy_mib_per_s == (50 if copies else 100)


def test_reservations_are_drawn_into_the_workload(tmp_path: Path) -> None:
    drawn = {"share": 0.2, "mean_duration_s": 3600, "fewest_vms": 1, "most_vms": 4, "lead_s": 600, "tolerance": 0.3}
    scenario = read_scenario(write(tmp_path, SMALL | {"reservations": drawn}))
    exact = [one for one in workload_of(scenario, tmp_path, 1).requests if one.start is StartKind.EXACT]
    assert exact
    assert sum(one.work_vm_s for one in exact) == pytest.approx(0.2 * 16 * 86_400, rel=0.3)


def test_the_share_of_reservations_is_of_all_places_however_many(tmp_path: Path) -> None:
    hosts = [{"count": 2500, "cpu": 16, "memory_mib": 16_384}]
    reserved = {"share": 0.5, "mean_duration_s": 3600, "fewest_vms": 4000, "most_vms": 8000, "tolerance": 0.1}
    small = SMALL["workload"] | {"lublin99": {"requests": 5}}
    content = SMALL | {"site": {"hosts": hosts}, "workload": small, "reservations": reserved}
    content["leases"] = {}
    workload = workload_of(read_scenario(write(tmp_path, content)), tmp_path, 1)
    booked = [one for one in workload.requests if one.start is StartKind.EXACT]
    share = sum(one.work_vm_s for one in booked) / (40_000 * 86_400)
    assert share == pytest.approx(0.5, rel=0.11)


def test_a_host_counts_for_as_many_vms_as_have_room_there(tmp_path: Path) -> None:
    hosts = [{"count": 2, "cpu": 8, "memory_mib": 8192}, {"count": 4, "cpu": 8, "memory_mib": 4096}]
    content = {
        "site": {"hosts": hosts}, "workload": {"lublin99": {"requests": 150}, "offered_load": 0.8},
        "reservations": {
            "share": 0.3, "mean_duration_s": 3600, "fewest_vms": 1, "most_vms": 4, "lead_s": 600, "tolerance": 0.05,
        },
    }  # fmt: skip
    workload = workload_of(read_scenario(write(tmp_path, content)), tmp_path, 1)
    places = 2 * 8 + 4 * 4
    waiting, reserved = (
        [one for one in workload.requests if (one.start is StartKind.EXACT) == exact] for exact in (False, True)
    )
    offered = sum(one.work_vm_s for one in waiting) / (places * max(one.submitted_at_s for one in waiting))
    assert offered == pytest.approx(0.8, rel=0.01)
    assert max(one.virtual_machines for one in waiting) > 8
    span_s = max(one.submitted_at_s for one in waiting)
    assert sum(one.work_vm_s for one in reserved) / (places * span_s) == pytest.approx(0.3, rel=0.1)


def test_a_load_counts_each_vm_where_it_fits_and_no_lease_is_larger_than_it_may_be(tmp_path: Path) -> None:
    def lasting(number: int, at_s: int, vm: MachineSet) -> WorkloadRequest:
        return WorkloadRequest(number, at_s, (vm,), 1000, 1000)

    small, whole, huge = (MachineSet(1, cpus * 100, cpus * 1024) for cpus in (1, 8, 64))
    write_lwf(Workload((lasting(1, 0, small), lasting(2, 0, whole), lasting(3, 900, huge))), tmp_path / "mix.lwf")
    hosts = {"site": {"hosts": [{"count": 4, "cpu": 8, "memory_mib": 8192}]}}
    content = hosts | {"workload": {"trace": {"file": "mix.lwf"}, "offered_load": 0.5}}
    workload = workload_of(read_scenario(write(tmp_path, content)), tmp_path, 1)
    # A small one has 32 places and a large one 4: in turns both take 281.25 s. The third fits nowhere.
    places = 2000 / (1000 / 32 + 1000 / 4)
    assert workload.span_s == pytest.approx(3000 / (places * 0.5), abs=1)
    many = {"site": {"hosts": [{"count": 256, "cpu": 64, "memory_mib": 262_144}]}}
    drawn = workload_of(
        read_scenario(write(tmp_path, many | {"workload": {"lublin99": {"requests": 2000}}})), tmp_path, 1
    )
    assert 256 < max(one.virtual_machines for one in drawn.requests) <= 10_000


def test_a_workload_that_takes_no_time_has_no_load_to_scale_and_that_is_said(tmp_path: Path) -> None:
    nothing = WorkloadRequest(1, 5, (MachineSet(1, 100, 1024),), 60, 0)
    write_lwf(Workload((nothing,)), tmp_path / "nothing.lwf")
    content = SMALL | {"workload": {"trace": {"file": "nothing.lwf"}, "offered_load": 0.5}}
    with pytest.raises(OnePreemptError, match=r"workload\.offered_load of the scenario: the load of a workload"):
        workload_of(read_scenario(write(tmp_path, content)), tmp_path, 1)


def test_hosts_that_are_too_small_for_any_vm_are_told(tmp_path: Path) -> None:
    content = SMALL | {"site": {"hosts": [{"count": 8, "cpu": 0.5, "memory_mib": 2048}]}}
    with pytest.raises(OnePreemptError, match=r"workload\.lublin99 of the scenario: on no host"):
        workload_of(read_scenario(write(tmp_path, content)), tmp_path, 1)


def test_starts_and_deadlines_of_a_trace_stay_when_others_are_given_deadlines(tmp_path: Path) -> None:
    one = WorkloadRequest(1, 0, (MachineSet(1, 100, 1024),), 600, 600, lease_type=LeaseType.DC_MIGRATABLE)
    given = (
        one,
        replace(one, id=2, start=StartKind.EXACT, start_at_s=3600),
        replace(one, id=3, start=StartKind.DEADLINE, deadline_at_s=7200),
        replace(one, id=4, start=StartKind.IMMEDIATE),
    )
    write_lwf(Workload(given), tmp_path / "leases.lwf")
    content = SMALL | {"workload": {"trace": {"file": "leases.lwf"}}, "leases": {"deadline_factor": 2}}
    found = workload_of(read_scenario(write(tmp_path, content)), tmp_path, 1).requests
    assert [(one.start, one.deadline_at_s) for one in found] == [
        (StartKind.DEADLINE, 1200), (StartKind.EXACT, None), (StartKind.DEADLINE, 7200), (StartKind.IMMEDIATE, None),
    ]  # fmt: skip
    content["leases"] = {"types": {"BE-SUSPENDABLE": 1}}
    types = [one.lease_type for one in workload_of(read_scenario(write(tmp_path, content)), tmp_path, 1).requests]
    assert types == [LeaseType.BE_SUSPENDABLE] * 2 + [LeaseType.DC_MIGRATABLE, LeaseType.BE_SUSPENDABLE]


def test_haizeas_older_text_is_a_lease_workload_too(tmp_path: Path) -> None:
    path = tmp_path / "work.lwf"
    path.write_text("# leases\n0 3600 600 900 2 1 1024 0 image 600\n5 -1 60 60 1 1 1024 0 image 600\n")
    reserved, waiting = read_trace(path, TraceReading(cut_overruns=True)).requests
    assert (reserved.start_at_s, reserved.actual_duration_s, waiting.start) == (3600, 600, StartKind.BEST_EFFORT)
    with pytest.raises(OnePreemptError, match=r"\(LWF\) is no log \(SWF\): leave out processors"):
        read_trace(path, TraceReading(SwfReading(8)))


def test_a_limit_without_other_sites_is_for_all(tmp_path: Path) -> None:
    scenario = read_scenario(write(tmp_path, SMALL | {"leases": {"max_suspensions": 2}}))
    assert {one.max_suspensions for one in workload_of(scenario, tmp_path, 0).requests} == {2}


def test_a_trace_lies_beside_its_scenario(tmp_path: Path) -> None:
    (tmp_path / "two.swf").write_text(
        "1 0 -1 60 2 -1 -1 2 90 -1 1 1 1 -1 1 -1 -1 -1\n2 5 -1 0 1 -1 -1 1 9 -1 1 1 1 -1 1 -1 -1 -1\n"
    )
    scenario = read_scenario(write(tmp_path, {"site": SMALL["site"], "workload": {"trace": {"file": "two.swf"}}}))
    first, second = workload_of(scenario, tmp_path, 0).requests
    assert (first.virtual_machines, first.actual_duration_s, second.submitted_at_s) == (2, 60, 5)


def test_a_scenario_chooses_jobs_of_its_trace_and_scales_them(tmp_path: Path) -> None:
    jobs = ((1, 0, 1), (2, 100, 1), (3, 110, 2), (4, 300, 1), (5, 500, 1))
    lines = (f"{number} {at_s} -1 60 2 -1 -1 2 90 -1 1 1 1 -1 {queue} -1 -1 -1\n" for number, at_s, queue in jobs)
    (tmp_path / "five.swf").write_text("".join(lines))
    trace = {
        "file": "five.swf", "queues": [1], "submitted_from_s": 100, "submitted_before_s": 500,
        "load_factor": 2, "size_factor": 3, "duration_factor": 0.5,
    }  # fmt: skip
    content = {"site": SMALL["site"], "workload": {"trace": trace}}
    played = workload_of(read_scenario(write(tmp_path, content)), tmp_path, 0).requests
    assert [(one.id, one.submitted_at_s, one.virtual_machines, one.actual_duration_s) for one in played] == [
        (2, 0, 6, 30), (4, 100, 6, 30),
    ]  # fmt: skip
    trace["duration_factor"] = 1e9
    with pytest.raises(OnePreemptError, match=r"five\.swf: with these factors of load, size or duration, a requested"):
        workload_of(read_scenario(write(tmp_path, content)), tmp_path, 0)
    trace["submitted_before_s"] = 90
    with pytest.raises(
        OnePreemptError, match=r"workload\.trace of the scenario: .* let the window end after its begin"
    ):
        workload_of(read_scenario(write(tmp_path, content)), tmp_path, 0)


def test_a_fault_without_more_strikes_once_from_the_beginning_on(tmp_path: Path) -> None:
    faults = [
        {"operation": "save"},
        {"host_returns": 0},
        {"operation": "boot", "host": 0, "count": None},
        {"operation": "restore", "misbehaviour": "slow", "host": None},
    ]
    scenario = read_scenario(write(tmp_path, SMALL | {"faults": faults}))
    expected: list[TimedFault] = [
        DriverFails(0, Fault(Operation.SAVE, Misbehaviour.FAIL, count=1)),
        HostReturns(0, 0, guests_survived=False),
        DriverFails(0, Fault(Operation.BOOT, Misbehaviour.FAIL, host_id=0, count=None)),
        DriverFails(0, Fault(Operation.RESTORE, Misbehaviour.SLOW, factor=10)),
    ]
    assert [timed_fault(entry) for entry in scenario.faults] == expected


def test_annotations_lie_beside_the_scenario_too(tmp_path: Path) -> None:
    (tmp_path / "one.swf").write_text("1 0 -1 60 2 -1 -1 2 90 -1 1 1 1 -1 1 -1 -1 -1\n")
    annotation = "<lease-annotation id='1'><deadline time='+00:10:00'/></lease-annotation>"
    (tmp_path / "one.lwfa").write_text(f"<lease-annotations>{annotation}</lease-annotations>")
    trace = {"file": "one.swf", "annotations": "one.lwfa"}
    scenario = read_scenario(write(tmp_path, {"site": SMALL["site"], "workload": {"trace": trace}}))
    (request,) = workload_of(scenario, tmp_path, 0).requests
    assert request.deadline_at_s == 600


def example_of(page: str) -> str:
    """The scenario that a page for researchers shows."""
    document = Path(__file__).parents[3] / "docs" / "researcher" / page
    (example,) = re.findall(r"```yaml\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
    return str(example)


def test_the_accounting_of_a_month_is_played_on_hosts_that_a_scenario_names(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(example_of("simulate.md"))
    accounting = Path(__file__).parents[3] / "tests" / "traces" / "accounting.xml"
    (tmp_path / "month.xml").write_bytes(accounting.read_bytes())
    scenario = read_scenario(tmp_path / "scenario.yaml")
    assert len(workload_of(scenario, tmp_path, 0)) == 7
    assert hosts_of(scenario) == (MachineSet(36, 6400, 262144), MachineSet(4, 12800, 1048576))


def test_the_example_of_the_document_is_a_scenario(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(example_of("scenarios.md"))
    scenario = read_scenario(tmp_path / "scenario.yaml")
    workload = workload_of(scenario, tmp_path, scenario.seeds[0])
    assert sum(one.start is not StartKind.EXACT for one in workload.requests) == 300
    assert scenario.policies == ["nop", "moml", "mov"]


def keys_of(kind: inspect.Type) -> Iterator[str]:
    """Every key of a section and below."""
    for inner in kind.types if isinstance(kind, inspect.UnionType) else (getattr(kind, "item_type", kind),):
        if isinstance(inner, inspect.StructType):
            for field in inner.fields:
                yield field.name
                yield from keys_of(field.type)


def test_the_document_names_every_key_of_a_scenario() -> None:
    example = example_of("scenarios.md")
    keys = set(keys_of(inspect.type_info(Scenario)))
    assert {"queue", "classes", "process", "cut_overruns", "count"} <= keys
    assert sorted(key for key in keys if not re.search(rf"\b{key}:", example)) == []


def changed(**more: Any) -> dict[str, Any]:
    return SMALL | more


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed(nodes=4), "unknown key `nodes`; there are: "),
        (changed(site={"hosts": []}), "site.hosts names no machines"),
        (changed(site={"hosts": [{"count": 0}]}), r"site\.hosts\[0\]\.count: expected a whole number of at least 1"),
        (changed(site={"hosts": [{"count": 1_000_001}]}), "expected a whole number of at most 1000000"),
        (
            changed(site={"hosts": [{"count": 600_000}, {"count": 600_001}]}),
            r"site\.hosts names 1200001 machines together: 1000000 are",
        ),
        (changed(site={"hosts": [{"count": 2}], "durations": {"bot_s": 1}}), "no 'bot_s'; there are: boot_s"),
        (
            changed(leases={"images": [{"name": "usual", "size_mib": 600, "share": 1}]}),
            r"leases\.images needs a link: write site\.images\.link_megabit_per_s",
        ),
        (changed(faults=[{"host_dies": 8}]), r"faults\[0\] names host 8, and there are hosts 0 to 7"),
        (changed(faults=[{"at_s": 5}]), r"faults\[0\] needs one of host_dies, host_returns and operation"),
        (changed(faults=[{"host_dies": 1, "host_returns": 2}]), r"faults\[0\] needs one of host_dies"),
        (
            changed(faults=[{"host_dies": 5, "host": 3}]),
            r"faults\[0\]\.host belongs to a fault with operation, and this one has host_dies: leave host out",
        ),
        (
            changed(faults=[{"host_dies": 1}, {"operation": "save", "guests_survived": False}]),
            r"faults\[1\]\.guests_survived belongs to a fault with host_returns, and this one has operation",
        ),
        (
            changed(faults=[{"operation": "save", "factor": 10}]),
            r"faults\[0\]\.factor belongs to misbehaviour: slow: write that, or leave factor out",
        ),
        (changed(faults=[{"operation": "sav"}]), r"faults\[0\]\.operation: unknown word 'sav'; there are: boot, save"),
        (changed(workload={}), "either a trace or lublin99"),
        (changed(workload={"lublin99": {"requests": 5}, "mean_vms": 2}), "go together"),
        (
            changed(workload={"lublin99": {"requests": 5}, "span_s": 100, "offered_load": 1}),
            r"workload\.span_s and workload\.offered_load both say how dense",
        ),
        (changed(policies=["moml", "MOML"]), "is written twice"),
        (changed(seeds=[]), "seeds: expected a list that is not empty"),
        (changed(leases={"types": {"BE": 1}}), "leases.types: a key: unknown word 'BE'; there are: BE-CANCELLABLE"),
        (changed(leases={"types": {"BE-SUSPENDABLE": 0.5, "DC-MIGRATABLE": 0.4}}), r"leases\.types add up to 0\.9"),
        (
            changed(leases={"max_suspensions": 1_000_001}),
            r"leases\.max_suspensions: expected a whole number of at most",
        ),
        (changed(leases={"local": 41}), "leases.local is 41, of only 40 requests"),
        (
            changed(site={"hosts": [{"count": 2, "cpu": 0.001}]}),
            r"site\.hosts\[0\]\.cpu: expected a number of at least 0\.01",
        ),
        (
            changed(reservations={"share": 0.2, "mean_duration_s": 60, "fewest_vms": 5, "most_vms": 4}),
            r"reservations\.fewest_vms is more",
        ),
    ],
)
def test_mistakes_are_named_with_file_and_key(tmp_path: Path, content: dict[str, Any], message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(OnePreemptError, match=message) as error:
        read_scenario(path)
    assert str(error.value).startswith(str(path))


def test_what_is_not_yaml_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("site: {hosts: [}\n")
    with pytest.raises(OnePreemptError, match="line 1"):
        read_scenario(path)
    with pytest.raises(OnePreemptError, match="cannot be read"):
        read_scenario(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.swf", b"<", SourceKind.SWF), ("a.swf.gz", b"", SourceKind.SWF), ("a.lwf", b"1", SourceKind.LWF),
        ("a.YAML", b"", SourceKind.SCENARIO), ("a.txt", b"; comment\n1 2", SourceKind.SWF),
        ("a", b"\xef\xbb\xbf \n<lease-workload/>", SourceKind.LWF), ("a.xml", b"<lease-workload/>", SourceKind.LWF),
        ("a", b"<?xml version='1.0'?>\n<!-- <a> -->\n<HISTORY_RECORDS>", SourceKind.ACCOUNTING),
        ("a.xml.gz", b"<VM_POOL/>", SourceKind.ACCOUNTING), ("a", b"<HISTORY_RECORDSX/>", SourceKind.LWF),
    ],
)  # fmt: skip
def test_the_kind_of_a_source_follows_its_name_or_how_it_begins(
    tmp_path: Path, name: str, content: bytes, kind: SourceKind
) -> None:
    (tmp_path / name).write_bytes(content)
    assert kind_of(tmp_path / name) is kind


def test_overruns_are_cut_in_either_format(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text("1 0 -1 100 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n")
    assert read_trace(tmp_path / "a.swf", TraceReading(cut_overruns=True)).requests[0].actual_duration_s == 60
    assert read_trace(tmp_path / "a.swf").requests[0].actual_duration_s == 100


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"workload": {"trace": {"file": "a.swf"}, "span_s": 60}}, r"^workload\.span_s of the scenario: arrivals over"),
        ({"workload": {"trace": {"file": "a.swf"}, "offered_load": 1}}, r"^workload\.offered_load of the scenario: "),
        ({"workload": {"trace": {"file": "a.swf"}}, "leases": {"local": 2}}, r"^leases of the scenario: 2 local"),
    ],
)
def test_what_a_trace_does_not_bear_is_told_with_the_key(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    (tmp_path / "a.swf").write_text("1 0 -1 100 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n")
    scenario = read_scenario(write(tmp_path, {"site": SMALL["site"]} | more))
    with pytest.raises(OnePreemptError, match=message):
        workload_of(scenario, tmp_path, 0)


def test_a_deadline_too_far_for_a_lease_is_told_with_the_key(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text("1 0 -1 100 1 -1 -1 1 60000 -1 1 1 1 -1 1 -1 -1 -1\n")
    given = {"types": {"DC-MIGRATABLE": 1}, "deadline_factor": 1e6}
    content = {"site": SMALL["site"], "workload": {"trace": {"file": "a.swf"}}, "leases": given}
    with pytest.raises(OnePreemptError, match=r"^leases of the scenario: deadline 60000000000 s: .* the latest"):
        workload_of(read_scenario(write(tmp_path, content)), tmp_path, 0)


def test_a_lease_workload_names_the_line_of_what_a_lease_cannot_ask_for(tmp_path: Path) -> None:
    (tmp_path / "far.lwf").write_text("0 1 100 100 1 1 64 0 i 0\n0 300000000000 100 100 1 1 64 0 i 0\n")
    with pytest.raises(OnePreemptError, match=r"far\.lwf:2: start 300000000000 s: \d+ s .* is the latest"):
        read_trace(tmp_path / "far.lwf")
