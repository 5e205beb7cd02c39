from __future__ import annotations

import io
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.model.lease import LeaseType
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.lwf import parse_lwf, read_lwf
from one_preempt.simulation.workload.lwf_writing import format_lwf, write_lwf
from one_preempt.simulation.workload.scaling import with_overruns_cut
from one_preempt.simulation.workload.workload import LeftOut, MachineSet, StartKind, Workload, WorkloadRequest

SITE = """\
  <site>
    <resource-types names="CPU Memory Net-in"/>
    <nodes>
      <node-set numnodes="4"><res type="CPU" amount="100"/><res type="Memory" amount="1024"/></node-set>
      <node-set numnodes="2"><res type="CPU"><instance amount="100"/><instance amount="50"/></res>
        <res type="Memory" amount="2048"/><res type="Net-in" amount="100"/></node-set>
    </nodes>
  </site>
"""
NODES = '<node-set numnodes="2"><res amount="100" type="CPU"/><res amount="512" type="Memory"/></node-set>'


def lease_request(
    id: str = 'id="1"',
    preemptible: str = "true",
    start: str = "<start/>",
    duration: str = "01:00:00.00",
    deadline: str = "",
    arrival: str = "00:10:00.00",
    nodes: str = NODES,
    real: str = "",
    rest: str = '<software><disk-image id="foobar.img" size="600"/></software>',
) -> str:
    return (
        f'<lease-request arrival="{arrival}">{real}<lease {id} preemptible="{preemptible}"><nodes>{nodes}</nodes>'
        f'{start}<duration time="{duration}"/>{deadline}{rest}</lease></lease-request>'
    )


def parsed(*requests: str, site: str = "", skip: bool = False) -> Workload:
    body = f"<lease-workload name='story'>{site}<lease-requests>\n{chr(10).join(requests)}\n</lease-requests>"
    return parse_lwf(io.BytesIO(f"{body}</lease-workload>".encode()), "story.lwf", skip)


def only(*requests: str) -> WorkloadRequest:
    (request,) = parsed(*requests).requests
    return request


def test_a_best_effort_lease_is_read() -> None:
    assert only(lease_request()) == WorkloadRequest(
        id=1,
        submitted_at_s=600,
        vm_sets=(MachineSet(2, 100, 512),),
        requested_duration_s=3600,
        actual_duration_s=3600,
        lease_type=LeaseType.BE_SUSPENDABLE,
        image="foobar.img",
        image_mib=600,
    )


@pytest.mark.parametrize(
    ("start", "deadline", "kind", "start_at_s", "deadline_at_s"),
    [
        ("<start/>", "", StartKind.BEST_EFFORT, None, None),
        ("<start><now/></start>", "", StartKind.IMMEDIATE, None, None),
        ("<start><exact time='00:30:00.00'/></start>", "", StartKind.EXACT, 1800, None),
        ("<start><exact time='+00:30:00.00'/></start>", "", StartKind.EXACT, 2400, None),
        ("<start><exact time='00:30:00'/></start>", "<deadline time='02:00:00'/>", StartKind.DEADLINE, 1800, 7200),
        ("<start/>", "<deadline time='+02:00:00'/>", StartKind.DEADLINE, None, 7800),
    ],
)
def test_the_start_says_what_kind_of_lease_it_is(
    start: str, deadline: str, kind: StartKind, start_at_s: int | None, deadline_at_s: int | None
) -> None:
    request = only(lease_request(start=start, deadline=deadline))
    assert (request.start, request.start_at_s, request.deadline_at_s) == (kind, start_at_s, deadline_at_s)


@pytest.mark.parametrize(
    ("preemptible", "deadline", "expected"),
    [
        ("false", "", LeaseType.DC_NON_PREEMPTABLE),
        ("no", "", LeaseType.DC_NON_PREEMPTABLE),
        ("True", "", LeaseType.BE_SUSPENDABLE),
        ("yes", "<deadline time='05:00:00'/>", LeaseType.DC_MIGRATABLE),
        ("false", "<deadline time='05:00:00'/>", LeaseType.DC_NON_PREEMPTABLE),
    ],
)
def test_preemptible_and_deadline_give_the_lease_type(preemptible: str, deadline: str, expected: LeaseType) -> None:
    assert only(lease_request(preemptible=preemptible, deadline=deadline)).lease_type is expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:00:59.49", 59),
        ("00:00:59.50", 60),
        ("26:00:00", 93_600),
        ("05:00:00:00.00", 432_000),
        ("1.02:00:00", 93_600),
        ("1 02:00:00", 93_600),
    ],
)
def test_times_may_have_days_and_fractions(text: str, seconds: int) -> None:
    assert only(lease_request(duration=text)).requested_duration_s == seconds


@pytest.mark.parametrize(("real", "cut"), [("00:29:30.00", 1770), ("02:00:00.00", 3600)])
def test_the_real_duration_may_differ_and_over_runs_may_be_cut(tmp_path: Path, real: str, cut: int) -> None:
    request = only(lease_request(real=f"<realduration time='{real}'/>"))
    write_lwf(Workload((request,)), tmp_path / "story.lwf.gz")
    assert read_lwf(tmp_path / "story.lwf.gz").requests == (request,)
    assert with_overruns_cut(read_lwf(tmp_path / "story.lwf.gz")).requests[0].actual_duration_s == cut


def test_unlike_nodes_and_instances_of_a_resource_are_read() -> None:
    workload = parsed(lease_request(nodes=NODES + NODES.replace("512", "1024")), site=SITE)
    assert workload.name == "story"
    assert workload.site == (MachineSet(4, 100, 1024), MachineSet(2, 150, 2048))
    assert workload.requests[0].vm_sets == (MachineSet(2, 100, 512), MachineSet(2, 100, 1024))
    assert workload.provenance == ("read from story.lwf, without Net-in",)


@pytest.mark.parametrize(("said", "is_so"), [("yes", True), ("true", True), ("no", False), ("False", False)])
def test_what_is_said_not_to_be_so_is_not_so(said: str, is_so: bool) -> None:
    attributes = "".join(f"<attr name='{name}' value='{said}'/>" for name in ("external", "unknown-duration"))
    request = only(lease_request(rest=f"<extra>{attributes}</extra>"))
    assert (request.external, request.requested_duration_s is None) == (is_so, is_so)


def test_leases_without_an_id_are_numbered_after_the_others() -> None:
    workload = parsed(lease_request(id=""), lease_request(id='id="7"'), lease_request(id=""))
    assert [request.id for request in workload.requests] == [7, 8, 9]


@pytest.mark.parametrize(
    ("bad", "ids"),
    [
        ('<lease-request arrival="soon"/>', [7, 8, 10]),
        (lease_request(id="", preemptible="maybe"), [7, 8, 10]),
        (lease_request(id='id="20"', preemptible="maybe"), [7, 21, 22]),
        (lease_request(id='id="7"'), [7, 8, 9]),
        (lease_request(id='id="x"'), [7, 8, 9]),
    ],
)
def test_leases_keep_their_numbers_where_a_bad_one_is_left_out(bad: str, ids: list[int]) -> None:
    workload = parsed(lease_request(id='id="7"'), lease_request(id=""), bad, lease_request(id=""), skip=True)
    assert [request.id for request in workload.requests] == ids


@pytest.mark.parametrize(
    ("request_text", "words"),
    [
        (lease_request(arrival="soon"), r"<lease-request> arrival='soon' is not a time: write hh:mm:ss"),
        (lease_request(duration="-01:00:00"), r"<duration> time='-01:00:00' is not a time"),
        (lease_request(duration="00:00:00"), "requested duration of 0 s"),
        (lease_request(id='id="x"'), r"<lease> id='x' is not a whole number from 0"),
        (lease_request(id=f'id="{9:0>999}"'), r"is not a whole number"),
        (lease_request(preemptible="maybe"), r"preemptible='maybe': write true or false"),
        (lease_request(start=""), "<lease> has no <start>"),
        (lease_request(start="<start><later/></start>"), r"<start> holds <later>: leave it empty, or write <exact"),
        (lease_request(start="<start><exact time='00:05:00'/></start>"), "before its submission"),
        (lease_request(deadline="<deadline time='00:01:00'/>"), "deadline 60 s is not after"),
        (
            lease_request(
                deadline="<deadline time='05:00:00'/>",
                rest="<extra><attr name='lease-type' value='BE-CANCELLABLE'/></extra>",
            ),
            "a lease of type BE-CANCELLABLE is promised no deadline",
        ),
        (lease_request(nodes=NODES.replace("100", "0")), "<lease>: a VM without CPU or memory"),
        (lease_request(nodes=NODES.replace("512", "0")), "<lease>: a VM without CPU or memory"),
        (lease_request(nodes=NODES.replace("512", f"{10**15}")), f"is not a whole number from 0 to {10**15 - 1}"),
        (lease_request(nodes=""), "no <nodes> with a <node-set>"),
        (lease_request(nodes=NODES.replace('"2"', '"0"')), r"<node-set> numnodes='0' is not a whole number from 1"),
        (lease_request(nodes=NODES.replace('"2"', '"9999999"')), r"from 1 to 10000"),
        (lease_request(nodes=NODES.replace('"512"', '"-5"')), r"<res> amount='-5' is not a whole number from 0"),
        (lease_request(rest="<extra><attr name='lease-type' value='BEST'/></extra>"), "'BEST' is none of BE-CANCEL"),
        (lease_request(rest="<extra><attr name='external' value='perhaps'/></extra>"), "external 'perhaps': write yes"),
        (lease_request(), "lease 1 is there twice"),
    ],
)
def test_a_bad_request_is_named_by_file_line_and_attribute(request_text: str, words: str) -> None:
    requests = (lease_request(), request_text, lease_request(id='id="3"'))
    with pytest.raises(OnePreemptError, match=r"^story\.lwf:3: .*" + words):
        parsed(*requests)
    workload = parsed(*requests, skip=True)
    assert [request.id for request in workload.requests] == [1, 3]
    assert workload.left_out == (LeftOut("bad requests", 1),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not XML"),
        ("<lease-workload>", "not XML"),
        ("<jobs/>", "<jobs> is not a <lease-workload>"),
        ("<a/>", "<a> is not a <lease-workload>"),
        ("<lease-workload><site/></lease-workload>", "<site> has no <nodes>"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><lease-workload name="&a;"/>', "DOCTYPE"),
        (
            '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
            + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12)).replace("&a0;", "&a;")
            + ']><lease-workload name="&a11;"/>',
            "DOCTYPE|not XML",
        ),
        ('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><lease-workload>&a;</lease-workload>', "DOCTYPE"),
        ("<lease-workload>" + "<a>" * 5000 + "</a>" * 5000 + "</lease-workload>", "not XML"),
    ],
)
def test_what_is_not_a_workload_is_refused(text: str, words: str) -> None:
    with pytest.raises(OnePreemptError, match=words):
        parse_lwf(io.BytesIO(text.encode()), "story.lwf")


amounts = st.integers(1, 10**6)
machines = st.lists(st.builds(MachineSet, st.integers(1, 1000), amounts, amounts), min_size=1, max_size=3).map(tuple)


@st.composite
def any_requests(draw: st.DrawFn) -> Sequence[WorkloadRequest]:
    requests = []
    for id in draw(st.sets(st.integers(0, 10**9), max_size=6)):
        submitted, kind = draw(st.integers(0, 10**7)), draw(st.sampled_from(StartKind))
        ready = submitted + draw(st.integers(0, 10**6))
        due = kind is StartKind.DEADLINE
        has_start = kind is StartKind.EXACT or (due and draw(st.booleans()))
        image = draw(st.text("abc.-&<\"'\u00e4", max_size=8))
        requests.append(
            WorkloadRequest(
                id=id,
                submitted_at_s=submitted,
                vm_sets=draw(machines),
                requested_duration_s=draw(st.none() | st.integers(1, 10**6)),
                actual_duration_s=draw(st.integers(0, 10**6)),
                start=kind,
                start_at_s=ready if has_start else None,
                deadline_at_s=ready + draw(st.integers(1, 10**6)) if due else None,
                lease_type=draw(st.sampled_from([one for one in LeaseType if not (due and one.best_effort)])),
                external=draw(st.booleans()),
                max_suspensions=draw(st.none() | st.integers(0, 9)),
                image=image,
                image_mib=draw(amounts) if image else 0,
                user=draw(st.integers(-1, 99)),
                group=draw(st.integers(-1, 99)),
                queue=draw(st.integers(-1, 99)),
            )
        )
    return requests


@settings(derandomize=True, max_examples=120, deadline=None)
@given(requests=any_requests(), site=machines | st.just(()))
def test_what_is_written_reads_as_what_it_was(
    requests: Sequence[WorkloadRequest], site: tuple[MachineSet, ...]
) -> None:
    workload = Workload(tuple(requests), name='a "name" & <more>', site=site, provenance=("drawn",))
    again = parse_lwf(io.BytesIO(format_lwf(workload)), "story.lwf")
    assert again.requests == workload.requests
    assert (again.name, again.site) == (workload.name, site)


def test_five_thousand_leases_are_read_while_the_file_streams() -> None:
    class OneByteShort:
        """Gives a little at a time, and never the rest of an element."""

        def __init__(self, content: bytes) -> None:
            self._stream = io.BytesIO(content)
            self._random = random.Random(1)

        def read(self, size: int, /) -> bytes:
            return self._stream.read(self._random.randrange(1, min(size, 5000)))

    vms = (MachineSet(1, 100, 1024),)
    workload = Workload(tuple(WorkloadRequest(id, id, vms, 60, 60) for id in range(5000)))
    assert parse_lwf(OneByteShort(format_lwf(workload)), "story.lwf").requests == workload.requests


def test_a_site_may_have_more_nodes_than_a_lease_vms(tmp_path: Path) -> None:
    site = (MachineSet(20_000, 100, 1024),)
    write_lwf(Workload((), site=site), tmp_path / "large.lwf")
    assert read_lwf(tmp_path / "large.lwf").site == site
