"""Makes rule-base.svg of this folder and the table in rule-base.md, from the rule base itself."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from one_preempt.core.energy.fuzzy.rule_base import (
    DECISION_CENTRES,
    ENGINE,
    RISK_PEAKS,
    RULE_BASE,
    UTILIZATION_PEAKS,
)

PICTURE = Path(__file__).with_name("rule-base.svg")
PAGE = Path(__file__).with_name("rule-base.md")
BEGIN, END = "<!-- made by make_rule_base.py: -->\n", "<!-- :made -->\n"

STEPS = 24
MOST_RISK = max(RISK_PEAKS.values()) * Fraction(5, 4)
# Where f is what colour: red wakes, yellow preempts, blue consolidates.
COLOURS = ((-1.0, (178, 24, 43)), (0.0, (239, 138, 98)), (1.0, (255, 247, 188)), (2.0, (33, 102, 172)))
MAP_LEFT, MAP_TOP, MAP_SIZE = 560, 70, 360
SURFACE_X, SURFACE_Y = 250.0, 230.0


def answer(risk_step: float, utilization_step: float) -> float:
    """The value of f at a place of the grid, in steps."""
    risk = MOST_RISK * Fraction(risk_step) / STEPS
    return float(ENGINE.infer(Fraction(utilization_step) / STEPS, risk))


def colour(f: float) -> str:
    """Between the colours of the scale."""
    for (low, first), (high, second) in pairwise(COLOURS):
        if f <= high:
            share = (f - low) / (high - low)
            mixed = [round(one + (other - one) * share) for one, other in zip(first, second, strict=True)]
            return "#{:02x}{:02x}{:02x}".format(*mixed)
    raise AssertionError("f is at most 2")


def projected(risk_step: float, utilization_step: float) -> str:
    """A point of the surface, seen from above and from the side where risk and utilization are high."""
    across = (risk_step - utilization_step) / STEPS
    towards = (risk_step + utilization_step) / STEPS
    height = answer(risk_step, utilization_step)
    return f"{SURFACE_X + 200 * across:.1f},{SURFACE_Y + 90 * towards - 55 * height:.1f}"


def surface() -> Iterator[str]:
    """The surface from back to front."""
    for depth in range(2 * STEPS - 1):
        for risk in range(max(0, depth - STEPS + 1), min(depth, STEPS - 1) + 1):
            at = depth - risk
            corners = ((risk, at), (risk + 1, at), (risk + 1, at + 1), (risk, at + 1))
            points = " ".join(projected(*corner) for corner in corners)
            fill = colour(answer(risk + 0.5, at + 0.5))
            yield f'<polygon points="{points}" fill="{fill}" stroke="#555" stroke-width="0.3"/>'
    yield text(55, 440, "utilization C, 0 to 1", "start")
    yield text(445, 440, f"risk V, 0 to {float(MOST_RISK):g}", "end")
    yield text(250, 60, "height: f")


def heat_map() -> Iterator[str]:
    """The same from straight above, with the peaks of the input sets and the decision of every rule."""
    cell = MAP_SIZE / STEPS
    for risk in range(STEPS):
        for at in range(STEPS):
            left, top = MAP_LEFT + risk * cell, MAP_TOP + MAP_SIZE - (at + 1) * cell
            yield square(left, top, cell + 0.3, colour(answer(risk + 0.5, at + 0.5)))
    for name, peak in RISK_PEAKS.items():
        yield text(risk_x(peak), MAP_TOP + MAP_SIZE + 30, f"{name} {float(peak):.3g}")
    for name, peak in UTILIZATION_PEAKS.items():
        yield text(MAP_LEFT - 20, utilization_y(peak) + 4, f"{name} {float(peak):.3g}", "end")
    for rule in RULE_BASE:
        x, y = risk_x(RISK_PEAKS[rule.risk]), utilization_y(UTILIZATION_PEAKS[rule.utilization])
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="15" fill="white" fill-opacity="0.75"/>'
        yield text(x, y + 4, rule.decision)
    yield text(MAP_LEFT + MAP_SIZE / 2, MAP_TOP + MAP_SIZE + 52, "risk V")
    yield text(MAP_LEFT + MAP_SIZE / 2, MAP_TOP - 28, "from above: the decision of each rule at the peaks of its sets")


def risk_x(risk: Fraction) -> float:
    """Where a risk lies in the map."""
    return MAP_LEFT + MAP_SIZE * float(risk / MOST_RISK)


def utilization_y(utilization: Fraction) -> float:
    """Where a utilization lies in the map."""
    return MAP_TOP + MAP_SIZE * (1 - float(utilization))


def scale() -> Iterator[str]:
    """What the colours mean."""
    for step in range(61):
        yield f'<rect x="{330 + 5 * step}" y="490" width="5.3" height="14" fill="{colour(step / 20 - 1)}"/>'
    words = ((-1, "-1 wake all"), (0, "0"), (1, "1 preempt for all"), (2, "2 consolidate"))
    for f, word in words:
        yield text(330 + 100 * (f + 1), 522, word)


def square(left: float, top: float, side: float, fill: str) -> str:
    """A coloured square."""
    return f'<rect x="{left:.1f}" y="{top:.1f}" width="{side:.1f}" height="{side:.1f}" fill="{fill}"/>'


def text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    """A few words."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def picture() -> str:
    """The SVG, whole."""
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 540" font-family="sans-serif" font-size="12">',
        "<title>The answer f of the fuzzy rules over risk and utilization</title>",
        '<rect width="960" height="540" fill="white"/>',
        *surface(),
        *heat_map(),
        *scale(),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def table() -> str:
    """The rules as tables: the base at a glance, then each with its reason."""
    decisions = {(rule.utilization, rule.risk): rule.decision for rule in RULE_BASE}
    glance = [
        f"| C \\ V | {' | '.join(RISK_PEAKS)} |",
        "|---|" + "---|" * len(RISK_PEAKS),
        *(f"| **{c}** | {' | '.join(decisions[c, v] for v in RISK_PEAKS)} |" for c in UTILIZATION_PEAKS),
    ]
    peaks = [
        "| set | peaks |",
        "|---|---|",
        *(
            f"| {name} | {', '.join(f'{one} {peak}' for one, peak in places.items())} |"
            for name, places in (("C", UTILIZATION_PEAKS), ("V", RISK_PEAKS), ("D", DECISION_CENTRES))
        ),
    ]
    reasons = [
        "| | if C is | and V is | then | f there | because |",
        "|---|---|---|---|---|---|",
        *(
            f"| {number} | {rule.utilization} | {rule.risk} | {rule.decision} | {DECISION_CENTRES[rule.decision]} "
            f"| {rule.why} |"
            for number, rule in enumerate(RULE_BASE, start=1)
        ),
    ]
    return "\n\n".join("\n".join(part) for part in (glance, peaks, reasons)) + "\n"


def page(before: str) -> str:
    """The page with the tables of now."""
    head, _, rest = before.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    PICTURE.write_text(picture())
    PAGE.write_text(page(PAGE.read_text()))
