"""Who is on a host and asks for more than CPU and memory: others meet them there, or in their VM group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from one_preempt.core.model.virtual_machine import VirtualMachine


class MatchedGuests:
    """Such guests of one snapshot: all of them, by the row of their host, and by the id of their VM group."""

    def __init__(self, vms: Iterable[VirtualMachine], row_of_host: Mapping[int, int]) -> None:
        self.everywhere: list[VirtualMachine] = []
        self.on_row: dict[int, list[VirtualMachine]] = {}
        self.of_group: dict[int, list[VirtualMachine]] = {}
        for vm in vms:
            if not vm.needs_matching or (host_id := vm.host_id) is None:
                continue
            self.everywhere.append(vm)
            row = row_of_host.get(host_id)
            if row is not None:
                self.on_row.setdefault(row, []).append(vm)
            if vm.vm_group_id is not None:
                self.of_group.setdefault(vm.vm_group_id, []).append(vm)

    def near(self, rows: Set[int], groups: Set[int]) -> list[VirtualMachine]:
        """Those on hosts of these rows, and elsewhere those of these VM groups."""
        there = [vm for row in sorted(rows) for vm in self.on_row.get(row, ())]
        known = {vm.id for vm in there} if groups else ()
        return [*there, *(vm for one in sorted(groups) for vm in self.of_group.get(one, ()) if vm.id not in known)]
