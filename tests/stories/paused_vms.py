"""What owners have paused, by the states that VMs were in and by what was asked of them: that stays so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.stories.group_rules import DAEMON

PENDING, ON_HOLD, RUNNING, SUSPENDED, POWERED_OFF = "1/0", "2/0", "3/3", "5/0", "8/0"


@dataclass
class PausedVms:
    """`left`: paused when they left their hosts, and not resumed since. `undeployed`: the daemon's calls by which what
    was powered off left."""

    left: set[int] = field(default_factory=set)
    undeployed: list[dict[str, Any]] = field(default_factory=list)
    _at_rest_by_us: set[int] = field(default_factory=set)

    def note(self, calls: Sequence[dict[str, Any]], states: Mapping[int, str]) -> None:
        """What was called since the last time; `states` are those in which the daemon found the VMs."""
        acted = [one for one in calls if one["method"] == "one.vm.action" and not one["code"]]
        for call in acted:
            action, vm_id = call["arguments"]
            if call["user"] != DAEMON and action in ("stop", "undeploy"):
                self.left.add(vm_id)
        self.left -= {vm_id for vm_id, state in states.items() if state in (PENDING, ON_HOLD, RUNNING)}
        for call in acted:
            if call["user"] == DAEMON:
                self._note_own(call, states)

    def _note_own(self, call: dict[str, Any], states: Mapping[int, str]) -> None:
        action, vm_id = call["arguments"]
        if action == "suspend":
            self._at_rest_by_us.add(vm_id)
        elif action == "undeploy" and states[vm_id] == POWERED_OFF:
            self.undeployed.append(call)
            self.left.add(vm_id)
        elif action == "stop" and states[vm_id] == SUSPENDED and vm_id not in self._at_rest_by_us:
            self.left.add(vm_id)
        elif action == "resume":
            self._at_rest_by_us.discard(vm_id)
