"""`image`: which images are on which hosts, what is under way, and what failed and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import click
from msgspec import Struct

from one_preempt.adapters.lease_store.named_database import DatabaseNotMade
from one_preempt.adapters.opennebula.stored_images import StoredImages
from one_preempt.composition import open_made_store, open_transport
from one_preempt.configuration.settings import Settings, load_settings
from one_preempt.core.model.image_transfer import HostImages, ImageOrderKind, TransferPhase, TransferRecord
from one_preempt.core.model.written_time import utc_text
from one_preempt.entrypoints.cli.options import config_option, json_option, write_json, write_table
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import JsonObject, printable

LONGEST_NAME = 40
LONGEST_WHY = 200
_WORDS = {
    (ImageOrderKind.BRING, TransferPhase.UNDER_WAY): "coming",
    (ImageOrderKind.BRING, TransferPhase.FAILED): "failed",
    (ImageOrderKind.DROP, TransferPhase.UNDER_WAY): "leaving",
    (ImageOrderKind.DROP, TransferPhase.FAILED): "not removed",
}


class ImageOnHost(Struct, frozen=True):
    """One line: an image that is on a host, on its way there or from there, or failed to be."""

    image_id: int
    image_name: str
    host_id: int
    host_name: str
    size_mib: int
    what: str
    since_s: int
    lease_ids: tuple[int, ...] = ()
    needed_at_s: int | None = None
    attempts: int = 0
    why: str = ""


@click.group("image")
def image_command() -> None:
    """Look at the images that are copied to hosts before reservations start there."""


@image_command.command("list", short_help="List images on hosts, and unfinished or failed copies.")
@config_option
@json_option
def image_list(config_path: Path | None, as_json: bool) -> None:
    """List the images that hosts hold as far as the daemon knows, and its orders that are under way or have failed.

    If a host or image has no name, OpenNebula does not know it any more, or does not answer.
    """
    settings = load_settings(config_path)
    transfers, held = _known(settings)
    images, hosts = _names(settings) if transfers or held else ({}, {})
    lines = sorted(
        (*_held(held, images, hosts), *_orders(transfers, images)),
        key=lambda one: (one.host_id, one.image_id, one.what),
    )
    if as_json:
        write_json([_document(one) for one in lines])
        return
    if settings.image_staging.mode == "off":
        click.echo("image_staging.mode is off: the daemon brings no images to hosts.", err=True)
    columns = ("host", "image", "MiB", "", "since", "needed at", "leases", "why")
    write_table(f"{len(lines)} images on hosts", columns, map(_row, lines))


def _known(settings: Settings) -> tuple[Mapping[str, TransferRecord], Mapping[int, HostImages]]:
    """What the database says; nothing where none was made yet."""
    try:
        with closing(open_made_store(settings)) as store:
            return store.image_transfers(), store.held_images()
    except DatabaseNotMade:
        return {}, {}


def _names(settings: Settings) -> tuple[Mapping[int, str], Mapping[int, str]]:
    """The names of images and hosts by id; none where oned does not answer, which is said."""
    try:
        with closing(open_transport(settings)) as transport:
            storage = StoredImages(transport)
            return {image.id: image.name for image in storage.all().values()}, storage.host_names()
    except OnePreemptError as error:
        click.echo(f"No names are known: {printable(str(error), LONGEST_WHY)}", err=True)
        return {}, {}


def _held(
    pools: Mapping[int, HostImages], images: Mapping[int, str], hosts: Mapping[int, str]
) -> Iterator[ImageOnHost]:
    for host_id, pool in pools.items():
        for one in pool.images:
            names = images.get(one.image_id, ""), hosts.get(host_id, "")
            yield ImageOnHost(one.image_id, names[0], host_id, names[1], one.size_mib, "there", one.since_s)


def _orders(transfers: Mapping[str, TransferRecord], images: Mapping[int, str]) -> Iterator[ImageOnHost]:
    for record in transfers.values():
        order = record.order
        yield ImageOnHost(
            order.image_id, images.get(order.image_id, ""), order.host_id, order.host_name, order.size_mib,
            _WORDS.get((order.kind, record.phase), record.phase), record.since_s, order.lease_ids, order.needed_at_s,
            record.attempts, record.text or order.reason_text,
        )  # fmt: skip


def _document(one: ImageOnHost) -> JsonObject:
    """One line: sizes in MiB, instants in seconds since the epoch."""
    return {
        "image_id": one.image_id,
        "image": one.image_name,
        "host_id": one.host_id,
        "host": one.host_name,
        "size_mib": one.size_mib,
        "state": one.what,
        "since": one.since_s,
        "needed_at": one.needed_at_s,
        "leases": list(one.lease_ids),
        "attempts": one.attempts,
        "why": one.why,
    }


def _row(one: ImageOnHost) -> tuple[str, ...]:
    return (
        printable(one.host_name, LONGEST_NAME) or str(one.host_id),
        f"{one.image_id} {printable(one.image_name, LONGEST_NAME)}".rstrip(),
        str(one.size_mib),
        one.what,
        utc_text(one.since_s) if one.since_s else "",
        "" if one.needed_at_s is None else utc_text(one.needed_at_s),
        ", ".join(map(str, one.lease_ids)),
        printable(one.why, LONGEST_WHY),
    )
