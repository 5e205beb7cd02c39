"""Hosts over time: one row a host, one bar a VM's stay; pale bars are VMs on their way in or out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from one_preempt.simulation.plots.axes import Scale, tick_text, ticks, time_unit
from one_preempt.simulation.plots.drawing import FAINT, LETTER_PX, Drawing, colour
from one_preempt.simulation.probes.watch import Activity, Stay

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 960.0, 70.0, 20.0, 34.0, 68.0
_ROW_PX, _LEAST_ROW_PX, _MOST_HEIGHT_PX = 22.0, 3.0, 1600.0
_ROW_WITH_NAME_PX = 12.0
_PALE = {Activity.START: "#b8d4e8", Activity.LEAVE: "#f2b880", Activity.RETURN: "#a8dcc8", Activity.END: "#cccccc"}
_LEGEND = ((Activity.START, "starts"), (Activity.LEAVE, "leaves for another"), (Activity.RETURN, "returns"),
           (Activity.END, "ends, or has failed"))  # fmt: skip
_RUNS = "runs, in the colour of its request (colours repeat)"
# What a browser still shows without effort.
MOST_STAYS = 20_000


def gantt_chart(
    title: str, hosts: int, stays: Sequence[Stay], ended_at_ms: int, request_of: Callable[[int], int]
) -> str:
    """The stays on hosts 0 to `hosts` - 1, which are in the order of their begin.

    Where there are more than `MOST_STAYS` the chart ends when the first one begins that has no place in it: up to there
    it shows all.

    `request_of` gives the request of a VM, by which bars are coloured and named.
    """
    if len(stays) > MOST_STAYS:
        ended_at_ms = stays[MOST_STAYS].from_ms or ended_at_ms
        stays = [stay for stay in stays[:MOST_STAYS] if stay.from_ms < ended_at_ms]
        title = f"{title}, the first {len(stays)} stays"
    row_px = max(_LEAST_ROW_PX, min(_ROW_PX, (_MOST_HEIGHT_PX - _TOP - _BOTTOM) / max(1, hosts)))
    drawing, time = _rows(title, hosts, row_px, ended_at_ms)
    lanes = _lanes(stays)
    lanes_of_host: dict[int, int] = {}
    for lane, stay in lanes:
        lanes_of_host[stay.host_id] = max(lanes_of_host.get(stay.host_id, 0), lane + 1)
    for lane, stay in lanes:
        lane_px = (row_px - 1) / lanes_of_host[stay.host_id]
        top_px = _TOP + row_px * stay.host_id + 0.5 + lane * lane_px
        request = request_of(stay.vm_id)
        span = f"{stay.from_ms / 1000:.15g} s to {stay.until_ms / 1000:.15g} s"
        left_px = time.at(stay.from_ms)
        drawing.rectangle(
            left_px, top_px, time.at(min(stay.until_ms, ended_at_ms)) - left_px, lane_px,
            fill=_PALE.get(stay.activity) or colour(request),
            told=f"request {request}, VM {stay.vm_id}: {stay.activity}, {span}",
        )  # fmt: skip
    return drawing.svg()


def _rows(title: str, hosts: int, row_px: float, ended_at_ms: int) -> tuple[Drawing, Scale]:
    """The empty chart, and where an instant in milliseconds lies in it."""
    floor_px = _TOP + row_px * hosts
    drawing = Drawing(_WIDTH, floor_px + _BOTTOM, title)
    drawing.text(_WIDTH / 2, 20, title, "middle")
    unit, unit_ms = time_unit(ended_at_ms)
    marks = ticks(0, ended_at_ms / unit_ms)
    time = Scale(marks[0] * unit_ms, marks[-1] * unit_ms, _LEFT, _WIDTH - _RIGHT)
    for mark in marks:
        x_px = time.at(mark * unit_ms)
        drawing.line(x_px, _TOP, x_px, floor_px, FAINT)
        drawing.text(x_px, floor_px + 16, tick_text(mark), "middle")
    drawing.text((time.from_px + time.to_px) / 2, floor_px + 34, unit, "middle")
    _legend(drawing, floor_px + 58)
    every = 1 if row_px >= _ROW_WITH_NAME_PX else int(_ROW_WITH_NAME_PX / row_px) + 1
    for host_id in range(hosts):
        top_px = _TOP + row_px * host_id
        drawing.line(_LEFT, top_px, _WIDTH - _RIGHT, top_px, FAINT)
        if host_id % every == 0:
            drawing.text(_LEFT - 6, top_px + row_px / 2 + 4, f"host {host_id}", "end")
    return drawing, time


def _legend(drawing: Drawing, y_px: float) -> None:
    at_px = _LEFT
    for fill, words in ((colour(0), _RUNS), *((_PALE[activity], words) for activity, words in _LEGEND)):
        drawing.rectangle(at_px, y_px - 9, 10, 10, fill)
        drawing.text(at_px + 15, y_px, words)
        at_px += 30 + LETTER_PX * len(words)


def _lanes(stays: Sequence[Stay]) -> list[tuple[int, Stay]]:
    """Each stay with a lane of its host that is free; what a VM does next stays in its lane."""
    taken: dict[int, list[tuple[int, int]]] = {}
    placed = []
    for stay in sorted(stays, key=lambda stay: (stay.from_ms, stay.vm_id, stay.until_ms)):
        of_host = taken.setdefault(stay.host_id, [])
        same = (lane for lane, (_, vm_id) in enumerate(of_host) if vm_id == stay.vm_id)
        free = (lane for lane, (until_ms, _) in enumerate(of_host) if until_ms <= stay.from_ms)
        lane = next(same, next(free, len(of_host)))
        of_host[lane : lane + 1] = [(stay.until_ms, stay.vm_id)]
        placed.append((lane, stay))
    return placed
