"""Orders and questions to power control from a few threads, so that a slow controller holds nobody up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from msgspec import Struct

from one_preempt.adapters.power_control import programs
from one_preempt.adapters.power_control.wanted import NotWanted, demand_wanted, while_wanted
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerStatus
from one_preempt.core.model.power_sequence import HostPowerStep, PowerReport, PowerStepKind
from one_preempt.ports import PowerControl

LastLook = Callable[[HostPowerStep], str]


class _Put(Struct, frozen=True):
    """What was put, and when."""

    step: HostPowerStep
    at_s: int


class BackgroundPowerCalls:
    """Implements `ports.PowerCalls`. Each call has the time-outs of its control; one for each host at a time.

    Orders come first, then readings of hosts under way. Those of hosts at rest, which many that sleep may have to time
    out, come last and have half of the threads at most, so that there are some for the others. What takes a host's
    power is checked again once its turn has come.
    """

    def __init__(self, control: PowerControl, at_once: int, last_look: LastLook | None = None) -> None:
        """`last_look` says why a step is not to be carried out any more, '' where nothing stands against it.

        It is asked from several threads; None: nothing is checked.
        """
        self._control = control
        self._last_look = last_look
        self._threads = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="power")
        self._most_at_rest = max(1, at_once // 2)
        # How many pieces of work there are for the threads, none of which has found nothing to do.
        self._at_once, self._at_work = at_once, 0
        self._lock = Lock()
        # By host id, and each host in one of them only: what waits for its turn, what is asked, what was answered.
        self._orders: dict[int, _Put] = {}
        self._readings_under_way: dict[int, _Put] = {}
        self._readings_at_rest: dict[int, _Put] = {}
        self._asked: dict[int, _Put] = {}
        self._reports: dict[int, PowerReport] = {}
        # How often all was dropped: what was put before that is not begun, and not answered.
        self._drops = 0

    def is_busy(self, host_id: int) -> bool:
        """See `ports.PowerCalls`."""
        with self._lock:
            return host_id in self._orders or host_id in self._asked or host_id in self._reports

    def put(self, step: HostPowerStep, now_s: int) -> None:
        """Begin it as soon as its turn has come. A reading that waits is put again where it stands, unless the host has
        come to be under way, or at rest."""
        with self._lock:
            rank = self._rank_of(step)
            for other in self._ranks():
                if other is not rank:
                    other.pop(step.host_id, None)
            rank[step.host_id] = _Put(step, now_s)
            if self._at_work >= self._at_once:
                return  # each looks for more before it ends
            self._at_work += 1
        self._threads.submit(self._work)

    def take_reports(self) -> Sequence[PowerReport]:
        """What was answered since the last call, by host id."""
        with self._lock:
            reports, self._reports = self._reports, {}
        return [reports[host_id] for host_id in sorted(reports)]

    def drop(self) -> None:
        """See `ports.PowerCalls`. A host is busy as long as its controller is asked, whoever waits for the answer."""
        with self._lock:
            self._drops += 1
            self._forget_waiting()
            self._reports.clear()
        programs.end_all()

    def close(self) -> None:
        """Begin nothing more, and wait for nobody: what is under way ends with its time-out."""
        with self._lock:
            self._forget_waiting()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ranks(self) -> tuple[dict[int, _Put], ...]:
        """What waits, in the order of its turns."""
        return self._orders, self._readings_under_way, self._readings_at_rest

    def _rank_of(self, step: HostPowerStep) -> dict[int, _Put]:
        if step.kind.switches:
            return self._orders
        return self._readings_at_rest if step.at_rest else self._readings_under_way

    def _forget_waiting(self) -> None:
        for rank in self._ranks():
            rank.clear()

    def _work(self) -> None:
        """Answer one after the other while there is one that may begin: whoever waits finds a thread, or is found."""
        while (begun := self._next()) is not None:
            put, drops = begun
            report = self._carried_out(put.step, put.at_s, drops)
            with self._lock:
                del self._asked[put.step.host_id]
                if report is not None and drops == self._drops:
                    self._reports[put.step.host_id] = report

    def _next(self) -> tuple[_Put, int] | None:
        """None where the thread that asks has nothing to do, and ends its work."""
        with self._lock:
            waiting = next(filter(None, self._ranks()), None)
            if waiting is None or (waiting is self._readings_at_rest and not self._may_ask_one_more_at_rest()):
                self._at_work -= 1
                return None
            host_id = next(iter(waiting))
            self._asked[host_id] = waiting.pop(host_id)
            return self._asked[host_id], self._drops

    def _may_ask_one_more_at_rest(self) -> bool:
        at_rest = sum(self._rank_of(put.step) is self._readings_at_rest for put in self._asked.values())
        return at_rest < self._most_at_rest

    def _carried_out(self, step: HostPowerStep, now_s: int, drops: int) -> PowerReport | None:
        """What came of it; None where it was dropped before anything was given out."""
        try:
            with while_wanted(lambda: drops == self._drops):
                demand_wanted()
                refused = self._refused(step, now_s)
                demand_wanted()
                return refused or answer_of(self._control, step, now_s)
        except NotWanted:
            return None
        except Exception as error:  # noqa: BLE001, as the host would be busy for good without an answer
            text = f"{step.id}: a defect, {type(error).__name__}: {error}"
            return PowerReport(step.host_id, step.kind, PowerOutcome(PowerAnswer.NO_ANSWER, text), now_s)

    def _refused(self, step: HostPowerStep, now_s: int) -> PowerReport | None:
        """What it is answered where the host is not as it was when the step was put, or nobody can tell."""
        if self._last_look is None or not step.expected_states:
            return None
        why = self._last_look(step)
        return (
            PowerReport(step.host_id, step.kind, PowerOutcome(PowerAnswer.CHANGED_HANDS, why), now_s) if why else None
        )


def answer_of(control: PowerControl, step: HostPowerStep, now_s: int) -> PowerReport:
    """Put one step to power control, and wait for the answer."""
    status: PowerStatus | None = None
    match step.kind:
        case PowerStepKind.SWITCH_ON:
            outcome = control.switch_on(step.host_name)
        case PowerStepKind.SWITCH_OFF:
            outcome = control.switch_off(step.host_name, hard=False)
        case PowerStepKind.CUT_POWER:
            outcome = control.switch_off(step.host_name, hard=True)
        case PowerStepKind.READ_POWER:
            reading = control.status(step.host_name)
            outcome, status = reading.outcome, reading.status
        case kind:
            outcome = PowerOutcome(PowerAnswer.MISCONFIGURED, f"{step.id}: {kind} is not for power control")
    return PowerReport(step.host_id, step.kind, outcome, now_s, status)
