"""The question that an image staging policy answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from one_preempt.core.image_staging.link import Link
from one_preempt.core.image_staging.transfer import StagedTransfer, Transfer


class ImageStagingPolicy(Protocol):
    """Says when transfers have the link."""

    @property
    def name(self) -> str:
        """What commands and results call it."""

    @property
    def description(self) -> str:
        """One line for people."""

    @property
    def plans_slots(self) -> bool:
        """Each transfer has the link alone in slots of its own, which are planned anew when others come.

        Where not, each begins by itself at an instant that is fixed, and those under way share the link.
        """

    @property
    def keeps_deadlines(self) -> bool:
        """Transfers that are all ready are late only if some of them are late in any order.

        Where not, one can become late because another one is wanted no more.
        """

    def stage(self, transfers: Sequence[Transfer], link: Link) -> tuple[StagedTransfer, ...]:
        """When each of the transfers has the link, in the order in which they begin.

        Some may end after their deadlines: whether that is refused is not the policy's question. The order of
        `transfers` does not matter.
        """
