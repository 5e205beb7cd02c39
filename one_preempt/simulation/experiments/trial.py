"""One simulation from its ingredients to its figures: what every experiment and `simulate` repeat."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.composition import simulated_cycle
from one_preempt.configuration.chosen_policies import chosen_queue_order, power_rules
from one_preempt.configuration.power_settings import PowerSettings
from one_preempt.configuration.settings import Settings
from one_preempt.core.model.modes_and_limits import Verification
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.probes.energy import EnergyMeter
from one_preempt.simulation.probes.figures import Figures, figures
from one_preempt.simulation.probes.probe import own_probes
from one_preempt.simulation.probes.watch import Seen, Watch
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.host_power import SimulatedHostPower
from one_preempt.simulation.simulated_cloud.objects import Caller
from one_preempt.simulation.simulator.owners import Origin, add_owners, with_rights_of_owners
from one_preempt.simulation.simulator.result import SimulationResult
from one_preempt.simulation.simulator.scheduler import Report
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import Site, build_cloud
from one_preempt.simulation.simulator.timed_fault import TimedFault
from one_preempt.simulation.workload.workload import Workload

OnProgress = Callable[[int], None]


class Trial(Struct, frozen=True):
    """What is simulated: a workload on a site by a scheduler with these settings.

    `policy` is a preemption policy instead of the configured one. `until_s`, since the start of the workload, ends the
    simulation early. `keeps_stays`: who was where is kept, for a Gantt chart. `furnish` is handed the cloud before
    anything happens; `faults` is what goes wrong.
    """

    workload: Workload
    site: Site
    settings: Settings
    policy: str | None = None
    verification: Verification = Verification.FULL
    until_s: int | None = None
    keeps_stays: bool = False
    furnish: Callable[[SimulatedCloud], None] | None = None
    faults: tuple[TimedFault, ...] = ()


class Played(Struct, frozen=True):
    """What came of a trial."""

    result: SimulationResult
    seen: Seen
    figures: Figures


def play(trial: Trial, on_progress: OnProgress | None = None) -> Played:
    """Simulate to the end; `on_progress` is told after each cycle how many VMs are gone."""
    own = own_probes()  # before anything is played: a faulty one is not to end what has taken hours
    cloud = build_cloud(trial.site)
    if trial.furnish is not None:
        trial.furnish(cloud)
    watch = Watch(cloud, trial.keeps_stays)
    machines = switched_machines(cloud, trial.settings.power)
    meter = EnergyMeter(cloud, machines) if machines is not None else None
    origin_ms = cloud.clock.now_ms

    def on_cycle(at_ms: int, report: Report) -> None:
        watch.on_cycle(at_ms, report)
        if on_progress is not None:
            on_progress(watch.ended_vms)

    settings = trial.settings
    owners: Mapping[Origin, Caller] = {}
    if tells_owners_apart(settings):
        owners = add_owners(cloud, trial.workload)
        settings = with_rights_of_owners(settings, owners)
    # Nobody reads what owners are told here, and nothing is decided by it.
    cycle = simulated_cycle(settings, cloud, trial.policy, trial.verification, tells_owners=False, control=machines)
    result = Simulator(
        cloud, cycle, trial.workload, trial.faults, until_s=trial.until_s, on_cycle=on_cycle, owners=owners
    ).run()
    if trial.until_s is not None and not _is_all_over(trial.workload, result):
        result = replace(result, ended_at_ms=1000 * trial.until_s)
    seen = watch.seen(result.ended_at_ms)
    energy = meter.energy(origin_ms + result.ended_at_ms, origin_ms) if meter is not None else None
    return Played(result, seen, figures(trial.workload, trial.site.hosts, result, seen, energy, own))


def tells_owners_apart(settings: Settings) -> bool:
    """It matters who of a log's users asks: the order of the queue goes by what each has used."""
    return chosen_queue_order(settings).measures is not None


def play_whole(trial: Trial) -> Played:
    """Simulate until every request is over.

    Raises `OnePreemptError` where the simulation ends before: its figures would be of a part and look like the whole.
    """
    played = play(trial)
    if not _is_all_over(trial.workload, played.result):
        over = sum(record.ended_at_ms is not None for record in played.result.records)
        raise OnePreemptError(
            f"simulation of {trial.workload.name or 'a workload'} under {trial.policy or 'the configured policy'}: it"
            f" ended when {over} of {len(trial.workload)} requests were over, so nothing is told of it; this is a"
            " fault of one_preempt: please report it with the seed"
        )
    return played


def _is_all_over(workload: Workload, result: SimulationResult) -> bool:
    """Every request came, and ended."""
    return len(result.records) == len(workload) and all(record.ended_at_ms is not None for record in result.records)


def switched_machines(cloud: SimulatedCloud, settings: PowerSettings) -> SimulatedHostPower | None:
    """The power of the cloud's machines, by the models that are configured; None where no host is handed over."""
    rules = power_rules(settings)
    names = {host.id: (host.name, cloud.clusters[host.cluster_id].name) for host in cloud.hosts.values()}
    if not any(pattern.suits(*name) for pattern in rules.handed_over for name in names.values()):
        return None
    own = {
        host_id: next((model for pattern, model in rules.models if pattern.suits(*name)), rules.power)
        for host_id, name in names.items()
    }
    return SimulatedHostPower(cloud, rules.power, own)
