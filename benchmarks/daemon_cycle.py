"""How long one cycle of the daemon takes, from oned's raw replies to a verified plan, as a ratio.

10,000 pending VMs with requirements, ranks and 50 VM groups on 1,250 hosts, made from the recorded pools. The
yardstick is the plain walk of read_pools.py over the same documents, measured in the same run; times are CPU times.
Measured as shipped (MAX_DISPATCH 30) and with all limits off; and how the time grows from a tenth of the VMs.

    python benchmarks/daemon_cycle.py [--hosts 1250] [--vms 10000] [--rounds 3] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import math
import pstats
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lxml import etree
from lxml.etree import _Element
from read_pools import (  # type: ignore[import-not-found]
    RECORDING,
    cpu_s,
    recorded_replies,
    renumbered,
    reply_with,
    scaled,
    snapshot_from,
    walk,
)

from one_preempt.adapters.opennebula.snapshot_assembly import DATASTORE_POOL, HOST_POOL, VM_GROUP_POOL, VM_POOL
from one_preempt.adapters.opennebula.xmlrpc_reply import document_in
from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.configuration.settings import MatchmakerSettings, Settings
from one_preempt.core.decide import decide
from one_preempt.core.model.ledger import Ledger
from one_preempt.core.model.plan import ActionKind, Plan
from one_preempt.core.reconcile import reconcile
from one_preempt.core.verify import verify

CLAIMED_RATIO = 4.0
CLAIMED_EXPONENT = 1.15
GROUPS, MEMBERS_OF_A_ROLE = 50, 10
RACKS = 25
# Recorded VMs that wait: one with a disk and a network, one with neither. Together as large as those of a live pool.
PENDING_VMS = ("16", "18")
RANKS = ("FREE_CPU", "- RUNNING_VMS", "FREE_CPU * 2 - CPU_USAGE", "PRIORITY", "")
SETTINGS = {
    "as shipped": Settings(),
    "without limits": Settings(matchmaker=MatchmakerSettings(max_vm=0, max_dispatch=0, max_host=0)),
}


@dataclass(frozen=True)
class Cloud:
    """The raw replies, and the documents in them."""

    replies: dict[str, bytes]

    @property
    def documents(self) -> list[bytes]:
        return [document_in(body) for name, body in self.replies.items() if name != "system.version"]


def cloud(hosts: int, vms: int) -> Cloud:
    """A big cloud with a long queue."""
    replies = recorded_replies(hosts, 1)
    for name, document in {
        HOST_POOL: _pool(scaled("hostpool.info", "HOST", hosts), _furnish_host),
        VM_POOL: _pool(_pending_vms(vms), _furnish_vm),
        VM_GROUP_POOL: _groups(),
        DATASTORE_POOL: _pool((RECORDING / "datastorepool.info.xml").read_bytes(), _enlarge),
    }.items():
        replies[name] = reply_with(document)
    return Cloud(replies)


def _pool(document: bytes, furnish: Callable[[_Element], None]) -> bytes:
    root = etree.fromstring(document, etree.XMLParser(strip_cdata=False, huge_tree=True))
    for element in root:
        furnish(element)
    return etree.tostring(root)


def _furnish_host(host: _Element) -> None:
    """Enabled, with room for some of the VMs, in a rack."""
    number = int(host.findtext("ID", "0"))
    _set(host, "STATE", "2")
    _set(host, "CLUSTER_ID", ("0", "100", "101")[number % 3])
    _set(host, "HOST_SHARE/MAX_CPU", "6400")
    _set(host, "HOST_SHARE/MAX_MEM", str(256 << 20))
    _set(host, "HOST_SHARE/CPU_USAGE", str(number * 37 % 3200))
    _set(host, "TEMPLATE/RACK", f"rack{number % RACKS}")


def _pending_vms(count: int) -> bytes:
    root = etree.fromstring((RECORDING / "vmpool.infoextended.xml").read_bytes(), etree.XMLParser(strip_cdata=False))
    texts = [etree.tostring(vm, with_tail=False) for vm in root if vm.findtext("ID") in PENDING_VMS]
    numbered = (renumbered(texts[number % len(texts)], number) for number in range(count - 1, -1, -1))
    return b"<VM_POOL>%b</VM_POOL>" % b"".join(numbered)


def _furnish_vm(vm: _Element) -> None:
    """Every VM has requirements and most a rank; 1,000 are in VM groups; owners and sizes differ."""
    number = int(vm.findtext("ID", "0"))
    _set(vm, "UID", ("0", "2", "3")[number % 3])
    _set(vm, "GID", ("0", "100", "1")[number % 3])
    _set(vm, "TEMPLATE/CPU", ("0.5", "1", "2", "4")[number % 4])
    _set(vm, "TEMPLATE/MEMORY", str((512, 1024, 4096)[number % 3]))
    _set(
        vm,
        "USER_TEMPLATE/SCHED_REQUIREMENTS",
        f'RACK != "rack{number % RACKS}" & FREE_CPU > {number % 7} | NAME = "n*"',
    )
    _set(vm, "USER_TEMPLATE/SCHED_RANK", RANKS[number % len(RANKS)])
    _set(vm, "USER_TEMPLATE/USER_PRIORITY", str(number % 5))
    if number < GROUPS * 2 * MEMBERS_OF_A_ROLE:
        group = etree.Element("VMGROUP")
        _set(group, "ROLE", "apart" if number // GROUPS % 2 else "together")
        _set(group, "VMGROUP_ID", str(number % GROUPS))
        _insert(next(vm.iterchildren("TEMPLATE")), group)


def _groups() -> bytes:
    """Each group has a role whose VMs share no host, one whose VMs share one, and a host that neither takes."""
    pool = etree.fromstring((RECORDING / "vmgrouppool.info.xml").read_bytes())
    pattern = etree.tostring(pool[0])
    del pool[:]
    members = range(GROUPS * 2 * MEMBERS_OF_A_ROLE)
    for group_id in range(GROUPS):
        group = etree.fromstring(pattern)
        _set(group, "ID", str(group_id))
        mine = [number for number in members if number % GROUPS == group_id]
        for role, name, policy, parity in ((0, "apart", "ANTI_AFFINED", 1), (1, "together", "AFFINED", 0)):
            element = group.findall("ROLES/ROLE")[role]
            _set(element, "NAME", name)
            _set(element, "POLICY", policy)
            _set(element, "VMS", ",".join(str(number) for number in mine if number // GROUPS % 2 == parity))
        _set(group, "TEMPLATE/ANTI_AFFINED", "apart,together")
        pool.append(group)
    return etree.tostring(pool)


def _enlarge(datastore: _Element) -> None:
    _set(datastore, "TOTAL_MB", "900000000")
    _set(datastore, "FREE_MB", "800000000")


def _set(element: _Element, path: str, text: str) -> None:
    parent, _, name = path.rpartition("/")
    place = element.find(parent) if parent else element
    assert place is not None, path
    found = place.find(name)
    if found is None:
        found = etree.Element(name)
        _insert(place, found)
    found.text = text


def _insert(place: _Element, element: _Element) -> None:
    """As oned writes templates: sorted by name."""
    before = sum(1 for child in place if str(child.tag) <= str(element.tag))
    place.insert(before, element)


def cycle(replies: dict[str, bytes], settings: Settings) -> Plan:
    """What the daemon does from the bodies to a plan that may be carried out, with an empty store."""
    snapshot = snapshot_from(replies)
    if snapshot.problems:
        raise SystemExit(f"the pools were not read whole: {snapshot.problems[:3]}")
    state = reconcile(snapshot, Ledger(), admission_rules(settings), now_s=0).state
    plan = decide(state, policies(settings))
    violations = verify(state, plan)
    if violations:
        raise SystemExit(f"the plan breaks {len(violations)} rules: {violations[0]}")
    return plan


def measured(work: Callable[[], object], rounds: int) -> float:
    """The best of several CPU times."""
    times: list[float] = []
    for _ in range(rounds):
        gc.collect()
        times.append(cpu_s(work))
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=1250)
    parser.add_argument("--vms", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()

    small, big = cloud(options.hosts, options.vms // 10), cloud(options.hosts, options.vms)
    if options.profile:
        for settings in SETTINGS.values():
            with cProfile.Profile() as profile:
                cycle(big.replies, settings)
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return
    documents = big.documents
    size = sum(map(len, documents)) / 1e6
    yardstick = measured(lambda: walk(documents), options.rounds)
    print(f"{options.hosts} hosts, {options.vms} pending VMs, {size:.1f} MB of XML in {len(documents)} documents")
    print(f"iterparse and clear               {yardstick:6.2f} s")
    slow = []
    for name, settings in SETTINGS.items():
        plan = cycle(big.replies, settings)
        kinds = Counter(action.kind for action in plan.actions)
        whole = measured(partial(cycle, big.replies, settings), options.rounds)
        tenth = measured(partial(cycle, small.replies, settings), options.rounds)
        exponent = math.log10(whole / tenth)
        print(
            f"cycle {name:15} {whole:6.2f} s, ratio {whole / yardstick:.2f}, claimed {CLAIMED_RATIO};"
            f" a tenth of the VMs {tenth:.2f} s, exponent {exponent:.2f}, claimed {CLAIMED_EXPONENT};"
            f" {kinds[ActionKind.DEPLOY]} VMs placed"
        )
        if whole > CLAIMED_RATIO * yardstick or exponent > CLAIMED_EXPONENT:
            slow.append(name)
    if slow:
        raise SystemExit(f"slower than claimed: {', '.join(slow)}")


if __name__ == "__main__":
    main()
