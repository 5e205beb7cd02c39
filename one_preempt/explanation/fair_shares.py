"""How groups and users stand by fair share: for programs and for people.

Both only read values. Names come from users, so they enter as plain `Text`, never as markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from one_preempt.core.model.owner_use import MeasuredUse
from one_preempt.core.queue_order.fair_share import ONE_SHARE_MILLI, FairShare, GroupStanding, standings
from one_preempt.explanation.explain import JsonObject, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

CENTI_S_PER_CPU_HOUR = 360_000
NAME_LENGTH = 40


def groups_in_turn(use: MeasuredUse, order: FairShare) -> list[GroupStanding]:
    """Who has used anything, and who was given a share and has used nothing: these come first."""
    found = list(standings(use, order))
    known = {name for group in found for name in (group.name, str(group.gid))}
    idle = [
        GroupStanding(None, name, share_milli, 0, 0, ())
        for name, share_milli in sorted(order.shares_milli.items())
        if name not in known
    ]
    return [*idle, *found]


def shares_document(groups: Sequence[GroupStanding]) -> list[JsonObject]:
    """The groups in the order in which their leases are next, and so their users; `gid` null: it has used nothing."""
    all_shares, all_used = _sums(groups)
    return [
        {
            "position": position,
            "gid": group.gid,
            "group": group.name,
            "share": group.share_milli / ONE_SHARE_MILLI,
            "part_of_shares": round(group.share_milli / all_shares, 6),
            "used_cpu_hours": _hours(group.used_cpu_centi_s),
            "part_of_use": round(group.used_cpu_centi_s / all_used, 6) if all_used else 0.0,
            "used_cpu_hours_by_share": _hours(group.used_by_share),
            "users": [
                {
                    "position": place,
                    "uid": one.uid,
                    "user": one.user_name,
                    "used_cpu_hours": _hours(one.used_cpu_centi_s),
                }
                for place, one in enumerate(group.users, 1)
            ],
        }
        for position, group in enumerate(groups, 1)
    ]


def shares_tables(groups: Sequence[GroupStanding], title: str) -> Iterator[RenderableType]:
    """The groups, and below them the users; nothing where there is no group."""
    from rich.text import Text

    from one_preempt.explanation.tables import titled_table

    if not groups:
        return
    all_shares, all_used = _sums(groups)
    columns = ("next", "group", "share", "of all shares", "CPU hours", "of all use", "CPU hours by share")
    table = titled_table(title, *columns)
    for position, group in enumerate(groups, 1):
        table.add_row(
            str(position),
            Text(printable(group.name, NAME_LENGTH)),
            f"{group.share_milli / ONE_SHARE_MILLI:g}",
            _per_cent(group.share_milli, all_shares),
            _in_hours(group.used_cpu_centi_s),
            _per_cent(group.used_cpu_centi_s, all_used),
            _in_hours(group.used_by_share),
        )
    yield table
    users = titled_table("Users in their groups", "next", "group", "user", "CPU hours", "of the group's use")
    for group in groups:
        for position, one in enumerate(group.users, 1):
            users.add_row(
                str(position),
                Text(printable(group.name, NAME_LENGTH)),
                Text(printable(one.user_name, NAME_LENGTH)),
                _in_hours(one.used_cpu_centi_s),
                _per_cent(one.used_cpu_centi_s, group.used_cpu_centi_s),
            )
    if users.row_count:
        yield users


def _sums(groups: Sequence[GroupStanding]) -> tuple[int, int]:
    return sum(group.share_milli for group in groups), sum(group.used_cpu_centi_s for group in groups)


def _hours(cpu_centi_s: int) -> float:
    return round(cpu_centi_s / CENTI_S_PER_CPU_HOUR, 4)


def _in_hours(cpu_centi_s: int) -> str:
    return f"{cpu_centi_s / CENTI_S_PER_CPU_HOUR:.1f}"


def _per_cent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""
