"""What JPDC12 section 5.3 says of its figures, each beside ours and with a verdict.

Policies are compared over all points and replications of a sweep, in pairs that share their draws. A verdict is given
where a sweep was played as a whole. Only what a scouting simulation had seen is required, over its two days: that PAP
lowers the number of preemptions.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from one_preempt.simulation.experiments.experiment import Claim
from one_preempt.simulation.experiments.jpdc12_figures import MIGRATED, REJECTED, RESPONSE_S, USEFUL, VM_PREEMPTIONS
from one_preempt.simulation.experiments.jpdc12_workloads import (
    BCF_RND,
    DURATIONS,
    EXTERNAL,
    LOCAL,
    LRF_RND,
    PAP_RND,
    PAP_RTDP,
    POLICIES,
    ROUND_ROBIN,
    SWEEPS,
    VMS,
    Extent,
    place_of,
)
from one_preempt.simulation.experiments.replicated import ResultTable
from one_preempt.simulation.probes.statistics import TTest, mean, paired

OTHERS = (LRF_RND, BCF_RND, ROUND_ROBIN)
SIGNIFICANT_P = 0.05
LONG_S = 300
FEWER_PREEMPTIONS_PERCENT, SHORTER_RESPONSE_PERCENT = 60, 50
# Utilization, points: PAP-RTDP less LRF-RND in the sweep of VMs; and what the text tests in the others.
PUBLISHED_UTILIZATION = {VMS: "12.5 to 14.7", DURATIONS: "7.3 to 14.5 above 300 s", EXTERNAL: "1.5 to 15.1"}
# VM preemptions: PAP-RND against LRF-RND, where the text tests that, 95 %.
PUBLISHED_PAP = {
    VMS: "168 to 1561 fewer than LRF-RND, p = 0.02", DURATIONS: "p < 0.001", EXTERNAL: "p < 0.001",
    LOCAL: "231 to 4824 fewer than LRF-RND, p = 0.03",
}  # fmt: skip
# PAP-RTDP against PAP-RND: VM preemptions fewer, AWRT longer, 95 %.
PUBLISHED_RTDP = {
    VMS: "2738 to 3897, p < 0.001", DURATIONS: "342 to 2355, p = 0.012", EXTERNAL: "381 to 4570, p = 0.02",
    LOCAL: "469 to 3826 above 0.12/s, p = 0.02",
}  # fmt: skip
PUBLISHED_LATER = {
    VMS: "3815 to 4417 s, p < 0.001", DURATIONS: "654 to 4158 s above 300 s", EXTERNAL: "674 to 4754 s, p = 0.02",
    LOCAL: "1516 to 3784 s above 0.12/s",
}  # fmt: skip
# PAP-RND less PAP-RTDP, points, 95 % (Table 3).
PUBLISHED_VALUABLE = {
    MIGRATED: {VMS: "2.4 to 3.8", DURATIONS: "2.6 to 4.3", EXTERNAL: "0.14 to 7.8", LOCAL: "0.02 to 3.2"},
    REJECTED: {VMS: "9.3 to 12.7", DURATIONS: "5.9 to 12.5", EXTERNAL: "2.1 to 16", LOCAL: "not significant"},
}


class SweepResults(Struct, frozen=True):
    """What was played of one sweep, under all policies."""

    sweep: str
    table: ResultTable
    extent: Extent

    @property
    def points(self) -> list[str]:
        """Those that were played."""
        return [point for point in self.table.points if place_of(point)[0] == self.sweep]

    @property
    def played(self) -> int:
        """Points times replications."""
        return len(self.values(PAP_RTDP, VM_PREEMPTIONS))

    @property
    def to_play(self) -> int:
        """Points times replications, of the whole sweep."""
        return len(SWEEPS[self.sweep]) * self.extent.replications

    def values(self, policy: str, figure: str, least: float = 0) -> list[float]:
        """A figure at all points from a value of the sweep on, with all their replications."""
        chosen = (point for point in self.points if place_of(point)[1] >= least)
        return [value for point in chosen for value in self.table.values(point, policy, figure)]

    def test(self, first: str, second: str, figure: str, scale: float = 1.0, least: float = 0) -> TTest | None:
        """How much more the first policy has, in pairs; None where there are too few."""
        one, other = ([scale * value for value in self.values(each, figure, least)] for each in (first, second))
        return paired(one, other) if len(one) > 1 else None

    def mean(self, policy: str, figure: str, least: float = 0) -> float:
        """Over all of them; 0 where nothing was played."""
        values = self.values(policy, figure, least)
        return mean(values) if values else 0.0


def claims_of(results: SweepResults) -> Iterator[Claim]:
    """Everything that is said of one sweep; nothing where nothing of it was played."""
    if not results.points:
        return
    for claim in (
        _pap_fewer(results),
        _rtdp_fewer(results),
        _far_fewer(results),
        _most_useful(results),
        *_utilization(results),
        _response(results),
        _rtdp_later(results),
        _valuable(results, MIGRATED, "the fewest migratable leases are migrated under PAP-RTDP"),
        _valuable(results, REJECTED, "the fewest non-preemptable requests are rejected under PAP-RTDP"),
        _grows(results),
    ):
        yield _judged(results, claim)


def _judged(results: SweepResults, claim: Claim) -> Claim:
    text = f"{results.sweep}: {claim.text}"
    if results.played == results.to_play:
        return Claim(text, claim.published, claim.ours, claim.holds, claim.required)
    told = f"{claim.ours} ({results.played} of {results.to_play} workloads)"
    return Claim(text, claim.published, told, None, claim.required)


def _pap_fewer(results: SweepResults) -> Claim:
    """Against each of the others, which the paper tests against LRF-RND alone."""
    tests = {other: results.test(PAP_RND, other, VM_PREEMPTIONS) for other in OTHERS}
    told = "; ".join(f"{other} {_percent(results, PAP_RND, other):+.0f} %{_p(test)}" for other, test in tests.items())
    fewer = all(test is not None and test.difference.mean < 0 and test.p < SIGNIFICANT_P for test in tests.values())
    text = "PAP-RND preempts fewer VMs than LRF-RND, BCF-RND and RR, p < 0.05"
    return Claim(text, PUBLISHED_PAP[results.sweep], told, fewer, results.extent.required)


def _rtdp_fewer(results: SweepResults) -> Claim:
    test = results.test(PAP_RND, PAP_RTDP, VM_PREEMPTIONS)
    told = _in_words(test, " fewer")
    holds = test is not None and test.difference.mean > 0 and test.p < SIGNIFICANT_P
    text = "PAP-RTDP preempts fewer VMs than PAP-RND, p < 0.05"
    return Claim(text, PUBLISHED_RTDP[results.sweep], told, holds, required=False)


def _far_fewer(results: SweepResults) -> Claim:
    """The abstract's figure; in the sweep of durations the text says it of the long ones."""
    least = LONG_S if results.sweep == DURATIONS else 0
    fewer = {other: 0 - _percent(results, PAP_RTDP, other, least) for other in OTHERS}
    told = ", ".join(f"{other} {percent:.0f} %" for other, percent in fewer.items())
    above = f", durations above {LONG_S} s" if least else ""
    return Claim(
        f"PAP-RTDP preempts at least {FEWER_PREEMPTIONS_PERCENT} % fewer VMs than the policies without PAP{above}",
        f"{FEWER_PREEMPTIONS_PERCENT} %", told, min(fewer.values()) >= FEWER_PREEMPTIONS_PERCENT, required=False,
    )  # fmt: skip


def _most_useful(results: SweepResults) -> Claim:
    means, told = _shares(results, USEFUL)
    text = "utilization is highest under PAP-RTDP"
    return Claim(text, "figure", told, means[PAP_RTDP] == max(means.values()), required=False)


def _valuable(results: SweepResults, figure: str, text: str) -> Claim:
    """What becomes of the leases that the paper calls valuable."""
    means, told = _shares(results, figure)
    test = results.test(PAP_RND, PAP_RTDP, figure, 100)
    published = f"PAP-RND less PAP-RTDP {PUBLISHED_VALUABLE[figure][results.sweep]} points"
    told = f"{told}; PAP-RND less PAP-RTDP {_in_words(test, decimals=1)}"
    return Claim(text, published, told, means[PAP_RTDP] == min(means.values()), required=False)


def _shares(results: SweepResults, figure: str) -> tuple[dict[str, float], str]:
    """Of each policy, as a number and in words."""
    means = {policy: results.mean(policy, figure) for policy in POLICIES}
    return means, ", ".join(f"{policy} {100 * value:.1f} %" for policy, value in means.items())


def _utilization(results: SweepResults) -> Iterator[Claim]:
    if results.sweep not in PUBLISHED_UTILIZATION:
        return
    test = results.test(PAP_RTDP, LRF_RND, USEFUL, 100, LONG_S if results.sweep == DURATIONS else 0)
    holds = test is not None and test.difference.mean > 0 and test.p < SIGNIFICANT_P
    text = "utilization under PAP-RTDP less that under LRF-RND is above 0, points, 95 %"
    told = _in_words(test, decimals=1)
    yield Claim(text, PUBLISHED_UTILIZATION[results.sweep], told, holds, required=False)


def _response(results: SweepResults) -> Claim:
    means = {policy: results.mean(policy, RESPONSE_S) for policy in POLICIES}
    least_other = min(means[other] for other in OTHERS)
    most_pap = max(means[PAP_RND], means[PAP_RTDP])
    told = ", ".join(f"{policy} {seconds:,.0f} s" for policy, seconds in means.items())
    return Claim(
        f"AWRT is more than {SHORTER_RESPONSE_PERCENT} % less with PAP", f"{SHORTER_RESPONSE_PERCENT} %", told,
        most_pap < (1 - SHORTER_RESPONSE_PERCENT / 100) * least_other, required=False,
    )  # fmt: skip


def _rtdp_later(results: SweepResults) -> Claim:
    test = results.test(PAP_RTDP, PAP_RND, RESPONSE_S)
    holds = test is not None and test.difference.mean > 0 and test.p < SIGNIFICANT_P
    text, told = "AWRT is least with PAP-RND: PAP-RTDP's is longer, p < 0.05", _in_words(test, " s")
    return Claim(text, PUBLISHED_LATER[results.sweep], told, holds, required=False)


def _grows(results: SweepResults) -> Claim:
    """From the first point to the last."""
    first, last = results.points[0], results.points[-1]
    told, grows = [], len(results.points) > 1
    for policy in POLICIES:
        begins, ends = (mean(results.table.values(point, policy, VM_PREEMPTIONS)) for point in (first, last))
        told.append(f"{policy} {begins:,.0f} to {ends:,.0f}")
        grows = grows and ends > begins
    return Claim("VM preemptions grow along the sweep", "figure", ", ".join(told), grows, required=False)


def _percent(results: SweepResults, policy: str, other: str, least: float = 0) -> float:
    """How many more VM preemptions the policy has than another, of the means."""
    of_other = results.mean(other, VM_PREEMPTIONS, least)
    return 100 * (results.mean(policy, VM_PREEMPTIONS, least) / of_other - 1) if of_other else 0.0


def _in_words(test: TTest | None, unit: str = "", decimals: int = 0) -> str:
    """The interval of a difference, and how surely there is one."""
    if test is None:
        return "too few workloads"
    return f"{test.difference.low:.{decimals}f} to {test.difference.high:.{decimals}f}{unit}{_p(test)}"


def _p(test: TTest | None) -> str:
    return "" if test is None else f", p = {test.p:.2g}"
