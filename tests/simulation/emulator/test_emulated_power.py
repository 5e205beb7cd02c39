"""Machines of the emulator switched by the program that stands for a controller."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.emulator.serving import running_emulator
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN


def switched(url: str, auth_file: Path, host: str, order: str) -> tuple[int, str]:
    """Exit code and what was written."""
    command = [sys.executable, "-m", "one_preempt.simulation.emulator.power_command", url, str(auth_file), host, order]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def test_a_machine_goes_off_and_boots_by_command(tmp_path: Path) -> None:
    auth_file = tmp_path / "one_auth"
    auth_file.write_text("oneadmin:opennebula\n")
    cloud = shipped_cloud("demo")
    name = cloud.hosts[0].name
    with running_emulator(cloud, control=True) as url:
        assert switched(url, auth_file, name, "status") == (0, "on")
        assert switched(url, auth_file, name, "hard-off") == (0, "on")
        cloud.advance(1)
        assert switched(url, auth_file, name, "status") == (0, "off")
        assert cloud.audit() == []
        assert switched(url, auth_file, name, "on") == (0, "on")
        cloud.advance(120)
        assert cloud.host_info(ONEADMIN, 0).alive
        code, said = switched(url, auth_file, "elsewhere", "on")
        assert code == 1
        assert "there is no host named 'elsewhere'" in said
