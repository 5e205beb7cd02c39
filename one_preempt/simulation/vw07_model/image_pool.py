"""What a node keeps of the images that came to it (VW07 6.3, Algorithm 4), as time goes on.

A pool holds templates; VMs use one by copy-on-write, or by a copy of their own. What nobody will use is either removed
at the end of the last VM for which it came (the paper's pools), or kept until its room is needed (the cache of the
paper's testbed): then the least frequently used one goes first. Sizes are megabytes (10^6 bytes).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import replace


class Keeping(Enum):
    """For how long a template is kept."""

    UNTIL_LAST_END = "until the end of the last VM for which it came"
    UNTIL_EVICTED = "until room is needed, the least frequently used first"


class PoolRules(Struct, frozen=True):
    """How a pool is run.

    Attributes:
        limit_mb: What it may take on the node's disk; None: no limit.
        keeping: When templates go.
        copies: Each VM that uses a template has a copy of its own, which counts until the VM is gone; otherwise it
            reads the template, and what it writes is not counted.
    """

    limit_mb: int | None = None
    keeping: Keeping = Keeping.UNTIL_LAST_END
    copies: bool = False


class Template(Struct, frozen=True):
    """One image in a pool.

    Attributes:
        image, size_mb: Which, and how large.
        arrives_ms: From when on it can be used; its room is taken from the beginning of its transfer.
        expires_ms: The later end of the VMs for which it came.
        users: The ids of VMs that use it, or will.
        uses: How often a VM was to use it.
    """

    image: str
    size_mb: int
    arrives_ms: int
    expires_ms: int
    users: frozenset[int]
    uses: int


class ImagePool(Struct, frozen=True):
    """The templates of one node by their images. Every change gives a new pool."""

    rules: PoolRules = PoolRules()
    templates: Mapping[str, Template] = field(default_factory=dict)

    def is_there(self, image: str, start_ms: int) -> bool:
        """Will it be there for a VM that starts then, without a further transfer?"""
        found = self.templates.get(image)
        if found is None or found.arrives_ms > start_ms:
            return False
        return self.rules.keeping == Keeping.UNTIL_EVICTED or start_ms <= found.expires_ms

    def on_its_way(self, image: str, now_ms: int) -> Template | None:
        """What a transfer is bringing at the moment."""
        found = self.templates.get(image)
        return found if found is not None and found.arrives_ms > now_ms else None

    def joined(self, image: str, vm: int, end_ms: int) -> ImagePool | None:
        """A further VM uses a template that is there, or on its way; None where there is no room for its copy."""
        found = self.templates[image]
        grown = replace(found, users=found.users | {vm}, uses=found.uses + 1, expires_ms=max(found.expires_ms, end_ms))
        return self._with(grown)

    def brought(self, image: str, size_mb: int, arrives_ms: int, vm: int, end_ms: int) -> ImagePool | None:
        """A transfer begins that brings it for a VM until `end_ms`; None where it does not fit beside what is used."""
        before = self.templates.get(image)
        # What is there already under that name is replaced, and its users read what comes.
        users, uses = (before.users, before.uses) if before is not None else (frozenset[int](), 0)
        expires_ms = max(end_ms, before.expires_ms) if before is not None and before.users else end_ms
        return self._with(Template(image, size_mb, arrives_ms, expires_ms, users | {vm}, uses + 1))

    def left(self, vm: int) -> ImagePool:
        """The VM is gone."""
        kept = {
            image: replace(one, users=one.users - {vm}) if vm in one.users else one
            for image, one in self.templates.items()
        }
        return replace(self, templates=kept)

    def expired(self, now_ms: int) -> ImagePool:
        """Without the templates whose time is over and that nobody uses any more; a cache keeps them."""
        if self.rules.keeping == Keeping.UNTIL_EVICTED:
            return self
        kept = {image: one for image, one in self.templates.items() if one.users or one.expires_ms >= now_ms}
        return replace(self, templates=kept)

    def _with(self, wanted: Template) -> ImagePool | None:
        """With this template, and without others that have to go for it; None where that is not enough."""
        templates = {**self.templates, wanted.image: wanted}
        limit_mb = self.rules.limit_mb
        if limit_mb is None:
            return replace(self, templates=templates)
        over_mb = sum(map(self._taken_mb, templates.values())) - limit_mb
        for one in self._evictable(wanted.image):
            if over_mb <= 0:
                break
            del templates[one.image]
            over_mb -= one.size_mb
        return replace(self, templates=templates) if over_mb <= 0 else None

    def _evictable(self, wanted: str) -> list[Template]:
        """Least frequently used first; ties: the one that came first, then its name."""
        if self.rules.keeping == Keeping.UNTIL_LAST_END:
            return []
        unused = [one for one in self.templates.values() if not one.users and one.image != wanted]
        return sorted(unused, key=lambda one: (one.uses, one.arrives_ms, one.image))

    def _taken_mb(self, one: Template) -> int:
        return one.size_mb * (1 + len(one.users) if self.rules.copies else 1)
