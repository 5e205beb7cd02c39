"""The configuration file: YAML, every key optional, unknown keys refused by name.

`load_settings` turns the file into `Settings`; `composition` turns those into adapters, `chosen_policies` into
policies. Values are checked here, once, so that nothing behind has to doubt them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from one_preempt.configuration.choices import policy_faults, rank_faults
from one_preempt.configuration.gateway_settings import GatewaySettings, gateway_faults
from one_preempt.configuration.image_transfer_settings import ImageTransferSettings, transfer_faults
from one_preempt.configuration.lease_settings import LeaseSettings, lease_faults
from one_preempt.configuration.places import address_faults
from one_preempt.configuration.power_settings import PowerSettings, power_faults
from one_preempt.configuration.section import AbsolutePath, EntryName, NotNegative, Positive, Section, TypeName
from one_preempt.configuration.strict_yaml import StrictYamlError, load_strict_yaml
from one_preempt.configuration.words import in_plain_words
from one_preempt.errors import OnePreemptError

DEFAULT_CONFIGURATION = Path("/etc/one/schedulers/one_preempt.conf")
CONFIGURATION_VARIABLE = "ONE_PREEMPT_CONF"
LONGEST_FILE = 1 << 20
STATE_FOLDER = Path("/var/lib/one/one_preempt")

PositiveRate = Annotated[float, msgspec.Meta(ge=0.001, le=1e9)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
MethodName = Literal["suspend", "stop", "undeploy", "terminate", "migrate", "live-migrate"]


_MAY_REST_IN_PLACE: tuple[TypeName, ...] = ("BE-SUSPENDABLE", "DC-MIGRATABLE")


class SettingsError(OnePreemptError):
    """The configuration cannot be used; the message names the file, the key and the mend."""


class SettingsForbidden(SettingsError):
    """There is a configuration, or it cannot be seen whether there is, and this user may not read it."""


class OpenNebulaSettings(Section, frozen=True):
    """Where the endpoint is, and how long to wait for it. ONE_XMLRPC and ONE_AUTH win over the file."""

    endpoint: str | None = None
    auth_file: AbsolutePath | None = None
    connect_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 5.0
    read_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 60.0


class StoreSettings(Section, frozen=True):
    """The database that keeps leases, intents and outcomes: a SQLAlchemy URL; how long its logs go back."""

    url: str = "sqlite:////var/lib/one/one_preempt/leases.db"
    keep_log_days: Positive = 90
    held_capacity_file: AbsolutePath | None = None

    @property
    def held_capacity_path(self) -> Path:
        """The file that names the room promised to preemptors: beside a SQLite file, else in the usual folder."""
        if self.held_capacity_file is not None:
            return Path(self.held_capacity_file)
        scheme, _, database = self.url.partition(":///")
        in_file = scheme.partition("+")[0] == "sqlite" and database and not database.startswith(":")
        return (Path(database).parent if in_file else STATE_FOLDER) / "held_capacity.json"


class SocketSettings(Section, frozen=True):
    """Where `place`, the hooks and the commands reach the daemon."""

    path: AbsolutePath = "/run/one/one_preempt.sock"


class EventSettings(Section, frozen=True):
    """The event bus of OpenNebula's hook manager, which wakes the daemon early."""

    enabled: bool = True
    endpoint: str = "tcp://localhost:2101"


class MatchmakerSettings(Section, frozen=True):
    """What sched.conf and rank.conf call MAX_VM, MAX_DISPATCH, MAX_HOST, DEFAULT_SCHED and so on."""

    max_vm: NotNegative = 5000
    max_dispatch: NotNegative = 30
    max_host: NotNegative = 1
    host_policy: str = "striping"
    host_rank: str = ""
    datastore_policy: Literal["packing", "striping", "custom", "fixed"] = "striping"
    datastore_rank: str = ""
    network_policy: Literal["packing", "striping", "custom", "fixed"] = "striping"
    network_rank: str = ""
    different_networks: bool = True
    accept_unmonitored_datastores: bool = False
    live_rescheds: bool = False
    cold_migrate_mode: Literal["save", "poweroff", "poweroff-hard"] = "save"
    memory_system_datastore_scale: Annotated[float, msgspec.Meta(ge=-1, le=100)] = 0.0


class OptimizerSettings(Section, frozen=True):
    """What `optimize` does for a cluster whose ONE_DRS does not say it; -1 allows any number of migrations."""

    policy: Literal["balance", "pack"] = "balance"
    migration_threshold: Annotated[int, msgspec.Meta(ge=-1, le=2**31)] = 10


class OverheadSettings(Section, frozen=True):
    """Rates and times of the overhead models (CCPE13 section 7.2 gives those shipped); refined by observation."""

    suspend_mib_per_s: PositiveRate = 6.36
    resume_mib_per_s: PositiveRate = 8.12
    copy_mib_per_s: PositiveRate = 6.392
    pause_s: Seconds = 0.005
    reschedule_s: Seconds = 2.3
    boot_s: Seconds = 40.0
    shutdown_s: Seconds = 20.0
    learn: bool = True


class LimitSettings(Section, frozen=True):
    """Ceilings and hysteresis of preemption."""

    victims_in_flight: Positive = 8
    victims_per_hour: NotNegative = 60
    minimum_run_time_s: NotNegative = 120
    cooldown_s: NotNegative = 300
    attempts: Positive = 3
    victim_retry_s: Annotated[int, msgspec.Meta(ge=0, le=3600)] = 1800
    preemption_timeout_s: Positive = 3600
    enumerated_leases: Annotated[int, msgspec.Meta(ge=1, le=24)] = 18
    retry_delay_s: NotNegative = 15
    gang_attempts: Positive = 3


class TimeSettings(Section, frozen=True):
    """Who may overtake, what is suspended for what was promised a start, and what becomes of what runs for too long."""

    backfilling: str = "easy"
    promised_leases: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 4
    suspension: Literal["none", "serial-only", "all"] = "all"
    least_run_before_suspension_s: NotNegative = 300
    refused_reservation: Literal["refuse", "queue"] = "refuse"
    overrun: Literal["keep", "preempt", "stop", "terminate"] = "keep"
    overrun_grace_s: NotNegative = 300
    grace_s: NotNegative = 0
    preparation_margin_s: NotNegative = 30
    exclusion: Literal["host", "shared-storage", "none"] = "shared-storage"


class FairShareSettings(Section, frozen=True):
    """What `queue_order: fair-share` goes by: how fast use fades, what counts as use, and the shares of groups."""

    half_life_days: Annotated[float, msgspec.Meta(ge=0.01, le=3650)] = 7.0
    counts: Literal["cpu", "cpu-and-memory"] = "cpu-and-memory"
    shares: dict[EntryName, Annotated[float, msgspec.Meta(ge=0.001, le=1e6)]] = {}


class VictimSettings(Section, frozen=True):
    """Who may be a victim although it is spared as shipped, and by which methods each type leaves."""

    service_members: bool = False
    virtual_routers: bool = False
    suspend_in_place: bool = False
    least_valuable_first: bool = False
    paused_by_owner: bool = True
    methods: dict[TypeName, list[MethodName]] = {}


class ImageStagingSettings(Section, frozen=True):
    """Images that are brought to hosts before reservations start there. As shipped none are."""

    mode: Literal["off", "advise", "act"] = "off"
    policy: str = "EDF/JIT"
    link_megabit_per_s: Positive = 1000
    quantum_s: Annotated[int, msgspec.Meta(ge=1, le=3600)] = 1
    pool_mib: Positive | None = None
    margin_s: NotNegative = 30
    kept_after_start_s: NotNegative = 300
    attempts: Positive = 3
    retry_delay_s: NotNegative = 15
    ahead_s: Positive | None = None
    transfer: ImageTransferSettings = ImageTransferSettings()


class LogSettings(Section, frozen=True):
    """Where the daemon's log goes (standard error without a file) and how much it says."""

    file: AbsolutePath | None = None
    level: Literal["debug", "info", "warning", "error"] = "info"


class MetricsSettings(Section, frozen=True):
    """Where the daemon serves metrics to Prometheus; nowhere as shipped."""

    listen: str | None = None


class Settings(Section, frozen=True):
    """The whole configuration. As shipped it decides, advises, and preempts nothing."""

    preemption: Literal["advise", "act"] = "advise"
    preemption_policy: str = "moml"
    queue_order: str = "user-priority"
    cycle_interval_s: Positive = 15
    opennebula: OpenNebulaSettings = OpenNebulaSettings()
    store: StoreSettings = StoreSettings()
    socket: SocketSettings = SocketSettings()
    events: EventSettings = EventSettings()
    matchmaker: MatchmakerSettings = MatchmakerSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    overhead: OverheadSettings = OverheadSettings()
    limits: LimitSettings = LimitSettings()
    time: TimeSettings = TimeSettings()
    fair_share: FairShareSettings = FairShareSettings()
    victims: VictimSettings = VictimSettings()
    leases: LeaseSettings = LeaseSettings()
    power: PowerSettings = PowerSettings()
    image_staging: ImageStagingSettings = ImageStagingSettings()
    gateway: GatewaySettings = GatewaySettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()


def configuration_path(given: Path | None) -> Path | None:
    """The file to read: the one given, else ONE_PREEMPT_CONF, else the usual place where it exists, else none.

    Where this user may not look whether it exists, it is named: OpenNebula 7.x closes that folder to ordinary users.
    """
    if given is not None:
        return given
    named = os.environ.get(CONFIGURATION_VARIABLE)
    if named:
        return Path(named)
    try:
        DEFAULT_CONFIGURATION.stat()
    except PermissionError:
        return DEFAULT_CONFIGURATION
    except OSError:
        return None
    return DEFAULT_CONFIGURATION


def load_settings(path: Path | None = None) -> Settings:
    """Read and check the configuration; without any file the shipped values hold.

    Raises `SettingsError`; where only the right to read it is missing, `SettingsForbidden`.
    """
    source = configuration_path(path)
    if source is None:
        return Settings()
    try:
        with source.open(encoding="utf-8") as file:
            text = file.read(LONGEST_FILE + 1)
    except PermissionError as error:
        mend = "run this as the user that runs the scheduler, or name another file by --config"
        raise SettingsForbidden(f"cannot read the configuration {source}: {_cause(error)}; {mend}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the configuration {source}: {_cause(error)}") from error
    if len(text) > LONGEST_FILE:
        raise SettingsError(f"{source} is longer than {LONGEST_FILE} characters: is it really the configuration?")
    return parse_settings(text, str(source))


def parse_settings(text: str, source: str) -> Settings:
    """Check configuration text; `source` names it in messages."""
    try:
        content = load_strict_yaml(text)
    except StrictYamlError as error:
        raise SettingsError(f"{source} is not YAML that can be used: {error}") from error
    if content is None:
        return Settings()
    try:
        settings = msgspec.convert(content, Settings)
    except (msgspec.ValidationError, TypeError) as error:
        raise SettingsError(f"{source}: {in_plain_words(str(error), Settings)}") from error
    _check(settings, source)
    return settings


def _check(settings: Settings, source: str) -> None:
    for fault in _faults(settings):
        raise SettingsError(f"{source}: {fault}")


def _faults(settings: Settings) -> Iterator[str]:
    """One sentence for each thing that cannot be meant."""
    yield from lease_faults(settings.leases)
    yield from _victim_faults(settings.victims)
    yield from address_faults(
        settings.opennebula.endpoint, settings.events.endpoint, settings.store.url, settings.metrics.listen
    )
    yield from policy_faults(
        {
            "preemption_policy": settings.preemption_policy,
            "queue_order": settings.queue_order,
            "matchmaker.host_policy": settings.matchmaker.host_policy,
            "time.backfilling": settings.time.backfilling,
            "power.policy": settings.power.policy,
            "image_staging.policy": settings.image_staging.policy,
            "gateway.allocation_policy": settings.gateway.allocation_policy,
            "gateway.fall_back": settings.gateway.fall_back,
            "gateway.dispatch_policy": settings.gateway.dispatch_policy,
        }
    )
    yield from rank_faults(
        {
            f"matchmaker.{key}": getattr(settings.matchmaker, key)
            for key in ("host_rank", "datastore_rank", "network_rank")
        }
    )
    yield from power_faults(settings.power)
    images = settings.image_staging
    yield from (f"image_staging.{fault}" for fault in transfer_faults(images.transfer, images.pool_mib))
    yield from gateway_faults(settings.gateway)


def _victim_faults(victims: VictimSettings) -> Iterator[str]:
    for name, methods in sorted(victims.methods.items()):
        if "suspend" not in methods:
            continue
        if name not in _MAY_REST_IN_PLACE:
            types = " and ".join(_MAY_REST_IN_PLACE)
            yield f"victims.methods.{name} has suspend, which is for {types}: take it out"
        elif not victims.suspend_in_place:
            yield (
                f"victims.methods.{name} has suspend, by which oned's books show more than runs: "
                "set victims.suspend_in_place to true if you mean that, or else take suspend out"
            )


def _cause(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    return error.strerror or str(error)
