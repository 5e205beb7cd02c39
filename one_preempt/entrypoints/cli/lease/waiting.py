"""Waiting until a lease runs: its owner's pool is asked now and then, and what changes is told."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum

import click

from one_preempt.adapters.opennebula.owner_account import OwnerAccount
from one_preempt.core.model.lease import LeaseState
from one_preempt.entrypoints.cli.lease.own_leases import lease_of, own_leases
from one_preempt.entrypoints.cli.lease.own_story import status_in_words
from one_preempt.explanation.explain import printable
from one_preempt.ports import CloudUnavailable

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 30.0
GROWTH = 1.5
LONGEST_SAID = 400


class Waited(Enum):
    """How the waiting ended."""

    RUNNING = "it runs"
    REFUSED = "it was refused: correct the attribute with onevm update, or cancel the lease"
    FAILED = "one of its VMs has failed: see onevm show"
    GONE = "some of its VMs have ended"
    TOO_LATE = "it does not run yet: the time to wait is over, and the lease goes on waiting"


def wait_and_tell(account: OwnerAccount, what: str, vm_ids: Sequence[int], timeout_s: float) -> int:
    """Wait until the lease of these VMs runs, and tell how that ended; the exit code. `what` names it for its owner."""
    ended = _until_running(account, vm_ids, timeout_s)
    click.echo(f"{what}: {ended.value}", err=True)
    return 0 if ended is Waited.RUNNING else 1


def _until_running(account: OwnerAccount, vm_ids: Sequence[int], timeout_s: float) -> Waited:
    """Look until the lease of these VMs runs or never will, `timeout_s` at most; what changes is told."""
    ends_at_s, pause_s, told = time.monotonic() + timeout_s, FIRST_PAUSE_S, ""
    while True:
        try:
            ending, words = _look(account, vm_ids)
        except CloudUnavailable as error:
            ending, words = None, str(error)
        if words != told:
            click.echo(printable(words, LONGEST_SAID), err=True)
            told = words
        if ending is not None:
            return ending
        left_s = ends_at_s - time.monotonic()
        if left_s <= 0:
            return Waited.TOO_LATE
        time.sleep(min(pause_s, left_s))
        pause_s = min(pause_s * GROWTH, LONGEST_PAUSE_S)


def _look(account: OwnerAccount, vm_ids: Sequence[int]) -> tuple[Waited | None, str]:
    problems: list[str] = []
    lease = lease_of(vm_ids[0], own_leases(account.vms(problems).values()))
    if lease is None or not {vm.id for vm in lease.vms}.issuperset(vm_ids):
        # What cannot be read has not ended.
        return (None, problems[0]) if problems else (Waited.GONE, "")
    words = f"{lease.state.value}: {status_in_words(lease)}"
    endings = {
        LeaseState.RUNNING: Waited.RUNNING,
        LeaseState.REFUSED: Waited.REFUSED,
        LeaseState.FAILED: Waited.FAILED,
    }
    return endings.get(lease.state), words
