"""What a section of the configuration or of a scenario is, and the kinds of values that several sections have."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

# Patterns end with \Z, for $ lets a line feed pass.
AbsolutePath = Annotated[str, msgspec.Meta(pattern=r"^/[^\x00-\x1f]+\Z")]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
NotNegative = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
EntryName = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
TypeName = Literal["BE-CANCELLABLE", "BE-SUSPENDABLE", "DC-MIGRATABLE", "DC-NON-PREEMPTABLE"]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mapping of the file whose keys are all known."""
