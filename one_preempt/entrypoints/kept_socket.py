"""What the daemon listens at, opened again where it is gone: somebody removed it, or another program had it first."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType

from one_preempt.errors import OnePreemptError

LOGGER = logging.getLogger("one_preempt")

# Listens inside the context, which gives a question: is our socket the one that stands in its place?
OpenSocket = Callable[[], AbstractContextManager[Callable[[], bool]]]


class KeptSocket:
    """Closed with its context. What stands against opening it is logged once, and the daemon goes on without."""

    def __init__(self, open_socket: OpenSocket, name: str = "the daemon's socket") -> None:
        self._open_socket = open_socket
        self._name = name
        self._opened = ExitStack()
        self._is_in_place: Callable[[], bool] | None = None
        self._trouble = ""

    def open(self) -> None:
        """Open the socket, for who is of no use without it. Raises `OnePreemptError`."""
        self._is_in_place = self._opened.enter_context(self._open_socket())

    def keep(self) -> None:
        """Open the socket unless it is open and in its place."""
        if self._is_in_place is not None:
            if self._is_in_place():
                return
            LOGGER.warning("%s was removed or replaced: it is opened again", self._name)
            self._is_in_place = None
            self._opened.close()
        try:
            self.open()
        except OnePreemptError as error:
            if str(error) != self._trouble:
                LOGGER.warning("%s; going on without it", error)
            self._trouble = str(error)
            return
        if self._trouble:
            LOGGER.info("%s is open now", self._name)
        self._trouble = ""

    def leave(self) -> None:
        """Leave the place to another daemon, which is the one that schedules and has to be asked."""
        self._is_in_place = None
        self._opened.close()

    def __enter__(self) -> KeptSocket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()
