"""What every owned object starts with: ID, owner, NAME and PERMISSIONS."""

from __future__ import annotations

from one_preempt.simulation.emulator.xml_writing import plain
from one_preempt.simulation.simulated_cloud.objects import SimOwned, SimPermissions


def owner_and_name(thing: SimOwned) -> str:
    """ID, UID, GID, UNAME, GNAME and NAME."""
    return (
        f"<ID>{thing.id}</ID><UID>{thing.uid}</UID><GID>{thing.gid}</GID>{plain('UNAME', thing.uname)}"
        f"{plain('GNAME', thing.gname)}{plain('NAME', thing.name)}"
    )


def permissions(bits: SimPermissions) -> str:
    """PERMISSIONS."""
    return (
        f"<PERMISSIONS><OWNER_U>{bits.owner_u:d}</OWNER_U><OWNER_M>{bits.owner_m:d}</OWNER_M>"
        f"<OWNER_A>{bits.owner_a:d}</OWNER_A><GROUP_U>{bits.group_u:d}</GROUP_U><GROUP_M>{bits.group_m:d}</GROUP_M>"
        f"<GROUP_A>{bits.group_a:d}</GROUP_A><OTHER_U>{bits.other_u:d}</OTHER_U><OTHER_M>{bits.other_m:d}</OTHER_M>"
        f"<OTHER_A>{bits.other_a:d}</OTHER_A></PERMISSIONS>"
    )


def head(thing: SimOwned) -> str:
    """Owner, name and permissions, as most objects start."""
    return owner_and_name(thing) + permissions(thing.permissions)
