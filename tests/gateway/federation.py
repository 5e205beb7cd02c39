"""Three emulated zones with users in common, a gateway between them over a real socket, and a shell for each user."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml
from click.testing import CliRunner, Result

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.lease_store.sql_gateway_ledger import SqlGatewayLedger
from one_preempt.configuration.settings import Settings, parse_settings
from one_preempt.core.gateway.requests import GatewayRequest
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.entrypoints.gateway_service import answers_of
from one_preempt.gateway.desk import GatewayDesk
from one_preempt.gateway.upkeep import Upkeep
from one_preempt.gateway_composition import open_gateway, open_gateway_ledger, open_gateway_socket
from one_preempt.simulation.emulator.described_cloud import described_cloud
from one_preempt.simulation.emulator.description import Description
from one_preempt.simulation.emulator.endpoint_faults import EndpointFault, EndpointFaults, FaultKind
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN, Caller, SimVm, SimZone
from tests.stories.world import MEMORY, description

STARTS_AT_S = 1_790_000_000
PATIENCE_S = 180
ZONES = {"north": 2, "south": 4, "west": 8}
"""How many hosts of 4 cores each has."""
GIVEN: dict[str, Any] = {
    "external": {"rate_per_h": 6, "mean_work_h": 1.0, "variation": 1.0},
    "allocation_policy": "bcf",
}


class Zone:
    """One emulated zone; its time stands still."""

    def __init__(self, name: str, hosts: int) -> None:
        told = description([{"name": "node{}", "count": hosts, "cpu": 4, "memory_mib": 16384}])
        told |= {
            "starts_at_s": STARTS_AT_S,
            "vm_templates": [{"name": "worker", "template": {"CPU": "1", "MEMORY": "512"}}],
            "acls": [*told["acls"], "@101 TEMPLATE/* CREATE *"],
        }
        self.name = name
        self.cloud: SimulatedCloud = described_cloud(msgspec.convert(told, Description))
        self.cloud.vm_templates[0].permissions.other_u = True
        self.faults = EndpointFaults()
        self.lock = threading.RLock()
        self.url = ""

    def living(self) -> list[SimVm]:
        """The VMs that are not DONE, oldest first."""
        return [vm for _id, vm in sorted(self.cloud.vms.items()) if vm.state.name != "DONE"]

    def fails(self, kind: FaultKind = FaultKind.CLOSE, method: str = "*", count: int = 100, skip: int = 0) -> None:
        """It does from now on."""
        self.faults.add(EndpointFault(kind, method, count, skip))

    def caller(self, user: str) -> Caller:
        """The user for calls beside the socket."""
        return self.cloud.caller(next(one.id for one in self.cloud.users.values() if one.name == user))

    def run_for(self, vm_ids: Sequence[int], lasts_s: int) -> None:
        """VMs are started, run for so long, and end."""
        with self.lock:
            for place, vm_id in enumerate(vm_ids):
                self.cloud.vm_deploy(ONEADMIN, vm_id, place % len(self.cloud.hosts))
            self.cloud.settle()
            self.cloud.advance(lasts_s)
            for vm_id in vm_ids:
                self.cloud.vm_action(ONEADMIN, "terminate-hard", vm_id)
            self.cloud.settle()


class Federation:
    """All of it. `restart` is what happens to a gateway that was killed."""

    def __init__(self, folder: Path, zones: dict[str, Zone], configured: dict[str, Any]) -> None:
        self.folder = folder
        self.zones = zones
        self.socket = folder / "gateway.sock"
        self.clock = FixedClock(STARTS_AT_S)
        self.said: list[str] = []
        self._opened = ExitStack()
        admin = self.auth("oneadmin")
        gateway = {
            "zones": [{"name": zone.name, "endpoint": zone.url, "auth_file": str(admin)} for zone in zones.values()],
            "socket": str(self.socket),
            "store_url": f"sqlite:///{folder}/gateway.db",
            "patience_s": PATIENCE_S,
            **GIVEN,
            **configured,
        }
        opennebula = {
            "endpoint": next(iter(zones.values())).url,
            "auth_file": str(admin),
            "connect_timeout_s": 10.0,
            "read_timeout_s": 30.0,
        }
        self.configuration = folder / "one_preempt.conf"
        self._written = {"gateway": gateway, "opennebula": opennebula}
        self.settings = self._configured()
        self.desk: GatewayDesk
        self.upkeep: Upkeep

    def _configured(self, without: str = "") -> Settings:
        """The settings, which stand in the file from now on; perhaps without one of the zones."""
        zones = [zone for zone in self._written["gateway"]["zones"] if zone["name"] != without]
        text = yaml.safe_dump({**self._written, "gateway": {**self._written["gateway"], "zones": zones}})
        self.configuration.write_text(text)
        return parse_settings(text, "the configuration of the test")

    def configure_zones(self, **of_each: Any) -> None:
        """From the next start on the configuration says this of every zone."""
        for zone in self._written["gateway"]["zones"]:
            zone.update(of_each)

    def start(self) -> None:
        """Run the gateway; rounds of its upkeep are made by the test."""
        self.desk, self.upkeep = self._opened.enter_context(
            open_gateway(self.settings, self.clock, self.said.append, lambda: None)
        )
        self._opened.enter_context(open_gateway_socket(self.settings, answers_of(self.desk)))

    def stop(self) -> None:
        """Nothing of the process is left."""
        self._opened.close()

    def restart(self, without: str = "") -> None:
        """A new process over the same ledger, perhaps without a zone that it had."""
        self.stop()
        self.settings = self._configured(without)
        self.start()

    def round(self, after_s: int = 0) -> None:
        """One round of the upkeep, so long afterwards."""
        self.clock.set(self.clock.now_s() + after_s)
        self.upkeep.round()

    def auth(self, user: str) -> Path:
        """The credentials of a user."""
        file = self.folder / f"{user}.auth"
        file.write_text(f"{user}:{'opennebula' if user == 'oneadmin' else user}")
        file.chmod(0o600)
        return file

    def run(self, user: str, *arguments: str, typed: str | None = None) -> Result:
        """One command of a user, who has no configuration; of oneadmin, who has."""
        variables: dict[str, str | None] = {
            "ONE_AUTH": str(self.auth(user)),
            "ONE_XMLRPC": None,
            "HOME": str(self.folder),
            "ONE_PREEMPT_CONF": str(self.configuration) if user == "oneadmin" else None,
            "COLUMNS": None,
        }
        place = () if user == "oneadmin" else ("--socket", str(self.socket))
        return CliRunner().invoke(cli, ["gateway", *arguments, *place], input=typed, env=variables)

    def told(self, user: str, *arguments: str) -> Any:
        """The document that a command answers, which must work."""
        result = self.run(user, *arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def submit(self, *options: str, user: str = "eva") -> Result:
        """`gateway submit` of the worker template."""
        return self.run(user, "submit", "--template", "worker", "--type", "BE-SUSPENDABLE", *options)

    def submitted(self, *options: str, user: str = "eva") -> dict[str, Any]:
        """What a submission that works answers."""
        result = self.submit(*options, "--json", user=user)
        assert result.exit_code == 0, result.output
        answer: dict[str, Any] = json.loads(result.stdout)
        return answer

    def request(self, number: int) -> GatewayRequest:
        """What the ledger has of a request."""
        ledger = open_gateway_ledger(self.settings, makes=False)
        try:
            found = ledger.request(number)
        finally:
            ledger.close()
        assert found is not None
        return found

    def balances(self) -> dict[str, float]:
        """How far zones are ahead."""
        ledger = open_gateway_ledger(self.settings, makes=False)
        try:
            return {zone: ahead for zone, ahead in ledger.balances("BE-SUSPENDABLE").items() if ahead}
        finally:
            ledger.close()

    def vms(self) -> dict[str, int]:
        """How many VMs that are not DONE each zone has."""
        return {name: len(zone.living()) for name, zone in self.zones.items()}


@cache
def empty_ledger() -> Path:
    """A ledger without requests, made once: most of a gateway's first start is making its tables."""
    file = Path(tempfile.mkdtemp()) / "gateway.db"
    SqlGatewayLedger(f"sqlite:///{file}").close()
    return file


def join(zones: Collection[Zone], disabled: str = "") -> None:
    """From now on all zones know each other; the first one is the master. Rules of tests are for that one alone."""
    ids = (0, *range(100, 99 + len(zones)))
    known = [
        SimZone(zone_id, zone.name, zone.url, is_enabled=zone.name != disabled)
        for zone_id, zone in zip(ids, zones, strict=True)
    ]
    for told, zone in zip(known, zones, strict=True):
        zone.cloud.join_federation(told.id, known)


@contextmanager
def federation(**configured: Any) -> Iterator[Federation]:
    """Zones that have users in common and know nothing of each other, and a gateway that has measured them once."""
    with _running(configured, know_each_other=False) as all_of_it:
        yield all_of_it


@contextmanager
def true_federation(**of_each_zone: Any) -> Iterator[Federation]:
    """The same with zones that know each other, and are asked where they are."""
    zones = [{"name": name, **of_each_zone} for name in ZONES]
    with _running({"zones": zones}, know_each_other=True) as all_of_it:
        yield all_of_it


@contextmanager
def _running(configured: dict[str, Any], *, know_each_other: bool) -> Iterator[Federation]:
    # The name of a socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="gw", dir=MEMORY if MEMORY.is_dir() else None))
    shutil.copy(empty_ledger(), folder / "gateway.db")
    zones = {name: Zone(name, hosts) for name, hosts in ZONES.items()}
    try:
        with ExitStack() as stack:
            for zone in zones.values():
                zone.url = stack.enter_context(running_emulator(zone.cloud, faults=zone.faults, lock=zone.lock))
            if know_each_other:
                join(zones.values())
            all_of_it = Federation(folder, zones, configured)
            all_of_it.start()
            stack.callback(all_of_it.stop)
            all_of_it.round()
            yield all_of_it
    finally:
        shutil.rmtree(folder)
