"""What an experiment is, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

Cell = str | int | float | bool | tuple[int, ...] | None
Row = Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """`rows` are flat and all have the same columns; None stands where there is nothing to say."""

    name: str
    rows: tuple[Row, ...]


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
