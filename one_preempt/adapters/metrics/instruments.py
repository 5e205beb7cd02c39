"""The metrics, by their names, and how they are written out: the only file that knows the library for it.

Names have their units last, as Prometheus wants them. What labels tell apart are words of the code, a bounded number of
each; no VM, user or host is among them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    Summary,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from one_preempt import __version__
from one_preempt.adapters.metrics.observed import Observed
from one_preempt.core.model.image_transfer import ImageOrderKind, TransferPhase
from one_preempt.core.model.lease import LeaseState, LeaseType, PreemptionMethod
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.power_sequence import PowerPhase
from one_preempt.core.model.reservation import Verdict

PREFIX = "one_preempt"
CYCLE_RESULTS = ("done", "decided-again", "refused", "standing-by", "failed", "defect")
PREEMPTION_OUTCOMES = ("fulfilled", "given-up")
RESERVATION_KINDS = ("firm", "promise")
SWITCH_RESULTS = ("on", "off", "failed")
IMAGE_RESULTS = (TransferPhase.DONE, TransferPhase.FAILED)
LIVE_STATES = tuple(state for state in LeaseState if state is not LeaseState.ENDED)
# A VM's call is accepted, refused, not answered, or not made; only power control holds calls back.
CALL_OUTCOMES = (Outcome.ACCEPTED, Outcome.REFUSED, Outcome.UNKNOWN, Outcome.DROPPED)
CYCLE_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
# A page is written at most so often, however many ask.
FRESH_S = 1.0

# What is seen now; None where nothing is: no cycle has ended yet, it failed, or another front-end schedules.
Look = Callable[[], Observed | None]


class Instruments:
    """What is counted as it happens, one attribute a family, beside what `look` sees when the page is written."""

    def __init__(self, look: Look) -> None:
        # Otherwise each counter has a second series, of when it was made.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._lock = threading.Lock()
        self._page = b""
        self._is_stale = True
        self._written_at_s = 0.0
        build = Info(f"{PREFIX}_build", "The version of one_preempt.", registry=self._registry)
        build.info({"version": __version__})
        self.cycles = self._counter(
            "cycles",
            "Scheduling cycles: done; decided-again: a plan was refused by its own check, and what is sound of another "
            "one was done; refused: nothing was; standing-by: another front-end schedules; failed: the cause is in "
            "the log; defect: so is the traceback.",
            {"result": CYCLE_RESULTS},
        )
        self.cycle_duration = Histogram(
            f"{PREFIX}_cycle_duration_seconds",
            "How long cycles took in which a plan was made, from reading the cloud to the last call.",
            buckets=CYCLE_BUCKETS_S,
            registry=self._registry,
        )
        self.last_cycle_end = Gauge(
            f"{PREFIX}_last_cycle_end_timestamp_seconds",
            "When a cycle with this result ended last, in seconds since the epoch.",
            ["result"],
            registry=self._registry,
        )
        self.leads = Gauge(
            f"{PREFIX}_leads",
            "1 where this daemon is the one that schedules, by its last cycle; 0 where it stands by, or that failed.",
            registry=self._registry,
        )
        self.actions = self._counter(
            "actions",
            "Calls for VMs, by what became of them: unknown: no answer came; dropped: the VM was not as expected just "
            "before, so nothing was called.",
            {"kind": tuple(ActionKind), "outcome": CALL_OUTCOMES},
        )
        self.preemptions_decided = self._counter("preemptions_decided", "Preemptions that were begun.", {})
        self.preemptions_ended = self._counter(
            "preemptions_ended", "Preemptions that are over.", {"outcome": PREEMPTION_OUTCOMES}
        )
        self.victims = self._counter(
            "victims", "VMs chosen to leave by preemptions that were begun.", {"method": tuple(PreemptionMethod)}
        )
        self.verdicts = self._counter(
            "verdicts",
            "Answers to START and DEADLINE.",
            {"verdict": (Verdict.ACCEPTED, Verdict.REFUSED, Verdict.CONVERTED)},
        )
        self.hosts_switched = self._counter(
            "hosts_switched",
            "Hosts handed over that were seen to have come up (on), fallen asleep (off), or failed to obey.",
            {"result": SWITCH_RESULTS},
        )
        self.image_orders = self._counter(
            "image_orders",
            "Orders for images on hosts that came to an end: to bring one there (stage), or to remove one (drop).",
            {"kind": tuple(ImageOrderKind), "result": IMAGE_RESULTS},
        )
        self.oned_call_duration = Summary(
            f"{PREFIX}_oned_call_duration_seconds",
            "How long requests to oned took, until the answer was read or none came.",
            ["method"],
            registry=self._registry,
        )
        self.oned_unanswered = Counter(
            f"{PREFIX}_oned_calls_unanswered_total",
            "Requests to oned without a usable answer.",
            ["method"],
            registry=self._registry,
        )
        self._registry.register(_Seen(look))
        ProcessCollector(registry=self._registry)

    def count_call(self, method: str, duration_s: float, answered: bool) -> None:
        """A request to oned has ended; safe between threads, as all that is counted here."""
        self.oned_call_duration.labels(method).observe(duration_s)
        # With the first call of a method its series begins, at 0.
        self.oned_unanswered.labels(method).inc(not answered)

    def page(self) -> bytes:
        """All metrics in the text format, since the last cycle and at most `FRESH_S` old."""
        with self._lock:
            now_s = time.monotonic()
            if self._is_stale or now_s - self._written_at_s >= FRESH_S:
                self._is_stale = False
                self._page = generate_latest(self._registry)
                self._written_at_s = now_s
            return self._page

    def cycle_ended(self) -> None:
        """The next page is written anew. Waits for nobody who writes one now."""
        self._is_stale = True

    def _counter(self, name: str, meaning: str, labels: Mapping[str, Iterable[str]]) -> Counter:
        """A counter with all its series from the beginning, so that the first event of a kind counts as a rise."""
        counter = Counter(f"{PREFIX}_{name}_total", meaning, list(labels), registry=self._registry)
        if labels:
            for values in product(*labels.values()):
                counter.labels(*values)
        return counter


class _Seen(Collector):
    """What is looked up, not counted: written out only where something is seen."""

    def __init__(self, look: Look) -> None:
        self._look = look

    def collect(self) -> Iterator[Metric]:
        """The gauges of what is seen now."""
        seen = self._look()
        if seen is None:
            return
        yield _single("paused", "1 while preempting and power actions are stopped.", seen.paused)
        leases = _gauge("leases", "Leases; a VM without lease attributes is one of its own.", "type", "state")
        for kind, state in product(LeaseType, LIVE_STATES):
            leases.add_metric((kind, state), seen.leases.get((kind, state), 0))
        yield leases
        yield _by("refused_leases", "Leases that wait on HOLD, refused.", "code", seen.refused_leases)
        yield _by("waiting_leases", "Leases that got nothing in the last cycle.", "code", seen.waiting_leases)
        yield _by(
            "oldest_wait_start_timestamp_seconds",
            "Since when the lease that waits longest does, its arrival or last preemption, in seconds since the epoch.",
            "code",
            seen.wait_starts_s,
        )
        yield _by(
            "reservations",
            "Stays that leases are promised: firm ones are kept, a promise of the queue may change.",
            "kind",
            {kind: seen.reservations.get(kind, 0) for kind in RESERVATION_KINDS},
        )
        late = "Accepted leases that wait though their START or DEADLINE is over."
        yield _single("late_reservations", late, seen.late_reservations)
        yield _single("open_preemptions", "Preemptions under way.", seen.open_preemptions)
        advised = "Preemptions that preemption: act would begin now."
        yield _single("advised_preemptions", advised, seen.advised_preemptions)
        under_way = "Orders for images on hosts of which the end was not heard yet."
        yield _single("image_orders_under_way", under_way, seen.image_orders_under_way)
        if seen.hosts:
            yield _by(
                "hosts",
                "Hosts that are handed over, by where their power stands; awake are also those that an administrator "
                "has taken out of use.",
                "phase",
                {phase: seen.hosts.get(phase, 0) for phase in PowerPhase},
            )
        if seen.power_w is not None:
            yield _single("hosts_power_watts", "What these hosts draw, by power.model and power.models.", seen.power_w)
        if seen.always_on_power_w is not None:
            always_on = "What they would draw with the same load, were all of them on."
            yield _single("hosts_always_on_power_watts", always_on, seen.always_on_power_w)


def _gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", meaning, labels=labels)


def _single(name: str, meaning: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", meaning, value=value)


def _by(name: str, meaning: str, label: str, values: Mapping[str, int]) -> GaugeMetricFamily:
    family = _gauge(name, meaning, label)
    for word, value in sorted(values.items()):
        family.add_metric((word,), value)
    return family
