"""30 days of a real log on nodes that are alike: the start of every job, and the published figures."""

from __future__ import annotations

from statistics import mean

import pytest

from one_preempt.core.backfilling import conservative, easy
from tests.core.backfilling.replay import Job, Starts, plain_conservative, plain_easy, production, read_trace


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    jobs = read_trace()
    assert len(jobs) == 5108
    return jobs


def waits_s(jobs: list[Job], starts: Starts) -> list[int]:
    return [starts[job.id] - job.submit_s for job in jobs]


def slowdown(jobs: list[Job], starts: Starts) -> float:
    return mean((starts[job.id] - job.submit_s + job.run_s) / max(job.run_s, 1) for job in jobs)


def test_easy_on_512_nodes_starts_every_job_as_the_textbook_does(jobs: list[Job]) -> None:
    starts = production(jobs, 512, easy.POLICY)
    assert starts == plain_easy(jobs, 512)
    assert 75 <= mean(waits_s(jobs, starts)) <= 76
    assert round(slowdown(jobs, starts), 2) == 1.08


def test_easy_on_144_nodes_starts_every_job_as_the_textbook_does(jobs: list[Job]) -> None:
    starts = production(jobs, 144, easy.POLICY)
    assert starts == plain_easy(jobs, 144)
    assert round(mean(waits_s(jobs, starts))) == 4233
    assert sum(wait_s > 0 for wait_s in waits_s(jobs, starts)) == 1802


def test_conservative_on_512_nodes_starts_every_job_as_the_plain_one_does(jobs: list[Job]) -> None:
    assert production(jobs, 512, conservative.POLICY) == plain_conservative(jobs, 512)


def test_conservative_on_144_nodes_starts_every_job_as_the_plain_one_does(jobs: list[Job]) -> None:
    assert production(jobs, 144, conservative.POLICY) == plain_conservative(jobs, 144)
