"""Metrics beside the daemon: counted and served where the configuration says so, and never in its way.

What keeps them from being counted or served is said once, and the daemon schedules on without them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from one_preempt.composition import open_metrics_server
from one_preempt.configuration.settings import Settings
from one_preempt.entrypoints.kept_socket import KeptSocket
from one_preempt.errors import OnePreemptError
from one_preempt.scheduling_cycle import CycleReport

if TYPE_CHECKING:
    from one_preempt.adapters.opennebula.transport import OnCall
    from one_preempt.entrypoints.cycle_metrics import CycleMetrics

LOGGER = logging.getLogger("one_preempt")


class DaemonMetrics:
    """What the daemon tells of its cycles, for metrics; closed with its context. Raises nothing."""

    def __init__(self, settings: Settings) -> None:
        self._listen = settings.metrics.listen
        self._opened = ExitStack()
        self._counted: CycleMetrics | None = None
        self._page_failed = False
        self._port = self._opened.enter_context(KeptSocket(self._open, "the port for metrics"))
        if self._listen is not None:
            self._begin(settings)

    @property
    def on_call(self) -> OnCall | None:
        """Is to be told of each request to oned; None where nobody counts them."""
        return self._call if self._counted is not None else None

    def keep(self) -> None:
        """Serve them, unless they are served already; or no more, where they are not counted any more."""
        if self._counted is not None:
            self._port.keep()
        else:
            self._port.leave()

    def report(self, report: CycleReport, duration_s: float) -> None:
        """A cycle was carried out."""
        self._count(lambda counted: counted.report(report, duration_s))

    def failed(self, *, defect: bool = False) -> None:
        """A cycle could not be carried out."""
        self._count(lambda counted: counted.failed(defect=defect))

    def page(self) -> bytes | None:
        """All metrics, as they are read; None where a defect keeps them from being written. Called in other threads."""
        counted = self._counted
        try:
            return counted.page() if counted is not None else None
        except Exception:
            if not self._page_failed:
                LOGGER.exception("metrics cannot be written, and are not served")
            self._page_failed = True
            return None

    def _call(self, method: str, duration_s: float, answered: bool) -> None:
        """A request to oned has ended, in whichever thread."""
        self._count(lambda counted: counted.count_call(method, duration_s, answered))

    def _begin(self, settings: Settings) -> None:
        from one_preempt.configuration.chosen_policies import power_rules
        from one_preempt.entrypoints.cycle_metrics import CycleMetrics

        try:
            self._counted = CycleMetrics(power_rules(settings.power).power_named)
        except OnePreemptError as error:
            LOGGER.warning("%s; going on without them", error)
        except Exception:
            LOGGER.exception("metrics cannot be counted; going on without them")

    def _open(self) -> AbstractContextManager[Callable[[], bool]]:
        assert self._listen is not None, "it is only kept where there is an address"
        return open_metrics_server(self._listen, self.page)

    def _count(self, count: Callable[[CycleMetrics], None]) -> None:
        counted = self._counted
        if counted is None:
            return
        try:
            count(counted)
        except Exception:
            # Numbers that are wrong are worse than none.
            LOGGER.exception("metrics could not be counted: there are none until the daemon is restarted")
            self._counted = None

    def __enter__(self) -> DaemonMetrics:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()
