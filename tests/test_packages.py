"""What the packages contain, and what their scripts do, with stand-ins for Python and systemd below a folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from one_preempt import __version__

ROOT = Path(__file__).parents[1]
PACKAGING = ROOT / "packaging"
SET_UP = PACKAGING / "set-up"
SCRIPTS = [
    SET_UP,
    PACKAGING / "stage",
    PACKAGING / "build",
    *(PACKAGING / "deb" / n for n in ("postinst", "prerm", "postrm")),
]
DAEMON, GATEWAY = "one-preempt.service", "one-preempt-gateway.service"

# The machine's Python: says its version, and makes environments whose programs are stand-ins too.
PYTHON = """#!/bin/sh
version={version}
case "$*" in
    *version_info*) echo $version ;;
    *"-m venv"*)
        for last; do :; done
        mkdir -p "$last/bin" && cp "$0" "$last/bin/python" && cp "$ONE_PREEMPT_ROOT/program" "$last/bin/one-preempt" ;;
    *"-m pip install"*) echo "pip $*" >>{root}/calls; exit "$(cat {root}/pip-result)" ;;
esac
"""
PROGRAM = '#!/bin/sh\necho "one-preempt $*" >>{root}/calls\n'
STAND_INS = {
    "systemctl": """
        echo "systemctl $*" >>{root}/calls
        case "$*" in *ActiveState*) cat {root}/state-of-$5 ;; *User*) echo oneadmin ;; esac""",
    "getent": "test -f {root}/oneadmin",
    "runuser": 'shift 3; echo "as oneadmin: $1" >>{root}/calls; exec "$@"',
    "stat": "cat {root}/owner",
    "chown": 'echo "chown $1" >>{root}/calls',
    "sync": ":",
    "systemd-tmpfiles": 'echo "systemd-tmpfiles $*" >>{root}/calls',
}


class Machine:
    """A front-end below a folder, on which the package has been unpacked."""

    def __init__(self, root: Path, *pythons: str) -> None:
        self.root = root
        self.wheels = root / "usr/lib/one_preempt/wheels"
        self.configuration = root / "etc/one/schedulers/one_preempt.conf"
        self.links = root / "var/lib/one/remotes/scheduler/one_preempt"
        self.environments = root / "opt/one_preempt-environments"
        self.program = root / "opt/one_preempt"
        for folder in (
            "stand-ins",
            "usr/bin",
            "usr/lib/one_preempt/wheels",
            "etc/one/schedulers",
            "run/systemd/system",
        ):
            (root / folder).mkdir(parents=True)
        self.configuration.touch(0o644)
        (root / "oneadmin").touch()
        (root / "calls").touch()
        for name, said in (("pip-result", "0"), ("owner", "root:root")):
            (root / name).write_text(said)
        for unit in (DAEMON, GATEWAY):
            self.has(unit, "inactive")
        for name, script in STAND_INS.items():
            self.executable(root / "stand-ins" / name, "#!/bin/sh\n" + script)
        self.executable(root / "program", PROGRAM)
        self.has_pythons(*pythons)
        self.has_wheels_for("3.11", "3.13")

    def executable(self, path: Path, script: str, **words: str) -> None:
        for word, value in {"root": str(self.root), **words}.items():
            script = script.replace("{" + word + "}", value)
        path.write_text(script)
        path.chmod(0o755)

    def has(self, unit: str, state: str) -> None:
        (self.root / f"state-of-{unit}").write_text(state)

    def has_pythons(self, *versions: str) -> None:
        """The first is `python3`."""
        for former in (self.root / "usr/bin").iterdir():
            former.unlink()
        for version in versions:
            self.executable(self.root / "usr/bin" / f"python{version}", PYTHON, version=version)
        if versions:
            (self.root / "usr/bin/python3").symlink_to(f"python{versions[0]}")

    def has_wheels_for(self, *versions: str) -> None:
        for version in versions:
            (self.wheels / f"requirements-{version}.txt").touch()

    def set_up(self, verb: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "ONE_PREEMPT_ROOT": str(self.root),
            "PATH": f"{self.root}/stand-ins:/usr/sbin:/usr/bin:/sbin:/bin",
        }
        return subprocess.run(["sh", SET_UP, verb], env=environment, capture_output=True, text=True, check=False)

    def done(self, verb: str) -> list[str]:
        """What was called by a set-up that went well."""
        (self.root / "calls").write_text("")
        result = self.set_up(verb)
        assert result.returncode == 0, result.stderr
        return self.calls()

    def restarted(self) -> list[str]:
        """What a set-up that went well did to units that run, and in between."""
        calls = self.done("install")
        steps = [call for call in calls if re.match("systemctl (stop|start)|one-preempt db", call)]
        assert not steps or calls.index("systemctl daemon-reload") < calls.index(steps[0])
        return steps

    def calls(self) -> list[str]:
        return (self.root / "calls").read_text().splitlines()

    def environment(self) -> Path:
        """The one in use; there is no other."""
        (only,) = (path for path in self.environments.iterdir() if not path.name.startswith("."))
        assert self.program.readlink() == only
        return only


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, "3.11")


# -- the environment ---------------------------------------------------------------------------------------


def test_an_installation_makes_an_environment_from_the_wheels_alone_and_switches_nothing(machine: Machine) -> None:
    calls = machine.done("install")
    assert (machine.environment() / "made-for").read_text() == "3.11\n"
    (pip,) = [call for call in calls if call.startswith("pip")]
    assert "--require-hashes" in pip
    assert f"--no-index --find-links {machine.wheels}" in pip
    assert "requirements-3.11.txt" in pip
    assert not [call for call in calls if re.match("systemctl (start|stop|enable)", call)]


def test_an_upgrade_puts_a_new_environment_in_the_place_of_the_former(machine: Machine) -> None:
    machine.done("install")
    former = machine.environment()
    machine.done("install")
    assert machine.environment() != former


def test_an_environment_that_cannot_be_made_leaves_the_former_and_the_daemon_alone(machine: Machine) -> None:
    machine.done("install")
    former = machine.environment()
    machine.has(DAEMON, "active")
    (machine.root / "pip-result").write_text("1")
    result = machine.set_up("install")
    assert result.returncode == 1
    assert "what was installed stays as it was" in result.stderr
    assert machine.environment() == former
    assert not [call for call in machine.calls() if call.startswith("systemctl stop")]


def test_what_a_killed_set_up_left_is_deleted_by_the_next(machine: Machine) -> None:
    machine.done("install")
    (machine.environments / "3.11.unfinished").mkdir()
    (machine.environments / ".next").symlink_to("nowhere")
    machine.done("install")
    assert machine.environment().name != "3.11.unfinished"


def test_what_a_process_still_uses_is_kept(machine: Machine) -> None:
    machine.done("install")
    former = machine.environment()
    sleep = shutil.which("sleep")
    assert sleep is not None
    shutil.copy(sleep, former / "bin/used")
    with subprocess.Popen([former / "bin/used", "60"]) as process:
        machine.done("install")
        assert former.exists()
        process.kill()
    machine.done("install")
    assert not former.exists()


def test_an_environment_made_by_hand_gives_way(machine: Machine) -> None:
    (machine.program / "bin").mkdir(parents=True)
    machine.done("install")
    assert machine.environment().name.startswith("3.11.")


@pytest.mark.parametrize(
    ("pythons", "used"), [(["3.11"], "3.11"), (["3.9", "3.11"], "3.11"), (["3.12", "3.11", "3.13"], "3.13")]
)
def test_the_python_is_the_machines_own_or_else_the_newest_with_wheels(
    tmp_path: Path, pythons: list[str], used: str
) -> None:
    machine = Machine(tmp_path, *pythons)
    machine.done("install")
    assert machine.environment().name.startswith(used + ".")


def test_where_no_python_can_be_used_the_versions_are_named(tmp_path: Path) -> None:
    result = Machine(tmp_path, "3.9").set_up("install")
    assert result.returncode == 1
    assert "this package is for 3.11 3.13, and python3 is 3.9" in result.stderr


def test_another_python_of_the_machine_gets_another_environment_and_the_same_gets_none(machine: Machine) -> None:
    machine.done("install")
    former = machine.environment()
    assert not [call for call in machine.done("refresh") if call.startswith("pip")]
    assert machine.environment() == former
    machine.has_pythons("3.13", "3.11")
    machine.done("refresh")
    assert machine.environment().name.startswith("3.13.")


def test_a_python_without_wheels_is_no_reason_to_give_up_one_that_works(machine: Machine) -> None:
    machine.done("install")
    machine.has_pythons("3.14", "3.11")
    machine.done("refresh")
    assert machine.environment().name.startswith("3.11.")
    machine.has_pythons("3.14")
    (machine.environment() / "bin/python").unlink()
    result = machine.set_up("refresh")
    assert result.returncode == 0, "an upgrade of the system is not stopped"
    assert "this package is for 3.11 3.13" in result.stderr


def test_what_the_administrator_wants_besides_is_in_every_environment(machine: Machine) -> None:
    added = machine.root / "usr/local/lib/one_preempt"
    added.mkdir(parents=True)
    (added / "requirements.txt").write_text("pymysql\n")
    for _time in range(2):
        pips = [call for call in machine.done("install") if call.startswith("pip")]
        assert f"--find-links {added} -r {added}/requirements.txt" in pips[1]


# -- the daemon and the gateway ----------------------------------------------------------------------------


@pytest.mark.parametrize("running", [[DAEMON], [GATEWAY], [DAEMON, GATEWAY]])
def test_what_runs_is_stopped_the_databases_upgraded_and_all_of_it_started_again(
    machine: Machine, running: list[str]
) -> None:
    for unit in running:
        machine.has(unit, "active")
    names = " ".join(running)
    assert machine.restarted() == [
        f"systemctl stop {names}",
        "one-preempt db upgrade",
        f"systemctl start --no-block {names}",
    ]


def test_what_a_killed_set_up_stopped_is_started_by_the_next(machine: Machine) -> None:
    machine.has(GATEWAY, "active")
    upgrade = machine.root / "program"
    machine.executable(upgrade, '#!/bin/sh\n[ "$1" != db ] || kill -9 $PPID')
    assert machine.set_up("install").returncode == -9
    machine.executable(upgrade, PROGRAM)
    machine.has(GATEWAY, "inactive")
    machine.has(DAEMON, "active")
    assert machine.restarted()[-1] == f"systemctl start --no-block {DAEMON} {GATEWAY}"
    machine.has(DAEMON, "inactive")
    assert machine.restarted() == []


def test_a_database_that_cannot_be_upgraded_does_not_keep_the_daemon_stopped(machine: Machine) -> None:
    machine.has(DAEMON, "activating")
    machine.executable(machine.root / "program", PROGRAM + '[ "$1" != db ]')
    assert machine.restarted()[-1] == f"systemctl start --no-block {DAEMON}"


# -- the front-end -----------------------------------------------------------------------------------------


def test_the_configuration_becomes_readable_for_oneadmin_unless_somebody_changed_its_owner(machine: Machine) -> None:
    assert "chown root:oneadmin" in machine.done("install")
    assert machine.configuration.stat().st_mode & 0o777 == 0o640
    (machine.root / "owner").write_text("root:oneadmin")
    machine.configuration.chmod(0o644)
    assert "chown root:oneadmin" not in machine.done("install")
    assert machine.configuration.stat().st_mode & 0o777 == 0o644


def test_without_oneadmin_the_program_is_there_and_what_is_missing_is_said(machine: Machine) -> None:
    (machine.root / "oneadmin").unlink()
    result = machine.set_up("install")
    assert result.returncode == 0
    assert "there is no user oneadmin yet" in result.stderr
    assert machine.environment()
    assert not [call for call in machine.calls() if call.startswith(("chown", "systemd-tmpfiles", "as oneadmin"))]


def test_opennebula_7_gets_the_links_of_the_driver_by_oneadmin(machine: Machine) -> None:
    machine.done("install")
    assert not machine.links.exists(), "6.x has no such folder"
    machine.links.parent.mkdir(parents=True)
    assert "as oneadmin: sh" in machine.done("refresh")
    for name in ("place", "optimize"):
        assert (machine.links / name).readlink() == machine.program / f"bin/one-preempt-{name}"


def test_a_placer_of_the_sites_own_is_left_alone(machine: Machine) -> None:
    machine.links.mkdir(parents=True)
    (machine.links / "place").write_text("their own")
    machine.done("install")
    assert (machine.links / "place").read_text() == "their own"


def test_a_removal_stops_daemon_and_gateway_and_leaves_configuration_and_databases(machine: Machine) -> None:
    database = machine.root / "var/lib/one/one_preempt/leases.db"
    ledger = database.with_name("gateway.db")
    database.parent.mkdir(parents=True)
    database.touch()
    ledger.touch()
    machine.links.parent.mkdir(parents=True)
    machine.done("install")
    calls = machine.done("remove")
    for unit in (DAEMON, GATEWAY):
        assert calls.index(f"systemctl stop {unit}") < calls.index(f"systemctl --quiet disable {unit}")
    assert not machine.program.is_symlink()
    assert not machine.environments.exists()
    assert not machine.links.exists()
    assert database.exists()
    assert ledger.exists()
    assert machine.configuration.exists()


def test_a_removal_leaves_the_folder_that_oned_would_not_start_without(machine: Machine) -> None:
    machine.links.parent.mkdir(parents=True)
    machine.done("install")
    oned_conf = machine.root / "etc/one/oned.conf"
    oned_conf.write_text('SCHED_MAD = [ EXECUTABLE = "one_sched",\n  ARGUMENTS = "-t 15 -p dummy -o one_preempt" ]\n')
    assert "still names one_preempt" in machine.set_up("remove").stderr
    assert (machine.links / "place").is_symlink()
    machine.done("install")
    oned_conf.write_text('# -p one_preempt\nSCHED_MAD = [ ARGUMENTS = "-t 15 -p rank -o one_drs" ]\n')
    assert "still names" not in machine.set_up("remove").stderr
    assert not machine.links.exists()


def test_a_removal_says_that_nobody_schedules_while_mm_sched_is_masked(machine: Machine) -> None:
    machine.done("install")
    unit = machine.root / "etc/systemd/system/opennebula-scheduler.service"
    unit.parent.mkdir(parents=True)
    unit.symlink_to("/dev/null")
    assert "nobody starts VMs now" in machine.set_up("remove").stderr


# -- the packages ------------------------------------------------------------------------------------------

STAND_IN_FOR_THE_BUILD = """#!/bin/sh
shift
mkdir -p "$1" && cd "$1" && shift
touch one_preempt-0-py3-none-any.whl
for one; do touch requirements-$one.txt; done
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Build a package from a copy of what packages are built from, with empty wheels."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in ("packaging", "hooks", "etc", "docs"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("results", "__pycache__"))
    (copy / "one_preempt").mkdir()
    for file in ("README.md", "CHANGELOG.md", "LICENSE", "NOTICE", "one_preempt/__init__.py"):
        shutil.copy(ROOT / file, copy / file)
    (copy / "python").write_text(STAND_IN_FOR_THE_BUILD)
    (copy / "python").chmod(0o755)
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1800000000", "GIT_CEILING_DIRECTORIES": str(copy.parent)}

    def built(kind: str) -> Path:
        command: list[str | Path] = [copy / "packaging/build", kind, "./python", "3.11", "3.13"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (package,) = (copy / "dist").glob(f"*.{kind}")
        return package

    return built


def output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def files_staged(tmp_path: Path) -> dict[str, Path]:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in ("some-1-py3-none-any.whl", "requirements-3.11.txt"):
        (wheels / name).touch()
    subprocess.run([PACKAGING / "stage", wheels, tmp_path / "root"], check=True)
    return {
        "/" + str(path.relative_to(tmp_path / "root")): path
        for path in (tmp_path / "root").rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_the_packages_contain_what_install_md_says(tmp_path: Path) -> None:
    files = files_staged(tmp_path)
    text = (ROOT / "docs/administrator/install.md").read_text()
    told = re.findall(r"^\| `(/[^`]+)` \|", text, re.MULTILINE)
    assert told, "the table of what is where"
    made = {"/opt/one_preempt", "/opt/one_preempt-environments"}
    made |= {"/var/lib/one/one_preempt", "/var/lib/one/remotes/scheduler/one_preempt"}
    for path in told:
        assert path in made or any(file == path or file.startswith(path + "/") for file in files), path
    for file in files:
        assert any(file == path or file.startswith(path + "/") for path in told), f"{file} is not told of"
    assert all(not file.startswith("/opt") for file in files)
    beside = {"README.md", "CHANGELOG.md", "LICENSE", "NOTICE"}  # what the README leads to, and the licence demands
    assert {f"/usr/share/doc/one-preempt/{name}" for name in beside} <= files.keys()
    assert os.readlink(files["/usr/bin/one-preempt"]) == "/opt/one_preempt/bin/one-preempt"


def test_both_packages_take_the_same_files_for_configuration(tmp_path: Path) -> None:
    files = files_staged(tmp_path)
    conffiles = (PACKAGING / "deb/conffiles").read_text().split()
    spec = (PACKAGING / "rpm/one-preempt.spec").read_text()
    assert sorted(conffiles) == sorted(file for file in files if file.startswith("/etc/"))
    assert sorted(re.findall(r"^%config\(noreplace\) (\S+)$", spec, re.MULTILINE)) == sorted(conffiles)
    listed = re.findall(r"^(?:%\S+ )?(/\S+)$", spec.partition("\n%files\n")[2], re.MULTILINE)
    for file in files:
        assert any(file == path or file.startswith(path + "/") for path in listed), f"the rpm leaves {file} out"
    # rpm would give a folder of OpenNebula's another mode.
    assert not {"/etc/one", "/etc/one/schedulers", "/usr/bin"} & set(listed)


def test_every_unit_is_in_the_packages_starts_the_program_there_and_is_known_to_the_set_up(tmp_path: Path) -> None:
    files = files_staged(tmp_path)
    units = [path.removeprefix("/usr/lib/systemd/system/") for path in files if path.endswith(".service")]
    assert sorted(units) == sorted([DAEMON, GATEWAY])
    for name, runs in ((DAEMON, "daemon"), (GATEWAY, "gateway run")):
        text = files[f"/usr/lib/systemd/system/{name}"].read_text()
        assert f"ExecStart=/opt/one_preempt/bin/one-preempt {runs}\n" in text
        assert text.startswith(f"# To enable it: systemctl enable --now {name.removesuffix('.service')}. ")
    assert f"units='{DAEMON} {GATEWAY}'\n" in SET_UP.read_text()


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
def test_a_debian_package_can_be_built_and_asks_for_a_python_it_has_wheels_for(build: Callable[[str], Path]) -> None:
    package = build("deb")
    assert output("dpkg-deb", "--field", package, "Version").strip() == f"{__version__}-1"
    needed = output("dpkg-deb", "--field", package, "Depends")
    assert "python3-venv (>= 3.11) | python3.13-venv | python3.11-venv," in needed
    assert "python3-venv (<< 3.14) | python3.13-venv | python3.11-venv," in needed
    lines = output("dpkg-deb", "--contents", package).splitlines()
    assert all(line.split()[1] == "root/root" for line in lines)
    assert [line for line in lines if line.startswith("-rwxr-xr-x") and line.endswith("/usr/lib/one_preempt/set-up")]
    assert "@" not in output("dpkg-deb", "--field", package).replace("authors@one-preempt.invalid", "")


@pytest.mark.skipif(shutil.which("rpmbuild") is None, reason="rpmbuild is not installed")
def test_an_rpm_package_can_be_built_and_asks_for_a_python_it_has_wheels_for(build: Callable[[str], Path]) -> None:
    package = build("rpm")
    assert output("rpm", "-qp", "--queryformat", "%{VERSION}-%{RELEASE}", package) == f"{__version__}-1"
    assert "(/usr/bin/python3.11 or /usr/bin/python3.13)" in output("rpm", "-qp", "--requires", package)
    configured = output("rpm", "-qp", "--configfiles", package).split()
    assert sorted(configured) == sorted((PACKAGING / "deb/conffiles").read_text().split())


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing_in_the_scripts() -> None:
    done = subprocess.run(["shellcheck", *SCRIPTS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


# -- the wheels --------------------------------------------------------------------------------------------


def locked_for(python: str) -> dict[str, str]:
    """What is installed for this Python: version by name."""
    code = (
        "import sys; from pathlib import Path; import wheels\n"
        f"print('\\n'.join(wheels.locked_for({python!r}, Path('{ROOT}/requirements/runtime.txt').read_text())))"
    )
    lines = output(sys.executable, "-c", f"import sys; sys.path.insert(1, '{PACKAGING}'); {code}").splitlines()
    assert all("--hash=sha256:" in line for line in lines)
    return dict(line.split()[0].split("==") for line in lines)


def test_each_python_gets_what_the_lock_has_for_it() -> None:
    lock = (ROOT / "requirements/runtime.txt").read_text()
    older, newer = locked_for("3.11"), locked_for("3.13")
    assert older.keys() == newer.keys()
    assert {"numpy", "lxml", "msgspec", "sqlalchemy", "prometheus-client"} <= older.keys()
    assert "cffi" not in older, "PyPy's alone"
    for python, versions in ((older, "< '3.12'"), (newer, ">= '3.12'")):
        assert f"numpy=={python['numpy']} ; python_full_version {versions}" in lock


def test_a_wheel_is_made_of_the_same_whatever_the_umask_of_the_checkout(tmp_path: Path) -> None:
    checkout, copy = tmp_path / "checkout", tmp_path / "copy"
    for name in (
        "packaging/wheels.py",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "NOTICE",
        "one_preempt/core/rules.py",
    ):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).touch(0o600)
    (checkout / "one_preempt/core").chmod(0o700)
    shutil.copyfile(PACKAGING / "wheels.py", checkout / "packaging/wheels.py")
    copy.mkdir()
    code = f"import sys; sys.path.insert(1, '{checkout}/packaging'); import pathlib, wheels"
    output(sys.executable, "-c", f"{code}; wheels.copy_source(pathlib.Path('{copy}'))")
    assert (copy / "one_preempt/core").stat().st_mode & 0o777 == 0o755
    assert (copy / "one_preempt/core/rules.py").stat().st_mode & 0o777 == 0o644
    assert (copy / "LICENSE").stat().st_mode & 0o777 == 0o644


def test_packages_are_for_pythons_that_the_project_runs_on() -> None:
    needed = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert needed is not None
    lists = re.findall(r"\$\(or \$\(PYTHONS\),([^)]*)\)", (ROOT / "Makefile").read_text())
    assert len(lists) == 2
    for python in " ".join(lists).split():
        assert int(python.removeprefix("3.")) >= int(needed[1])
