"""What `simulate` answers: tables, JSON, CSV, pictures, and a report as one HTML file."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from one_preempt.core.model.plain_words import plain_words
from one_preempt.entrypoints.cli.options import write_table
from one_preempt.entrypoints.cli.simulated_runs import Run, Study, by_variant
from one_preempt.explanation.explain import JsonObject
from one_preempt.simulation.experiments.trial import tells_owners_apart
from one_preempt.simulation.plots.axes import time_unit
from one_preempt.simulation.plots.charts import Line, bar_chart, line_chart
from one_preempt.simulation.plots.gantt import gantt_chart
from one_preempt.simulation.plots.report import html_list, html_report, html_table
from one_preempt.simulation.probes.comparison import ComparedFigure, compare, in_words
from one_preempt.simulation.probes.outcome import outcomes
from one_preempt.simulation.probes.statistics import Interval
from one_preempt.simulation.probes.waiting import percentile, waits_s
from one_preempt.simulation.probes.writing import Row
from one_preempt.simulation.simulator.owners import group_name, names_owner, origin_of
from one_preempt.simulation.simulator.site import EXTERNALS, LOCALS
from one_preempt.simulation.workload.places import can_never_run
from one_preempt.simulation.workload.workload import UNKNOWN_ID, Workload, WorkloadRequest

_DRAWN = (
    "utilization", "wait_s_mean.all", "bounded_slowdown_mean.all", "preempted.all", "rejection_rate.all", "energy_kwh",
)  # fmt: skip
# An interval is drawn no further than a figure can go.
_LEAST = {"bounded_slowdown_mean.all": 1.0}
_LONGEST_NOTE = 300


def show(study: Study, runs: Sequence[Run]) -> None:
    """The comparison for people, and what of the source did not become a request."""
    labels = list(by_variant(runs))
    rows = ([row.title, *(in_words(value, row.unit) for value in row.values)] for row in _compared(runs))
    title = plain_words(study.name, _LONGEST_NOTE)
    write_table(f"{title}: {_how_many(runs)}", ("", *labels), rows)
    left_out, doubts = notes_of(runs), doubts_of(study, runs)
    if left_out:
        write_table("Left out of the source", ("what",), ([note] for note in left_out))
    if doubts:
        write_table("To be looked at", ("what",), ([doubt] for doubt in doubts))


def _by_seed(runs: Sequence[Run]) -> dict[int, Workload]:
    """The workload of each seed; all variants play the same."""
    return {run.seed: run.workload for run in runs}


def _in_words(counts: Sequence[int]) -> str:
    """A count that is not the same with all seeds."""
    least, most = min(counts), max(counts)
    return f"{most}" if least == most else f"{least} to {most}"


def _how_many(runs: Sequence[Run]) -> str:
    workloads = _by_seed(runs)
    counts = list(map(len, workloads.values()))
    told = "1 request" if set(counts) == {1} else f"{_in_words(counts)} requests"
    return told + (f", {len(workloads)} seeds, mean ± 95 %" if len(workloads) > 1 else "")


def notes_of(runs: Sequence[Run]) -> list[str]:
    """What the source held and the workloads do not."""
    return [f"{_in_words(counts)} {plain_words(why, _LONGEST_NOTE)}" for why, counts in _left_out(runs).items()]


def _left_out(runs: Sequence[Run]) -> dict[str, list[int]]:
    """How many with each seed, by why."""
    of_seeds = [{one.reason: one.count for one in workload.left_out} for workload in _by_seed(runs).values()]
    reasons = dict.fromkeys(reason for one in of_seeds for reason in one)
    return {reason: [one.get(reason, 0) for one in of_seeds] for reason in reasons}


def _provenance(runs: Sequence[Run]) -> list[str]:
    """The steps of all seeds, each told once."""
    return list(dict.fromkeys(step for workload in _by_seed(runs).values() for step in workload.provenance))


def doubts_of(study: Study, runs: Sequence[Run]) -> list[str]:
    """What makes figures of these workloads on this site other than they seem."""
    workloads = list(_by_seed(runs).values())
    empty = sum(not len(workload) for workload in workloads)
    if empty == len(workloads):
        return ["the source holds no request that can be played: all figures are empty"]
    doubts = [f"with {empty} of {len(workloads)} seeds there is no request that can be played"] * bool(empty)
    first_s = min(workload.requests[0].submitted_at_s for workload in workloads if len(workload))
    if study.until_s is not None and first_s > study.until_s:
        doubts.append(
            f"the run ends {study.until_s} s after its start (--until, or until_s), and the first request is submitted "
            f"after {first_s} s: all figures are empty"
        )
    if any(map(tells_owners_apart, study.all_settings)):
        doubts += _doubts_about_owners(study, workloads)
    counts = [_that_never_run(study, workload) for workload in workloads]
    if any(counts):
        if set(counts) == {1}:
            told = "1 request fits on no host of this site, or is larger than all of it: it never runs"
        else:
            many = f"{_in_words(counts)} requests"
            told = f"{many} fit on no host of this site, or are larger than all of it: they never run"
        doubts.append(told)
    if _hands_hosts_over(study) and all(run.played.figures.energy is None for run in runs):
        doubts.append(
            "power.hosts matches no host, so none sleeps: in a simulation they are called node0, node1 and so on, in "
            "the cluster default"
        )
    if len({run.variant.policy for run in runs}) > 1 and not any(run.played.figures.preemptions for run in runs):
        doubts.append("nobody had to leave for another lease: the preemption policies had nothing to decide")
    return doubts


def _doubts_about_owners(study: Study, workloads: Sequence[Workload]) -> Iterator[str]:
    requests = [request for workload in workloads for request in workload.requests]
    if not any(map(names_owner, requests)):
        yield "no request names its user or group: with fair-share all of them are one owner's"
    there = {LOCALS, EXTERNALS, *(group_name(origin_of(request)) for request in requests)}
    # Digits are the id of a group.
    strange = [name for name in study.settings.fair_share.shares if name not in there and not name.isdecimal()]
    if strange:
        named = plain_words(", ".join(strange), _LONGEST_NOTE)
        yield (
            f"fair_share.shares has {named}, and no request is of such a group: group 3 of a log is called group3, or "
            "external-group3"
        )


def _hands_hosts_over(study: Study) -> bool:
    return study.settings.power.mode == "enforce" and bool(study.settings.power.hosts)


def _that_never_run(study: Study, workload: Workload) -> int:
    return sum(can_never_run(request, study.site.hosts) for request in workload.requests)


def document(study: Study, runs: Sequence[Run]) -> JsonObject:
    """All figures of all runs as plain objects; counts beside them are the most with any seed."""
    workloads = _by_seed(runs)
    never_run = {seed: _that_never_run(study, workload) for seed, workload in workloads.items()}
    return {
        "name": study.name,
        "requests": max(map(len, workloads.values())),
        "that_never_run": max(never_run.values()),
        "left_out": [{"reason": reason, "count": max(counts)} for reason, counts in _left_out(runs).items()],
        "provenance": _provenance(runs),
        "runs": [
            {
                **run.variant.names,
                "seed": run.seed,
                "that_never_run": never_run[run.seed],
                "figures": dict(run.played.figures.flat()),
            }
            for run in runs
        ],
    }


def rows_of(runs: Sequence[Run]) -> list[Row]:
    """One flat row a run."""
    return [
        {
            **run.variant.names,
            "seed": run.seed,
            **run.played.figures.flat(),
        }
        for run in runs
    ]


def record_lines(runs: Sequence[Run]) -> Iterator[bytes]:
    """One JSON line a request and run: what became of it, and what it had asked for."""
    for run in runs:
        of_run: JsonObject = {**run.variant.names, "seed": run.seed}
        requests = {request.id: request for request in run.workload.requests}
        result = run.played.result
        for record, line in zip(result.records, result.json_lines(), strict=True):
            asked = _members(_asked(requests[record.request_id]))
            yield b"{%b,%b,%b}\n" % (_members(of_run), line.strip()[1:-1], asked)


def _members(values: JsonObject) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()[1:-1]


def _asked(request: WorkloadRequest) -> JsonObject:
    return {
        "lease_type": request.lease_type.value,
        "external": request.external,
        "user": None if request.user == UNKNOWN_ID else request.user,
        "group": None if request.group == UNKNOWN_ID else request.group,
        "start": request.start.value,
        "start_at_s": request.start_at_s,
        "deadline_at_s": request.deadline_at_s,
        "requested_duration_s": request.requested_duration_s,
        "actual_duration_s": request.actual_duration_s,
    }


def _compared(runs: Sequence[Run]) -> list[ComparedFigure]:
    return compare([[run.played.figures.flat() for run in of_variant] for of_variant in by_variant(runs).values()])


def pictures(study: Study, runs: Sequence[Run]) -> dict[str, str]:
    """SVG by the name of its file: the figures side by side, how waits are spread, and for each run the hosts."""
    variants = by_variant(runs)
    drawn = {}
    for row in _compared(runs):
        if row.key in _DRAWN:
            bars = [(label, value) for label, value in zip(variants, row.values, strict=True) if value is not None]
            unit = f"{row.title} ({row.unit})" if row.unit else row.title
            drawn[row.key.split(".")[0]] = bar_chart(row.title, unit, bars, _LEAST.get(row.key, 0.0))
    drawn["waits"] = _waits(variants)
    hosts = sum(machines.count for machines in study.site.hosts)
    for number, (label, of_variant) in enumerate(variants.items()):
        title = f"Hosts under {label}"
        if len(of_variant) > 1:
            title += f", seed {of_variant[0].seed} alone, the first of {len(of_variant)}"
        drawn[f"hosts-{number}-{_file_name(label)}"] = _gantt(title, hosts, of_variant[0])
    return drawn


def _waits(variants: Mapping[str, Sequence[Run]]) -> str:
    """Up to how long each share of the requests waited, in seconds, minutes, hours or days, as the longest of them."""
    waits_ms = {
        label: sorted(1000 * wait_s for run in runs for wait_s in waits_s(outcomes(run.workload, run.played.result)))
        for label, runs in variants.items()
    }
    unit, unit_ms = time_unit(max((wait_ms for each in waits_ms.values() for wait_ms in each), default=0.0))
    lines = [
        Line(label, tuple((share, _exactly(percentile(each, share) / unit_ms)) for share in range(0, 101, 5) if each))
        for label, each in waits_ms.items()
    ]
    return line_chart("How long requests waited", "% of the requests that started", f"waited at most ({unit})", lines)


def _exactly(value: float) -> Interval:
    return Interval(value, value, value, 1)


def _gantt(title: str, hosts: int, run: Run) -> str:
    """All hosts, those on which nothing ever ran as well: runs are compared by how many are idle."""
    return gantt_chart(title, hosts, run.played.seen.stays, run.played.result.ended_at_ms, _request_of_vm(run))


def _request_of_vm(run: Run) -> Callable[[int], int]:
    """VMs of a request are created together, so their ids follow that of the lease."""
    leases = sorted((record.lease_id, record.request_id) for record in run.played.result.records)
    firsts = [lease_id for lease_id, _ in leases]
    return lambda vm_id: leases[max(0, bisect_right(firsts, vm_id) - 1)][1]


def _file_name(label: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in label.lower())


def write_pictures(study: Study, runs: Sequence[Run], folder: Path) -> None:
    """One SVG file a picture."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures(study, runs).items():
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")


def report(study: Study, runs: Sequence[Run]) -> str:
    """Everything as one HTML document."""
    labels = list(by_variant(runs))
    rows = [[row.title, *(in_words(value, row.unit) for value in row.values)] for row in _compared(runs)]
    steps = [plain_words(step, _LONGEST_NOTE) for step in _provenance(runs)]
    return html_report(
        f"Simulation: {plain_words(study.name, _LONGEST_NOTE)}",
        [
            html_list([*steps, *(f"left out: {note}" for note in notes_of(runs)), *doubts_of(study, runs)]),
            html_table(_how_many(runs), ("", *labels), rows),
            *pictures(study, runs).values(),
        ],
    )
