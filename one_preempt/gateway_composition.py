"""Settings become a ready gateway between zones. Beside `composition`, no other file picks adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from one_preempt.composition import DAY_S, oned_credentials, open_transport
from one_preempt.configuration.settings import Settings
from one_preempt.errors import OnePreemptError
from one_preempt.ports import Clock

if TYPE_CHECKING:
    from one_preempt.adapters.daemon_socket.line_socket import AnswerLine
    from one_preempt.adapters.lease_store.sql_gateway_ledger import SqlGatewayLedger
    from one_preempt.adapters.opennebula.credentials import Credentials
    from one_preempt.adapters.opennebula.transport import OnedTransport
    from one_preempt.configuration.gateway_settings import StreamSettings
    from one_preempt.gateway.desk import GatewayDesk
    from one_preempt.gateway.measuring import MeasuringRules
    from one_preempt.gateway.upkeep import Upkeep
    from one_preempt.gateway_ports import ZoneWatcher


def open_zone_transport(
    settings: Settings, endpoint: str, auth_file: str | None = None, alive: Callable[[], None] = lambda: None
) -> OnedTransport:
    """The connection to the oned of a zone; the caller closes it.

    Credentials are those of `auth_file`, else those that are used everywhere; ONE_XMLRPC is of no matter. `alive` is
    called after each request, however it ended.
    """
    from one_preempt.adapters.opennebula.credentials import checked_endpoint, read_auth
    from one_preempt.adapters.opennebula.transport import Limits, OnedTransport

    def credentials() -> Credentials:
        if auth_file is None:
            return oned_credentials(settings)
        return read_auth(Path(auth_file), "the file named by auth_file in gateway.zones")

    limits = Limits(connect_s=settings.opennebula.connect_timeout_s, idle_s=settings.opennebula.read_timeout_s)
    return OnedTransport(
        checked_endpoint(endpoint, "the zone's endpoint"), credentials(), limits, renew=credentials,
        on_call=lambda _method, _took_s, _answered: alive(),
    )  # fmt: skip


def zone_endpoints(settings: Settings) -> dict[str, str]:
    """Where the zones of the gateway are, by name and in their order; the federation is asked where it is not said.

    Raises `OnePreemptError` where one is not known there.
    """
    zones = settings.gateway.zones
    told: Mapping[str, str] = {}
    if any(zone.endpoint is None for zone in zones):
        from one_preempt.adapters.opennebula.zone_watcher import endpoints_of_zones

        try:
            with closing(open_transport(settings)) as transport:
                told = endpoints_of_zones(transport)
        except OnePreemptError as error:
            raise OnePreemptError(
                f"where zones are is not known: {error}. Mend that, or write endpoints in gateway.zones"
            ) from None
    found: dict[str, str] = {}
    for zone in zones:
        endpoint = zone.endpoint or told.get(zone.name)
        if endpoint is None:
            known = ", ".join(sorted(told)) or "none with an endpoint"
            raise OnePreemptError(
                f"the federation knows no zone named '{zone.name}' with an endpoint; it has: {known}. Correct the name "
                "in gateway.zones, or write its endpoint there"
            )
        found[zone.name] = endpoint
    return found


@contextmanager
def open_zones(settings: Settings, alive: Callable[[], None] = lambda: None) -> Iterator[dict[str, ZoneWatcher]]:
    """The zones of the gateway, by name, in their order. Raises `OnePreemptError` where one cannot even be asked.

    `alive` is called after each request to one of them.
    """
    from one_preempt.adapters.opennebula.zone_watcher import OpenNebulaZone

    endpoints = zone_endpoints(settings)
    with ExitStack() as stack:
        watchers: dict[str, ZoneWatcher] = {}
        for zone in settings.gateway.zones:
            transport = open_zone_transport(settings, endpoints[zone.name], zone.auth_file, alive)
            watchers[zone.name] = OpenNebulaZone(stack.enter_context(closing(transport)), zone.name)
        yield watchers


def open_gateway_ledger(settings: Settings, *, makes: bool) -> SqlGatewayLedger:
    """The gateway's ledger; it is made where there is none, if it `makes`. The caller closes it.

    Raises `DatabaseNotMade`.
    """
    from one_preempt.adapters.lease_store.sql_gateway_ledger import SqlGatewayLedger

    return SqlGatewayLedger(settings.gateway.store_url, makes=makes)


def measuring_rules(settings: Settings) -> MeasuringRules:
    """How the gateway measures zones and computes shares."""
    from one_preempt.core.gateway.shares import FullZones
    from one_preempt.core.gateway.streams import GivenStream
    from one_preempt.core.gateway.vm_runs import SECONDS_PER_HOUR, Counted
    from one_preempt.gateway.measuring import MeasuringRules, ZoneGiven
    from one_preempt.policy_registry import ALLOCATION_POLICIES

    def given(stream: StreamSettings) -> GivenStream:
        return GivenStream(stream.rate_per_h, stream.mean_work_h, stream.variation)

    gateway = settings.gateway
    return MeasuringRules(
        zones=tuple(ZoneGiven(zone.name, zone.elements, zone.speed, given(zone.local)) for zone in gateway.zones),
        counted=Counted(gateway.counted),
        window_s=gateway.window_h * SECONDS_PER_HOUR,
        allocation=ALLOCATION_POLICIES.named(gateway.allocation_policy),
        fall_back=ALLOCATION_POLICIES.named(gateway.fall_back),
        full_zones=FullZones(gateway.full_zones),
        external=given(gateway.external),
    )


@contextmanager
def open_gateway(
    settings: Settings,
    clock: Clock,
    say: Callable[[str], None],
    wake: Callable[[], None],
    alive: Callable[[], None] = lambda: None,
) -> Iterator[tuple[GatewayDesk, Upkeep]]:
    """The gateway: its desk, for any thread, and its upkeep, for one. Raises where another gateway writes the ledger.

    `say` takes sentences for the log; `wake` is called where the upkeep should not wait for its next round, `alive`
    whenever a zone has answered, or has not in time: a round may take long.
    """
    import secrets

    from one_preempt.gateway.desk import DeskRules, GatewayDesk
    from one_preempt.gateway.upkeep import Upkeep, UpkeepRules
    from one_preempt.policy_registry import DISPATCH_POLICIES

    gateway = settings.gateway
    with open_zones(settings, alive) as zones, closing(open_gateway_ledger(settings, makes=True)) as ledger:
        ledger.acquire_writer()
        rules = DeskRules(
            zones={name: watcher.endpoint for name, watcher in zones.items()},
            dispatch=DISPATCH_POLICIES.named(gateway.dispatch_policy),
            seed=gateway.seed,
            patience_s=gateway.patience_s,
            requests_in_hand=gateway.requests_in_hand,
            requests_an_hour=gateway.requests_an_hour,
        )
        desk = GatewayDesk(ledger, clock, rules, lambda: secrets.token_hex(16), wake)
        upkeep_rules = UpkeepRules(
            measuring=measuring_rules(settings),
            patience_s=gateway.patience_s,
            recompute_s=gateway.recompute_s,
            keep_s=settings.store.keep_log_days * DAY_S,
        )
        yield desk, Upkeep(ledger, desk, zones, clock, upkeep_rules, say)


def open_gateway_socket(settings: Settings, answer: AnswerLine) -> AbstractContextManager[Callable[[], bool]]:
    """The gateway's socket for all users of this machine; `answer` is called in threads of the socket's own."""
    from one_preempt.adapters.daemon_socket.line_socket import EVERYBODY, LineSocket

    # Fixed: an answer takes milliseconds, so places are for those who connect and say nothing, and each costs a thread.
    most, most_of_one_user, answer_within_s = 64, 16, 10.0
    listening = LineSocket(answer, EVERYBODY, "gateway.socket", answer_within_s, most, most_of_one_user)
    return listening.listening(Path(settings.gateway.socket))
