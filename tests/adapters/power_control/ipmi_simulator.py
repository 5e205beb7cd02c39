"""A baseboard controller on loopback: OpenIPMI's ipmi_sim, whose chassis is a script that the test directs."""

from __future__ import annotations

import shlex
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

from tests.adapters.power_control.real_parts import ipmi_program

USER, PASSWORD = "admin", "open-sesame"  # ipmi_sim takes no spaces
Behaviour = Literal["obey", "ignore", "fail", "dawdle", "hang"]
_READY_S = 10
# The presence ping of ASF 2.0, which every IPMI controller answers without a login.
_PING = bytes.fromhex("0600ff06000011be80000000")

_CHASSIS = """#!/bin/sh
# ipmi_sim calls: chassis get power | chassis set power 1|0 | chassis set shutdown 1 | chassis check ...
echo "$*" >> {folder}/asked
action=$1; shift
case $(cat {folder}/behaviour) in
  fail) exit 1;;
  dawdle) sleep 0.3;;
  hang) while [ "$(cat {folder}/behaviour)" = hang ]; do sleep 0.05; done;;
esac
case $action in
  get) for name in "$@"; do
         if [ "$name" = power ]; then echo "power:$(cat {folder}/power)"; else echo "$name:0"; fi
       done;;
  set) while [ $# -gt 1 ]; do
         if [ "$(cat {folder}/behaviour)" != ignore ]; then
           case $1 in power) echo "$2" > {folder}/power;; shutdown) echo 0 > {folder}/power;; esac
         fi
         shift 2
       done;;
esac
"""

# The same before a machine that is elsewhere: `machine` followed by on, off, hard-off or status, which says on or off.
_CHASSIS_OF_MACHINE = """#!/bin/sh
echo "$*" >> {folder}/asked
action=$1; shift
case $action in
  get) for name in "$@"; do
         if [ "$name" = power ]; then
           case $({machine} status) in on) echo power:1;; off) echo power:0;; *) exit 1;; esac
         else echo "$name:0"; fi
       done;;
  set) while [ $# -gt 1 ]; do
         case "$1 $2" in
           "power 1") {machine} on;; "power 0") {machine} hard-off;; "shutdown 1") {machine} off;;
         esac > /dev/null || exit 1
         shift 2
       done;;
esac
"""

_LAN = """name "controller"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{folder}/chassis"
  user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
"""

_COMMANDS = """mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
mc_enable 0x20
"""


class IpmiSimulator:
    """One controller and the host behind it: a file, or what `machine` switches. Use it in a `with`."""

    def __init__(self, folder: Path, machine: Sequence[str] = ()) -> None:
        self._program = ipmi_program("ipmi_sim")
        self._folder = folder
        self.port = free_udp_port()
        (folder / "state").mkdir()
        self.behave("obey")
        self.set_power(False)
        (folder / "asked").touch()
        chassis = _CHASSIS_OF_MACHINE if machine else _CHASSIS
        (folder / "chassis").write_text(chassis.format(folder=folder, machine=shlex.join(machine)))
        (folder / "chassis").chmod(0o755)
        (folder / "lan.conf").write_text(_LAN.format(port=self.port, folder=folder, user=USER, password=PASSWORD))
        (folder / "commands").write_text(_COMMANDS)

    def __enter__(self) -> IpmiSimulator:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.behave("obey")
        self.stop()

    def start(self) -> None:
        """Start it and wait until it answers."""
        folder = self._folder
        arguments = ["-c", f"{folder}/lan.conf", "-f", f"{folder}/commands", "-s", f"{folder}/state", "-n"]
        with (folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [self._program, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.connect(("127.0.0.1", self.port))
            asker.settimeout(0.05)
            gives_up_at = time.monotonic() + _READY_S
            while time.monotonic() < gives_up_at and self.process.poll() is None:
                try:
                    asker.send(_PING)
                    asker.recv(64)
                except TimeoutError:
                    continue
                except ConnectionRefusedError:
                    time.sleep(0.02)  # until it listens
                    continue
                return
        raise AssertionError(f"ipmi_sim does not answer: {(folder / 'log').read_text()}")

    def stop(self) -> None:
        """End it as when a controller loses its power."""
        self.process.kill()
        self.process.wait()

    def behave(self, behaviour: Behaviour) -> None:
        """From now on obey, ignore orders and say yes, fail, answer after a while, or hang until told otherwise."""
        (self._folder / "behaviour").write_text(behaviour)

    def set_power(self, on: bool) -> None:
        """Put the host behind it into a state."""
        (self._folder / "power").write_text(f"{int(on)}\n")

    @property
    def power(self) -> bool:
        """Whether the host behind it is on."""
        return (self._folder / "power").read_text().strip() == "1"

    @property
    def asked(self) -> list[str]:
        """What the chassis was asked, each as ipmi_sim says it."""
        return (self._folder / "asked").read_text().splitlines()


def free_udp_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
