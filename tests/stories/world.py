"""A small cloud with its daemon: what the stories and the crash tests are played on."""

from __future__ import annotations

import shutil
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from one_preempt.composition import open_store
from one_preempt.configuration.settings import Settings, StoreSettings
from tests.stories.processes import Daemon, DaemonDied, Emulator, Prepare

CYCLE_S = 15
GROUP_IDS = {"locals": 100, "externals": 101, "plain": 102}
RIGHTS: dict[str, Any] = {
    "beyond_rights": "hold",
    "rules": [{"name": "locals", "match": {"group": "locals"}, "may_preempt": True}],
    "rights": [
        {"name": "externals", "group": "externals", "may_claim": ["BE-CANCELLABLE", "BE-SUSPENDABLE", "DC-MIGRATABLE"]},
        {"name": "locals", "group": "locals", "may_claim": [], "may_preempt": True, "max_size": 4},
    ],
}
SETTINGS: dict[str, Any] = {
    "preemption": "act",
    "cycle_interval_s": CYCLE_S,
    "matchmaker": {"max_host": 0, "max_dispatch": 0},
    "limits": {"minimum_run_time_s": 0, "cooldown_s": 0, "victims_per_hour": 1000, "victim_retry_s": 60},
    "victims": {"methods": {"BE-SUSPENDABLE": ["stop", "undeploy"]}},
    "leases": RIGHTS,
    "log": {"level": "info"},
}


# Here daemons die and machines do not: ledgers need no disk, and no waiting for one at every commit.
MEMORY = Path("/dev/shm")


@cache
def _empty_ledger() -> Path:
    """A ledger without leases, made once: most of a daemon's first start is making its tables."""
    file = Path(tempfile.mkdtemp()) / "leases.db"
    open_store(Settings(store=StoreSettings(url=f"sqlite:///{file}"))).close()
    return file


def description(hosts: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A cloud with these hosts, four users and everything that a VM without disks needs."""
    return {
        "version": "7.4.0",
        "groups": [{"name": name} for name in GROUP_IDS],
        "users": [
            {"name": "lea", "group": "locals"},
            {"name": "eva", "group": "externals"},
            {"name": "evan", "group": "externals"},
            {"name": "paul", "group": "plain"},
            {"name": "root", "group": "oneadmin"},
        ],
        "acls": [
            f"@{gid} {right}"
            for gid in GROUP_IDS.values()
            for right in ("VM/* CREATE *", "HOST/* MANAGE #0", "DATASTORE/* USE #0", "NET/* USE #0")
        ],
        "clusters": [{"name": "main"}],
        "hosts": [{"cluster": "main", **host} for host in hosts],
        "datastores": [
            {
                "name": "shared",
                "type": "system",
                "ds_mad": "-",
                "tm_mad": "shared",
                "clusters": ["main"],
                "total_mib": 409600,
                "template": {"SHARED": "YES"},
            }
        ],
        "durations": {"save_mib_per_s": 200, "restore_mib_per_s": 200},
        **more,
    }


def _configure(file: Path, settings: dict[str, Any], ledger: Path) -> None:
    content = {**settings, "store": {"url": f"sqlite:///{ledger}"}}
    file.write_text(yaml.dump(content, Dumper=yaml.CSafeDumper))


@dataclass
class World:
    """One emulator, one daemon, and short words for what people do."""

    emulator: Emulator
    configuration: Path
    auth: Path
    folder: Path
    daemon: Daemon
    settings: dict[str, Any]
    ledger: Path
    prepare: Prepare | None = None

    @classmethod
    def begin(
        cls,
        folder: Path,
        cloud: dict[str, Any],
        settings: dict[str, Any] | None = None,
        prepare: Prepare | None = None,
    ) -> World:
        description_file = folder / "cloud.yaml"
        description_file.write_text(yaml.dump(cloud, Dumper=yaml.CSafeDumper))
        emulator = Emulator(description_file, folder)
        given = SETTINGS if settings is None else settings
        return cls._with_daemon(emulator, folder, given, [_empty_ledger()], prepare=prepare)

    @classmethod
    def _with_daemon(
        cls,
        emulator: Emulator,
        folder: Path,
        settings: dict[str, Any],
        ledger_files: Iterable[Path],
        dies_at: int = 0,
        prepare: Prepare | None = None,
    ) -> World:
        ledger = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else folder)) / "leases.db"
        for file in ledger_files:
            shutil.copy(file, ledger.parent)
        configuration = folder / "one_preempt.conf"
        _configure(configuration, settings, ledger)
        auth = folder / "one_auth"
        auth.write_text("oneadmin:opennebula\n")
        auth.chmod(0o600)
        daemon = Daemon(configuration, emulator.url, auth, folder, dies_at, prepare)
        return cls(emulator, configuration, auth, folder, daemon, settings, ledger, prepare)

    def copy(self, folder: Path, dies_at: int = 0) -> World:
        """A world in the same state with a daemon of its own; this one's daemon must not run any more."""
        assert not self.daemon.alive
        files = self.ledger.parent.iterdir()
        return self._with_daemon(self.emulator.copy(), folder, self.settings, files, dies_at, self.prepare)

    def close(self) -> None:
        self.daemon.kill()
        self.emulator.close()
        shutil.rmtree(self.ledger.parent)

    def reconfigure(self, settings: dict[str, Any]) -> None:
        """Other settings, and a new process that reads them."""
        self.settings = settings
        _configure(self.configuration, settings, self.ledger)
        self.restart_daemon()

    def restart_daemon(self, dies_at: int = 0) -> None:
        """SIGKILL and a new process."""
        self.daemon.kill()
        self.daemon = Daemon(self.configuration, self.emulator.url, self.auth, self.folder, dies_at, self.prepare)

    def cycle(self, seconds: int = CYCLE_S) -> dict[str, Any]:
        """Let time pass, then one cycle."""
        now_s = self.emulator.advance(seconds)
        return self.daemon.step(now_s)

    def cycles(self, count: int, seconds: int = CYCLE_S) -> None:
        for _ in range(count):
            self.cycle(seconds)

    def submit(
        self, user: str, *, cpu: float = 1, memory: int = 512, lease: dict[str, Any] | None = None, more: str = "",
        hold: bool = False,
    ) -> int:  # fmt: skip
        """A VM; its id."""
        vm_id = self.try_to_submit(user, cpu=cpu, memory=memory, lease=lease, more=more, hold=hold)
        assert vm_id is not None
        return vm_id

    def try_to_submit(
        self, user: str, *, cpu: float, memory: int, lease: dict[str, Any] | None, more: str, hold: bool = False
    ) -> int | None:
        """A VM; its id, or None where a quota forbids it."""
        template = f'NAME="{user}"\nCPU="{cpu}"\nMEMORY="{memory}"\n{more}\n'
        if lease is not None:
            values = ", ".join(f'{name}="{value}"' for name, value in lease.items())
            template += f"LEASE=[{values}]\n"
        accepted, value = self.emulator.call(user, "one.vm.allocate", template, hold)
        assert accepted or "quota" in value, value
        return int(value) if accepted else None

    def set_quota(self, name: str, limits: dict[str, int]) -> None:
        """Of a user or a group."""
        values = ", ".join(f'{metric}="{limit}"' for metric, limit in limits.items())
        text = f"VM=[{values}]"
        if name in GROUP_IDS:
            self.emulator.must("root", "one.group.quota", GROUP_IDS[name], text)
        else:
            self.emulator.must("root", "one.user.quota", self.user_ids[name][0], text)

    def action(self, user: str, action: str, vm_id: int) -> bool:
        """Whether oned accepted it."""
        return self.emulator.call(user, "one.vm.action", action, vm_id)[0]

    def vm(self, vm_id: int) -> ElementTree.Element:
        return ElementTree.fromstring(self.emulator.must("oneadmin", "one.vm.info", vm_id, False))

    def state(self, vm_id: int) -> str:
        """STATE/LCM_STATE as numbers, "3/3" is RUNNING."""
        return self.states()[vm_id]

    def states(self) -> dict[int, str]:
        """The state of every VM there ever was."""
        pool = ElementTree.fromstring(self.emulator.must("root", "one.vmpool.info", -2, -1, -1, -2))
        return {int(vm.findtext("ID", "")): f"{vm.findtext('STATE')}/{vm.findtext('LCM_STATE')}" for vm in pool}

    def host_documents(self) -> list[dict[str, int]]:
        """The books of every host."""
        pool = ElementTree.fromstring(self.emulator.must("root", "one.hostpool.info"))
        paths = {
            "id": "ID",
            "state": "STATE",
            "cpu": "HOST_SHARE/CPU_USAGE",
            "max_cpu": "HOST_SHARE/MAX_CPU",
            "memory": "HOST_SHARE/MEM_USAGE",
            "max_memory": "HOST_SHARE/MAX_MEM",
        }
        return [{name: int(host.findtext(path, "0")) for name, path in paths.items()} for host in pool]

    def running_on(self, host_id: int) -> list[int]:
        """The VMs that hold a host's capacity."""
        pool = ElementTree.fromstring(self.emulator.must("root", "one.hostpool.info"))
        return [
            int(vm.text or -1) for host in pool if host.findtext("ID") == str(host_id) for vm in host.findall("VMS/ID")
        ]

    @cached_property
    def user_ids(self) -> dict[str, tuple[int, int]]:
        """(uid, gid) by name."""
        pool = ElementTree.fromstring(self.emulator.must("root", "one.userpool.info"))
        return {
            user.findtext("NAME", ""): (int(user.findtext("ID", "-1")), int(user.findtext("GID", "-1")))
            for user in pool.findall("USER")
        }

    def is_running(self, vm_id: int) -> bool:
        return self.state(vm_id) == "3/3"

    def is_deployed(self, vm_id: int) -> bool:
        """It is on a host, running or about to."""
        return self.state(vm_id).startswith("3/")

    def until(self, condition: Any, cycles: int = 40) -> None:
        """Cycle until `condition()`; fails with the daemon's log where it never comes."""
        for _ in range(cycles):
            if condition():
                return
            self.cycle()
        raise AssertionError(f"it never came\n{self.daemon.log}")


__all__ = ["CYCLE_S", "DaemonDied", "World", "description"]
