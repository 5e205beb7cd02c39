"""What an experiment is, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

Cell = str | int | float | bool | tuple[int, ...] | None
Row = Mapping[str, Cell]


class Claim(Struct, frozen=True):
    """What a paper says, the figure it prints for it, ours, and whether ours says the same.

    `holds` is None where the run is too small to tell. A claim that does not hold fails the experiment where it is
    `required`; the document of the experiment says why the others may not.
    """

    text: str
    published: str
    ours: str
    holds: bool | None
    required: bool = True


class ExperimentResult(Struct, frozen=True):
    """`rows` are flat and all have the same columns; None stands where there is nothing to say.

    `pictures` are SVG by name.
    """

    name: str
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...] = ()
    pictures: Mapping[str, str] = field(default_factory=dict)


class Experiment(Protocol):
    """One table or figure of a paper. `run` takes the same steps and gives the same rows every time."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def description(self) -> str:
        """One line for people."""

    @property
    def paper(self) -> str:
        """Which paper, and which table or figure in it."""

    def run(self) -> ExperimentResult:
        """Ours beside the published."""
