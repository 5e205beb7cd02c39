"""A site to simulate: alike or unlike hosts, one shared datastore, local and external users, and who may do what."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from one_preempt.configuration.lease_settings import LeaseSettings, RightsSettings
from one_preempt.configuration.section import TypeName
from one_preempt.configuration.settings import (
    LimitSettings,
    MatchmakerSettings,
    Settings,
    StoreSettings,
)
from one_preempt.simulation.garbage_collection import rare_garbage_collection
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.durations import INSTANT, DriverLimits, Durations
from one_preempt.simulation.simulated_cloud.faults import FaultPlan
from one_preempt.simulation.simulated_cloud.states import DatastoreType
from one_preempt.simulation.simulated_cloud.virtual_time import VirtualClock
from one_preempt.simulation.workload.workload import MachineSet

START_S = 1_800_000_000
LOCALS, EXTERNALS = "locals", "externals"
IMAGE_DATASTORE = "images"
_ALL_TYPES: list[TypeName] = ["BE-CANCELLABLE", "BE-SUSPENDABLE", "DC-MIGRATABLE", "DC-NON-PREEMPTABLE"]
_AMPLE_MIB = 1 << 40
_WITHOUT_BOUND = 1 << 20


class ImageSite(Struct, frozen=True):
    """Hosts that make disks on themselves, and the one link over which images come to them.

    `keeps_copies`: what was copied for a VM stays on its host, and other VMs are made from it.
    """

    link_megabit_per_s: int
    keeps_copies: bool = False


class Site(Struct, frozen=True):
    """What is simulated on.

    Attributes:
        hosts: The machines.
        durations: How long drivers work; as given, everything happens at once.
        driver_limits: How many drivers work at once; as given, any number.
        start_s: Instant 0 of workloads, in seconds since the epoch.
        seed: Of what goes wrong by chance.
        images: Where images come from; None: storage is shared, and images take no time.
    """

    hosts: tuple[MachineSet, ...]
    durations: Durations = INSTANT
    driver_limits: DriverLimits = field(
        default_factory=lambda: DriverLimits(_WITHOUT_BOUND, _WITHOUT_BOUND, _WITHOUT_BOUND)
    )
    start_s: int = START_S
    seed: int = 0
    images: ImageSite | None = None


def build_cloud(site: Site, *, keeps_logs: bool = False) -> SimulatedCloud:
    """The site as a simulated cloud: hosts MONITORED, a user each named as the groups of local and external users."""
    cloud = SimulatedCloud(
        clock=VirtualClock(site.start_s),
        durations=site.durations,
        limits=site.driver_limits,
        faults=FaultPlan(site.seed),
        keeps_logs=keeps_logs,
    )
    with rare_garbage_collection():
        for machines in site.hosts:
            for _ in range(machines.count):
                cloud.add_host(f"node{len(cloud.hosts)}", machines.cpu_centi, machines.memory_mib)
    if site.images is None:
        cloud.add_datastore("shared", total_mib=_AMPLE_MIB, tm_mad="shared", template={"SHARED": ["YES"]})
    else:
        _with_images(cloud, site.images)
    for name in (LOCALS, EXTERNALS):
        cloud.add_user(name, cloud.add_group(name).id)
    return cloud


def _with_images(cloud: SimulatedCloud, images: ImageSite) -> None:
    cloud.add_datastore("local", total_mib=_AMPLE_MIB, tm_mad="ssh")
    cloud.add_datastore(IMAGE_DATASTORE, DatastoreType.IMAGE, total_mib=_AMPLE_MIB, tm_mad="ssh")
    for host in cloud.hosts.values():
        host.share.disks = {**host.share.disks, "FREE_DISK": str(_AMPLE_MIB), "MAX_DISK": str(_AMPLE_MIB)}
    cloud.lay_image_link(images.link_megabit_per_s, keeps_copies=images.keeps_copies)


def simulation_settings(settings: Settings | None = None) -> Settings:
    """`settings` with what a simulation needs: it acts, all users may claim every type, local ones may preempt.

    What keeps a live cloud civil (minimum run times, ceilings, pacing) is not in the papers and is switched off. Rules
    for VMs without LEASE would find none. A host policy other than the shipped one is kept, with its rank.
    """
    settings = settings or Settings()
    rights = [
        RightsSettings(name=LOCALS, group=LOCALS, may_claim=_ALL_TYPES, may_preempt=True),
        RightsSettings(name=EXTERNALS, group=EXTERNALS, may_claim=_ALL_TYPES),
    ]
    limits = LimitSettings(
        victims_in_flight=_WITHOUT_BOUND, victims_per_hour=_WITHOUT_BOUND, minimum_run_time_s=0, cooldown_s=0,
        enumerated_leases=settings.limits.enumerated_leases,
    )  # fmt: skip
    return msgspec.structs.replace(
        settings,
        preemption="act",
        leases=LeaseSettings(rights=rights),
        limits=limits,
        matchmaker=_unpaced(settings.matchmaker),
        store=StoreSettings(keep_log_days=1),
    )


def _unpaced(given: MatchmakerSettings) -> MatchmakerSettings:
    # As shipped nobody chose it, and the papers' figures, with one VM a node, are those of equal hosts.
    is_chosen = given.host_policy.casefold() != MatchmakerSettings().host_policy
    host_policy = given.host_policy if is_chosen else "fixed"
    return MatchmakerSettings(
        max_vm=0, max_dispatch=0, max_host=0, host_policy=host_policy, host_rank=given.host_rank
    )  # fmt: skip
