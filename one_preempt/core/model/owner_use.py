"""How much of the cloud each owner has used lately: what a fair order of the queue goes by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct, field

# The group of a VM, and in it the user whose VM it is, by their ids.
Owner: TypeAlias = tuple[int, int]

WEEK_S = 7 * 86_400


class UseRules(Struct, frozen=True):
    """How use is measured: what was used `half_life_s` ago counts half.

    `counts_memory`: a VM that takes a larger part of the cloud's memory than of its CPUs counts by its memory.
    """

    half_life_s: int = WEEK_S
    counts_memory: bool = True


class OwnerUse(Struct, frozen=True, gc=False):
    """What the VMs of a user in a group had used by `measured_at_s`, faded as of then.

    In hundredths of a CPU times seconds. The names are those of then: whoever is deleted has used it all the same.
    """

    gid: int
    uid: int
    group_name: str
    user_name: str
    used_cpu_centi_s: int
    measured_at_s: int

    @property
    def owner(self) -> Owner:
        """The group's id and the user's."""
        return self.gid, self.uid


class MeasuredUse(Struct, frozen=True):
    """What all owners had used at one instant, by owner and summed up by group id; who is not named has used nothing.

    `measured_at_s` None: it was never measured.
    """

    owners: tuple[OwnerUse, ...] = ()
    by_owner: Mapping[Owner, int] = field(default_factory=dict)
    by_group: Mapping[int, int] = field(default_factory=dict)
    measured_at_s: int | None = None

    @classmethod
    def of(cls, owners: Iterable[OwnerUse]) -> MeasuredUse:
        """What was written down of all owners at the last measurement."""
        owners = tuple(owners)
        if not owners:
            return NOTHING_MEASURED
        by_group: Counter[int] = Counter()
        for one in owners:
            by_group[one.gid] += one.used_cpu_centi_s
        by_owner = {one.owner: one.used_cpu_centi_s for one in owners}
        return cls(owners, by_owner, dict(by_group), max(one.measured_at_s for one in owners))


NOTHING_MEASURED = MeasuredUse()


class Occupant(Struct, frozen=True, gc=False):
    """What one VM takes of its host, for whom, and since when it has done so: not before `since_s`."""

    gid: int
    uid: int
    group_name: str
    user_name: str
    cpu_centi: int
    memory_mib: int
    since_s: int

    @property
    def owner(self) -> Owner:
        """The group's id and the user's."""
        return self.gid, self.uid


class Departed(Struct, frozen=True, gc=False):
    """An occupant that has left, was given to another owner or was resized, not after `until_s`."""

    occupant: Occupant
    until_s: int


class Occupants(Struct, frozen=True):
    """Who was seen on a host at `seen_at_s`, by VM id, and who was and has left since use was measured."""

    seen_at_s: int
    present: Mapping[int, Occupant] = field(default_factory=dict)
    departed: tuple[Departed, ...] = ()
