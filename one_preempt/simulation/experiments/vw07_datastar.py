"""The submissions of VW07 8.2: 62 jobs of DataStar's express queue, on nodes and images of the testbed.

The log is not ours to pass on: it is read from a folder that the user names. Without it as many are drawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from one_preempt.core.model.time import MS_PER_S
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.experiments.vw07_site import chance_of, drawn_image
from one_preempt.simulation.workload.swf import SwfField, SwfStatus, read_swf

LOG_FILE = "SDSC-DS-2004-2.1-cln.swf.gz"
FIRST_JOB, BEFORE_JOB, EXPRESS_QUEUE = 21543, 21665, 1
PROCESSORS_PER_VM = 4
# Table 8.2, per cent of the submissions.
IMAGE_WEIGHTS = {"uniform": (23, 18, 15, 18, 24, 3), "skewed": (55, 27, 6, 5, 3, 3)}
# What is drawn without the log: VMs and how many of so many, the span of the submissions, and the mean run time.
DRAWN_VMS = {2: 58, 4: 3, 16: 1}
_DRAWN_SPAN_MS, _DRAWN_MEAN_MS = 4700 * MS_PER_S, 53 * MS_PER_S


class Submission(Struct, frozen=True):
    """A workspace that is to start as soon as possible."""

    at_ms: int
    vms: int
    lasts_ms: int
    image: str = ""


@cache
def recorded(folder: Path) -> tuple[Submission, ...]:
    """Those of the log in the folder, read once. Raises `OnePreemptError` where it, or these jobs, are not there."""
    path = folder / LOG_FILE
    if not path.is_file():
        raise OnePreemptError(f"{folder}: there is no {LOG_FILE}: name the folder that holds the traces")
    log = read_swf(path)
    numbers = log.column(SwfField.JOB_NUMBER)
    chosen = log.only(
        (numbers >= FIRST_JOB)
        & (numbers < BEFORE_JOB)
        & (log.column(SwfField.QUEUE) == EXPRESS_QUEUE)
        & (log.column(SwfField.STATUS) == SwfStatus.COMPLETED)
    )
    if not len(chosen):
        raise OnePreemptError(f"{path}: has no jobs {FIRST_JOB} to {BEFORE_JOB} of queue {EXPRESS_QUEUE}: another log?")
    submitted_s = chosen.column(SwfField.SUBMIT_TIME)
    at_ms = MS_PER_S * (submitted_s - submitted_s[0])
    vms = chosen.column(SwfField.REQUESTED_PROCESSORS) // PROCESSORS_PER_VM
    lasts_ms = MS_PER_S * chosen.column(SwfField.RUN_TIME)
    return tuple(map(Submission, at_ms.tolist(), vms.tolist(), lasts_ms.tolist()))


def drawn(replication: int) -> tuple[Submission, ...]:
    """As many, with the same numbers of VMs and the same mean run time."""
    chance = chance_of(1, replication)
    vms = chance.permutation([size for size, count in DRAWN_VMS.items() for _ in range(count)])
    instants = sorted(int(one) for one in chance.integers(_DRAWN_SPAN_MS, size=len(vms)))
    lasts = chance.exponential(_DRAWN_MEAN_MS, size=len(vms))
    return tuple(
        Submission(at_ms, int(size), 1 + int(lasts_ms))
        for at_ms, size, lasts_ms in zip(instants, vms, lasts, strict=True)
    )


def with_images(submissions: Sequence[Submission], distribution: str, replication: int) -> list[Submission]:
    """Each with one of six images, drawn by a column of Table 8.2."""
    chance = chance_of(2, replication)
    weights = IMAGE_WEIGHTS[distribution]
    return [Submission(one.at_ms, one.vms, one.lasts_ms, drawn_image(chance, weights)) for one in submissions]


def digest(folder: Path) -> str:
    """What is in the log, and not where it lies."""
    return hashlib.sha256((folder / LOG_FILE).read_bytes()).hexdigest()
