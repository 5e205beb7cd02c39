from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseType
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.annotation_files import (
    Annotations,
    annotated,
    annotations_of,
    format_annotations,
    parse_annotations,
    read_annotations,
    write_annotations,
)
from one_preempt.simulation.workload.lwf import parse_lwf
from one_preempt.simulation.workload.workload import LeftOut, MachineSet, StartKind, Workload, WorkloadRequest

VMS = (MachineSet(2, 100, 512),)


def plain(id: int, submitted_at_s: int = 600) -> WorkloadRequest:
    return WorkloadRequest(id, submitted_at_s, VMS, 3600, 1800)


LOG = Workload((plain(1), plain(2, 700), plain(3, 800)), "log", provenance=("read from log",))


def parsed(*annotations: str, skip: bool = False) -> Annotations:
    document = f"<lease-annotations>\n{chr(10).join(annotations)}\n</lease-annotations>"
    return parse_annotations(io.BytesIO(document.encode()), "more.lwfa", skip)


def annotation(body: str, id: str = 'id="2"') -> str:
    return f"<lease-annotation {id}>{body}</lease-annotation>"


def second(body: str, log: Workload = LOG) -> WorkloadRequest:
    first, request, third = annotated(log, parsed(annotation(body))).requests
    assert (first, third) == (LOG.requests[0], LOG.requests[2])
    return request


def test_what_is_not_said_stays_as_it_was() -> None:
    assert second("") == LOG.requests[1]


@pytest.mark.parametrize("sign", ["", "+"])
def test_times_count_from_the_submission_of_the_lease(sign: str) -> None:
    request = second(f"<start><exact time='{sign}01:00:00.00'/></start><deadline time='{sign}05:00:00.00'/>")
    assert (request.start, request.start_at_s, request.deadline_at_s) == (StartKind.DEADLINE, 4300, 18_700)


@pytest.mark.parametrize(
    ("start", "kind", "start_at_s"),
    [
        ("<start/>", StartKind.BEST_EFFORT, None),
        ("<start><now/></start>", StartKind.IMMEDIATE, None),
        ("<start><exact time='+1:00:00:00'/></start>", StartKind.EXACT, 87_100),
    ],
)
def test_a_start_takes_the_place_of_the_one_there_is(start: str, kind: StartKind, start_at_s: int | None) -> None:
    booked = replace(LOG.requests[1], start=StartKind.EXACT, start_at_s=9000)
    request = second(start, replace(LOG, requests=(LOG.requests[0], booked, LOG.requests[2])))
    assert (request.start, request.start_at_s) == (kind, start_at_s)


def test_a_lease_keeps_its_deadline_where_only_its_start_is_annotated() -> None:
    due = replace(LOG.requests[1], start=StartKind.DEADLINE, deadline_at_s=99_000, lease_type=LeaseType.DC_MIGRATABLE)
    request = second(
        "<start><exact time='+01:00:00'/></start>", replace(LOG, requests=(LOG.requests[0], due, LOG.requests[2]))
    )
    assert (request.start, request.start_at_s, request.deadline_at_s) == (StartKind.DEADLINE, 4300, 99_000)


@pytest.mark.parametrize("preemptible", ["true", "false"])
def test_an_annotated_deadline_gives_the_same_lease_as_one_in_the_workload(preemptible: str) -> None:
    def lease(deadline: str) -> Workload:
        amounts = '<res type="CPU" amount="100"/><res type="Memory" amount="512"/>'
        nodes = f'<nodes><node-set numnodes="1">{amounts}</node-set></nodes>'
        text = (
            f'<lease-workload><lease-request arrival="00:10:00"><lease id="2" preemptible="{preemptible}">{nodes}'
            f'<start/><duration time="01:00:00"/>{deadline}</lease></lease-request></lease-workload>'
        )
        return parse_lwf(io.BytesIO(text.encode()), "leases.lwf")

    deadline = "<deadline time='+04:00:00'/>"
    assert annotated(lease(""), parsed(annotation(deadline))).requests == lease(deadline).requests


def test_software_and_what_haizea_has_no_word_for_are_added() -> None:
    request = second(
        "<software><disk-image id='small.img' size='1024'/></software><extra>"
        "<attr name='lease-type' value='BE-CANCELLABLE'/><attr name='external' value='yes'/>"
        "<attr name='max-suspensions' value='2'/><attr name='simul_userrate' value='1.5'/></extra>"
    )
    assert request == replace(
        LOG.requests[1],
        lease_type=LeaseType.BE_CANCELLABLE,
        external=True,
        max_suspensions=2,
        image="small.img",
        image_mib=1024,
    )


def test_without_software_the_image_goes() -> None:
    pictured = replace(LOG.requests[1], image="big.img", image_mib=9)
    request = second(
        "<software><none/></software>", replace(LOG, requests=(LOG.requests[0], pictured, LOG.requests[2]))
    )
    assert (request.image, request.image_mib) == ("", 0)


def test_annotations_without_ids_are_for_the_leases_in_their_order() -> None:
    more = parsed(*(annotation(f"<deadline time='{hours}:00:00'/>", id="") for hours in (2, 3, 4)))
    deadlines = [request.deadline_at_s for request in annotated(LOG, more).requests]
    assert deadlines == [7800, 11_500, 15_200]


@pytest.mark.parametrize("skip", [False, True])
def test_annotations_without_ids_are_refused_where_leases_are_missing(skip: bool) -> None:
    more = parsed(*[annotation("<start><now/></start>", id="")] * 3, skip=skip)
    shortened = replace(LOG, requests=LOG.requests[1:], left_out=(LeftOut("jobs that never ran", 1),))
    with pytest.raises(
        OnePreemptError, match=r"^more\.lwfa: .* left out: 1 jobs that never ran.*give each annotation the id"
    ):
        annotated(shortened, more, skip)
    with_ids = parsed(*(annotation("<start><now/></start>", id=f'id="{id}"') for id in (1, 2, 3)))
    assert {request.start for request in annotated(shortened, with_ids).requests} == {StartKind.IMMEDIATE}


@pytest.mark.parametrize("count", [2, 4])
def test_annotations_without_ids_are_as_many_as_the_leases(count: int) -> None:
    more = parsed(*[annotation("<start><now/></start>", id="")] * count)
    with pytest.raises(OnePreemptError, match=rf"^more\.lwfa: {count} annotations without ids for 3 leases: give each"):
        annotated(LOG, more)


def test_a_file_without_annotations_adds_none() -> None:
    shortened = replace(LOG, left_out=(LeftOut("jobs that never ran", 1),))
    assert annotated(shortened, parsed()).requests == LOG.requests


def test_a_bad_annotation_without_an_id_does_not_move_the_others() -> None:
    more = parsed(
        annotation("<deadline time='soon'/>", id=""),
        annotation("<start><now/></start>", id=""),
        annotation("", id=""),
        skip=True,
    )
    workload = annotated(LOG, more)
    assert [request.start for request in workload.requests] == [
        StartKind.BEST_EFFORT, StartKind.IMMEDIATE, StartKind.BEST_EFFORT,
    ]  # fmt: skip
    assert workload.left_out == (LeftOut("bad annotations", 1),)


def test_annotations_of_leases_that_are_not_there_are_counted() -> None:
    workload = annotated(LOG, parsed(annotation("<start><now/></start>", id='id="77"')))
    assert workload.requests == LOG.requests
    assert workload.left_out == (LeftOut("annotations of leases that are not there", 1),)


def test_what_a_file_says_of_itself_goes_into_the_provenance() -> None:
    more = parsed("<attributes><attr name='mu' value='2.0'/></attributes>", annotation(""))
    assert annotated(LOG, more).provenance == ("read from log", "annotated from more.lwfa, mu=2.0")


@pytest.mark.parametrize(
    ("annotations", "line", "what"),
    [
        (['<lease-annotation id="x"/>'], 2, "<lease-annotation> id='x' is not a whole number"),
        (['<lease-annotation id="1"/>', '<lease-annotation id="1"/>'], 3, "lease 1 is annotated twice"),
        (['<lease-annotation id="1"/>', "<lease-annotation/>"], 3, "with and without the id of a lease"),
        (["<lease-annotation>\n<deadline time='soon'/></lease-annotation>"], 3, "<deadline> time='soon' is not a time"),
        (["<lease-annotation><start><later/></start></lease-annotation>"], 2, "<start> holds <later>"),
        (
            ["<lease-annotation><extra><attr name='lease-type' value='BEST'/></extra></lease-annotation>"],
            2,
            "'BEST' is",
        ),
    ],
)
def test_a_bad_annotation_is_named_by_file_line_and_element(annotations: list[str], line: int, what: str) -> None:
    with pytest.raises(OnePreemptError) as refused:
        parsed(*annotations)
    assert str(refused.value).startswith(f"more.lwfa:{line}: ")
    assert what in str(refused.value)


@pytest.mark.parametrize(
    "document", ["<lease-workload/>", "<!DOCTYPE a []><lease-annotations/>", "<lease-annotations>"]
)
def test_another_document_is_refused(document: str) -> None:
    with pytest.raises(OnePreemptError, match=r"^more\.lwfa:1: "):
        parse_annotations(io.BytesIO(document.encode()), "more.lwfa", skip_bad_lines=True)


def test_an_annotation_that_contradicts_its_lease_is_named_or_counted() -> None:
    more = parsed("", annotation("<start><exact time='02:00:00'/></start><deadline time='01:00:00'/>"))
    with pytest.raises(OnePreemptError, match=r"^more\.lwfa:3: lease 2: deadline 4300 s is not after 7900 s"):
        annotated(LOG, more)
    workload = annotated(LOG, more, skip_bad_lines=True)
    assert workload.requests == LOG.requests
    assert workload.left_out == (LeftOut("annotations that contradict their leases", 1),)


starts = st.sampled_from(StartKind)
seconds = st.integers(0, 400_000)


@st.composite
def requests(draw: st.DrawFn) -> WorkloadRequest:
    id, submitted_at_s, kind = draw(st.integers(0, 99)), draw(seconds), draw(starts)
    due = kind is StartKind.DEADLINE
    timed = kind is StartKind.EXACT or (due and draw(st.booleans()))
    start_at_s = submitted_at_s + draw(seconds) if timed else None
    ready_at_s = submitted_at_s if start_at_s is None else start_at_s
    image = draw(st.sampled_from(["", "small.img", "a & <b>"]))
    return WorkloadRequest(
        id,
        submitted_at_s,
        VMS,
        requested_duration_s=draw(st.sampled_from([None, 3600])),
        actual_duration_s=1800,
        start=kind,
        start_at_s=start_at_s,
        deadline_at_s=ready_at_s + 1 + draw(seconds) if due else None,
        lease_type=draw(st.sampled_from([one for one in LeaseType if not (due and one.best_effort)])),
        external=draw(st.booleans()),
        max_suspensions=draw(st.sampled_from([None, 0, 3])),
        image=image,
        image_mib=512 if image else 0,
        group=draw(st.integers(-1, 3)),
        queue=draw(st.integers(-1, 3)),
    )


@given(st.lists(requests(), max_size=5, unique_by=lambda request: request.id))
def test_annotations_written_and_read_make_the_bare_log_the_same_workload_again(made: list[WorkloadRequest]) -> None:
    workload = Workload(tuple(made))
    bare = Workload(tuple(WorkloadRequest(one.id, one.submitted_at_s, VMS, 3600, 1800) for one in made))
    written = format_annotations(annotations_of(workload))
    read = parse_annotations(io.BytesIO(written), "more.lwfa")
    assert annotated(bare, read).requests == workload.requests
    assert format_annotations(read) == written


def test_a_file_is_written_and_read_packed(tmp_path: Path) -> None:
    path = tmp_path / "more.lwfa.gz"
    more = parsed("<attributes><attr name='mu' value='2.0'/></attributes>", annotation("<start><now/></start>"))
    write_annotations(more, path)
    assert path.read_bytes().startswith(b"\x1f\x8b")
    read = read_annotations(path)
    assert (read.attributes, read.left_out) == (more.attributes, more.left_out)
    assert [replace(entry, line=0) for entry in read.entries] == [replace(entry, line=0) for entry in more.entries]
