"""What PEMP12 says of its five policies, and what the project asks of its own, judged on runs.

What the paper says of a figure is judged on the points of that figure. Where runs are missing, verdicts are given only
as far as those missing could not turn them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from one_preempt.simulation.experiments.experiment import Claim
from one_preempt.simulation.experiments.pemp12_runs import (
    ALWAYS_ON,
    GESP,
    KWH,
    LOOK_AHEAD,
    PEMP,
    SESP,
    VIOLATIONS,
    Runs,
    saved_percent,
)
from one_preempt.simulation.experiments.pemp12_workloads import HIGHEST_RHO, Point
from one_preempt.simulation.probes.statistics import paired

# Those that it compares. Always-on, which takes the most whatever happens, is what they are measured against.
PAPERS = (PEMP, SESP, GESP)
PUBLISHED_ALWAYS_ON_KWH, KWH_TOLERANCE = 43_131, 1
MOST_KWH_AT_30, MOST_VIOLATIONS, MOST_ABOVE_SESP = 12_500, 0.2, 1.0
HIGH_RHO = 25
GESP_LEAST, GESP_MOST_VIOLATIONS, PEMP_KEPT = 65 / 72, 70 / 72, 22 / 24
# The t-tests of the paper: SESP less PEMP, kWh, over the points of a sweep; delta "for durations less than 4 hours".
PUBLISHED_T_TESTS = {"delta": (193.5, 2830.1, "p < 0.001"), "theta": (360.8, 2030.0, "p = 0.04")}
LONGEST_TESTED_H = 3
PUBLISHED_SAVING, PUBLISHED_PERCENT, ALIKE_PERCENT = "about 18 % above 25 %, alike below", 18, 5


def claims_of(runs: Runs) -> Iterator[Claim]:
    """All that is said of the points of one setting."""
    if runs.setting.reading or not runs.by_point:
        return
    gauges, policies = runs.setting.gauges, set(runs.setting.policies)
    if gauges and ALWAYS_ON in policies:
        yield _always_on(runs)
    yield _served(runs)
    if policies >= set(PAPERS):
        yield _counted(runs, _GESP_LEAST, gauges)
        yield _counted(runs, _GESP_MOST, gauges)
    if policies >= {PEMP, SESP}:
        yield from _of_pemp(runs)
    if LOOK_AHEAD in policies:
        yield from _of_our_own(runs)


def _of_pemp(runs: Runs) -> Iterator[Claim]:
    """Against SESP: of so many points as are asked for, and of the paper's figures, where the setting has them."""
    if runs.has_all(HIGH_RHO):
        yield _counted(runs, _PEMP_KEPT, runs.setting.gauges)
    if runs.shows("rho"):
        yield _saving(runs)
    yield from (_t_test(runs, sweep) for sweep in PUBLISHED_T_TESTS if runs.shows(sweep))


def _of_our_own(runs: Runs) -> Iterator[Claim]:
    yield _counted(runs, _OWN_LEAST, True)
    required, at_most = runs.setting.gauges or runs.setting.in_reach, f"{MOST_KWH_AT_30:,} kWh at rho 30 %"
    yield _bound(runs, f"look-ahead takes at most {at_most}", KWH, MOST_KWH_AT_30, required, HIGHEST_RHO)
    yield _bound(runs, f"look-ahead breaks at most {MOST_VIOLATIONS} % of the promises", VIOLATIONS, MOST_VIOLATIONS)


def _always_on(runs: Runs) -> Claim:
    taken = [runs.at(point, ALWAYS_ON, KWH) for point in runs.points(ALWAYS_ON)]
    within = all(abs(kwh - PUBLISHED_ALWAYS_ON_KWH) <= KWH_TOLERANCE for kwh in taken)
    told = f"{min(taken):,.1f} to {max(taken):,.1f} kWh" if taken else "not played"
    text, published = f"{runs.setting.name}: always on", f"{PUBLISHED_ALWAYS_ON_KWH:,} kWh"
    return Claim(text, published, told, _everywhere(runs, within, ALWAYS_ON))


def _served(runs: Runs) -> Claim:
    """Without it energies do not compare: who serves less may take less."""
    asked, rejected, late, lost = (
        sum(runs.at(point, policy, figure) for policy in runs.setting.policies for point in runs.points(policy))
        for figure in ("reservations", "rejected_reservations", "late_reservations", "lost_guests")
    )
    text = f"{runs.setting.name}: no reservation is rejected or late, nobody loses a host"
    told = f"{rejected:.0f} rejected and {late:.0f} late of {asked:.0f}, {lost:.0f} lost"
    return Claim(text, "", told, _everywhere(runs, not (rejected or late or lost), *runs.setting.policies))


def _everywhere(runs: Runs, holds: bool, *policies: str) -> bool | None:
    """What is to hold at every point for these policies, of a part."""
    return holds if not holds or not runs.missing(*policies) else None


class Counted(Struct, frozen=True):
    """What is to hold at so great a `share` of the points of `least_rho` and more, and whose runs tell it."""

    text: str
    share: float
    holds_at: Callable[[Runs, Point], bool]
    policies: tuple[str, ...]
    least_rho: int = 0


def _counted(runs: Runs, counted: Counted, required: bool) -> Claim:
    points = runs.points(*counted.policies, least_rho=counted.least_rho)
    missing = runs.missing(*counted.policies, least_rho=counted.least_rho)
    kept = sum(counted.holds_at(runs, point) for point in points)
    wanted = counted.share * (len(points) + missing)
    holds = True if kept >= wanted - 1e-9 and points else False if kept + missing < wanted - 1e-9 else None
    published = f"at least {wanted:.0f} of {len(points) + missing}"
    told = f"{kept} of {len(points)}" if points else "not played"
    return Claim(f"{runs.setting.name}: {counted.text}", published, told, holds, required)


def _gesp_least(runs: Runs, point: Point) -> bool:
    return all(runs.at(point, GESP, KWH) < runs.at(point, other, KWH) for other in PAPERS if other != GESP)


def _gesp_most(runs: Runs, point: Point) -> bool:
    broken = runs.at(point, GESP, VIOLATIONS)
    return all(broken > runs.at(point, other, VIOLATIONS) for other in PAPERS if other != GESP)


def _pemp_kept(runs: Runs, point: Point) -> bool:
    takes_less = runs.at(point, PEMP, KWH) < runs.at(point, SESP, KWH)
    return takes_less and runs.at(point, PEMP, VIOLATIONS) <= runs.at(point, SESP, VIOLATIONS) + MOST_ABOVE_SESP


def _own_least(runs: Runs, point: Point) -> bool:
    return runs.at(point, LOOK_AHEAD, KWH) <= runs.at(point, PEMP, KWH)


_GESP_LEAST = Counted("GESP takes the least energy of the paper's policies", GESP_LEAST, _gesp_least, PAPERS)
_GESP_MOST = Counted("GESP breaks the most promises", GESP_MOST_VIOLATIONS, _gesp_most, PAPERS)
_PEMP_KEPT = Counted(
    "PEMP takes less than SESP at rho 25 and 30 %, with at most 1 point more broken promises",
    PEMP_KEPT, _pemp_kept, (PEMP, SESP), HIGH_RHO,
)  # fmt: skip
_OWN_LEAST = Counted("look-ahead takes no more energy than PEMP", 1.0, _own_least, (LOOK_AHEAD, PEMP))


def _bound(runs: Runs, text: str, figure: str, most: float, required: bool = True, least_rho: int = 0) -> Claim:
    found = [runs.at(point, LOOK_AHEAD, figure) for point in runs.points(LOOK_AHEAD, least_rho=least_rho)]
    told = f"{max(found):,.2f} at most" if found else "not played"
    is_whole = not runs.missing(LOOK_AHEAD, least_rho=least_rho)
    holds = None if not found else False if max(found) > most else True if is_whole else None
    return Claim(f"{runs.setting.name}: {text}", f"{most:,}", told, holds, required)


def _saving(runs: Runs) -> Claim:
    """Figure 1(a)."""
    told = {point.rho: saved_percent(runs, [point]) for point in runs.along("rho", PEMP, SESP)}
    text = ", ".join(f"{saved:.1f} % at {rho} %" for rho, saved in told.items()) or "not played"
    high = all(abs(saved - PUBLISHED_PERCENT) <= ALIKE_PERCENT for rho, saved in told.items() if rho > HIGH_RHO)
    low = all(abs(saved) <= ALIKE_PERCENT for rho, saved in told.items() if rho < HIGH_RHO)
    holds = None if runs.lacks("rho", PEMP, SESP) else high and low
    return Claim(f"{runs.setting.name}: PEMP's saving against SESP", PUBLISHED_SAVING, text, holds, required=False)


def _t_test(runs: Runs, sweep: str) -> Claim:
    """SESP less PEMP, paired over the points of a sweep: Figures 1(b) and 1(c)."""
    low, high, p = PUBLISHED_T_TESTS[sweep]
    text = f"{runs.setting.name}: SESP less PEMP over the sweep of {sweep}, 95 %"
    published = f"{low:g} to {high:g} kWh, {p}"
    points = [point for point in runs.along(sweep, PEMP, SESP) if sweep != "delta" or point.delta_h <= LONGEST_TESTED_H]
    if len(points) < 2:
        return Claim(text, published, "too few points", None, required=False)
    sesp, pemp = ([runs.at(point, policy, KWH) for point in points] for policy in (SESP, PEMP))
    test = paired(sesp, pemp)
    ours = test.difference
    holds = None if runs.lacks(sweep, PEMP, SESP) else low <= ours.mean <= high and test.p < 0.05
    told = f"{ours.low:.1f} to {ours.high:.1f} kWh, p = {test.p:.2g}"
    return Claim(text, published, told, holds, required=False)
