"""Haizea's lease annotation files (LWFA): what is to be added to the leases of a workload, apart from it.

    <lease-annotations>
      <lease-annotation id="3">
        <start><exact time="+01:00:00"/></start> <deadline time="+05:00:00"/>
        <software><disk-image id="small.img" size="1024"/></software>
        <extra><attr name="lease-type" value="DC-MIGRATABLE"/></extra>
      </lease-annotation>
    </lease-annotations>

Each part may be left out, and the lease then keeps what it has. All times count from the submission of the lease, with
a leading ``+`` or without. Annotations without an id are for the leases in the order of the workload, one each: none
may be left out. What a file says of itself (<attributes>) goes into the provenance. `annotate` draws what these
files state.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lxml import etree
from lxml.etree import SubElement, _Element
from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.plain_words import plain_words
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.lwf_elements import (
    NOTHING_MORE,
    Extra,
    WrongElement,
    elements,
    extra,
    image,
    number,
    start,
    time_s,
)
from one_preempt.simulation.workload.lwf_writing import add_extra, add_software, add_start, clock_text, extra_of
from one_preempt.simulation.workload.trace_files import BadLineCounter, ByteStream, open_trace, write_trace
from one_preempt.simulation.workload.workload import LeftOut, StartKind, Workload, WorkloadRequest, promisable

_ROOT, _ANNOTATION, _ATTRIBUTES = "lease-annotations", "lease-annotation", "attributes"


class Annotation(Struct, frozen=True):
    """What is to be added to one lease; None where nothing is said. Times count from its submission.

    Attributes:
        lease_id: Of which lease; None = of the one at the same place.
        start: BEST_EFFORT, IMMEDIATE, or EXACT at `start_after_s`.
        deadline_after_s: When it must have ended; makes it a lease with a deadline, ready at its start.
        image: '' = none; `image_mib` is its size.
        extra: What Haizea has no word for.
        line: Where it stands.
    """

    lease_id: int | None = None
    start: StartKind | None = None
    start_after_s: int | None = None
    deadline_after_s: int | None = None
    image: str | None = None
    image_mib: int = 0
    extra: Extra = NOTHING_MORE
    line: int = 0


class Annotations(Struct, frozen=True):
    """A file of them: all with the id of a lease, or none. `attributes` is what it says of itself."""

    entries: tuple[Annotation, ...]
    attributes: tuple[tuple[str, str], ...] = ()
    source: str = ""
    left_out: tuple[LeftOut, ...] = ()


def read_annotations(path: Path | str, skip_bad_lines: bool = False) -> Annotations:
    """The annotations in a file, plain or compressed with gzip.

    Args:
        path: Where it is.
        skip_bad_lines: Leave out and count annotations that cannot be understood, instead of refusing the file.

    Raises:
        OnePreemptError: The file cannot be read, or is bad: file, line, element and attribute.
    """
    with open_trace(path) as stream:
        return parse_annotations(stream, str(path), skip_bad_lines)


def parse_annotations(stream: ByteStream, source: str, skip_bad_lines: bool = False) -> Annotations:
    """The annotations in a stream of bytes. `source` names it in messages; see `read_annotations`."""
    bad = BadLineCounter(source, skip_bad_lines)
    entries: list[Annotation] = []
    attributes: tuple[tuple[str, str], ...] = ()
    ids: set[int | None] = set()
    for element in elements(stream, source, _ROOT, (_ANNOTATION, _ATTRIBUTES)):
        if element.tag == _ATTRIBUTES:
            attributes = tuple(_named(element))
        elif element.tag == _ANNOTATION:
            try:
                entries.append(_annotation(element, ids))
            except WrongElement as wrong:
                bad.add(wrong.line, wrong.what)
                if "id" not in element.attrib and ids <= {None}:
                    # The places of the others stay what they are.
                    entries.append(Annotation())
            else:
                ids.add(entries[-1].lease_id)
    left_out = (LeftOut("bad annotations", bad.count),) if bad.count else ()
    return Annotations(tuple(entries), attributes, source, left_out)


def _annotation(element: _Element, ids: set[int | None]) -> Annotation:
    """One annotation; `ids` are those of the others, None for those without."""
    lease_id = number(element, "id", least=0) if "id" in element.attrib else None
    if ids and (None in ids) != (lease_id is None):
        raise WrongElement(element, "annotations with and without the id of a lease: give it to all, or to none")
    if lease_id is not None and lease_id in ids:
        raise WrongElement(element, f"lease {lease_id} is annotated twice")
    stated, deadline = element.find("start"), element.find("deadline")
    kind, start_after_s = (None, None) if stated is None else start(stated, relative_to_s=0)
    image_name, image_mib = image(element)
    return Annotation(
        lease_id=lease_id,
        start=kind,
        start_after_s=start_after_s,
        deadline_after_s=None if deadline is None else time_s(deadline, "time", relative_to_s=0),
        image=None if element.find("software") is None else image_name,
        image_mib=image_mib,
        extra=extra(element),
        line=int(element.sourceline or 0),
    )


def _named(element: _Element) -> Iterator[tuple[str, str]]:
    for attribute in element.iterfind("attr"):
        yield plain_words(attribute.get("name", ""), 40), plain_words(attribute.get("value", ""), 80)


def annotated(workload: Workload, annotations: Annotations, skip_bad_lines: bool = False) -> Workload:
    """The workload with the annotations added to its leases; those for leases that are not there are counted.

    Raises:
        OnePreemptError: Without `skip_bad_lines`, one contradicts what its lease has: file, line and lease are named.
            Whose annotations without ids are is not certain, for leases were left out, or are not as many.
    """
    bound = any(one.lease_id is not None for one in annotations.entries)
    if annotations.entries and not bound:
        _require_places(workload, annotations)
    ids = [request.id for request in workload.requests]
    places = (one.lease_id for one in annotations.entries) if bound else ids
    said_of = dict(zip(places, annotations.entries, strict=False))
    bad = BadLineCounter(annotations.source, skip_bad_lines)
    requests = []
    for request in workload.requests:
        said = said_of.get(request.id, Annotation())
        try:
            requests.append(_with(request, said))
        except ValueError as error:
            bad.add(said.line, f"lease {request.id}: {error}")
            requests.append(request)
    told = "".join(f", {name}={value}" for name, value in annotations.attributes)
    changed = workload.after(f"annotated from {annotations.source}{told}", requests)
    homeless = len(annotations.entries) - len(said_of.keys() & set(ids))
    found = (
        LeftOut("annotations of leases that are not there", homeless),
        LeftOut("annotations that contradict their leases", bad.count),
    )
    return replace(changed, left_out=(*workload.left_out, *annotations.left_out, *(one for one in found if one.count)))


def _require_places(workload: Workload, annotations: Annotations) -> None:
    """By their places annotations are known only where no lease between others is missing."""
    given, there, source = len(annotations.entries), len(workload), annotations.source
    if workload.left_out:
        why = ", ".join(f"{one.count} {one.reason}" for one in workload.left_out)
        raise OnePreemptError(
            f"{source}: its annotations have no ids, and of the workload was left out: {why}. Whose they are is not "
            "certain: give each annotation the id of its lease"
        )
    if given != there:
        raise OnePreemptError(
            f"{source}: {given} annotations without ids for {there} leases: give each the id of its lease, or write "
            "one for each lease"
        )


def _with(request: WorkloadRequest, said: Annotation) -> WorkloadRequest:
    """The request as if all had stood in its lease. Raises ValueError where that contradicts itself."""
    since_s, more = request.submitted_at_s, said.extra
    kind, start_at_s, deadline_at_s = request.start, request.start_at_s, request.deadline_at_s
    if said.start is not None:
        kind, start_at_s = said.start, None if said.start_after_s is None else since_s + said.start_after_s
    lease_type = request.lease_type
    if said.deadline_after_s is not None:
        deadline_at_s = since_s + said.deadline_after_s
        if lease_type is LeaseType.BE_SUSPENDABLE:
            lease_type = LeaseType.DC_MIGRATABLE
    changed = replace(
        request,
        start=kind if deadline_at_s is None else StartKind.DEADLINE,
        start_at_s=start_at_s,
        deadline_at_s=deadline_at_s,
        requested_duration_s=None if more.unknown_duration else request.requested_duration_s,
        lease_type=more.lease_type or lease_type,
        external=request.external or more.external,
        max_suspensions=request.max_suspensions if more.max_suspensions is None else more.max_suspensions,
        group=request.group if more.group is None else more.group,
        queue=request.queue if more.queue is None else more.queue,
        image=request.image if said.image is None else said.image,
        image_mib=request.image_mib if said.image is None else said.image_mib,
    )
    return promisable(changed)


def annotations_of(workload: Workload) -> Annotations:
    """What the leases of a workload have beyond a log: with it, the log becomes the same workload again."""
    return Annotations(tuple(map(_annotation_of, workload.requests)), source=workload.name)


def _annotation_of(request: WorkloadRequest) -> Annotation:
    since_s, start_at_s, deadline_at_s = request.submitted_at_s, request.start_at_s, request.deadline_at_s
    kind = request.start
    if kind is StartKind.DEADLINE:
        kind = StartKind.BEST_EFFORT if start_at_s is None else StartKind.EXACT
    return Annotation(
        lease_id=request.id,
        start=kind,
        start_after_s=None if start_at_s is None else start_at_s - since_s,
        deadline_after_s=None if deadline_at_s is None else deadline_at_s - since_s,
        image=request.image,
        image_mib=request.image_mib,
        extra=extra_of(request),
    )


def write_annotations(annotations: Annotations, path: Path | str) -> None:
    """Write annotations, compressed where the name ends in ``.gz``; the same ones give the same bytes.

    Raises:
        OnePreemptError: The file cannot be written.
    """
    write_trace(path, format_annotations(annotations))


def format_annotations(annotations: Annotations) -> bytes:
    """Annotations as a document."""
    root = etree.Element(_ROOT)
    attributes = SubElement(root, _ATTRIBUTES)
    for name, value in annotations.attributes:
        SubElement(attributes, "attr", name=name, value=value)
    for one in annotations.entries:
        element = SubElement(root, _ANNOTATION)
        if one.lease_id is not None:
            element.set("id", str(one.lease_id))
        if one.start is not None:
            exact = None if one.start_after_s is None else f"+{clock_text(one.start_after_s)}"
            add_start(element, exact, now=one.start is StartKind.IMMEDIATE)
        if one.deadline_after_s is not None:
            SubElement(element, "deadline", time=f"+{clock_text(one.deadline_after_s)}")
        if one.image is not None:
            add_software(element, one.image, one.image_mib)
        if one.extra != NOTHING_MORE:
            add_extra(element, one.extra)
    document: bytes = etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True)
    return document
