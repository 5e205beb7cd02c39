"""Terminating at once, for an administrator who does not want to wait for guests."""

from __future__ import annotations

from one_preempt.adapters.opennebula.enactor import OpenNebulaEnactor
from one_preempt.core.model.plan import Action, ActionKind


class HardTerminator(OpenNebulaEnactor):
    """Implements `ports.Enactor` for TERMINATE alone: the guest is not asked to shut down."""

    def _call(self, action: Action) -> None:
        if action.kind is not ActionKind.TERMINATE:
            raise ValueError(f"action {action.id}: only terminating is done at once, not {action.kind}")
        self._server.vm.action("terminate-hard", action.vm_id)
