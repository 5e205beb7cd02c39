"""A random story about images: hosts that make disks on themselves, one link, reservations and best effort."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from one_preempt.configuration.settings import ImageStagingSettings, OverheadSettings, Settings, TimeSettings
from one_preempt.core.model.lease import LeaseType
from one_preempt.simulation.simulated_cloud.durations import INSTANT, Operation
from one_preempt.simulation.simulated_cloud.faults import Fault, Misbehaviour
from one_preempt.simulation.simulator.site import ImageSite, Site, simulation_settings
from one_preempt.simulation.simulator.timed_fault import DriverFails, HostDies, TimedFault
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest
from tests.simulation.time_stories.happenings import OwnerEnds

IMAGES = (("small", 100), ("usual", 600), ("large", 1500))
POLICIES = ("EDF/JIT", "EDF/JIT", "EDF", "FIFO")


class ImageStory(msgspec.Struct, frozen=True):
    """One story; nothing fails in it. `copies`: best effort is made from images, too, which nobody stages: when it will
    have ended is not known exactly."""

    seed: int
    copies: bool
    site: Site
    settings: Settings
    workload: Workload


def draw_image_story(seed: int) -> ImageStory:
    """The story of a seed."""
    chance = random.Random(seed)
    megabit_per_s = chance.choice((50, 100, 400))
    boot_s = chance.choice((0, 10))
    sizes = [300, *(chance.choice((100, 200, 300)) for _ in range(chance.randint(0, 3)))]
    hosts = tuple(MachineSet(1, cpu_centi, 4096) for cpu_centi in sizes)
    site = Site(hosts, replace(INSTANT, boot_s=boot_s), images=ImageSite(megabit_per_s, chance.random() < 0.3))
    staging = ImageStagingSettings(
        mode="act",
        policy=chance.choice(POLICIES),
        link_megabit_per_s=megabit_per_s,
        quantum_s=chance.choice((1, 1, 10, 60)),
        pool_mib=chance.choice((None, None, 1600, 2200)),
        margin_s=chance.choice((0, 5, 30)),
        kept_after_start_s=chance.choice((0, 60, 300)),
    )
    time = TimeSettings(
        backfilling=chance.choice(("none", "easy", "conservative")),
        suspension=chance.choice(("none", "all")),
        least_run_before_suspension_s=0,
    )
    overhead = OverheadSettings(
        boot_s=boot_s, suspend_mib_per_s=1e9, resume_mib_per_s=1e9, copy_mib_per_s=1e9, pause_s=0, shutdown_s=0
    )
    settings = simulation_settings(Settings(time=time, overhead=overhead))
    settings = msgspec.structs.replace(settings, image_staging=staging)
    copies = chance.random() < 0.3
    requests = tuple(_request(chance, number, copies) for number in range(1, chance.randint(6, 14)))
    in_turn = sorted(requests, key=lambda one: (one.submitted_at_s, one.id))
    return ImageStory(seed, copies, site, settings, Workload(tuple(in_turn)))


def _request(chance: random.Random, number: int, copies: bool) -> WorkloadRequest:
    submitted_at_s, lasts_s = chance.randint(0, 600), chance.choice((60, 200, 600))
    name, size_mib = chance.choice((*IMAGES, ("", 0)))
    plain = WorkloadRequest(
        number, submitted_at_s, (MachineSet(chance.randint(1, 3), 100, 512),), lasts_s, lasts_s, external=True,
        image=name, image_mib=size_mib,
    )  # fmt: skip
    if chance.random() < 0.3:
        return plain if copies else replace(plain, image="", image_mib=0)
    start_at_s = submitted_at_s + chance.choice((10, 60, 100, 150, 300, 600, 1200))
    return replace(
        plain, start=StartKind.EXACT, start_at_s=start_at_s, lease_type=LeaseType.DC_NON_PREEMPTABLE,
        external=chance.random() < 0.5,
    )  # fmt: skip


def draw_faults(chance: random.Random, hosts: int) -> Iterator[TimedFault]:
    """Transfers that fail or drag, hosts that are lost, owners who end what they asked for."""
    for _ in range(chance.choice((0, 1, 2, 3))):
        kind, at_s = chance.random(), chance.randint(0, 900)
        if kind < 0.3:
            yield DriverFails(at_s, Fault(Operation.STAGE, count=chance.choice((1, 2, None))))
        elif kind < 0.5:
            yield DriverFails(at_s, Fault(Operation.STAGE, Misbehaviour.SLOW, factor=chance.choice((2, 30))))
        elif kind < 0.7:
            yield HostDies(at_s, chance.randrange(hosts))
        else:
            yield OwnerEnds(at_s, chance.randrange(1, 10))
