"""What a decision of a driver starts from: the configuration, oned's document, and the daemon's promises."""

from __future__ import annotations

import time
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.adapters.driver.decoded_input import decoded
from one_preempt.adapters.driver.driver_document import DriverDocument, read_driver_document
from one_preempt.adapters.held_capacity import held_on_hosts, read_held_capacity
from one_preempt.configuration.chosen_policies import match_options
from one_preempt.configuration.settings import Settings
from one_preempt.core.matching.options import MatchOptions
from one_preempt.entrypoints.driver.driver_process import Messages
from one_preempt.entrypoints.driver.plain_placement import Promised


class Inputs(Struct, frozen=True):
    """All of it, checked."""

    settings: Settings
    document: DriverDocument
    promised: Promised

    @property
    def options(self) -> MatchOptions:
        """The matchmaker's options for a driver: oned has tested access, and it paces what a plan starts.

        MAX_VM and MAX_DISPATCH belong to the daemon's cycles; `rank` has neither.
        """
        return replace(match_options(self.settings), max_vm=0, max_dispatch=0, check_access=False)


def read_inputs(settings: Settings, stream: BinaryIO, messages: Messages) -> Inputs:
    """Read the rest; objects that had to be left out are told. Raises `OnePreemptError`: then nothing may be planned.

    A promise that oned's accounting shows already is not counted twice.
    """
    rooms = read_held_capacity(settings.store.held_capacity_path, int(time.time()))
    document = read_driver_document(decoded(stream))
    for problem in document.snapshot.problems:
        messages.warning(problem)
    vms_on_host = {host.id: frozenset(host.vm_ids) for host in document.snapshot.hosts.values()}
    promised = Promised(held_on_hosts(rooms, vms_on_host), frozenset(room.vm_id for room in rooms))
    return Inputs(settings, document, promised)
