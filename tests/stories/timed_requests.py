"""What people ask of time in a story: reservations, deadlines, service at once, a limit of suspensions."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any

from tests.stories.requests_told import TYPES, Requests
from tests.stories.world import SETTINGS

AT_ONCE = "now"
# Written in any of these zones it is the same instant.
ZONES = {"Z": 0, "+01:00": 3600, "-05:30": -19_800}


def settings_about_time(seed: int) -> dict[str, Any]:
    """The stories' configuration, with rules about time that are drawn from the seed; the rates are the cloud's.

    Some leases may overtake others in each of them: the judge asks only whether what was preempted would fit again.
    """
    chance = random.Random(seed + 2_000_000)
    return {
        **SETTINGS,
        "overhead": {"boot_s": 8, "shutdown_s": 12, "suspend_mib_per_s": 150, "resume_mib_per_s": 150, "pause_s": 3},
        "time": {
            "backfilling": chance.choice(["easy", "easy", "intermediate", "conservative"]),
            "suspension": chance.choice(["none", "serial-only", "all", "all"]),
            "least_run_before_suspension_s": chance.choice([0, 30]),
            "refused_reservation": chance.choice(["refuse", "queue"]),
            "preparation_margin_s": 5,
        },
    }


def written_duration(seconds: int) -> str:
    """As a LEASE attribute has it."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def written_instant(at_s: int, zone: str = "Z") -> str:
    """As a LEASE attribute has it, on the clocks of a zone."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_s + ZONES[zone])) + zone


@dataclass
class TimedRequests(Requests):
    """Requests of one story, with those about time. What is timed ends when the story calms down."""

    def reserved_request(self) -> str:
        """An advance reservation of one VM or of two that share a name."""
        user, kind = self._who()
        ahead_s, size = self.random.choice([20, 45, 90, 150]), self.random.choice([1, 1, 2])
        start = self._instant(ahead_s) if self.random.random() < 0.6 else f"+{written_duration(ahead_s)}"
        lease: dict[str, Any] = {"TYPE": kind, "START": start, **self._duration()}
        if size > 1:
            lease |= {"NAME": f"reserved{len(self.vms)}", "SIZE": size}
        vm_ids = [self._timed(user, lease, 1) for _ in range(size)]
        return f"{user} asks for {vm_ids} from {start} on, {ahead_s} s ahead"

    def deadline_request(self) -> str:
        """So much work until then; what may be moved may be done in pieces."""
        user = self.random.choice(["eva", "lea"])
        kind = "DC-NON-PREEMPTABLE" if user == "lea" else "DC-MIGRATABLE"
        takes_s, slack_s = self.random.choice([30, 90]), self.random.choice([30, 100, 200])
        deadline = self._instant(takes_s + slack_s)
        lease = {"TYPE": kind, "DURATION": written_duration(takes_s), "DEADLINE": deadline}
        return f"{user} asks for {self._timed(user, lease)} to be done by {deadline}, {takes_s} s with {slack_s} s left"

    def immediate_request(self) -> str:
        """At once or not at all."""
        user, kind = self._who()
        lease = {"TYPE": kind, "START": AT_ONCE, **self._duration()}
        return f"{user} asks for {self._timed(user, lease)} at once"

    def limited_request(self) -> str:
        """It may be suspended so often and no oftener."""
        limit = self.random.choice([0, 1, 2])
        lease = {"TYPE": "BE-SUSPENDABLE", "DURATION": written_duration(600), "MAX_SUSPENSIONS": limit}
        return f"eva asks for {self._timed('eva', lease)}, to be suspended {limit} times at most"

    def _who(self) -> tuple[str, str]:
        user = self.random.choice(["lea", "lea", "eva"])
        return user, "DC-NON-PREEMPTABLE" if user == "lea" else self.random.choice(TYPES)

    def _duration(self) -> dict[str, str]:
        seconds = self.random.choice([20, 60, 120, 0])
        return {"DURATION": written_duration(seconds)} if seconds else {}

    def _instant(self, ahead_s: int) -> str:
        return written_instant(self.world.emulator.now_s + ahead_s, self.random.choice(list(ZONES)))

    def _timed(self, user: str, lease: dict[str, Any], cpu: float | None = None) -> int | None:
        vm_id = self._submit(user, lease, cpu)
        if vm_id is not None:
            self.vms[vm_id].timed = True
        return vm_id
