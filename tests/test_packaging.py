"""The files for systemd and its neighbours: they can be read, and they agree with the code and the documents."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from one_preempt.configuration.settings import Settings
from one_preempt.entrypoints.daemon import LONGEST_PAUSE_S, SIGN_OF_LIFE_S

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "packaging/systemd/one-preempt.service"
GATEWAY_UNIT = ROOT / "packaging/systemd/one-preempt-gateway.service"
TMPFILES = ROOT / "packaging/tmpfiles/one_preempt.conf"
LOGROTATE = ROOT / "packaging/logrotate/one_preempt"
MINUTE_S = 60


def entries() -> list[tuple[str, str, str]]:
    """(section, key, value) of the unit, in order."""
    section, found = "", []
    for line in UNIT.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section = line
            continue
        key, equal, value = line.partition("=")
        assert equal, f"{line!r} is no entry of a unit"
        found.append((section, key, value))
    return found


def value_of(wanted: str) -> str:
    (value,) = [value for _section, key, value in entries() if key == wanted]
    return value


def test_the_unit_has_the_sections_that_systemd_knows_and_no_key_twice() -> None:
    found = [(section, key) for section, key, _value in entries()]
    assert {section for section, _key in found} == {"[Unit]", "[Service]", "[Install]"}
    assert len(found) == len(set(found))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", [UNIT, GATEWAY_UNIT], ids=lambda unit: unit.name)
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path, unit: Path) -> None:
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"^ExecStart=.*", "ExecStart=/bin/true", unit.read_text(), flags=re.MULTILINE))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_unit_runs_as_oneadmin_after_oned_and_may_write_where_the_daemon_does() -> None:
    assert (value_of("User"), value_of("Group"), value_of("Type")) == ("oneadmin", "oneadmin", "notify")
    before_it = {"opennebula.service", "mariadb.service", "mysql.service", "postgresql.service"}
    assert before_it <= set(value_of("After").split()), "what oned and a database on this machine run as"
    writable = {Path(path.removeprefix("-")) for path in value_of("ReadWritePaths").split()}
    shipped = Settings()
    assert Path(shipped.socket.path).parent in writable
    assert shipped.store.held_capacity_path.parent in writable
    assert Path(shipped.store.url.partition(":///")[2]).parent in writable


def test_the_watchdog_is_patient_enough_for_the_signs_of_life() -> None:
    minutes = re.fullmatch(r"(\d+)min", value_of("WatchdogSec"))
    assert minutes is not None
    assert int(minutes[1]) * MINUTE_S > 2 * (LONGEST_PAUSE_S + SIGN_OF_LIFE_S)


def test_the_folders_that_are_made_belong_to_oneadmin() -> None:
    lines = [line.split() for line in TMPFILES.read_text().splitlines() if not line.startswith("#")]
    assert {line[1] for line in lines} == {"/run/one", "/var/lib/one/one_preempt"}
    assert all(line[0] == "d" and line[3:5] == ["oneadmin", "oneadmin"] for line in lines)
    modes = {line[1]: line[2] for line in lines}
    # Another mode than OpenNebula's packages say would be in force, with a warning at each boot.
    assert modes == {"/var/lib/one/one_preempt": "0700", "/run/one": "0750"}


def test_the_log_that_is_rotated_is_the_one_the_documents_name() -> None:
    text = LOGROTATE.read_text()
    (path,) = re.findall(r"^(/\S+) \{$", text, re.MULTILINE)
    assert text.count("{") == text.count("}") == 1
    assert "copytruncate" in text, "the daemon keeps its log open"
    assert not re.findall(r"^\s*(?:su|create)\b", text, re.MULTILINE), "logrotate fails where a user is missing"
    assert path in (ROOT / "docs/administrator/install.md").read_text()


def test_the_way_by_hand_names_the_files_that_are_shipped() -> None:
    text = (ROOT / "docs/administrator/install-by-hand.md").read_text()
    for path in (UNIT, GATEWAY_UNIT, TMPFILES, LOGROTATE):
        assert str(path.relative_to(ROOT)) in text


def test_the_unit_of_the_gateway_is_that_of_the_daemon_but_for_what_it_runs() -> None:
    def of(path: Path) -> list[str]:
        lines = path.read_text().splitlines()
        return [line for line in lines if line and not line.startswith(("#", *of_its_own))]

    # The daemon alone copies images by ssh; the gateway alone is asked by all users.
    of_its_own = ("Description=", "ExecStart=", "EnvironmentFile=", "RuntimeDirectory=")
    assert of(GATEWAY_UNIT) == of(UNIT)
    assert "ExecStart=/opt/one_preempt/bin/one-preempt gateway run" in GATEWAY_UNIT.read_text().splitlines()
    shipped, writable = Settings().gateway, value_of("ReadWritePaths")
    assert f"RuntimeDirectory={Path(shipped.socket).parent.relative_to('/run')}\n" in GATEWAY_UNIT.read_text()
    assert str(Path(shipped.store_url.partition(":///")[2]).parent) in writable
