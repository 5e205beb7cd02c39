"""Pictures: well-formed, with every value where its scale says, and harmless whatever the names are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from lxml import etree
from lxml.etree import _Element

from one_preempt.simulation.plots import gantt
from one_preempt.simulation.plots.axes import Scale, ticks
from one_preempt.simulation.plots.charts import Line, bar_chart, line_chart
from one_preempt.simulation.plots.drawing import LETTER_PX, Drawing
from one_preempt.simulation.plots.gantt import gantt_chart
from one_preempt.simulation.plots.report import html_list, html_report, html_table
from one_preempt.simulation.probes.statistics import Interval
from one_preempt.simulation.probes.watch import Activity, Stay

SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg: str) -> _Element:
    return etree.fromstring(svg.encode())


def told(svg: str) -> dict[str, dict[str, float]]:
    """Rectangles that say what they are: position and size by what they say."""
    found = {}
    for rectangle in parsed(svg).iter(f"{SVG}rect"):
        title = rectangle.find(f"{SVG}title")
        if title is not None and title.text:
            found[title.text] = {name: float(str(rectangle.get(name))) for name in ("x", "y", "width", "height")}
    return found


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 4, [0, 1, 2, 3, 4]), (0, 97, [0, 20, 40, 60, 80, 100]), (0.1, 0.9, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-3, 5, [-4, -2, 0, 2, 4, 6]), (7, 7, [6, 8, 10, 12, 14]),
    ],
)  # fmt: skip
def test_ticks_are_round_and_enclose_the_values(low: float, high: float, expected: list[float]) -> None:
    found = ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    if low != high:
        assert found == pytest.approx(expected)


def test_a_scale_is_linear_and_may_run_upwards() -> None:
    assert Scale(0, 10, 100, 0).at(2.5) == 75


def test_bars_are_as_high_as_their_means_and_hang_below_zero() -> None:
    bars = told(bar_chart("Change", "%", [("a", Interval(50, 40, 60, 5)), ("b", Interval(-25, -25, -25, 1))]))
    up, down = bars["a: 50"], bars["b: -25"]
    assert up["height"] == pytest.approx(2 * down["height"], abs=0.02)
    assert up["y"] + up["height"] == pytest.approx(down["y"], abs=0.02)


def test_whiskers_end_where_values_do() -> None:
    def lengths_px(least: float) -> list[float]:
        svg = parsed(bar_chart("Slowdown", "", [("a", Interval(2, 0, 4, 3))], least))
        upright = [line for line in svg.iter(f"{SVG}line") if line.get("x1") == line.get("x2")]
        return [abs(float(str(line.get("y1"))) - float(str(line.get("y2")))) for line in upright]

    (from_one,), (whole,) = lengths_px(1), lengths_px(0)
    assert from_one == pytest.approx(whole * 3 / 4, abs=0.05)


def test_names_of_bars_do_not_cover_one_another() -> None:
    names = [
        f"{policy}, {backfilling}" for policy in ("NOP", "MOML", "MOV") for backfilling in ("easy", "conservative")
    ]
    root = parsed(bar_chart("Waits", "s", [(name, Interval(1, 1, 1, 1)) for name in names]))
    found = {str(text.text): text for text in root.iter(f"{SVG}text")}
    spans: dict[str, list[tuple[float, float]]] = {}
    for name in names:
        middle, half = float(str(found[name].get("x"))), LETTER_PX * len(name) / 2
        spans.setdefault(str(found[name].get("y")), []).append((middle - half, middle + half))
    assert len(spans) > 1
    for row in spans.values():
        assert all(left[1] < right[0] for left, right in pairwise(row))
    assert max(map(float, spans)) < float(str(root.get("height")))


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        ([f"MOML, conservative, look-ahead-{number}" for number in range(24)], 24),
        # Three rows would do, but the last name would reach out of the picture.
        ([f"policy-{number}, conservative, always-on" for number in range(5)], 5),
        (["MOML, conservative, look-ahead"] * 200, 20),
    ],
)
def test_names_without_room_below_the_bars_are_numbered_in_a_legend(names: Sequence[str], numbers: int) -> None:
    root = parsed(bar_chart("Waits", "s", [(name, Interval(1, 1, 1, 1)) for name in names]))
    texts = list(root.iter(f"{SVG}text"))
    legend = [str(text.text) for text in texts if ": " in str(text.text)]
    assert legend == [f"{number}: {name}" for number, name in enumerate(names, 1)]
    below = [text for text in texts if str(text.text).isdecimal() and text.get("y") == "360.00"]
    assert len(below) == numbers
    spans = [(float(str(text.get("x"))), LETTER_PX * len(str(text.text)) / 2) for text in below]
    assert all(left + half < right - other for (left, half), (right, other) in pairwise(spans))
    for text in texts:
        if ": " in str(text.text):
            assert float(str(text.get("x"))) + LETTER_PX * len(str(text.text)) < float(str(root.get("width")))
            assert float(str(text.get("y"))) < float(str(root.get("height")))


def test_lines_have_a_point_a_value_and_name_every_series() -> None:
    lines = [Line(name, tuple((x, Interval(x * y, x * y - 1, x * y + 1, 3)) for x in (10.0, 20.0))) for name, y in
             (("NOP", 2.0), ("MOML", 3.0))]  # fmt: skip
    root = parsed(line_chart("Rejected", "share (%)", "rejected (%)", lines))
    # A mark for each value, and one for each name below.
    assert len(list(root.iter(f"{SVG}polygon"))) == 4 + 2
    texts = {str(text.text) for text in root.iter(f"{SVG}text")}
    assert {"NOP", "MOML", "share (%)", "rejected (%)"} <= texts


def test_series_differ_where_there_are_no_colours() -> None:
    drawings = {(line.get("stroke-dasharray"), str(mark.get("points"))) for line, mark in map(drawn_alone, range(20))}
    assert len(drawings) == 20


def drawn_alone(number: int) -> tuple[_Element, _Element]:
    drawing = Drawing(100, 100, "one series")
    drawing.series_line([(0, 50), (100, 50)], number)
    drawing.series_mark(50, 50, number)
    (line,), (mark,) = (list(parsed(drawing.svg()).iter(f"{SVG}{name}")) for name in ("polyline", "polygon"))
    return line, mark


def test_lines_without_any_point_are_a_chart_that_names_them() -> None:
    svg = line_chart("Waits", "%", "hours", [Line("nobody started", ()), Line("nor here", ())])
    assert {"Waits", "nobody started", "nor here"} <= {str(text.text) for text in parsed(svg).iter(f"{SVG}text")}


def test_stays_lie_in_the_row_of_their_host_as_long_as_they_last() -> None:
    stays = [
        Stay(0, 7, Activity.RUN, 0, 60_000), Stay(1, 8, Activity.RUN, 30_000, 90_000),
        Stay(1, 9, Activity.RUN, 60_000, 90_000), Stay(0, 7, Activity.LEAVE, 60_000, 75_000),
    ]  # fmt: skip
    bars = told(gantt_chart("Hosts", 2, stays, 90_000, lambda vm_id: vm_id - 6))
    first = bars["request 1, VM 7: run, 0 s to 60 s"]
    leaving = bars["request 1, VM 7: leave, 60 s to 75 s"]
    second, third = bars["request 2, VM 8: run, 30 s to 90 s"], bars["request 3, VM 9: run, 60 s to 90 s"]
    assert first["width"] == pytest.approx(4 * leaving["width"], abs=0.05)
    assert leaving["y"] == first["y"]
    assert second["y"] >= first["y"] + first["height"]
    # Two at once on one host share its row.
    assert second["y"] != third["y"]
    assert second["height"] == third["height"] == pytest.approx(first["height"] / 2)


def test_a_legend_tells_what_the_pale_bars_are() -> None:
    root = parsed(gantt_chart("Hosts", 1, [Stay(0, 7, Activity.RUN, 0, 60_000)], 60_000, lambda vm_id: vm_id))
    texts = {str(text.text): text for text in root.iter(f"{SVG}text")}
    told = ["starts", "leaves for another", "returns", "ends, or has failed"]
    assert set(told) < set(texts)
    assert any(text.startswith("runs, in the colour of its request") for text in texts)
    last = texts[told[-1]]
    assert float(str(last.get("x"))) + LETTER_PX * len(told[-1]) < float(str(root.get("width")))
    assert float(str(last.get("y"))) < float(str(root.get("height")))


def test_instants_of_a_long_simulation_keep_their_digits() -> None:
    stay = Stay(0, 1, Activity.RUN, 1_234_567_000, 2_591_999_500)
    assert "request 1, VM 1: run, 1234567 s to 2591999.5 s" in told(
        gantt_chart("Hosts", 1, [stay], 2_592_000_000, lambda vm_id: vm_id)
    )


@pytest.fixture
def most_stays(monkeypatch: pytest.MonkeyPatch) -> int:
    """A chart that is cut sooner: one of 20,000 stays takes many seconds."""
    monkeypatch.setattr(gantt, "MOST_STAYS", 200)
    return 200


def test_a_huge_chart_is_cut_and_says_so(most_stays: int) -> None:
    stays = [Stay(0, number, Activity.RUN, number, number + 1) for number in range(most_stays + 5)]
    svg = gantt_chart("Hosts", 1, stays, most_stays + 5, lambda vm_id: vm_id)
    assert f"the first {most_stays} stays" in svg
    assert len(told(svg)) == most_stays


def test_a_chart_that_is_cut_ends_where_the_first_stay_is_missing(most_stays: int) -> None:
    long = Stay(0, 0, Activity.RUN, 0, 900_000_000)
    later = [Stay(1, number, Activity.RUN, number * 10, number * 10 + 10) for number in range(1, most_stays + 5)]
    svg = gantt_chart("Hosts", 2, [long, *later], 900_000_000, lambda vm_id: vm_id)
    bars = told(svg)
    assert len(bars) == most_stays
    first, last = bars["request 0, VM 0: run, 0 s to 900000 s"], bars["request 199, VM 199: run, 1.99 s to 2 s"]
    # It ends with the last one that is drawn.
    assert first["x"] + first["width"] == pytest.approx(last["x"] + last["width"], abs=0.02)
    assert first["width"] > 700


def test_more_stays_at_the_beginning_than_have_a_place_are_cut_to_those(most_stays: int) -> None:
    stays = [Stay(0, number, Activity.RUN, 0, 1000) for number in range(most_stays + 5)]
    assert len(told(gantt_chart("Hosts", 1, stays, 1000, lambda vm_id: vm_id))) == most_stays


def test_names_are_text_and_never_markup() -> None:
    evil = '<script>alert("x")</script>\x00&'
    svg = bar_chart(evil, evil, [(evil, Interval(1, 1, 1, 1))])
    assert parsed(svg).find(f".//{SVG}script") is None
    page = html_report(evil, [html_table(evil, ("", evil), [(evil, evil)]), html_list([evil]), svg])
    assert "<script" not in page


def test_the_same_figures_give_the_same_bytes() -> None:
    lines = [Line("a", ((1.0, Interval(1 / 3, 0.2, 0.5, 4)), (2.0, Interval(0.1, 0.0, 0.2, 4))))]
    assert line_chart("t", "x", "y", lines) == line_chart("t", "x", "y", lines)
