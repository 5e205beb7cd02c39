"""A cloud with several users behind a real socket, and a shell for each of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from one_preempt.configuration import settings
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.simulation.emulator.described_cloud import described_cloud
from one_preempt.simulation.emulator.description import Description
from one_preempt.simulation.emulator.endpoint_faults import EndpointFaults
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.objects import Caller, SimVm
from tests.stories.world import description

STARTS_AT_S = 1_790_000_000
WORKER, WITH_LEASE, PRIVATE = 0, 1, 2


@dataclass
class CloudOfUsers:
    """The cloud, whose time stands still, and the command line as its users have it: no configuration, no database."""

    cloud: SimulatedCloud
    lock: threading.RLock
    faults: EndpointFaults
    folder: Path
    url: str

    def run(self, user: str, *arguments: str, typed: str | None = None, **environment: str) -> Result:
        """One command of `user`."""
        auth = self.folder / f"{user}.auth"
        auth.write_text(f"{user}:{'opennebula' if user == 'oneadmin' else user}")
        auth.chmod(0o600)
        variables: dict[str, str | None] = {
            "ONE_AUTH": str(auth),
            "ONE_XMLRPC": self.url,
            "HOME": str(self.folder),
            "ONE_PREEMPT_CONF": None,
            "COLUMNS": None,
            **environment,
        }
        return CliRunner().invoke(cli, arguments, input=typed, env=variables)

    def submit(self, user: str, *options: str) -> Result:
        """`lease submit` of the worker template."""
        return self.run(user, "lease", "submit", "--template", str(WORKER), *options)

    def caller(self, user: str) -> Caller:
        """The user for calls beside the socket."""
        return self.cloud.caller(next(one.id for one in self.cloud.users.values() if one.name == user))

    def start(self, vm_id: int) -> None:
        """What the scheduler does."""
        with self.lock:
            self.cloud.vm_deploy(self.caller("oneadmin"), vm_id, 0)
            self.cloud.settle()

    def say(self, vm_id: int, name: str, text: str) -> None:
        """What the scheduler, or anybody who may, writes into the user template."""
        self.cloud.vms[vm_id].user_template[name] = [text]

    def living(self) -> list[SimVm]:
        """The VMs that are not DONE, oldest first."""
        return [vm for _id, vm in sorted(self.cloud.vms.items()) if vm.state.name != "DONE"]


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudOfUsers]:
    told = description([{"name": "node{}", "count": 2, "cpu": 4, "memory_mib": 16384}])
    told |= {
        "starts_at_s": STARTS_AT_S,
        "acls": [*told["acls"], "@100 TEMPLATE/* CREATE *", "@101 TEMPLATE/* CREATE *"],
        "vm_templates": [
            {"name": "wörker", "template": {"CPU": "1", "MEMORY": "512", "DESCRIPTION": "größer"}},
            {"name": "leased", "template": {"CPU": "1", "MEMORY": "512", "LEASE": {"TYPE": "BE-CANCELLABLE"}}},
            {"name": "private", "template": {"CPU": "1", "MEMORY": "512"}},
        ],
    }
    cloud = described_cloud(msgspec.convert(told, Description))
    for template_id in (WORKER, WITH_LEASE):
        cloud.vm_templates[template_id].permissions.other_u = True
    monkeypatch.setattr(settings, "DEFAULT_CONFIGURATION", tmp_path / "none.conf")
    lock, faults = threading.RLock(), EndpointFaults()
    with running_emulator(cloud, faults=faults, lock=lock) as url:
        yield CloudOfUsers(cloud, lock, faults, tmp_path, url)
