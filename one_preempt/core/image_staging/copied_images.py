"""Which images are copied to a host when a VM's disks are made there, and how long the link takes for that."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from one_preempt.core.image_staging.image_staging_rules import ImageStagingRules
from one_preempt.core.model.virtual_machine import LcmState, VirtualMachine, VmState

_NOT_MADE_YET = frozenset({VmState.PENDING, VmState.HOLD})


class CopiedImage(Struct, frozen=True):
    """An image that a driver copies to the host of a VM, if disks lie there; `size_mib` at most."""

    id: int
    size_mib: int
    datastore_id: int | None


def images_of(vm: VirtualMachine) -> tuple[CopiedImage, ...]:
    """What is copied for a VM, each image once, by id; nothing where its disks were made before.

    Not where an image is persistent (its only copy is used), stays on its own datastore, or is of unknown size.
    """
    is_being_made = vm.state is VmState.ACTIVE and vm.lcm_state == LcmState.PROLOG
    if not vm.disks or not (vm.state in _NOT_MADE_YET or is_being_made):
        return ()
    found: dict[int, CopiedImage] = {}
    for disk in vm.disks:
        size_mib = disk.image_size_mib or disk.size_mib
        if disk.image_id is not None and disk.clone and disk.clone_target == "SYSTEM" and size_mib > 0:
            found[disk.image_id] = CopiedImage(disk.image_id, size_mib, disk.datastore_id)
    return tuple(found[image_id] for image_id in sorted(found))


def copies_s(rules: ImageStagingRules, vms: Iterable[VirtualMachine]) -> int:
    """For how long these VMs wait for their images at most, one after the other, if nothing of them is on their hosts.

    0 where nothing is ordered: then plans are as without images.
    """
    if not rules.acts:
        return 0
    return sum(rules.transfer_s(image.size_mib) for vm in vms for image in images_of(vm))
