"""The plan that a scheduler driver of 7.x prints. Standard library alone: an empty plan must cost nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

PLACEMENT_PLAN = -1


class PlanAction(NamedTuple):
    """One action; `nics` are (NIC id, network id) of the automatic NICs.

    oned rejects the whole plan where one of the first four is missing, and other operations than these two never
    complete or end oned itself.
    """

    vm_id: int
    operation: Literal["deploy", "migrate"]
    host_id: int
    datastore_id: int
    nics: tuple[tuple[int, int], ...] = ()


def plan_document(plan_id: int, actions: Iterable[PlanAction] = ()) -> str:
    """The XML of a plan: PLACEMENT_PLAN or the id of a cluster, and its actions, hosts taking turns."""
    return f"<PLAN><ID>{plan_id}</ID>{''.join(map(_action, in_turns(actions)))}</PLAN>"


def in_turns(actions: Iterable[PlanAction]) -> list[PlanAction]:
    """First one action of every host, then the second ones, and so on; among those, the order given.

    oned starts no action behind one whose host has as many under way as it may have.
    """
    seen: dict[int, int] = {}
    turns: dict[int, list[PlanAction]] = {}
    for action in actions:
        turn = seen[action.host_id] = seen.get(action.host_id, 0) + 1
        turns.setdefault(turn, []).append(action)
    return [action for turn in sorted(turns) for action in turns[turn]]


def _action(action: PlanAction) -> str:
    nics = "".join(
        f"<NIC><NIC_ID>{nic_id}</NIC_ID><NETWORK_ID>{network_id}</NETWORK_ID></NIC>"
        for nic_id, network_id in action.nics
    )
    return (
        f"<ACTION><VM_ID>{action.vm_id}</VM_ID><OPERATION>{action.operation}</OPERATION>"
        f"<HOST_ID>{action.host_id}</HOST_ID><DS_ID>{action.datastore_id}</DS_ID>{nics}</ACTION>"
    )
