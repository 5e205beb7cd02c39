"""The act: hosts that nobody needs sleep, are woken for a request, and sleep again when it has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from one_preempt.configuration.chosen_policies import host_power
from one_preempt.core.energy.power_model import HostPower
from one_preempt.core.model.host import HostState
from one_preempt.entrypoints.demo.checks import checks_of_every_act
from one_preempt.entrypoints.demo.reservation import TEMPLATE
from one_preempt.entrypoints.demo.stage import ASLEEP, AWAKE, ENDED, RUNNING, Stage
from one_preempt.entrypoints.demo.story import Check, Ending, Narration, listed

EXTERNAL_USER, LOCAL_USER = "external1", "local1"
CLIMATE, ASSAY = "climate", "assay"
CLIMATE_VMS, ASSAY_VMS = 3, 6
QUIET_S, WORKS_S = 60, 30
SLEEPERS = ("node1", "node2")
MWS_PER_WH = 3_600_000


class Meter(Struct):
    """What the machines took, second by second, beside what they had taken always on; in milliwatt-seconds.

    `harm` counts the seconds in which a machine without power was not OFFLINE, or had a VM.
    """

    stage: Stage
    model: HostPower
    taken_mws: int = 0
    always_on_mws: int = 0
    harm: int = 0

    def note(self) -> None:
        """A second has passed."""
        for number, host in enumerate(self.stage.cloud.hosts()):
            on_mw = self.model.curve.power_mw(host.vms, self.stage.cpus(number))
            self.always_on_mws += on_mw
            if not host.has_power:
                self.taken_mws += self.model.off_mw
                self.harm += host.state is not HostState.OFFLINE or host.vms > 0
            else:
                boots = host.state in (HostState.OFFLINE, HostState.INIT)
                self.taken_mws += self.model.boot_mw if boots else on_mw

    @property
    def saved_percent(self) -> float:
        """Of what always-on hosts take."""
        return 100 * (1 - self.taken_mws / self.always_on_mws)


def play(stage: Stage) -> Ending:
    """Play the act; what must hold at its end."""
    meter = Meter(stage, host_power(stage.settings.power.model))
    stage.on_tick = meter.note
    climate = _idle_hosts_go_to_sleep(stage)
    assay, asked_at_s, woken_at_s = _a_request_wakes_them(stage)
    stage.tell(Narration("The assay is over. Nobody needs the two hosts any more, and they go to sleep again."))
    stage.terminate(LOCAL_USER, assay, "the assay is over")
    stage.until("the assay has ended", lambda: stage.all_are(ENDED, assay))
    stage.until("both hosts sleep again", lambda: _all(stage, ASLEEP))
    stage.pass_time(QUIET_S)
    stage.tell_machines()
    return Ending(tuple(_checks(stage, meter, climate, assay, asked_at_s, woken_at_s)))


def _idle_hosts_go_to_sleep(stage: Stage) -> list[int]:
    stage.tell(
        Narration(
            f"An external user runs {CLIMATE_VMS} VMs on one of three hosts. The other two have nothing to do. Each is "
            "disabled, seen to be empty, put OFFLINE, seen to be empty again, and only then switched off."
        )
    )
    lease = f'TYPE = "BE-SUSPENDABLE", NAME = "{CLIMATE}", SIZE = "{CLIMATE_VMS}"'
    wish = f"{CLIMATE_VMS} x 1 CPU, BE-SUSPENDABLE"
    climate = stage.submit(EXTERNAL_USER, CLIMATE, _templates(CLIMATE, CLIMATE_VMS, lease), wish)
    stage.until("the external lease runs", lambda: stage.all_are(RUNNING, climate))
    stage.until("the idle hosts sleep", lambda: _all(stage, ASLEEP))
    stage.tell_machines()
    stage.pass_time(QUIET_S)
    return climate


def _a_request_wakes_them(stage: Stage) -> tuple[list[int], int, int]:
    """A request that needs the sleeping hosts; its VMs, when it was made, and when the first host was woken."""
    stage.tell(
        Narration(
            f"A local user asks for {ASSAY_VMS} VMs, to start together. One CPU is free: both hosts are woken. "
            f"They boot for {stage.settings.power.model.boot_s} s, and nothing is placed there before OpenNebula "
            "monitors them."
        )
    )
    asked_at_s = stage.now_s
    lease = f'TYPE = "DC-NON-PREEMPTABLE", NAME = "{ASSAY}", SIZE = "{ASSAY_VMS}"'
    wish = f"{ASSAY_VMS} x 1 CPU, all or none"
    assay = stage.submit(LOCAL_USER, ASSAY, _templates(ASSAY, ASSAY_VMS, lease), wish)
    stage.until("a host is woken", lambda: any(stage.power_of(host) != ASLEEP for host in SLEEPERS))
    woken_at_s = stage.now_s
    stage.until("both hosts are back", lambda: _all(stage, AWAKE))
    stage.until("the request runs", lambda: stage.all_are(RUNNING, assay))
    stage.tell_machines()
    stage.pass_time(WORKS_S)
    return assay, asked_at_s, woken_at_s


def _templates(name: str, vms: int, lease: str) -> list[str]:
    return [TEMPLATE.format(name=name, number=number, memory_mib=256, lease=lease) for number in range(1, vms + 1)]


def _all(stage: Stage, phase: str) -> bool:
    return all(stage.power_of(host) == phase for host in SLEEPERS)


def _checks(
    stage: Stage, meter: Meter, climate: Sequence[int], assay: Sequence[int], asked_at_s: int, woken_at_s: int
) -> Iterator[Check]:
    """What must hold at the end."""
    yield Check(f"{listed(SLEEPERS)} slept, were woken and sleep again", _all(stage, ASLEEP))
    yield Check("no machine was without power unless it was OFFLINE and empty", meter.harm == 0)
    woken_s = woken_at_s - asked_at_s
    yield Check(f"the hosts were woken {woken_s} s after the request", woken_s <= stage.settings.cycle_interval_s)
    boot_s = stage.settings.power.model.boot_s
    ran_s = max(stage.times(vm_id, RUNNING)[0] for vm_id in assay) - asked_at_s
    yield Check(f"its VMs ran {ran_s} s after the request, {boot_s} s of that for the boot", ran_s > boot_s)
    undisturbed = all(len(stage.times(vm_id, RUNNING)) == 1 for vm_id in climate)
    yield Check("nobody was preempted: the external lease kept running undisturbed", undisturbed)
    taken, always_on = meter.taken_mws / MWS_PER_WH, meter.always_on_mws / MWS_PER_WH
    saved = f"{meter.saved_percent:.0f} % saved"
    text = f"the hosts used {taken:.1f} Wh; always on, they would have used {always_on:.1f} Wh: {saved}"
    yield Check(text, meter.taken_mws < meter.always_on_mws)
    yield from checks_of_every_act(stage)
