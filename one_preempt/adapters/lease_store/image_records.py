"""Images on hosts in the database: orders that are under way or have failed, and what each host holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from sqlalchemy import Row, delete, insert, select
from sqlalchemy.engine import Connection

from one_preempt.adapters.lease_store.ledger_writes import delete_rows, replace
from one_preempt.adapters.lease_store.rows import ids_of, word
from one_preempt.adapters.lease_store.tables import held_images, image_transfers
from one_preempt.core.model.image_transfer import (
    HeldImage,
    HostImages,
    ImageOrder,
    ImageOrderKind,
    TransferPhase,
    TransferRecord,
)

_ORDER = ImageOrder.__struct_fields__
_RECORD = tuple(name for name in TransferRecord.__struct_fields__ if name != "order")
# What every cycle asks is put into SQL once.
_TRANSFERS = select(image_transfers).order_by(image_transfers.c.id)
_HELD = select(held_images).order_by(held_images.c.host_id, held_images.c.image_id)


def transfers(connection: Connection) -> dict[str, TransferRecord]:
    """Orders that are under way or have failed, in the order of their ids."""
    found = {row.id: _transfer(row) for row in connection.execute(_TRANSFERS)}
    return dict(sorted(found.items()))


def held(connection: Connection) -> dict[int, HostImages]:
    """What hosts hold, in the order of their ids."""
    found: dict[int, tuple[int, list[HeldImage]]] = {}
    for row in connection.execute(_HELD):
        _, images = found.setdefault(row.host_id, (row.read_at_s, []))
        images.append(HeldImage(row.image_id, row.size_mib, row.since_s))
    return {host_id: HostImages(host_id, read_at_s, tuple(images)) for host_id, (read_at_s, images) in found.items()}


def write(connection: Connection, records: Iterable[TransferRecord], pools: Iterable[HostImages]) -> None:
    """Over those of the same ids and hosts; what is done, and a pool that is empty, is forgotten."""
    latest = {record.id: record for record in records}
    delete_rows(connection, image_transfers.c.id, list(latest))
    replace(connection, image_transfers, [_row(one) for one in latest.values() if one.phase is not TransferPhase.DONE])
    of_hosts = {pool.host_id: pool for pool in pools}
    delete_rows(connection, held_images.c.host_id, list(of_hosts))
    rows = [
        {
            "host_id": pool.host_id,
            "image_id": image.image_id,
            "size_mib": image.size_mib,
            "since_s": image.since_s,
            "read_at_s": pool.read_at_s,
        }
        for pool in of_hosts.values()
        for image in pool.images
    ]
    if rows:
        connection.execute(insert(held_images), rows)


def prune(connection: Connection, before_s: int) -> None:
    """Forget failures since which nothing was ordered."""
    failed = image_transfers.c.phase == TransferPhase.FAILED.value
    connection.execute(delete(image_transfers).where(failed, image_transfers.c.since_s < before_s))


def _row(record: TransferRecord) -> dict[str, Any]:
    order = record.order
    row = {name: getattr(order, name) for name in _ORDER} | {name: getattr(record, name) for name in _RECORD}
    return row | {
        "id": record.id,
        "kind": order.kind.value,
        "phase": record.phase.value,
        "lease_ids": msgspec.json.encode(order.lease_ids).decode(),
    }


def _transfer(row: Row[Any]) -> TransferRecord:
    values, of = row._mapping, f"order {row.id}"
    order = {name: values[name] for name in _ORDER} | {
        "kind": word(ImageOrderKind, image_transfers, of, "kind", values["kind"]),
        "lease_ids": ids_of(image_transfers, of, "lease_ids", values["lease_ids"], "lease"),
    }
    record = {name: values[name] for name in _RECORD} | {
        "phase": word(TransferPhase, image_transfers, of, "phase", values["phase"]),
    }
    return TransferRecord(ImageOrder(**order), **record)
