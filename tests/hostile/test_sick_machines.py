"""Hosts, datastores, clusters and users whose documents hold nonsense cost themselves, and nobody else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import pytest

from tests.hostile.front_row import FrontRow, front_row

NONSENSE = (
    "", "-100", str(2**47), "9" * 30, "9" * 5000, "inf", "nan", "1.5", "soon", "&#x9b;31m&#x85;&#x202e;", "\u00b2",
    "<A><B>1</B></A>",
)  # fmt: skip
FIELDS = {
    "HOST": (
        "STATE", "CLUSTER_ID", "TOTAL_CPU", "TOTAL_MEM", "MAX_CPU", "MAX_MEM", "CPU_USAGE", "MEM_USAGE", "RUNNING_VMS",
        "VMS_THREAD", "FREE_DISK", "NAME", "CLUSTER", "VM_MAD", "VMS", "TEMPLATE", "HOST_SHARE", "NUMA_NODES",
    ),
    "DATASTORE": (
        "UID", "GID", "TYPE", "STATE", "TOTAL_MB", "FREE_MB", "USED_MB", "CLUSTERS", "TM_MAD", "SHARED", "PERMISSIONS",
        "NAME", "TEMPLATE",
    ),
}  # fmt: skip
CASES = {kind: list(product(fields, NONSENSE)) for kind, fields in FIELDS.items()}
SOUND_HOST = {"name": "sound", "cpu": 1000, "memory_mib": 1_000_000}
SICK_HOSTS = {"name": "sick{}", "count": len(CASES["HOST"]), "cpu": 100, "memory_mib": 65536}
SOUND_STORE = {"name": "sound", "type": "system", "ds_mad": "-", "tm_mad": "shared", "clusters": ["main"],
               "total_mib": 409_600, "template": {"SHARED": "YES"}}  # fmt: skip
SICK_STORES = [{**SOUND_STORE, "name": f"sick{number}"} for number in range(len(CASES["DATASTORE"]))]
OTHER_POOLS = {
    "hostpool.monitoring": (rb">\d+(\.\d+)?<", b">1e999<"),
    "clusterpool.info": (rb"<TEMPLATE>", b"<TEMPLATE><A>\xc2\x9b31m</A>" + b"<X>1</X>" * 1000),
    "userpool.info": (rb"<ENABLED>1</ENABLED>", b"<ENABLED>soon</ENABLED><GID/>"),
    "acl.info": (rb"</ACL_POOL>", b"<ACL><ID>99</ID><USER>zz</USER><RESOURCE/><RIGHTS/><ZONE/></ACL></ACL_POOL>"),
}


def each_sick_in_its_way(kind: str, pool: bytes) -> bytes:
    """One field of each object whose name begins with sick replaced, each another way."""
    cases = iter(CASES[kind])

    def change(match: re.Match[bytes]) -> bytes:
        document = match[0]
        if b"sick" not in document:
            return document
        field, value = next(cases)
        element = re.compile(rb"<%b(/>|>.*?</%b>)" % (field.encode(), field.encode()), re.DOTALL)
        changed = element.sub(f"<{field}>{value}</{field}>".encode(), document, count=1)
        assert changed != document or value == "", field
        return changed

    changed = re.sub(rb"<%b>.*?</%b>" % (kind.encode(), kind.encode()), change, pool, flags=re.DOTALL)
    assert next(cases, None) is None, "every case is in the pool"
    return changed


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontRow]:
    hosts, stores = [SICK_HOSTS, SOUND_HOST], [*SICK_STORES, SOUND_STORE]
    with front_row(tmp_path_factory.mktemp("sick"), hosts=hosts, datastores=stores, instant=True) as made:
        rewrite: dict[str, Callable[[bytes], bytes]] = {
            "hostpool.info": partial(each_sick_in_its_way, "HOST"),
            "datastorepool.info": partial(each_sick_in_its_way, "DATASTORE"),
            **{name: partial(re.compile(told).sub, instead) for name, (told, instead) in OTHER_POOLS.items()},
        }
        made.transport.rewrite = rewrite
        yield made


def test_vms_run_at_once_whatever_the_sick_ones_tell(row: FrontRow) -> None:
    plain = [row.submit("paul") for _ in range(10)]
    leases = [row.submit("eva", more='LEASE=[TYPE="BE-SUSPENDABLE"]') for _ in range(10)]
    wishes = ["FREE_CPU * 1e9", "RUNNING_VMS / 0", "- MAX_MEM", "FREE_MEMORY - VMS_THREAD"]
    ranked = [row.submit("paul", more=f'SCHED_RANK="{rank}"\nSCHED_DS_RANK="{rank}"') for rank in wishes]
    picky = row.submit("paul", more='SCHED_REQUIREMENTS="TOTAL_CPU > -5 & NAME != \\"sick*\\""')
    for _ in range(4):
        report = row.run()
        assert report.violations == ()
    assert all(map(row.is_running, [*plain, *leases, *ranked, picky]))


def test_each_sick_one_is_told_once_in_a_harmless_line(row: FrontRow) -> None:
    row.run(2)
    for line in row.log:
        assert line.isprintable()
        assert len(line) <= 500
    left_out = [line for line in row.log if "was left out" in line]
    assert len(left_out) == len(set(left_out))
    assert sum("HOST" in line for line in left_out) > 80
    assert sum("DATASTORE" in line for line in left_out) > 40
    assert any("ACL '99'" in line for line in left_out)
