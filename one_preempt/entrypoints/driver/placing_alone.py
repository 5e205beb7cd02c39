"""What `place` does when the daemon does not answer. Everything that takes time to import is imported here."""

from __future__ import annotations

import time
from typing import BinaryIO, Literal

from one_preempt.adapters.driver.plan_document import PLACEMENT_PLAN, PlanAction, plan_document
from one_preempt.configuration.settings import Settings
from one_preempt.core.model.plan import Placement
from one_preempt.core.sched_message import OUR_MARK
from one_preempt.entrypoints.driver.driver_process import Messages
from one_preempt.entrypoints.driver.inputs import read_inputs
from one_preempt.entrypoints.driver.plain_placement import PlacementRound, place_waiting

PLACE_WITHIN_S = 20.0


def place_alone(settings: Settings, stream: BinaryIO, messages: Messages) -> str:
    """The placement plan of plain VMs. Raises `OnePreemptError` where nothing may be placed."""
    inputs = read_inputs(settings, stream, messages)
    deadline_s = time.monotonic() + PLACE_WITHIN_S
    found = place_waiting(
        inputs.document.snapshot,
        inputs.document.prematched,
        inputs.options,
        inputs.promised,
        lambda: time.monotonic() < deadline_s,
    )
    _tell(found, messages)
    return plan_document(PLACEMENT_PLAN, (_action(placed, found) for placed in found.placements))


def _tell(found: PlacementRound, messages: Messages) -> None:
    """Why VMs wait, each to its owner: marked as ours, so that the daemon replaces it once it is back."""
    for vm_id, text in sorted(found.refusals.items()):
        messages.error(OUR_MARK + text, vm_id)
    if found.left:
        messages.error(f"time was up after {PLACE_WITHIN_S:g} s: {found.left} VMs were not looked at in this round")


def _action(placed: Placement, found: PlacementRound) -> PlanAction:
    assert placed.datastore_id is not None, "place names a datastore"
    operation: Literal["deploy", "migrate"] = "migrate" if placed.vm_id in found.moved else "deploy"
    return PlanAction(placed.vm_id, operation, placed.host_id, placed.datastore_id, placed.nics)
