"""Real parts for the tests: ipmitool, OpenIPMI's ipmi_sim, the emulator of sushy-tools, and a server for ssh.

What is installed is used. What is not is fetched without root into a cache folder (ONE_PREEMPT_REAL_PARTS, else
below ~/.cache): Debian packages by `apt-get download` and `dpkg -x`, Python packages into environments of their own.
Where that cannot be, the test is skipped and says why; ONE_PREEMPT_NO_SKIP=1 makes it fail instead.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

_SUSHY_TOOLS = "sushy-tools==2.2.0"
_ASYNCSSH = "asyncssh==2.24.1"
_DEBIAN_PACKAGES = ("openipmi", "ipmitool")
_FETCH_S = 120
_looked_for: dict[str, Path | str] = {}


class _Missing(Exception):
    pass


def ipmi_program(name: str) -> Path:
    """ipmitool or ipmi_sim, installed or unpacked from Debian's packages; else the test is skipped."""
    found = shutil.which(name)
    return Path(found) if found is not None else _or_skip(name, lambda: _unpacked_program(name))


def sushy_emulator() -> list[str]:
    """The arguments that start sushy-tools' emulator; else the test is skipped."""
    python = _python_with("sushy_tools", _SUSHY_TOOLS)
    return [python, "-c", "from sushy_tools.emulator.main import main; main()"]


def python_with_asyncssh() -> str:
    """A Python that can serve ssh; else the test is skipped."""
    return _python_with("asyncssh", _ASYNCSSH)


def _python_with(module: str, requirement: str) -> str:
    if importlib.util.find_spec(module) is not None:
        return sys.executable
    return str(_or_skip(requirement, lambda: _own_environment(requirement)))


def installed(name: str) -> str:
    """A program that nearly every machine has; else the test is skipped."""
    return shutil.which(name) or _skip(f"{name} is not here; install it")


def _or_skip(name: str, find: Callable[[], Path]) -> Path:
    """What `find` finds, looked for once a process, found or not."""
    if name not in _looked_for:
        try:
            _looked_for[name] = find()
        except _Missing as missing:
            _looked_for[name] = str(missing)
    found = _looked_for[name]
    return found if isinstance(found, Path) else _skip(f"{name} is not here: {found}")


def _skip(reason: str) -> NoReturn:
    if os.environ.get("ONE_PREEMPT_NO_SKIP") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def _unpacked_program(name: str) -> Path:
    with _cache() as cache:
        root = cache / "debian"
        if not (root / ".complete").exists():
            _unpack(root)
        executable = root / "usr/bin" / name
        if not executable.exists():
            raise _Missing("Debian's packages do not hold it")
        libraries = ":".join(sorted({str(path.parent) for path in root.glob("usr/lib/**/*.so.*")}))
        wrapper = root / name
        wrapper.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{executable}" "$@"\n')
        wrapper.chmod(0o755)
        return wrapper


def _unpack(root: Path) -> None:
    for needed in ("apt-get", "apt-cache", "dpkg", "dpkg-query"):
        if shutil.which(needed) is None:
            raise _Missing(f"{needed} is missing; install openipmi and ipmitool")
    shutil.rmtree(root, ignore_errors=True)
    packages = root / "packages"
    packages.mkdir(parents=True)
    wanted = [*_DEBIAN_PACKAGES, *_missing_libraries()]
    _run(["apt-get", "download", *wanted], "install openipmi and ipmitool", packages)
    for package in sorted(packages.glob("*.deb")):
        _run(["dpkg", "-x", str(package), str(root)], "install openipmi and ipmitool")
    (root / ".complete").touch()


def _missing_libraries() -> list[str]:
    """The libraries that the packages depend on, as this Debian names them, and theirs, where they are lacking."""
    needs = ["--recurse", "--no-recommends", "--no-suggests", "--no-enhances", "--no-conflicts", "--no-breaks"]
    said = _run(["apt-cache", "depends", *needs, "--no-replaces", *_DEBIAN_PACKAGES], "run apt-get update")
    names = {line.split(":", 1)[1].strip() for line in said.splitlines() if line.strip().startswith("Depends: lib")}
    known = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\n"], capture_output=True, text=True, check=False)
    lacking = names - set(known.stdout.split())
    return sorted(name for name in lacking if not name.endswith("-perl"))


def _own_environment(requirement: str) -> Path:
    with _cache() as cache:
        environment = cache / requirement
        python = environment / "bin/python"
        if not (environment / ".complete").exists():
            shutil.rmtree(environment, ignore_errors=True)
            mend = f"pip install {requirement}"
            _run([sys.executable, "-m", "venv", str(environment)], mend)
            _run([str(python), "-m", "pip", "install", "--quiet", requirement], mend)
            (environment / ".complete").touch()
        return python


@contextmanager
def _cache() -> Iterator[Path]:
    """The cache folder, held by one process at a time."""
    named = os.environ.get("ONE_PREEMPT_REAL_PARTS")
    folder = Path(named) if named else Path.home() / ".cache" / "one_preempt" / "real_parts"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise _Missing(f"nothing can be kept in {folder}: {error.strerror}") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _run(arguments: Sequence[str], mend: str, folder: Path | None = None) -> str:
    try:
        done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=_FETCH_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise _Missing(f"{arguments[0]} failed ({said[-1] if said else error}); {mend}") from None
    return done.stdout
