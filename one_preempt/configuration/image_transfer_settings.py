"""What the configuration says about how images come to hosts: `image_staging.transfer`. Values are checked here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from one_preempt.configuration.power_control_settings import (
    HostName,
    Port,
    Span,
    Timeout,
    UserName,
    Vector,
)
from one_preempt.configuration.section import AbsolutePath, Section

TransferMethod = Literal["none", "command", "tm-cache"]
LongTimeout = Annotated[float, msgspec.Meta(gt=0, le=86400)]

PLACEHOLDERS = ("{image}", "{source}", "{size_mib}", "{host}", "{destination}")
"""What is replaced in the arguments of `command`'s programs."""

_ABOUT_HOST = ("{host}",)
_ANY_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


class ImageCommandSettings(Section, frozen=True):
    """The administrator's own programs: argument vectors in which placeholders are replaced, run without a shell.

    `bring` ends with 0 once the image is complete on the host, `remove` once it is not there any more, `list` writes
    the images that are complete on a host, one a line: their ids, or the names of their files in their datastores.
    `{destination}` is a file of that name in `folder`.
    """

    bring: Vector = ()
    remove: Vector = ()
    list: Vector = ()
    folder: AbsolutePath = "/var/lib/one/staged_images"


class TmCacheSettings(Section, frozen=True):
    """The cache of images that the driver `local` of OpenNebula 7.x keeps on each host, filled by ssh.

    `front_end` is how hosts name this machine, from which they copy; by default its own name.
    """

    front_end: HostName | None = None
    program: AbsolutePath = "/var/tmp/one/tm/lib/tm_cache.rb"
    ssh_program: AbsolutePath = "/usr/bin/ssh"
    ssh_user: UserName | None = None
    ssh_port: Port = 22
    ssh_identity_file: AbsolutePath | None = None
    ssh_known_hosts_file: AbsolutePath | None = None
    forward_agent: bool = True
    connect_timeout_s: Timeout = 5.0


class ImageTransferSettings(Section, frozen=True):
    """How images come to hosts. As shipped: not at all."""

    method: TransferMethod = "none"
    at_once: Annotated[int, msgspec.Meta(ge=1, le=32)] = 2
    timeout_s: LongTimeout = 3600.0
    look_every_s: Span = 600
    command: ImageCommandSettings = ImageCommandSettings()
    tm_cache: TmCacheSettings = TmCacheSettings()


def transfer_faults(settings: ImageTransferSettings, pool_mib: int | None) -> Iterator[str]:
    """What cannot be used, one sentence each that names the key below `image_staging` and the mend."""
    for key, vector in _vectors(settings.command).items():
        if vector and not vector[0].startswith("/"):
            yield f"transfer.command.{key} must begin with the absolute path of a program"
        known = _ABOUT_HOST if key == "list" else PLACEHOLDERS
        unknown = sorted({word for part in vector for word in _ANY_PLACEHOLDER.findall(part)} - {*known})
        if unknown:
            yield f"transfer.command.{key} holds {unknown[0]}: only {', '.join(known)} are replaced"
    if settings.method == "command":
        if not settings.command.bring:
            yield "transfer.command.bring is missing: name the program and its arguments"
        if pool_mib is not None and not settings.command.remove:
            yield "pool_mib needs transfer.command.remove, by which room is made: name a program, or take pool_mib out"


def transfer_doubts(settings: ImageTransferSettings, *, acts: bool) -> Iterator[str]:
    """What can be used and yet is probably not meant, one sentence each."""
    if acts and settings.method == "none":
        yield (
            "mode is act and transfer.method is none: no image is brought to any host, and reservations are refused "
            "for transfers that nobody makes"
        )
    if settings.method == "command" and not settings.command.list:
        yield "transfer.command.list is empty: what others remove from hosts is taken to be there still"


def _vectors(commands: ImageCommandSettings) -> dict[str, Vector]:
    return {"bring": commands.bring, "remove": commands.remove, "list": commands.list}
