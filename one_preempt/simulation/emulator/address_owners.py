"""Whose an allocated address is: oned writes one number, a mark for the kind of its owner above the owner's id."""

from __future__ import annotations

_A_VM = 0x10_0000_0000
_ID = 0xFFFF_FFFF
# An address that an administrator put on hold is leased to this VM.
ON_HOLD = -1


def holder_of(owner: int) -> int:
    """The id of the VM of an owner, or `ON_HOLD`; where it is no VM (a virtual router, ...) the number itself."""
    if owner & ~_ID != _A_VM:
        return owner
    return ON_HOLD if owner & _ID == _ID else owner & _ID


def owner_of(holder: int) -> int:
    """The number that oned writes for a holder; the other way of `holder_of`."""
    return holder if holder > _ID else _A_VM | holder & _ID


def is_vm(holder: int) -> bool:
    """Whether a holder is a VM."""
    return 0 <= holder <= _ID
