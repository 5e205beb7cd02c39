"""What must hold at the end of every act."""

from __future__ import annotations

from collections.abc import Iterator

from one_preempt.core.model.outcome import Outcome
from one_preempt.entrypoints.demo.stage import Stage
from one_preempt.entrypoints.demo.story import Check


def checks_of_every_act(stage: Stage) -> Iterator[Check]:
    """Nothing was refused, every plan agreed with its recount, and so do the cloud's books."""
    results = [result for report in stage.reports for _, result in report.results]
    accepted = sum(result.outcome is Outcome.ACCEPTED for result in results)
    yield Check(f"{accepted} of {len(results)} calls to OpenNebula were accepted", accepted == len(results))
    agreed = sum(report.plan is not None and not report.violations for report in stage.reports)
    yield Check(
        f"the independent recount agreed with the plan in {agreed} of {len(stage.reports)} cycles",
        agreed == len(stage.reports),
    )
    wrong = stage.cloud.audit()
    yield Check(f"the cloud's books, recounted, show {wrong[0] if wrong else 'no difference'}", not wrong)
