"""Settings and a mode become a ready scheduling cycle. Beside `gateway_composition`, no other file picks adapters.

Adapters, and the core itself, are imported where they are needed, so that a command loads what it uses.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from one_preempt.adapters.clock import FixedClock, SystemClock
from one_preempt.configuration.places import listening_address
from one_preempt.configuration.settings import Settings
from one_preempt.errors import OnePreemptError
from one_preempt.ports import Clock, EventSource, LeaseStore, PoolReader, PowerCalls, PowerControl

if TYPE_CHECKING:
    from one_preempt.adapters.daemon_socket.server import Answer
    from one_preempt.adapters.events.event_bus import EventBus
    from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
    from one_preempt.adapters.metrics.instruments import Instruments, Look
    from one_preempt.adapters.metrics.server import Text
    from one_preempt.adapters.opennebula.credentials import Credentials
    from one_preempt.adapters.opennebula.transport import OnCall, OnedTransport
    from one_preempt.core.energy.policy import EnergyPolicy
    from one_preempt.core.model.cluster_state import ClusterState, Discrepancy
    from one_preempt.core.model.modes_and_limits import Verification
    from one_preempt.core.model.plan import Plan
    from one_preempt.core.policies import Policies
    from one_preempt.core.verify import Violation
    from one_preempt.enactment.image_enactment import ImageEnactment
    from one_preempt.enactment.power_enactment import PowerEnactment
    from one_preempt.scheduling_cycle import SchedulingCycle
    from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
    from one_preempt.surroundings import Surroundings

DAY_S = 86_400
# Host selections that look at what is allocated alone: in a simulation their hosts need not be monitored.
_NEVER_BY_LOAD = frozenset({"packing", "striping", "fixed"})


class MetricsUnavailable(OnePreemptError):
    """Nothing can be counted for Prometheus; the message says why, and how to mend it."""


class PlannedCycle(Struct, frozen=True):
    """A rehearsed cycle: what would be done, from which state, and what the recount says."""

    plan: Plan
    state: ClusterState
    violations: tuple[Violation, ...]

    @property
    def discrepancies(self) -> tuple[Discrepancy, ...]:
        """What was not as the ledger had it."""
        return self.state.discrepancies


def open_transport(settings: Settings, on_call: OnCall | None = None, attempts: int = 3) -> OnedTransport:
    """The connection to oned; the caller closes it. ONE_XMLRPC and ONE_AUTH win over the configuration.

    `on_call` is told of each request; a call that only reads is tried `attempts` times.
    """
    from one_preempt.adapters.opennebula.credentials import checked_endpoint, find_endpoint
    from one_preempt.adapters.opennebula.transport import Limits, OnedTransport

    given = settings.opennebula
    if given.endpoint and not os.environ.get("ONE_XMLRPC"):
        endpoint = checked_endpoint(given.endpoint, "opennebula.endpoint of the configuration")
    else:
        endpoint = find_endpoint()
    limits = Limits(connect_s=given.connect_timeout_s, idle_s=given.read_timeout_s, attempts=attempts)
    credentials = oned_credentials(settings)
    return OnedTransport(endpoint, credentials, limits, renew=lambda: oned_credentials(settings), on_call=on_call)


def oned_credentials(settings: Settings) -> Credentials:
    """Who we are at oned, read anew from its file."""
    from one_preempt.adapters.opennebula.credentials import find_credentials, read_auth

    auth_file = settings.opennebula.auth_file
    if auth_file and not os.environ.get("ONE_AUTH"):
        return read_auth(Path(auth_file), "the file named by opennebula.auth_file")
    return find_credentials()


def open_reader(settings: Settings, source: Path | None = None) -> PoolReader:
    """What observes the cloud: a recording at `source`, or oned."""
    if source is not None:
        from one_preempt.adapters.recorded.recorded_pool_reader import RecordedPoolReader

        return RecordedPoolReader(source)
    from one_preempt.adapters.opennebula.pool_reader import OpenNebulaPoolReader

    return OpenNebulaPoolReader(open_transport(settings), SystemClock())


def open_store(settings: Settings) -> SqlLeaseStore:
    """The ledger on disk, made where there is none: for the daemon. The caller closes it."""
    from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore

    return SqlLeaseStore(settings.store.url)


def open_made_store(settings: Settings) -> SqlLeaseStore:
    """The ledger on disk for everybody else: nothing is made. Raises `DatabaseNotMade` where there is none yet."""
    from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore

    return SqlLeaseStore(settings.store.url, makes=False)


@contextmanager
def open_cycle(
    settings: Settings,
    clock: Clock,
    transport: OnedTransport | None = None,
    events: EventSource | None = None,
    power_calls: PowerCalls | None = None,
    on_call: OnCall | None = None,
) -> Iterator[SchedulingCycle]:
    """The daemon's cycle: oned, the database, the file of promised room, and the right to write.

    `transport` is a connection to take instead of the one that the environment and the settings name; `events`
    times the transitions; `power_calls` stand in for the configured power control; `on_call` is told of each request to
    oned.
    """
    from one_preempt.adapters.held_capacity import HeldCapacityFile
    from one_preempt.adapters.opennebula.enactor import OpenNebulaEnactor
    from one_preempt.adapters.opennebula.pool_reader import OpenNebulaPoolReader
    from one_preempt.enactment.power_recording import PowerRecorder
    from one_preempt.surroundings import Surroundings

    with closing(transport or open_transport(settings, on_call)) as connection, closing(open_store(settings)) as store:
        reader = OpenNebulaPoolReader(connection, clock)
        enactor = OpenNebulaEnactor(connection, reader)
        held_capacity = HeldCapacityFile(settings.store.held_capacity_path)
        with (
            _power(settings, connection, store, clock, power_calls) as power,
            _images(settings, connection, store, clock) as images,
        ):
            around = Surroundings(
                reader, store, enactor, clock, held_capacity, events, power=power, images=images,
                recorder=PowerRecorder(store),
                clock_gained_s=clock.gained_s if isinstance(clock, SystemClock) else None,
                clock_ahead_s=connection.clock_ahead_s if isinstance(clock, SystemClock) else None,
            )  # fmt: skip
            yield _cycle(settings, around)


@contextmanager
def _power(
    settings: Settings, connection: OnedTransport, store: LeaseStore, clock: Clock, given: PowerCalls | None
) -> Iterator[PowerEnactment]:
    """What carries out power steps: oned on the same connection, power control on threads of its own."""
    from one_preempt.adapters.opennebula.host_attributes import HostAttributes
    from one_preempt.adapters.opennebula.host_enactor import LastLook, OpenNebulaHostEnactor
    from one_preempt.adapters.power_control.factory import make_power_control
    from one_preempt.adapters.power_control.in_background import BackgroundPowerCalls
    from one_preempt.configuration.chosen_policies import power_rules
    from one_preempt.enactment.power_enactment import PowerEnactment

    if given is not None:
        yield PowerEnactment(store, OpenNebulaHostEnactor(connection), given, clock)
        return
    with closing(connection.another()) as for_attributes, closing(connection.another()) as for_looks:
        attributes = HostAttributes(for_attributes, clock, power_rules(settings.power).hands_over)
        control = make_power_control(settings.power.control, clock, attributes.of, attributes.hosts_with)
        looks = LastLook(for_looks)
        with closing(BackgroundPowerCalls(control, settings.power.calls_at_once, looks)) as calls:
            yield PowerEnactment(store, OpenNebulaHostEnactor(connection), calls, clock, memory=control)


@contextmanager
def _images(
    settings: Settings, connection: OnedTransport, store: LeaseStore, clock: Clock
) -> Iterator[ImageEnactment | None]:
    """What brings images to hosts, on threads of its own; None where none are staged."""
    from one_preempt.enactment.image_enactment import ImageEnactment

    given = settings.image_staging
    if given.mode == "off":
        yield None
        return
    from one_preempt.adapters.image_transfer.factory import make_image_transfer
    from one_preempt.adapters.opennebula.stored_images import StoredImages

    with (
        closing(connection.another()) as for_images,
        closing(make_image_transfer(given.transfer, clock, StoredImages(for_images))) as transfers,
    ):
        yield ImageEnactment(store, transfers, clock, given.retry_delay_s)


def open_event_bus(settings: Settings, clock: Clock, on_event: Callable[[], None]) -> EventBus:
    """OpenNebula's event bus, not listening yet; `on_event` is called in a thread of its own."""
    from one_preempt.adapters.events.event_bus import EventBus

    return EventBus(settings.events.endpoint, clock, on_event)


def open_socket(settings: Settings, answer: Answer) -> AbstractContextManager[Callable[[], bool]]:
    """The daemon's socket, which listens inside the context; `answer` is called in a thread of its own.

    What the context gives tells whether the socket is still in its place.
    """
    from one_preempt.adapters.daemon_socket.server import DaemonSocket, trusted_users

    return DaemonSocket(answer, trusted_users()).listening(Path(settings.socket.path))


def make_instruments(look: Look) -> Instruments:
    """What is counted for Prometheus; `look` is asked for what is seen now. Raises `MetricsUnavailable`."""
    try:
        from one_preempt.adapters.metrics.instruments import Instruments
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        what = "is not installed" if isinstance(error, ModuleNotFoundError) else f"cannot be used ({error})"
        raise MetricsUnavailable(
            f"no metrics are counted: prometheus_client {what}; install it ({sys.executable} -m pip install "
            "'prometheus-client>=0.20'), or take metrics.listen out"
        ) from None
    return Instruments(look)


def open_metrics_server(listen: str, text: Text) -> AbstractContextManager[Callable[[], bool]]:
    """Serves `text` over HTTP inside the context; it is called in threads of its own.

    What the context gives tells whether it is still served.
    """
    from one_preempt.adapters.metrics.server import MetricsServer

    address = listening_address(listen)
    assert address is not None, "addresses are checked with the configuration"
    return MetricsServer(text).listening(*address)


def _cycle(
    settings: Settings,
    around: Surroundings,
    chosen: Policies | None = None,
    verification: Verification | None = None,
) -> SchedulingCycle:
    """`chosen` stands in place of what `settings` choose."""
    from one_preempt.configuration.chosen_policies import admission_rules, policies
    from one_preempt.core.model.modes_and_limits import Verification
    from one_preempt.scheduling_cycle import SchedulingCycle

    rules, keep_log_s = admission_rules(settings), settings.store.keep_log_days * DAY_S
    return SchedulingCycle(around, chosen or policies(settings), rules, keep_log_s, verification or Verification.FULL)


def simulated_cycle(
    settings: Settings,
    cloud: SimulatedCloud,
    policy: str | None = None,
    verification: Verification | None = None,
    *,
    tells_owners: bool = True,
    control: PowerControl | None = None,
    energy_policy: EnergyPolicy | None = None,
) -> SchedulingCycle:
    """The same cycle over a simulated cloud, on its clock, with a ledger in memory and nothing in between.

    What owners read decides nothing; where nobody reads it, `tells_owners` False saves writing it. `control` switches
    the cloud's machines, and answers at once. `energy_policy` stands in place of the one that `settings` name.
    """
    from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
    from one_preempt.configuration.chosen_policies import policies
    from one_preempt.enactment.image_enactment import ImageEnactment
    from one_preempt.enactment.power_enactment import PowerEnactment
    from one_preempt.simulation.simulator.enactor import SimulatedEnactor
    from one_preempt.simulation.simulator.gang_issuer import SimulatedGangIssuer
    from one_preempt.simulation.simulator.heard_starts import HeardStarts
    from one_preempt.simulation.simulator.host_enactor import SimulatedHostEnactor
    from one_preempt.simulation.simulator.image_transfer import SimulatedImageTransfer
    from one_preempt.simulation.simulator.pool_reader import SimulatedPoolReader
    from one_preempt.simulation.simulator.power_calls import ImmediatePowerCalls
    from one_preempt.surroundings import Surroundings

    may_rank_by_load = settings.matchmaker.host_policy.casefold() not in _NEVER_BY_LOAD
    reader = SimulatedPoolReader(cloud, monitors_hosts=may_rank_by_load, unlimited_quotas=False, live_views=True)
    store = MemoryLeaseStore(keep_log=False, live_views=True)
    power = None
    if control is not None:
        power = PowerEnactment(store, SimulatedHostEnactor(cloud), ImmediatePowerCalls(control), cloud.clock)
    images = None
    if cloud.image_link is not None and settings.image_staging.mode == "act":
        transfers = SimulatedImageTransfer(cloud, cloud.image_link)
        images = ImageEnactment(store, transfers, cloud.clock, settings.image_staging.retry_delay_s)
    enactor = SimulatedEnactor(cloud)
    events = None if tells_owners else HeardStarts(cloud)
    gangs = SimulatedGangIssuer(enactor, store)
    around = Surroundings(reader, store, enactor, cloud.clock, events=events, gangs=gangs, power=power, images=images)
    chosen = replace(policies(settings, policy), tells_owners=tells_owners)
    if energy_policy is not None:
        chosen = replace(chosen, power=replace(chosen.power, policy=energy_policy))
    return _cycle(settings, around, chosen, verification)


def plan_once(settings: Settings, source: Path | None = None) -> PlannedCycle:
    """One dry-run cycle, on the cloud or on a recording; nothing is written and nothing is asked of oned.

    On the live cloud the ledger of the daemon is read where there is one, so that the rehearsal knows which leases
    were admitted and preempted.
    """
    reader = open_reader(settings, source)
    if source is None:
        return _rehearse(settings, reader, SystemClock(), _copy_of_ledger(settings))
    clock = FixedClock(reader.read().observed_at_s)
    return _rehearse(_for_recording(settings), reader, clock, _empty_store())


def _for_recording(settings: Settings) -> Settings:
    """What a recording cannot tell must not end the rehearsal.

    It may have been made before oned measured its datastores; and the instant at which a folder of raw documents was
    made is not known, so how long its VMs had run is not either.
    """
    matchmaker = msgspec.structs.replace(settings.matchmaker, accept_unmonitored_datastores=True)
    limits = msgspec.structs.replace(settings.limits, minimum_run_time_s=0)
    return msgspec.structs.replace(settings, matchmaker=matchmaker, limits=limits)


def _rehearse(settings: Settings, reader: PoolReader, clock: Clock, store: LeaseStore) -> PlannedCycle:
    from one_preempt.surroundings import Surroundings

    report = _cycle(settings, Surroundings(reader, store, None, clock)).run()
    assert report.plan is not None and report.state is not None, "a cycle without an enactor always decides"
    return PlannedCycle(report.plan, report.state, report.violations)


def _empty_store() -> LeaseStore:
    from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore

    return MemoryLeaseStore()


def _copy_of_ledger(settings: Settings) -> LeaseStore:
    """The daemon's ledger in memory; empty where no database was made yet."""
    from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
    from one_preempt.adapters.lease_store.named_database import DatabaseNotMade

    try:
        with closing(open_made_store(settings)) as store:
            return MemoryLeaseStore(store.load(SystemClock().now_s()))
    except DatabaseNotMade:
        return MemoryLeaseStore()
