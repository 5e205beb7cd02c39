"""Collect the wheels that a package installs from: the locked requirements for each Python, and the project's own.

    python packaging/wheels.py FOLDER PYTHON...        for example: build/wheels 3.11 3.13

Beside the wheels there is a requirements-X.Y.txt for each Python, which names the wheels of that Python and their
digests: the machine on which the package is installed has no other Python's markers to judge, and no index to ask.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements/runtime.txt"
# The oldest C library among the supported distributions is that of AlmaLinux 8.
NEWEST_GLIBC = 28
OLDEST_GLIBC = 17


def main(arguments: list[str]) -> None:
    """Fill the folder; it is made where it is missing, and what is in it is used again."""
    folder, pythons = Path(arguments[0]), arguments[1:]
    folder.mkdir(parents=True, exist_ok=True)
    for former in [*folder.glob("one_preempt-*.whl"), *folder.glob("requirements-*.txt")]:
        former.unlink()
    ours = build_own(folder)
    named = {ours}
    for python in pythons:
        lock = folder / f"requirements-{python}.txt"
        lock.write_text("\n".join(locked_for(python, LOCK.read_text())) + "\n")
        download(lock, python, folder)
        wheels = sorted(used_by(python, lock.read_text(), folder))
        lock.write_text("".join(line_for(wheel) for wheel in [*wheels, ours]))
        named.update(wheels)
    for stale in set(folder.glob("*.whl")) - named:
        stale.unlink()


def locked_for(python: str, lock: str) -> Iterator[str]:
    """Each requirement of the lock that holds for CPython `python` on Linux, with its digests, without its marker."""
    environment = {
        "implementation_name": "cpython",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }
    for entry in lock.replace("\\\n", " ").splitlines():
        words, digests = entry.partition(" --hash=")[::2]
        if not words or words.startswith("#"):
            continue
        requirement = Requirement(words)
        if requirement.marker is None or requirement.marker.evaluate(environment):
            yield f"{requirement.name}{requirement.specifier} --hash={digests}"


def download(lock: Path, python: str, folder: Path) -> None:
    """Let pip download what `lock` names, as wheels for that Python and this kind of processor, digests checked."""
    machine = platform.machine()
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(NEWEST_GLIBC, OLDEST_GLIBC - 1, -1)]
    platforms += [f"manylinux{year}_{machine}" for year in (2014, 2010, 1)]
    tag = "cp" + python.replace(".", "")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
    command += [f"--abi={abi}" for abi in (tag, "abi3", "none")]
    command += [f"--platform={name}" for name in platforms]
    subprocess.run([*command, f"--dest={folder}", f"--requirement={lock}"], check=True)


def used_by(python: str, lock: str, folder: Path) -> Iterator[Path]:
    """The wheels in `folder` that the lock of this Python names."""
    wanted = {(canonicalize_name(name), version) for name, version in re.findall(r"^(\S+)==(\S+)", lock, re.MULTILINE)}
    digests = set(re.findall(r"sha256:([0-9a-f]+)", lock))
    for wheel in folder.glob("*.whl"):
        name, version, _build, tags = parse_wheel_filename(wheel.name)
        tag = "cp" + python.replace(".", "")
        fits = any(one.abi in (tag, "none", "abi3") for one in tags)
        if (name, str(version)) in wanted and fits and digest_of(wheel) in digests:
            yield wheel


def build_own(folder: Path) -> Path:
    """The project's wheel, from a copy of the source: what an earlier build left in the checkout gets into none."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    with TemporaryDirectory() as copy:
        copy_source(Path(copy))
        subprocess.run([*command, "--no-build-isolation", f"--wheel-dir={folder}", copy], check=True)
    (wheel,) = folder.glob("one_preempt-*.whl")
    return wheel


def copy_source(folder: Path) -> None:
    """What the project's wheel is made of, with modes that are the same for everybody, because a wheel keeps them."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "one_preempt", folder / "one_preempt", ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def digest_of(wheel: Path) -> str:
    """Its SHA-256."""
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def line_for(wheel: Path) -> str:
    """The requirement for exactly this file."""
    name, version, _build, _tags = parse_wheel_filename(wheel.name)
    return f"{name}=={version} --hash=sha256:{digest_of(wheel)}\n"


if __name__ == "__main__":
    main(sys.argv[1:])
