"""What logs and models do not say about leases: where they come from, types, deadlines, images, limits.

Each function returns the workload with one thing added. What is drawn is drawn for every request in order, whether it
is used or not: with one seed, a request keeps its draw when a share or the requests concerned change, so that the
points of a sweep differ by what is swept alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.model.lease import LeaseType
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.workload import StartKind, Workload, WorkloadRequest

Concerned = Callable[[WorkloadRequest], bool]
T = TypeVar("T")

SHARES_ADD_UP_WITHIN = 1e-9


def everything(_: WorkloadRequest) -> bool:
    """All requests are concerned."""
    return True


def external_only(request: WorkloadRequest) -> bool:
    """Requests from other sites are concerned."""
    return request.external


def deadline_constraint_only(request: WorkloadRequest) -> bool:
    """External requests of the types that promise a deadline are concerned (CCPE13)."""
    return request.external and not request.lease_type.best_effort


class Image(Struct, frozen=True):
    """An image and its size; `share` of the requests are made from it."""

    name: str
    size_mib: int
    share: float


def with_origins(workload: Workload, local: int, seed: int) -> Workload:
    """Exactly `local` requests, drawn, are local ones; the others come from other sites.

    As in CCPE13 a local request cannot be preempted and starts at its ready time or is rejected; external ones keep
    what they are. With one seed, those that are local stay so when `local` grows.
    """
    if not 0 <= local <= len(workload):
        raise OnePreemptError(f"{local} local requests out of {len(workload)}: name a number from 0 to {len(workload)}")
    rank = _generator(seed, "origins").permutation(len(workload))
    return workload.after(
        f"{local} of {len(workload)} requests are local (seed {seed})",
        (
            _local(request) if place < local else replace(request, external=True)
            for request, place in zip(workload.requests, rank.tolist(), strict=True)
        ),
    )


def _local(request: WorkloadRequest) -> WorkloadRequest:
    return replace(
        request,
        external=False,
        lease_type=LeaseType.DC_NON_PREEMPTABLE,
        start=StartKind.IMMEDIATE,
        start_at_s=None,
        deadline_at_s=None,
    )


def with_types(workload: Workload, shares: Sequence[tuple[LeaseType, float]], seed: int) -> Workload:
    """Lease types drawn with these shares, which add up to 1. What has a deadline keeps a type that is promised one."""
    told = ", ".join(f"{lease_type} {share:g}" for lease_type, share in shares)

    def typed(request: WorkloadRequest, drawn: LeaseType) -> WorkloadRequest:
        is_to_stay = drawn.best_effort and request.start is StartKind.DEADLINE
        return request if is_to_stay else replace(request, lease_type=drawn)

    drawn = _drawn(workload, shares, seed, "types")
    return workload.after(f"types {told} (seed {seed})", map(typed, workload.requests, drawn))


def with_deadlines(workload: Workload, factor: float, concerned: Concerned = everything) -> Workload:
    """Deadlines at the ready time plus `factor` times the planned duration (CCPE13: 2), rounded up."""
    if not 1 <= factor <= 1e6:
        raise OnePreemptError(f"a deadline of {factor:g} durations cannot be met: a factor is at least 1, at most 1e6")

    def constrained(request: WorkloadRequest) -> WorkloadRequest:
        if not concerned(request):
            return request
        slack_s = int(-(-request.planned_duration_s * factor // 1))
        return replace(request, start=StartKind.DEADLINE, deadline_at_s=request.ready_at_s + slack_s)

    return workload.mapped(f"deadlines after {factor:g} durations", constrained)


def with_images(workload: Workload, images: Sequence[Image], seed: int) -> Workload:
    """Images drawn with their shares, which add up to 1 (VW07 8.3: seven of 10 % and thirty of 1 %)."""

    def made(request: WorkloadRequest, image: Image) -> WorkloadRequest:
        return replace(request, image=image.name, image_mib=image.size_mib)

    drawn = _drawn(workload, [(image, image.share) for image in images], seed, "images")
    return workload.after(f"{len(images)} images (seed {seed})", map(made, workload.requests, drawn))


def with_suspension_limit(workload: Workload, limit: int, concerned: Concerned = everything) -> Workload:
    """No more than `limit` suspensions of a lease (SR11)."""
    if limit < 0:
        raise OnePreemptError(f"at most {limit} suspensions: the limit is at least 0")
    return workload.mapped(
        f"at most {limit} suspensions",
        lambda request: replace(request, max_suspensions=limit) if concerned(request) else request,
    )


def _drawn(workload: Workload, shares: Sequence[tuple[T, float]], seed: int, purpose: str) -> list[T]:
    """One choice for each request."""
    if any(share < 0 for _, share in shares) or abs(sum(share for _, share in shares) - 1) > SHARES_ADD_UP_WITHIN:
        raise OnePreemptError(f"shares {', '.join(f'{share:g}' for _, share in shares)} do not add up to 1")
    uniform = _generator(seed, purpose).random(len(workload))
    limits = np.cumsum([share for _, share in shares])[:-1]
    return [shares[index][0] for index in np.searchsorted(limits, uniform, side="right").tolist()]


def _generator(seed: int, purpose: str) -> np.random.Generator:
    """A stream of its own for each purpose, so that one seed does not tie images to types."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, *purpose.encode()))))
