"""What the configuration says about how hosts are switched: `power.control`. Values are checked here, once."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from one_preempt.configuration.section import AbsolutePath, Section

Method = Literal["none", "ipmitool", "redfish", "wake-on-lan", "command"]
HostName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?\Z")]
# Patterns end with \Z, for $ lets a line feed pass.
# {host} stands for the host's name; nothing here can be taken for an option or another part of a URL.
_ADDRESS = r"^(?:[A-Za-z0-9]|\{host\})(?:[A-Za-z0-9._:-]|\{host\})*\Z"
Address = Annotated[str, msgspec.Meta(pattern=_ADDRESS)]
HardwareAddress = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}\Z")]
UserName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@\\-]*\Z", max_length=64)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Timeout = Annotated[float, msgspec.Meta(gt=0, le=600)]
Count = Annotated[int, msgspec.Meta(ge=1, le=100)]
Span = Annotated[int, msgspec.Meta(ge=1, le=7 * 86400)]
Vector = Annotated[tuple[Annotated[str, msgspec.Meta(min_length=1)], ...], msgspec.Meta(max_length=64)]
Place = tuple[object, ...]
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


class HostSettings(Section, frozen=True):
    """What differs for one host: how it is switched, where its controller is, who logs in there."""

    method: Method | None = None
    address: str | None = None
    port: Port | None = None
    user: UserName | None = None
    password_file: AbsolutePath | None = None
    system: str | None = None
    hardware_address: HardwareAddress | None = None
    secure_on_file: AbsolutePath | None = None


# Of these keys those that count, by the method; with none nothing does, and all may be prepared.
_COUNTING: dict[Method, frozenset[str]] = {
    "ipmitool": frozenset({"method", "address", "port", "user", "password_file"}),
    "redfish": frozenset({"method", "address", "user", "password_file", "system"}),
    "wake-on-lan": frozenset({"method", "address", "hardware_address", "secure_on_file"}),
    "command": frozenset({"method"}),
}
_INSTEAD = {
    ("redfish", "port"): "its address, such as https://name:8443",
    ("wake-on-lan", "port"): "wake_on_lan.ssh_port",
    ("wake-on-lan", "user"): "wake_on_lan.ssh_user",
}


class IpmitoolSettings(Section, frozen=True):
    """Baseboard controllers by IPMI 2.0. The suites are tried in this order, and the one that works is kept."""

    program: AbsolutePath = "/usr/bin/ipmitool"
    address: Address | None = None
    port: Port = 623
    user: UserName | None = None
    password_file: AbsolutePath | None = None
    privilege: Literal["ADMINISTRATOR", "OPERATOR"] = "ADMINISTRATOR"
    cipher_suites: Annotated[tuple[Annotated[int, msgspec.Meta(ge=1, le=17)], ...], msgspec.Meta(min_length=1)] = (
        17,
        3,
    )
    message_timeout_s: Count = 2
    message_retries: Annotated[int, msgspec.Meta(ge=1, le=20)] = 2  # ipmitool takes 0 for its default, 4
    timeout_s: Timeout = 30.0


class RedfishSettings(Section, frozen=True):
    """Baseboard controllers by Redfish. `endpoint` is a URL such as https://{host}-bmc.

    `system` picks one where a controller has several, by its Id, Name or UUID.
    """

    endpoint: str | None = None
    user: UserName | None = None
    password_file: AbsolutePath | None = None
    login: Literal["basic", "session"] = "basic"
    system: str | None = None
    verify_tls: bool = True
    ca_file: AbsolutePath | None = None
    connect_timeout_s: Timeout = 5.0
    read_timeout_s: Timeout = 30.0


class WakeOnLanSettings(Section, frozen=True):
    """Magic packets on, ssh off, and a TCP connection to see whether a host runs.

    What runs on the host as `shutdown` is an argument vector; what it needs must be allowed to `ssh_user` there.
    """

    broadcast_address: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){3}\Z")] = "255.255.255.255"
    port: Port = 9
    packets: Count = 3
    secure_on_file: AbsolutePath | None = None
    host_address: Address = "{host}"
    ssh_program: AbsolutePath = "/usr/bin/ssh"
    ssh_user: UserName | None = None
    ssh_port: Port = 22
    ssh_identity_file: AbsolutePath | None = None
    ssh_known_hosts_file: AbsolutePath | None = None
    shutdown: Vector = ("sudo", "-n", "systemctl", "poweroff")
    hard_shutdown: Vector = ("sudo", "-n", "systemctl", "poweroff", "--force", "--force")
    connect_timeout_s: Timeout = 3.0
    timeout_s: Timeout = 30.0
    silent_probes: Count = 3


class CommandSettings(Section, frozen=True):
    """The administrator's own programs: argument vectors in which {host} is replaced, run without a shell.

    `status` writes "on" or "off" and exits with 0. An order that was taken exits with 0.
    """

    on: Vector = ()
    off: Vector = ()
    hard_off: Vector = ()
    status: Vector = ()
    timeout_s: Timeout = 60.0


class PatienceSettings(Section, frozen=True):
    """How failures are answered: growing pauses, and after `failures` in a row a long one.

    `login_pause_s` follows a login that failed, as more of them may lock the account. An order that was taken and
    does not show within `on_effect_s` or `off_effect_s` counts as a failure too.
    """

    first_pause_s: Span = 15
    longest_pause_s: Span = 600
    failures: Count = 3
    open_s: Span = 3600
    login_pause_s: Span = 3600
    on_effect_s: Span = 120
    off_effect_s: Span = 600

    @property
    def most_s(self) -> int:
        """No pause is longer; what seems to be was begun by a clock that was set back since, and is over."""
        return max(self.longest_pause_s, self.open_s, self.login_pause_s)


class PowerControlSettings(Section, frozen=True):
    """How hosts are switched on and off. As shipped: not at all, only advice."""

    method: Method = "none"
    hosts: dict[HostName, HostSettings] = {}
    ipmitool: IpmitoolSettings = IpmitoolSettings()
    redfish: RedfishSettings = RedfishSettings()
    wake_on_lan: WakeOnLanSettings = WakeOnLanSettings()
    command: CommandSettings = CommandSettings()
    patience: PatienceSettings = PatienceSettings()

    @property
    def methods(self) -> frozenset[Method]:
        """All ways that some host is switched in."""
        return frozenset([self.method, *(host.method for host in self.hosts.values() if host.method is not None)])

    def method_of(self, host: str) -> Method:
        """How the host of that name is switched."""
        return (self.hosts.get(host) or HostSettings()).method or self.method

    def place_of(self, host: str, named_address: str | None = None) -> Place | None:
        """Where orders for the host of that name go; equal places are one controller, or one machine.

        `named_address` is what its template says. None where that is not known, and with programs of one's own.
        """
        own, method = self.hosts.get(host) or HostSettings(), self.method_of(host)
        if method in ("none", "command"):
            return None
        named = None if method == "wake-on-lan" else named_address
        address = own.address or named or self._usual_address(method)
        part: int | str | None = None
        if method == "ipmitool":
            part = own.port or self.ipmitool.port
        elif method == "redfish":
            part = own.system or self.redfish.system
        return None if address is None else (method, address.replace("{host}", host).casefold().rstrip("/"), part)

    def is_place_told(self, host: str, named_address: str | None) -> bool:
        """Whether the place of the host of that name is known by what is said of it alone, or by its name.

        Else it is the usual one, the same for all hosts, and whether this one is there at all is not told.
        """
        own, method = self.hosts.get(host) or HostSettings(), self.method_of(host)
        named = None if method == "wake-on-lan" else named_address
        part = {"ipmitool": own.port, "redfish": own.system}.get(method)
        return bool(own.address or named or part or "{host}" in (self._usual_address(method) or ""))

    def _usual_address(self, method: Method) -> str | None:
        usual: dict[Method, str | None] = {
            "ipmitool": self.ipmitool.address,
            "redfish": self.redfish.endpoint,
            "wake-on-lan": self.wake_on_lan.host_address,
        }
        return usual.get(method)


def faults(settings: PowerControlSettings) -> list[str]:
    """What cannot be used, one sentence each that names the key below `power` and the mend."""
    found = [
        *_faults_of_commands(settings),
        *_faults_of_addresses(settings),
        *_faults_of_shared_controllers(settings),
        *_faults_of_wake_on_lan(settings),
    ]
    if settings.patience.longest_pause_s < settings.patience.first_pause_s:
        found.append("patience.longest_pause_s is below patience.first_pause_s: raise it")
    return found


def doubts(settings: PowerControlSettings) -> list[str]:
    """What can be used and yet is probably not meant, one sentence each."""
    found = []
    if "redfish" in settings.methods and not settings.redfish.verify_tls:
        found.append(
            "redfish.verify_tls is off: anybody in between can read the password; "
            "name the controllers' certificate in redfish.ca_file instead"
        )
    if "ipmitool" in settings.methods and min(settings.ipmitool.cipher_suites) < 3:
        found.append("ipmitool.cipher_suites names one below 3, which does not encrypt: leave it out")
    return [
        *found,
        *_doubts_about_commands(settings),
        *_doubts_about_shared_controllers(settings),
        *_doubts_about_hosts(settings),
    ]


def _doubts_about_shared_controllers(settings: PowerControlSettings) -> Iterator[str]:
    """One address for all hosts: an order for one of them switches what stands there."""
    usual = (
        ("ipmitool", "ipmitool.address", settings.ipmitool.address, "port"),
        ("redfish", "redfish.endpoint", settings.redfish.endpoint, "system"),
        ("wake-on-lan", "wake_on_lan.host_address", settings.wake_on_lan.host_address, None),
    )
    for method, key, address, part in usual:
        if method not in settings.methods or address is None or "{host}" in address:
            continue
        own = [host for name, host in settings.hosts.items() if settings.method_of(name) == method]
        if part is None or not any(getattr(host, part) for host in own):
            yield f"{key} has {{host}} nowhere: it is the same machine whichever host is meant"


def _doubts_about_hosts(settings: PowerControlSettings) -> Iterator[str]:
    for name, host in settings.hosts.items():
        method = settings.method_of(name)
        for key in HostSettings.__struct_fields__:
            if method in _COUNTING and getattr(host, key) is not None and key not in _COUNTING[method]:
                instead = f": see {_INSTEAD[method, key]}" if (method, key) in _INSTEAD else ""
                yield f"hosts.{name}.{key} has no effect with {method}{instead}"


def _doubts_about_commands(settings: PowerControlSettings) -> Iterator[str]:
    if "command" not in settings.methods:
        return
    commands = settings.command
    vectors = {"on": commands.on, "off": commands.off, "hard_off": commands.hard_off, "status": commands.status}
    for key, vector in vectors.items():
        if vector and not any("{host}" in part for part in vector):
            yield f"command.{key} has {{host}} nowhere: it does the same whichever host is meant"
    if not commands.hard_off:
        yield "command.hard_off is empty: the power of a host that hangs in its boot cannot be cut"


def _faults_of_commands(settings: PowerControlSettings) -> Iterator[str]:
    commands = settings.command
    vectors = {"on": commands.on, "off": commands.off, "hard_off": commands.hard_off, "status": commands.status}
    for key, vector in vectors.items():
        if vector and not vector[0].startswith("/"):
            yield f"command.{key} must begin with the absolute path of a program"
        unknown = sorted({word for part in vector for word in _PLACEHOLDER.findall(part)} - {"{host}"})
        if unknown:
            yield f"command.{key} holds {unknown[0]}: only {{host}} is replaced"
    if "command" in settings.methods:
        for key in ("on", "off", "status"):
            if not vectors[key]:
                yield f"command.{key} is missing: name the program and its arguments"


def _faults_of_addresses(settings: PowerControlSettings) -> Iterator[str]:
    if (endpoint := settings.redfish.endpoint) is not None and (fault := endpoint_fault(endpoint)):
        yield f"redfish.endpoint {fault}"
    for name, host in settings.hosts.items():
        if host.address is None:
            continue
        if settings.method_of(name) == "redfish":
            if fault := endpoint_fault(host.address):
                yield f"hosts.{name}.address {fault}"
        elif re.search(_ADDRESS, host.address) is None:
            yield f"hosts.{name}.address must be a host name or an IP address"


def _faults_of_shared_controllers(settings: PowerControlSettings) -> Iterator[str]:
    owners: dict[Place, str] = {}
    for name, host in settings.hosts.items():
        place = settings.place_of(name)
        if place is None or host.address is None:
            continue
        other = owners.setdefault(place, name)
        if other != name:
            yield (
                f"hosts.{name} and hosts.{other} have the same address: an order for one would switch the other; "
                "write to each its own"
            )


def _faults_of_wake_on_lan(settings: PowerControlSettings) -> Iterator[str]:
    try:
        ipaddress.IPv4Address(settings.wake_on_lan.broadcast_address)
    except ValueError:
        yield "wake_on_lan.broadcast_address is no IPv4 address"
    for key in ("shutdown", "hard_shutdown"):
        if not getattr(settings.wake_on_lan, key):
            yield f"wake_on_lan.{key} is empty: name the program that the host is to run"


def endpoint_fault(endpoint: str) -> str | None:
    """Why `endpoint`, in which {host} may stand for a name, is no URL to send a password to; None where it is."""
    filled = endpoint.replace("{host}", "host")
    try:
        parts = urlsplit(filled)
        usable = bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or not filled.isprintable() or " " in filled:
        return "is no URL such as https://{host}-bmc"
    if "@" in parts.netloc or parts.path not in ("", "/") or parts.query or parts.fragment:
        return "must be a plain URL: no password, path, query or fragment in it"
    if parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        return None
    return "must begin with https://, as the password goes along"


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
