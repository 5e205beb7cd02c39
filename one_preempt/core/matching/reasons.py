"""Why a VM was not placed: hosts counted by the first test that each failed, told as one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from one_preempt.core.model.plan import Reason

NO_HOSTS = "no-hosts"
NOT_ENABLED = "not-enabled"
NOT_AUTHORIZED = "not-authorized"
OTHER_HOST_WANTED = "other-host-wanted"
PINNED_ONLY = "pinned-only"
REQUIREMENTS = "requirements-unmet"
AFFINITY = "affinity"
NOT_AMONG = "not-considered"
TOO_SMALL = "hosts-too-small"
CAPACITY = "no-capacity"
DEVICES = "no-devices"
NUMA = "no-numa-room"
DISPATCH_LIMIT = "dispatch-limit"
DATASTORE = "no-system-datastore"
UNMONITORED = "datastore-not-monitored"
NETWORK = "no-network"
UNREADABLE = "unreadable-requirement"
NEXT_CYCLE = "next-cycle"
IMAGE_DATASTORE = "no-image-datastore"
PUBLIC_CLOUD = "public-cloud"
INCOMPLETE = "incomplete-document"

# In the order in which hosts are tested.
_SENTENCES = {
    NOT_ENABLED: "{n} not enabled or not monitored",
    OTHER_HOST_WANTED: "{n} that it is to leave",
    PINNED_ONLY: "{n} with the other PIN_POLICY",
    NOT_AUTHORIZED: "{n} that its owner may not use",
    REQUIREMENTS: "{n} not meeting its requirements",
    NOT_AMONG: "{n} not considered",
    AFFINITY: "{n} against its VM group's rules",
    TOO_SMALL: "{n} smaller than that",
    CAPACITY: "{n} without enough free CPU or memory",
    DEVICES: "{n} without the PCI devices",
    NUMA: "{n} without NUMA room",
    DISPATCH_LIMIT: "{n} closed to more new VMs in this cycle",
    DATASTORE: "{n} without a system datastore with room",
    UNMONITORED: "{n} whose system datastores were never monitored",
    NETWORK: "{n} without networks with free addresses for all its NICs",
}

# What its owner, or the administrator, can do about it.
_MENDS = {
    PINNED_ONLY: "Add or drop TOPOLOGY/PIN_POLICY in its template.",
    REQUIREMENTS: "Change SCHED_REQUIREMENTS, or wait for such a host.",
    AFFINITY: "Change the VM group, or wait for other hosts.",
    TOO_SMALL: "Ask for less CPU or memory, or the administrator for a larger host.",
    CAPACITY: "It starts when others leave.",
    DEVICES: "It starts when others give their devices back.",
    NUMA: "It starts when others leave, or with a smaller TOPOLOGY.",
    DISPATCH_LIMIT: "It is tried again in the next cycle.",
    DATASTORE: "Free space there, or change SCHED_DS_REQUIREMENTS.",
    UNMONITORED: "Wait until OpenNebula has measured them.",
    NETWORK: "Free addresses, or change the SCHED_REQUIREMENTS of its NICs: each may need a network of its own.",
}

_NAMED = 3  # attributes in one sentence

# What time or a preemption can mend names the reason, else the furthest test that any host reached.
_DECISIVE = (DISPATCH_LIMIT, CAPACITY, DEVICES, NUMA)


class Unplaced(Struct, frozen=True):
    """No placement. `counts`: hosts by the test that ruled them out (see the codes of this module)."""

    reason: Reason
    counts: Mapping[str, int]

    @property
    def is_put_off(self) -> bool:
        """This cycle has started as many VMs as it may, there or in all: it is tried again in the next one."""
        return self.reason.code == DISPATCH_LIMIT


def unplaced(code: str, text: str) -> Unplaced:
    """A refusal that no count of hosts explains."""
    return Unplaced(Reason(code, text), {})


def no_host(counts: Mapping[str, int], needs: str, unknown_names: Sequence[str] = ()) -> Unplaced:
    """The refusal after all hosts were tested; `needs` names the VM and what it asks for.

    `unknown_names`: attributes that its requirements ask for and no host has.
    """
    tested = {code: counts[code] for code in _SENTENCES if counts.get(code)}
    if not tested:
        return unplaced(NO_HOSTS, "There is no host: the administrator has to create one.")
    code = next((code for code in _DECISIVE if code in tested), list(tested)[-1])
    if code == NOT_ENABLED:
        text = f"No host is enabled and monitored ({tested[code]} are not): the administrator has to enable one."
        return Unplaced(Reason(NO_HOSTS, text), tested)
    if code == NOT_AUTHORIZED and len(tested) <= 2:
        text = "Its owner may use none of the enabled hosts: ask the administrator for the right HOST MANAGE."
        return Unplaced(Reason(code, text), tested)
    furthest, *others = reversed(tested)
    hosts = "1 host" if tested[furthest] == 1 else f"{tested[furthest]} hosts"
    parts = [_SENTENCES[furthest].format(n=hosts), *(_SENTENCES[part].format(n=tested[part]) for part in others)]
    if code == REQUIREMENTS and unknown_names:
        parts[0] += f" (no host has {' or '.join(unknown_names[:_NAMED])})"
    mend = f" {_MENDS[code]}" if code in _MENDS else ""
    return Unplaced(Reason(code, f"No host for {needs}: {', '.join(parts)}.{mend}"), tested)


def no_place(vms: int) -> Unplaced:
    """The refusal where places on alike hosts are counted: too few for so many VMs, for as long as they are to run."""
    whom = f"its {vms} VMs for their whole run" if vms > 1 else "it for its whole run"
    return Unplaced(Reason(CAPACITY, f"There is no room for {whom}. {_MENDS[CAPACITY]}"), {CAPACITY: vms})


def without_mend(text: str) -> str:
    """The same refusal for who is not tried again: what would mend it is left out."""
    return next((text.removesuffix(f" {mend}") for mend in _MENDS.values() if text.endswith(f" {mend}")), text)


@lru_cache(maxsize=4096)
def while_hosts_come(told: Reason, hosts: int) -> Reason:
    """The same for who waits for room while so many hosts boot: it may have room there, and may not."""
    if told.code not in (CAPACITY, DEVICES, NUMA):
        return told
    coming = f"{hosts} hosts are" if hosts > 1 else "One host is"
    return Reason(told.code, f"{told.text} {coming} being switched on.")


def none_usable(code: str, things: str, *, exist: bool, permitted: bool, requirement: str) -> Unplaced:
    """The refusal where no datastore or network will do, whatever the host: none exists, is permitted, or suits."""
    if not exist:
        return unplaced(code, f"There are no {things}: ask the administrator for one.")
    if not permitted:
        return unplaced(code, f"Its owner may use none of the {things}: ask the administrator for the right USE.")
    return unplaced(code, f"None of the {things} that its owner may use meets {requirement}: change that.")
