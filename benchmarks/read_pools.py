"""How long reading a big cloud takes, from oned's raw replies to the cluster state, as a ratio.

The yardstick is lxml walking over the same documents and forgetting them, measured in the same run:
``for _, e in lxml.etree.iterparse(f, events=("end",)): e.clear()``. Times are CPU times of this process.

    python benchmarks/read_pools.py [--hosts 1250] [--vms 10000] [--rounds 3] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import io
import pstats
import re
import time
from collections.abc import Callable
from pathlib import Path

from lxml import etree

from one_preempt.adapters.opennebula.snapshot_assembly import HOST_MONITORING, HOST_POOL, VM_POOL, assemble_snapshot
from one_preempt.adapters.opennebula.xmlrpc_reply import document_in
from one_preempt.configuration.chosen_policies import admission_rules
from one_preempt.configuration.settings import Settings
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.ledger import Ledger
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.reconcile import reconcile

RECORDING = Path(__file__).resolve().parent.parent / "tests" / "recordings" / "7.4.0"
OTHER_POOLS = (
    "clusterpool.info", "datastorepool.info", "vnpool.info", "vmgrouppool.info", "acl.info", "userpool.info",
    "grouppool.info", "zone.raftstatus", "system.config",
)  # fmt: skip
CLAIMED_RATIO = 2.5
REPEATED, CLAIMED_RATIO_REPEATED = 40_000, 1.5


def recorded_replies(hosts: int, vms: int) -> dict[str, bytes]:
    """HTTP bodies of the recorded pools, with the hosts and VMs repeated under new ids."""
    documents = {name: (RECORDING / f"{name}.xml").read_bytes().strip() for name in OTHER_POOLS}
    documents[HOST_POOL] = scaled("hostpool.info", "HOST", hosts)
    documents[HOST_MONITORING] = scaled("hostpool.monitoring", "MONITORING", hosts)
    documents[VM_POOL] = scaled("vmpool.infoextended", "VM", vms)
    documents["system.version"] = (RECORDING / "system.version.txt").read_bytes().strip()
    return {name: reply_with(document) for name, document in documents.items()}


def scaled(name: str, tag: str, count: int) -> bytes:
    """A pool of `count` objects as oned writes them: highest id first, each with its own id and name."""
    root = etree.fromstring((RECORDING / f"{name}.xml").read_bytes(), etree.XMLParser(strip_cdata=False))
    objects = [etree.tostring(element, with_tail=False) for element in root.iterchildren(tag)]
    numbered = (renumbered(objects[index % len(objects)], index) for index in range(count - 1, -1, -1))
    return b"<%b>%b</%b>" % (str(root.tag).encode(), b"".join(numbered), str(root.tag).encode())


def renumbered(element: bytes, number: int) -> bytes:
    """`element` under another id, and where it has a name, under another name."""
    with_id = re.sub(rb"<ID>\d+</ID>", b"<ID>%d</ID>" % number, element, count=1)
    return re.sub(rb"<NAME>([^<]*)</NAME>", rb"<NAME>\1-%d</NAME>" % number, with_id, count=1)


def reply_with(document: bytes) -> bytes:
    """A successful answer of oned that carries `document`."""
    escaped = document.replace(b"&", b"&amp;").replace(b"<", b"&lt;").replace(b">", b"&gt;")
    return (
        b'<?xml version="1.0" encoding="UTF-8"?>\r\n<methodResponse>\r\n<params>\r\n<param><value><array><data>\r\n'
        b"<value><boolean>1</boolean></value>\r\n<value><string>%b</string></value>\r\n<value><i4>0</i4></value>\r\n"
        b"</data></array></value></param>\r\n</params>\r\n</methodResponse>\r\n" % escaped
    )


def snapshot_from(replies: dict[str, bytes]) -> PoolSnapshot:
    """What the pool reader does once the bodies have arrived."""
    return assemble_snapshot({name: document_in(body) for name, body in replies.items()}, observed_at_s=0)


def state_from(replies: dict[str, bytes]) -> ClusterState:
    """The whole way to what a decision sees, on the shipped configuration with an empty store."""
    return reconcile(snapshot_from(replies), Ledger(), admission_rules(Settings()), now_s=0).state


def snapshot_with(attributes: bytes) -> PoolSnapshot:
    """The recorded pools where one VM's user has written `attributes` more."""
    replies = recorded_replies(5, 10)
    pool = document_in(replies[VM_POOL]).replace(b"</USER_TEMPLATE>", attributes + b"</USER_TEMPLATE>", 1)
    return snapshot_from({**replies, VM_POOL: reply_with(pool)})


def walk(documents: list[bytes]) -> None:
    """The yardstick."""
    for document in documents:
        for _, element in etree.iterparse(io.BytesIO(document), events=("end",), huge_tree=True):
            element.clear()


def cpu_s(work: Callable[[], object]) -> float:
    """CPU time of one run."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=1250)
    parser.add_argument("--vms", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()

    replies = recorded_replies(options.hosts, options.vms)
    documents = [document_in(body) for name, body in replies.items() if name != "system.version"]
    snapshot = snapshot_from(replies)
    if (len(snapshot.hosts), len(snapshot.vms), snapshot.problems) != (options.hosts, options.vms, ()):
        raise SystemExit(f"the scaled pools were not read whole: {snapshot.problems[:3]}")
    if options.profile:
        with cProfile.Profile() as profile:
            snapshot_from(replies)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)

    yardstick = reading = whole = float("inf")
    for _ in range(options.rounds):
        yardstick = min(yardstick, cpu_s(lambda: walk(documents)))
        reading = min(reading, cpu_s(lambda: snapshot_from(replies)))
        whole = min(whole, cpu_s(lambda: state_from(replies)))
    once = cpu_s(lambda: snapshot_with(b"".join(b"<Z%d>1</Z%d>" % (one, one) for one in range(REPEATED))))
    again = cpu_s(lambda: snapshot_with(b"<Z>1</Z>" * REPEATED))
    size = sum(map(len, documents)) / 1e6
    print(f"{options.hosts} hosts, {options.vms} VMs, {size:.1f} MB of XML in {len(documents)} documents")
    print(f"iterparse and clear          {yardstick:6.2f} s")
    print(f"raw replies to snapshot      {reading:6.2f} s, ratio {reading / yardstick:.2f}")
    print(f"raw replies to cluster state {whole:6.2f} s, ratio {whole / yardstick:.2f}, claimed {CLAIMED_RATIO}")
    print(f"{REPEATED} attributes of one name {again:.2f} s, of as many names {once:.2f} s, ratio {again / once:.2f}")
    if whole > CLAIMED_RATIO * yardstick or again > CLAIMED_RATIO_REPEATED * once:
        raise SystemExit("slower than claimed")


if __name__ == "__main__":
    main()
