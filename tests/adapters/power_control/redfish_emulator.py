"""A Redfish service on loopback: the emulator of sushy-tools with its fake driver.

The fake driver lets a power change take effect after a random number of seconds. The emulator's configuration
is a Python file, so the number comes from a file that the test writes: 0 unless told otherwise.
"""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from tests.adapters.power_control.real_parts import sushy_emulator

USER, PASSWORD = "admin", "open sesame"
NEVER_S = 10**6
# The password with bcrypt at its least cost, as the emulator wants it.
_PASSWORDS = f"{USER}:$2b$04$W35otKNpa5SRCSizRuAGoeiZt2.ZXqxS4FrdKANXt7mTuWOS0evKq\n"
_READY_S = 20

_CONFIGURATION = """import random
random.randint = lambda least, most: int(open({delay!r}).read())
SUSHY_EMULATOR_LISTEN_IP = "127.0.0.1"
SUSHY_EMULATOR_LISTEN_PORT = {port}
SUSHY_EMULATOR_FAKE_DRIVER = True
SUSHY_EMULATOR_STATE_DIR = {folder!r}
SUSHY_EMULATOR_AUTH_FILE = {passwords!r}
SUSHY_EMULATOR_FAKE_SYSTEMS = {systems!r}
"""


class RedfishEmulator:
    """One controller with one system or several. Use it in a `with`."""

    def __init__(self, folder: Path, systems: int = 1, certificate: tuple[Path, Path] | None = None) -> None:
        """`certificate` are the files of the certificate and its key, where it is to speak TLS."""
        self._arguments = [*sushy_emulator(), "--config", str(folder / "emulator.conf"), "--fake"]
        self._folder = folder
        self.port = _free_tcp_port()
        self.endpoint = f"http{'s' if certificate else ''}://127.0.0.1:{self.port}"
        self.take_effect_after(0)
        (folder / "passwords").write_text(_PASSWORDS)
        configuration = _CONFIGURATION.format(
            delay=str(folder / "delay_s"),
            port=self.port,
            folder=str(folder),
            passwords=str(folder / "passwords"),
            systems=[
                {
                    "uuid": f"27946b59-9e44-4fa7-8e91-00000000000{number}",
                    "name": f"system{number}",
                    "power_state": "Off",
                    "nics": [],
                }
                for number in range(1, systems + 1)
            ],
        )
        if certificate is not None:
            configuration += f"SUSHY_EMULATOR_SSL_CERT = {str(certificate[0])!r}\n"
            configuration += f"SUSHY_EMULATOR_SSL_KEY = {str(certificate[1])!r}\n"
        (folder / "emulator.conf").write_text(configuration)

    def __enter__(self) -> RedfishEmulator:
        """Start it and wait until it listens."""
        with (self._folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                self._arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        gives_up_at = time.monotonic() + _READY_S
        while time.monotonic() < gives_up_at and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except ConnectionRefusedError:
                time.sleep(0.05)  # until it listens
                continue
            return self
        raise AssertionError(f"the emulator does not listen: {(self._folder / 'log').read_text()}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()

    def take_effect_after(self, delay_s: int) -> None:
        """How long a power change takes from now on; `NEVER_S` for one that says yes and does nothing."""
        (self._folder / "delay_s").write_text(str(delay_s))

    @property
    def log(self) -> str:
        """What it wrote, with one line a request."""
        return (self._folder / "log").read_text()


def _free_tcp_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
