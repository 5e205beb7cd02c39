"""`one-preempt-place` as a process, the daemon away, on documents as oned writes them for a big cloud.

The recorded document is scaled: hosts and VMs repeated under new ids, and REQUIREMENTS that list every host for
every VM. The yardstick is lxml's pull parser streaming the same base64 text and forgetting it, in a process of its
own, in the same run. Times are CPU times (user and system) of the processes.

    python benchmarks/place.py [--hosts 1245] [--vms 100 1000 10000]
"""

from __future__ import annotations

import argparse
import base64
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

RECORDED = Path(__file__).resolve().parent.parent / "tests" / "recordings" / "7.4.0" / "place.stdin.base64.txt"
PLACE = Path(sys.executable).parent / "one-preempt-place"
STREAM = """
import base64, sys
from lxml import etree
parser = etree.XMLPullParser(events=("end",), huge_tree=True)
while piece := sys.stdin.buffer.read(1 << 20):
    parser.feed(base64.b64decode(piece))
    for _, element in parser.read_events():
        element.clear()
"""
CLAIMED_CPU_S, CLAIMED_MB = 1.0, 150
CLAIMED_RATIO, CLAIMED_MB_AT_SCALE = 2.5, 400
CLAIMED_EXPONENT = 1.15
MIB = 1 << 20


@dataclass(frozen=True)
class Ran:
    """What one process took and printed."""

    cpu_s: float
    peak_mb: float
    actions: int


def write_document(path: Path, hosts: int, vms: int) -> int:
    """Write the base64 text of a scaled document; its size as XML, in bytes."""
    size, left = 0, b""
    with path.open("wb") as stream:
        for part in scaled(base64.b64decode(RECORDED.read_bytes()), hosts, vms):
            size += len(part)
            whole = left + part
            cut = len(whole) - len(whole) % 3
            stream.write(base64.b64encode(whole[:cut]))
            left = whole[cut:]
        stream.write(base64.b64encode(left) + b"\n")
    return size


def scaled(document: bytes, hosts: int, vms: int) -> Iterator[bytes]:
    """The recorded document with so many hosts, and so many VMs that all wait and may go to each of them."""
    begin = document.index(b"<HOST_POOL>")
    recorded_hosts = re.findall(rb"<HOST><ID>.*?</HOST>", document[begin : document.index(b"</HOST_POOL>")], re.DOTALL)
    recorded_vms = [vm for vm in re.findall(rb"<VM><ID>\d+</ID><UID>.*?</VM>", document, re.DOTALL) if is_plain(vm)]
    yield document[: document.index(b"<VM>")]
    for vm_id in range(vms):
        yield renumbered(recorded_vms[vm_id % len(recorded_vms)], vm_id)
    yield b"</VM_POOL><HOST_POOL>"
    for host_id in range(hosts):
        yield renumbered(recorded_hosts[host_id % len(recorded_hosts)], host_id)
    yield document[document.index(b"</HOST_POOL>") : document.index(b"<REQUIREMENTS>")]
    yield b"<REQUIREMENTS>"
    every_host = b"".join(b"<ID>%d</ID>" % host_id for host_id in range(hosts))
    for vm_id in range(vms):
        yield (
            b"<VM><ID>%d</ID><HOSTS>%b</HOSTS><DATASTORES><ID>0</ID><ID>100</ID></DATASTORES></VM>"
            % (vm_id, every_host)
        )
    yield b"</REQUIREMENTS></SCHEDULER_DRIVER_ACTION>"


def is_plain(vm: bytes) -> bool:
    """Waits for its first start, without a NIC to be chosen (the recorded network has few leases)."""
    return b"<STATE>1</STATE>" in vm and b"<HISTORY>" not in vm and b"<NETWORK_MODE>" not in vm


def renumbered(element: bytes, number: int) -> bytes:
    """`element` under another id."""
    return re.sub(rb"<ID>\d+</ID>", b"<ID>%d</ID>" % number, element, count=1)


def run(command: Sequence[str | Path], document: Path, folder: Path) -> Ran:
    """Run a process on a document."""
    answer = folder / "answer"
    environment = {"PATH": os.environ["PATH"], "ONE_PREEMPT_CONF": str(folder / "one_preempt.conf")}
    with document.open("rb") as stdin, answer.open("wb") as stdout:
        process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command[0]} ended with status {status}")
    return Ran(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, answer.read_bytes().count(b"<ACTION>"))


def measure(hosts: int, vms: int, folder: Path) -> tuple[Ran, Ran, int]:
    """`place` and the yardstick on a document, each the fastest of some runs, and the size of the document."""
    document = folder / "document"
    size = write_document(document, hosts, vms)
    rounds = 2 if vms > 1000 else 5
    placed = min((run([PLACE], document, folder) for _ in range(rounds)), key=lambda ran: ran.cpu_s)
    streamed = min(
        (run([sys.executable, "-c", STREAM], document, folder) for _ in range(rounds)), key=lambda ran: ran.cpu_s
    )
    return placed, streamed, size


def failures(results: dict[int, tuple[Ran, Ran, int]]) -> Iterator[str]:
    """The claims that do not hold."""
    for vms, (placed, streamed, _) in results.items():
        if placed.actions == 0:
            yield f"{vms} VMs: nothing was placed"
        if vms <= 100 and (placed.cpu_s > CLAIMED_CPU_S or placed.peak_mb > CLAIMED_MB):
            yield f"{vms} VMs: more than {CLAIMED_CPU_S} CPU s or {CLAIMED_MB} MB"
        if vms >= 10_000 and (placed.cpu_s > CLAIMED_RATIO * streamed.cpu_s or placed.peak_mb > CLAIMED_MB_AT_SCALE):
            yield f"{vms} VMs: more than {CLAIMED_RATIO} times the yardstick or {CLAIMED_MB_AT_SCALE} MB"
    if {1000, 10_000} <= results.keys() and exponent(results) > CLAIMED_EXPONENT:
        yield f"from 1,000 to 10,000 VMs it grows faster than to the power of {CLAIMED_EXPONENT}"


def exponent(results: dict[int, tuple[Ran, Ran, int]]) -> float:
    """The power of the number of VMs with which the time grows from 1,000 to 10,000."""
    return math.log10(results[10_000][0].cpu_s / results[1000][0].cpu_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=1245)
    parser.add_argument("--vms", type=int, nargs="+", default=[100, 1000, 10_000])
    options = parser.parse_args()

    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = f"socket:\n  path: {folder}/none.sock\nstore:\n  held_capacity_file: {folder}/none.json\n"
        (folder / "one_preempt.conf").write_text(paths)
        print("   VMs x hosts   XML MB  place CPU s  peak MB  actions  lxml CPU s  ratio")
        for vms in options.vms:
            placed, streamed, size = results[vms] = measure(options.hosts, vms, folder)
            print(
                f"{vms:>6} x {options.hosts:<6}{size / 1e6:>8.1f}{placed.cpu_s:>13.2f}{placed.peak_mb:>9.0f}"
                f"{placed.actions:>9}{streamed.cpu_s:>12.2f}{placed.cpu_s / streamed.cpu_s:>7.2f}",
                flush=True,
            )
    if {1000, 10_000} <= results.keys():
        print(f"growth from 1,000 to 10,000 VMs: exponent {exponent(results):.2f}, claimed {CLAIMED_EXPONENT}")
    missed = list(failures(results))
    if missed:
        raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    main()
