"""What the administrator chose about image staging: whether it is done, by which policy, and within which bounds."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from one_preempt.core.image_staging.edf_jit import POLICY as EDF_JIT
from one_preempt.core.image_staging.policy import ImageStagingPolicy
from one_preempt.core.model.image_transfer import ImageBounds
from one_preempt.core.model.infrastructure import Datastore

_BITS_PER_MIB = 8 * 1024 * 1024


class ImageStagingMode(StrEnum):
    """ADVISE says what would be ordered; ACT orders, and refuses what is late. Where it is off there are no rules."""

    ADVISE = "advise"
    ACT = "act"


class ImageStagingRules(Struct, frozen=True):
    """The bounds within which `policy` is asked. All times in whole seconds.

    Attributes:
        mode: Whether transfers are ordered, or only said.
        policy: When transfers have the link; one that plans slots.
        link_megabit_per_s: The rate of the one link that leads from the images' store to the hosts.
        quantum_s: A transfer has the link for a multiple of this.
        pool_mib: The most that images may take on a host, in MiB; None: no limit.
        margin_s: An image is to be there so long before the start for which it is.
        kept_after_start_s: For so long after a start its image is not removed: VMs may still be made from it.
        attempts: How often a transfer is ordered for one start before it is left to oned.
        retry_delay_s: Pause before one that failed is ordered again.
        cached_only: Only images of datastores that hosts cache can be brought; all others are left to oned.
        ahead_s: So long before a start that is expected, and was not promised exactly, its images may come while the
            link has nothing else to do; None: they do not.
    """

    mode: ImageStagingMode = ImageStagingMode.ACT
    policy: ImageStagingPolicy = EDF_JIT
    link_megabit_per_s: int = 1000
    quantum_s: int = 1
    pool_mib: int | None = None
    margin_s: int = 30
    kept_after_start_s: int = 300
    attempts: int = 3
    retry_delay_s: int = 15
    cached_only: bool = False
    ahead_s: int | None = None

    @property
    def bounds(self) -> ImageBounds | None:
        """What the recount has to know of them; None where nothing is ordered."""
        if not self.acts:
            return None
        return ImageBounds(
            self.link_megabit_per_s,
            self.quantum_s,
            self.pool_mib,
            self.cached_only,
            self.policy.keeps_deadlines,
            self.ahead_s,
        )

    @property
    def acts(self) -> bool:
        """Are transfers ordered, and reservations refused for them?"""
        return self.mode is ImageStagingMode.ACT

    def can_bring_from(self, datastore: Datastore | None) -> bool:
        """Images of a datastore can be brought at all, as far as it is known."""
        return not self.cached_only or (datastore is not None and datastore.is_cached_on_hosts)

    def transfer_s(self, size_mib: int) -> int:
        """For how long a transfer has the link: whole quanta, one at least."""
        per_second = self.link_megabit_per_s * 1_000_000 * self.quantum_s
        return max(1, -(-size_mib * _BITS_PER_MIB // per_second)) * self.quantum_s
