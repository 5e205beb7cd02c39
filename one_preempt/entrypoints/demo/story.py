"""What a demonstration tells, step by step, as values: a screen shows them, `--json` writes them down."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TypeAlias

import msgspec
from msgspec import Struct

from one_preempt.explanation.explain import JsonObject


class Narration(Struct, frozen=True):
    """What happens next, in a sentence or two."""

    text: str


class Machine(Struct, frozen=True):
    """A host and what is in each of its CPUs: the name of a lease, or nothing. `power` is on, or where it stands."""

    name: str
    cpus: tuple[str, ...]
    power: str = "on"


class Machines(Struct, frozen=True):
    """The cloud at one instant, in seconds since the epoch."""

    at_s: int
    machines: tuple[Machine, ...]


class Event(Struct, frozen=True):
    """One line of the time line: something that was observed, or a call that was made.

    What happens to a host has its name in place of the lease's, and no VMs. `by` is who did it and `why` the reason
    given; a `detail` is worth no line on a screen.
    """

    at_s: int
    lease: str
    vm_ids: tuple[int, ...]
    change: str
    by: str
    why: str = ""
    detail: bool = False


class Candidate(Struct, frozen=True):
    """One candidate set by the names of its leases, and the policies that choose it."""

    leases: tuple[str, ...]
    vms: int
    overhead_s: float
    chosen_by: tuple[str, ...]


class Decision(Struct, frozen=True):
    """Whose leaving would make room, what it would cost, and whom each policy would choose.

    `candidates` are cheapest first, `candidate_count` counts those that are not listed as well. `choices` holds the
    leases that each policy sends out: none where it preempts nobody. `victims` are VM ids.
    """

    policy: str
    preemptor: str
    candidates: tuple[Candidate, ...]
    candidate_count: int
    median_overhead_s: float
    choices: dict[str, tuple[str, ...]]
    chosen: Candidate
    victims: tuple[int, ...]
    optimal: bool
    sentence: str


class Doing(StrEnum):
    """What a lease does for a while. MOVING: its VMs boot, or their memory is being saved or read back."""

    RUNNING = "running"
    RESERVED = "reserved"
    MOVING = "moving"
    WAITING = "waiting"


class Stretch(Struct, frozen=True):
    """From when until when a lease did something, in seconds since the epoch."""

    lease: str
    start_s: int
    end_s: int
    doing: Doing


class Chart(Struct, frozen=True):
    """What the leases did between two instants, in the order of their rows."""

    from_s: int
    until_s: int
    stretches: tuple[Stretch, ...]


class Check(Struct, frozen=True):
    """Something that must hold at the end."""

    text: str
    holds: bool


class Ending(Struct, frozen=True):
    """Whether it ended well."""

    checks: tuple[Check, ...]

    @property
    def well(self) -> bool:
        """Every check holds."""
        return all(check.holds for check in self.checks)


Step: TypeAlias = Narration | Machines | Event | Decision | Chart | Ending
Tell: TypeAlias = Callable[[Step], None]


def listed(names: Iterable[str]) -> str:
    """Names as a person lists them: ``a, b and c``."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def step_document(step: Step) -> JsonObject:
    """A step as a plain object; `kind` says which it is."""
    return {"kind": type(step).__name__.lower(), **msgspec.to_builtins(step)}
