"""Hooks as oned keeps them; the simulated cloud runs none."""

from __future__ import annotations

from one_preempt.simulation.simulated_cloud.authorization import refusal
from one_preempt.simulation.simulated_cloud.calls.vms import parsed
from one_preempt.simulation.simulated_cloud.cloud_state import CloudState, found, oned_call
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import Caller, TemplateDict

_DEMANDED = ("NAME", "TYPE", "COMMAND")


class HookCalls(CloudState):
    """one.hook.allocate, one.hook.delete, one.hookpool.info; for administrators alone."""

    @oned_call
    def hook_allocate(self, caller: Caller, template: str) -> int:
        """Add a hook; its name must be new. Of a VM's state hook only the form ON = CUSTOM is known here."""
        self._demand_administrator(caller)
        entries = parsed(template, ErrorCode.INTERNAL)
        for name in _DEMANDED:
            if not entries.get(name):
                raise OnedError(ErrorCode.ALLOCATE, f"No {name} in template for Hook.")
        if entries.pop("ON", None) != ["CUSTOM"] and entries.get("RESOURCE") == ["VM"]:
            raise OnedError(ErrorCode.ALLOCATE, "ON of a state hook for VMs must be CUSTOM.")
        if any(hook["NAME"] == entries["NAME"] for hook in self.hooks.values()):
            raise OnedError(ErrorCode.ALLOCATE, "NAME is already taken.")
        hook_id = max(self.hooks, default=-1) + 1
        self.hooks[hook_id] = entries
        return hook_id

    @oned_call
    def hook_delete(self, caller: Caller, hook_id: int) -> int:
        """Forget a hook."""
        self._demand_administrator(caller)
        found(self.hooks, hook_id, "hook")
        del self.hooks[hook_id]
        return hook_id

    def hook_pool(self, caller: Caller) -> dict[int, TemplateDict]:
        """All hooks."""
        self._demand_administrator(caller)
        return self.hooks

    @staticmethod
    def _demand_administrator(caller: Caller) -> None:
        if not caller.is_admin:
            raise refusal(caller, "Not authorized to perform ADMIN HOOK")
