"""What images take on hosts, now and as transfers that are planned will leave it; and which may be removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import accumulate

from one_preempt.core.image_staging.staging_plan import ImageNeed, StagingPlan, StagingState
from one_preempt.core.model.image_transfer import HeldImage, KnownImages, Place


def peaks_mib(
    needs: Iterable[ImageNeed], plan: StagingPlan, state: StagingState, in_use_until: Mapping[Place, int]
) -> dict[int, int]:
    """The most that images take at one time on each host, from now on, without those that nobody needs any more.

    An image takes its room from the beginning of its transfer until `kept_after_start_s` after the last start for which
    it is. `in_use_until` are those of which VMs were made a moment ago, and until when they are kept for that.
    """
    known, now_s = state.known, state.now_s
    until: dict[Place, int] = dict(in_use_until)
    sizes: dict[Place, int] = {}
    for need in needs:
        until[need.place] = max(until.get(need.place, 0), need.start_s + state.rules.kept_after_start_s)
        sizes[need.place] = max(sizes.get(need.place, 0), need.size_mib)
    begins = {one.place: one.begin_s for one in plan.transfers}
    for record in known.coming:
        # Somebody may have gone away meanwhile; it comes all the same.
        place = record.order.place
        begins[place] = now_s
        sizes[place] = max(sizes.get(place, 0), record.order.size_mib)
        until[place] = max(until.get(place, 0), now_s + 1)
    for host_id, pool in known.held.items():
        for image in pool.images:
            place = image.image_id, host_id
            if place in until and known.is_held(place):
                begins[place], sizes[place] = now_s, image.size_mib
    changes: dict[int, list[tuple[int, int]]] = {}
    for place, begin_s in begins.items():
        if place in sizes and begin_s < until[place]:
            changes.setdefault(place[1], []).extend([(begin_s, sizes[place]), (until[place], -sizes[place])])
    return {host_id: peak(of_host) for host_id, of_host in sorted(changes.items())}


def peak(changes: Iterable[tuple[int, int]]) -> int:
    """The most that is there at one time, by instants and how much comes then, or goes: below 0.

    What goes at an instant goes before what comes.
    """
    return max(accumulate((change for _, change in sorted(changes)), initial=0))


def room_on(host_id: int, state: StagingState) -> int | None:
    """What is left of a host's pool beside what it holds and what is coming, in MiB; None where there is no limit."""
    if state.rules.pool_mib is None:
        return None
    taken = {one.image_id: one.size_mib for one in state.known.images_on(host_id)}
    orders = [record.order for record in state.known.coming]
    taken.update({order.image_id: order.size_mib for order in orders if order.host_id == host_id})
    return state.rules.pool_mib - sum(taken.values())


def to_be_removed(
    host_id: int, lacking_mib: int, known: KnownImages, kept: Set[int], popularity: Mapping[int, int]
) -> Sequence[HeldImage]:
    """Images of a host that nobody needs there, enough to give so much room; none where all of them do not.

    Those that the fewest ask for anywhere go first (least frequently used), of these those that came first.
    """
    free = [one for one in known.images_on(host_id) if one.image_id not in kept]
    free.sort(key=lambda one: (popularity.get(one.image_id, 0), one.since_s, one.image_id))
    found: list[HeldImage] = []
    for image in free:
        if lacking_mib <= 0:
            break
        found.append(image)
        lacking_mib -= image.size_mib
    return found if lacking_mib <= 0 else []
