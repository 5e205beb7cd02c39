"""A world whose images are files: programs copy them to folders that stand for the disks of its hosts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from one_preempt.adapters.image_transfer.in_background import BackgroundImageTransfers, _Put
from one_preempt.composition import open_store
from one_preempt.configuration.settings import Settings, StoreSettings
from one_preempt.core.model.image_transfer import ImageOrder, TransferRecord
from one_preempt.core.model.written_time import utc_text
from tests.stories.world import SETTINGS, World, description

IMAGE_BYTES = 3_000_000
LINK_S = 86
MARGIN_S = 120
# Under another name until it is complete, a name of its own: two may copy the same at a time.
COPY = """#!/bin/sh
set -e
mkdir -p "{folder}/hosts/$2"
echo "$STAGING_IMAGE_ID $2" >> "{folder}/copies"
cp "$1" "{folder}/hosts/$2/$3.part.$$"
mv "{folder}/hosts/$2/$3.part.$$" "{folder}/hosts/$2/$3"
"""
REMOVE = '#!/bin/sh\nrm -f "{folder}/hosts/$1/$2"\n'
LOOK = '#!/bin/sh\nls "{folder}/hosts/$1" 2>/dev/null || true\n'


def cloud_with_images(folder: Path, images: int = 2, hosts: int = 2) -> dict[str, Any]:
    """Hosts of two CPUs with disks of their own, and images of a gigabyte, by oned's account."""
    base = folder / "datastores"
    base.mkdir()
    for number in range(images):
        (base / f"file{number}").write_bytes(b"x" * IMAGE_BYTES)
    made = description([{"name": f"node{number}", "cpu": 2, "memory_mib": 4096} for number in range(hosts)])
    stores = [
        {
            "name": "images", "type": "image", "tm_mad": "local", "clusters": ["main"], "total_mib": 204800,
            "base_path": str(base), "template": {"CLONE_TARGET": "SYSTEM", "LN_TARGET": "SYSTEM"},
        },
        {
            "name": "local", "type": "system", "ds_mad": "-", "tm_mad": "local", "clusters": ["main"],
            "total_mib": 409600, "template": {"SHARED": "NO"},
        },
    ]  # fmt: skip
    files = [
        {"name": f"os{number}", "datastore": "images", "public": True, "size_mib": 1024,
         "source": str(base / f"file{number}")}
        for number in range(images)
    ]  # fmt: skip
    return {**made, "datastores": stores, "images": files}


def settings_with_programs(folder: Path, bring: str = COPY, **more: Any) -> dict[str, Any]:
    """A gigabyte takes `LINK_S` on the link, and is to be there `MARGIN_S` before the start.

    `more` are keys of image_staging.transfer.
    """
    programs = {}
    for name, text in (("bring", bring), ("remove", REMOVE), ("list", LOOK)):
        programs[name] = folder / name
        programs[name].write_text(text.replace("{folder}", str(folder)))
        programs[name].chmod(0o755)
    command = {
        "bring": [str(programs["bring"]), "{source}", "{host}", "{image}"],
        "remove": [str(programs["remove"]), "{host}", "{image}"],
        "list": [str(programs["list"]), "{host}"],
    }
    transfer = {"method": "command", "command": command, **more}
    staging = {"mode": "act", "link_megabit_per_s": 100, "margin_s": MARGIN_S, "transfer": transfer}
    return {**SETTINGS, "image_staging": staging}


def reservation(in_s: int, now_s: int) -> dict[str, Any]:
    """Terms of a lease that starts in so many seconds."""
    return {"TYPE": "BE-SUSPENDABLE", "START": utc_text(now_s + in_s), "DURATION": "00:10:00"}


def disk(image_id: int) -> str:
    return f"DISK=[IMAGE_ID={image_id}]"


def held(folder: Path) -> dict[str, set[str]]:
    """What is on the hosts' disks, by their names."""
    disks = folder / "hosts"
    return {host.name: {file.name for file in host.iterdir()} for host in disks.iterdir()} if disks.exists() else {}


def host_of(world: World, vm_id: int) -> str:
    """Where a VM is, or was last."""
    return [record.findtext("HOSTNAME", "") for record in world.vm(vm_id).iterfind("HISTORY_RECORDS/HISTORY")][-1]


def known(world: World) -> tuple[dict[str, TransferRecord], dict[int, set[int]]]:
    """What the daemon has written down: orders that are not done, and the images on hosts by their ids."""
    with closing(open_store(Settings(store=StoreSettings(url=f"sqlite:///{world.ledger}")))) as store:
        pools = store.held_images()
        there = {host_id: {one.image_id for one in pool.images} for host_id, pool in pools.items()}
        return dict(store.image_transfers()), there


def put_and_wait(self: BackgroundImageTransfers, order: ImageOrder, now_s: int) -> None:
    """Whatever is ordered is over before the cycle goes on, however slow the machine is."""
    with self._lock:
        self._waiting[order.id] = _Put(order, self._drops)
    self._work()


def copies_awaited(_url: str) -> None:
    """In this process copies are made at once."""
    setattr(BackgroundImageTransfers, "put", put_and_wait)  # noqa: B010, as nothing else may be assigned there
