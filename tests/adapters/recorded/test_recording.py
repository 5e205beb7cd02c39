from __future__ import annotations

import base64
import gzip
import json
import os
import re
import stat
import zlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from one_preempt.adapters.opennebula.credentials import Credentials
from one_preempt.adapters.opennebula.snapshot_assembly import assemble_snapshot
from one_preempt.adapters.opennebula.transport import OnedTransport, Parameter
from one_preempt.adapters.recorded.recorded_pool_reader import RecordedPoolReader
from one_preempt.adapters.recorded.recording import RecordingError, read_recording, write_recording
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.ports import CloudUnavailable

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings"
VERSIONS = ("7.4.0", "6.10.0")
SEEN_AT_S = 1_800_000_000
CANARY = "canary-Zq7"


class Replayed(OnedTransport):
    """The recorded oned without a socket; `planted` changes its documents."""

    def __init__(self, version: str) -> None:
        super().__init__("http://127.0.0.1:1/RPC2", Credentials(f"oneadmin:{CANARY}"))
        folder = RECORDINGS / version
        self.documents = {file.stem: file.read_bytes().strip() for file in folder.glob("*.xml")}
        self.documents["system.version"] = (folder / "system.version.txt").read_bytes()

    def document(self, method: str, *parameters: Parameter) -> bytes:
        return self.documents[method.removeprefix("one.")]

    def plant(self, name: str, pattern: str, secret: str) -> None:
        """Put `secret` behind every match of `pattern`."""
        planted, count = re.subn(pattern.encode(), lambda match: match[0] + secret.encode(), self.documents[name])
        assert count > 0, (name, pattern)
        self.documents[name] = planted


def recorded(transport: OnedTransport, path: Path, *extra: str) -> PoolSnapshot:
    write_recording(transport, path, SEEN_AT_S, frozenset(extra))
    return RecordedPoolReader(path).read()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_decisions_use_is_the_same_in_the_recording(version: str, tmp_path: Path) -> None:
    live = assemble_snapshot(Replayed(version).documents, SEEN_AT_S)
    read_back = recorded(Replayed(version), tmp_path / "cloud", "LEASE_TYPE", "PRIORITY_CLASS")

    assert (read_back.version, read_back.zone_id, read_back.raft_state) == (version, live.zone_id, live.raft_state)
    assert (read_back.observed_at_s, read_back.problems) == (SEEN_AT_S, ())
    assert read_back.vm_groups == live.vm_groups
    assert read_back.directory == live.directory
    for vm_id, vm in live.vms.items():
        found = read_back.vms[vm_id]
        assert replace(found, user_template={}) == replace(vm, user_template={})
        for name in ("LEASE_TYPE", "PRIORITY_CLASS", "SCHED_REQUIREMENTS", "SCHED_RANK", "USER_PRIORITY"):
            assert found.user_template.get(name) == vm.user_template.get(name)
    for host_id, host in live.hosts.items():
        assert replace(read_back.hosts[host_id], attributes={}) == replace(host, attributes={})
        for path in ("TEMPLATE/RACK", "HOST_SHARE/MAX_CPU", "MONITORING/CAPACITY/FREE_CPU", "CLUSTER_ID",
                     "TEMPLATE/HYPERVISOR", "TEMPLATE/KVM_CPU_FEATURES", "CLUSTER_TEMPLATE/RESERVED_CPU"):  # fmt: skip
            assert read_back.hosts[host_id].attributes.get(path) == host.attributes.get(path), path
    for pools in ("clusters", "datastores", "networks"):
        for item_id, item in getattr(live, pools).items():
            assert replace(getattr(read_back, pools)[item_id], attributes={}) == replace(item, attributes={})


# Document, place, what is planted there: {0} is the canary, {1} the same in base64.
PLANTED = [
    ("vmpool.infoextended", "<CONTEXT>", "<PUBLIC_KEY>{0}</PUBLIC_KEY><START_SCRIPT_BASE64>{1}</START_SCRIPT_BASE64>"),
    ("vmpool.infoextended", "<GRAPHICS>", "<PASSWD>{0}</PASSWD>"),
    ("vmpool.infoextended", "<USER_TEMPLATE>", "<DB_PASSWORD>{0}</DB_PASSWORD><NOTES>{0}</NOTES>"),
    ("vmpool.infoextended", "<USER_TEMPLATE>", "<DEEP><A>{0}</A></DEEP><SCHED_TOKEN>{0}</SCHED_TOKEN>"),
    ("vmpool.infoextended", "<USER_TEMPLATE>", "<LEASE><TYPE>BE-SUSPENDABLE</TYPE><SECRET>{0}</SECRET></LEASE>"),
    ("vmpool.infoextended", "<USER_TEMPLATE>", "<SCHED_REQUIREMENTS>IPMI_PASSWORD = x</SCHED_REQUIREMENTS>"),
    ("vmpool.infoextended", "<DISK>", "<SOURCE>{0}</SOURCE><LUKS_SECRET>{0}</LUKS_SECRET>"),
    ("vmpool.infoextended", "<TEMPLATE>", "<OS><BOOTLOADER>{0}</BOOTLOADER></OS><RAW><DATA>{0}</DATA></RAW>"),
    ("vmpool.infoextended", "<MONITORING>", "<GUEST>{0}</GUEST>"),
    ("hostpool.info", "<TEMPLATE>", "<IPMI_PASSWORD>{0}</IPMI_PASSWORD><REDFISH_TOKEN>{0}</REDFISH_TOKEN>"),
    ("hostpool.info", "<TEMPLATE>", "<NOTE>{0}</NOTE><VAULT><KEY>{0}</KEY></VAULT>"),
    (
        "vmpool.infoextended",
        "<USER_TEMPLATE>",
        "<SCHED_RANK>SNMP_COMMUNITY + WIFI_PSK + POWER_USER + POWER_ADDRESS + DB_DSN + BIOS_PASSPHRASE</SCHED_RANK>",
    ),
    ("hostpool.info", "<TEMPLATE>", "<SNMP_COMMUNITY>{0}</SNMP_COMMUNITY><WIFI_PSK>{0}</WIFI_PSK>"),
    ("hostpool.info", "<TEMPLATE>", "<POWER_USER>{0}</POWER_USER><POWER_ADDRESS>{0}</POWER_ADDRESS>"),
    ("hostpool.info", "<TEMPLATE>", "<DB_DSN>{0}</DB_DSN><BIOS_PASSPHRASE>{0}</BIOS_PASSPHRASE>"),
    ("hostpool.monitoring", "<CAPACITY>", "<TOKEN>{0}</TOKEN>"),
    ("datastorepool.info", "<TEMPLATE>", "<CEPH_SECRET>{0}</CEPH_SECRET><S3_KEY>{0}</S3_KEY><NOTE>{0}</NOTE>"),
    ("clusterpool.info", "<TEMPLATE>", "<PROVIDER><TOKEN>{0}</TOKEN></PROVIDER><NOTE>{0}</NOTE>"),
    ("vnpool.info", "<TEMPLATE>", "<EVPN_PASSWORD>{0}</EVPN_PASSWORD><NOTE>{0}</NOTE>"),
    ("userpool.info", "<TEMPLATE>", "<TOKEN_PASSWORD>{0}</TOKEN_PASSWORD><SSH_PUBLIC_KEY>{0}</SSH_PUBLIC_KEY>"),
    ("userpool.info", "<USER>", "<LOGIN_TOKEN><TOKEN>{0}</TOKEN></LOGIN_TOKEN><PASSWORD>{0}</PASSWORD>"),
    ("grouppool.info", "<TEMPLATE>", "<NOTE>{0}</NOTE>"),
    ("vmgrouppool.info", "<TEMPLATE>", "<NOTE>{0}</NOTE>"),
    ("acl.info", "<ACL>", "<STRING>{0}</STRING>"),
    ("system.config", "<[A-Z_]+>(?=<)", "<PASSWD>{0}</PASSWD>"),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_planted_secret_is_anywhere_in_the_file(version: str, tmp_path: Path) -> None:
    transport = Replayed(version)
    encoded = base64.b64encode(CANARY.encode()).decode()
    for name, pattern, secret in PLANTED:
        transport.plant(name, pattern, secret.format(CANARY, encoded))
    path = tmp_path / "cloud.recording"
    write_recording(transport, path, SEEN_AT_S, frozenset({"LEASE_TYPE", "DB_PASSWORD", "SCHED_TOKEN"}))

    packed = path.read_bytes()
    unpacked = gzip.decompress(packed)
    words = re.findall(rb"[A-Za-z0-9+/]{16,}", unpacked)
    texts = [packed, unpacked, *(base64.b64decode(word) for word in words if len(word) % 4 == 0)]
    forms = [CANARY, encoded.rstrip("="), CANARY.encode().hex(), CANARY[::-1]]
    assert not [form for form in forms for text in texts if form.encode() in text]
    # The canary would have been found where it may stand.
    assert b"BE-SUSPENDABLE" in unpacked
    transport.plant("vmpool.infoextended", "<LEASE_TYPE>", CANARY)
    write_recording(transport, path, SEEN_AT_S, frozenset({"LEASE_TYPE"}))
    assert CANARY.encode() in gzip.decompress(path.read_bytes())


def test_host_attributes_come_along_only_where_a_requirement_or_rank_names_them(tmp_path: Path) -> None:
    transport = Replayed("7.4.0")
    transport.plant("hostpool.info", "<TEMPLATE>", "<ROOM>4</ROOM><ZONE_TAG>z</ZONE_TAG><FLOOR>2</FLOOR>")
    transport.plant("vmpool.infoextended", "<SCHED_RANK>", "ROOM + ")
    transport.plant("vmpool.infoextended", "<AUTOMATIC_REQUIREMENTS>", '"ZONE_TAG" = z &amp; ')
    attributes = recorded(transport, tmp_path / "cloud").hosts[0].attributes
    assert {path for path in attributes if path.startswith("TEMPLATE/")} >= {
        "TEMPLATE/RACK", "TEMPLATE/ROOM", "TEMPLATE/ZONE_TAG",
    }  # fmt: skip
    assert not {"TEMPLATE/FLOOR", "TEMPLATE/MODELNAME", "TEMPLATE/PARTITION"} & set(attributes)


def test_who_records_is_told_what_is_there_for_users_expressions_alone(tmp_path: Path) -> None:
    transport = Replayed("7.4.0")
    transport.plant("hostpool.info", "<TEMPLATE>", "<ROOM>4</ROOM><ZONE_TAG>z</ZONE_TAG><FLOOR>2</FLOOR>")
    transport.plant("datastorepool.info", "<TEMPLATE>", "<TIER>gold</TIER>")
    transport.plant("vmpool.infoextended", "<SCHED_RANK>", "ROOM + NOBODY_HAS_IT + HYPERVISOR + ")
    transport.plant("vmpool.infoextended", "<USER_TEMPLATE>", "<SCHED_DS_RANK>TIER + ZONE_TAG</SCHED_DS_RANK>")
    transport.plant("vmpool.infoextended", "<AUTOMATIC_REQUIREMENTS>", '"ZONE_TAG" = z &amp; ')

    assert write_recording(transport, tmp_path / "cloud", SEEN_AT_S) == ("RACK", "ROOM", "TIER")


def test_user_attributes_come_along_only_where_the_rules_name_them(tmp_path: Path) -> None:
    without = recorded(Replayed("7.4.0"), tmp_path / "a").vms[0].user_template
    with_type = recorded(Replayed("7.4.0"), tmp_path / "b", "LEASE_TYPE").vms[0].user_template
    assert set(without) == {"SCHED_RANK", "SCHED_REQUIREMENTS", "USER_PRIORITY"}
    assert set(with_type) == set(without) | {"LEASE_TYPE"}


def test_a_lease_comes_along_by_its_known_terms(tmp_path: Path) -> None:
    transport = Replayed("7.4.0")
    transport.plant(
        "vmpool.infoextended", "<USER_TEMPLATE>",
        "<LEASE><TYPE>BE-SUSPENDABLE</TYPE><SIZE>2</SIZE><X>1</X></LEASE><LEASE_STATUS>ok</LEASE_STATUS>",
    )  # fmt: skip
    template = recorded(transport, tmp_path / "cloud").vms[0].user_template
    assert template["LEASE"] == ({"TYPE": "BE-SUSPENDABLE", "SIZE": "2"},)
    assert template["LEASE_STATUS"] == ("ok",)


def test_the_file_is_the_owners_alone_and_the_same_for_the_same_cloud(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"old")
    first.chmod(0o644)
    for path in (first, second):
        write_recording(Replayed("7.4.0"), path, SEEN_AT_S)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first.read_bytes() == second.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["first", "second"]


def test_a_recording_that_fails_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    class Failing(Replayed):
        def document(self, method: str, *parameters: Parameter) -> bytes:
            if method == "one.grouppool.info":
                raise CloudUnavailable("gone")
            return super().document(method, *parameters)

    path = tmp_path / "cloud"
    path.write_bytes(b"old")
    with pytest.raises(CloudUnavailable):
        write_recording(Failing("7.4.0"), path, SEEN_AT_S)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_where_nothing_can_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"cannot write the recording .*none/cloud: No such file or directory"):
        write_recording(Replayed("7.4.0"), tmp_path / "none" / "cloud", SEEN_AT_S)
    (tmp_path / "folder").mkdir()
    with pytest.raises(RecordingError, match="cannot write the recording"):
        write_recording(Replayed("7.4.0"), tmp_path / "folder", SEEN_AT_S)
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(RecordingError, match=f"cannot write the recording {path}: what is there is not a file"):
            write_recording(Replayed("7.4.0"), path, SEEN_AT_S)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert len(list(tmp_path.iterdir())) == 2


def test_through_a_link_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to("cloud")
    write_recording(Replayed("7.4.0"), tmp_path / "latest", SEEN_AT_S)
    assert (tmp_path / "latest").is_symlink()
    assert read_recording(tmp_path / "cloud").observed_at_s == SEEN_AT_S


def test_a_recording_cut_anywhere_is_refused_in_one_line(tmp_path: Path) -> None:
    write_recording(Replayed("7.4.0"), tmp_path / "whole", SEEN_AT_S)
    whole = (tmp_path / "whole").read_bytes()
    cut = tmp_path / "cut"
    for length in (1, 5, 11, len(whole) // 3, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        cut.write_bytes(whole[:length])
        with pytest.raises(RecordingError, match=r"cut (ends in the middle|is no recording)") as caught:
            read_recording(cut)
        assert "\n" not in str(caught.value)


def packed(content: object) -> bytes:
    return gzip.compress(json.dumps(content).encode())


NOT_RECORDINGS = {
    "an empty file": (b"", "is no recording"),
    "a text": (b"hello", "is no recording"),
    "a bare pool": (b"<VM_POOL></VM_POOL>", "is no recording"),
    "a packed text": (gzip.compress(b"hello"), "is no recording"),
    "damaged packing": (gzip.compress(bytes(range(256)) * 40)[:50] + b"\xff" * 80, "cloud"),
    "bare deflate": (zlib.compress(b"{}"), "is no recording"),
    "packed JSON of another kind": (packed([1, 2]), "is no recording"),
    "JSON nested too deeply": (gzip.compress(b"[" * 100_000), "is no recording"),
    "a later format": (packed({"format": "one_preempt recording", "format_version": 9}), "recording of format 9"),
    "no documents": (packed({"format": "one_preempt recording", "format_version": 1, "observed_at_s": 1}), "damaged"),
    "documents without pools": (
        packed({"format": "one_preempt recording", "format_version": 1, "observed_at_s": 1, "documents": {}}),
        "hostpool.info and vmpool.infoextended are needed",
    ),
    "a pool cut in the middle": (
        packed(
            {
                "format": "one_preempt recording", "format_version": 1, "observed_at_s": 1,
                "documents": {"hostpool.info": "<HOST_POOL><HOST>", "vmpool.infoextended": "<VM_POOL/>"},
            }
        ),
        "cut off",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "told"), NOT_RECORDINGS.values(), ids=NOT_RECORDINGS.keys())
def test_what_is_no_recording_is_refused_in_one_line(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "cloud"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=re.escape(told)) as caught:
        RecordedPoolReader(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"cannot read the recording .*nowhere: No such file"):
        RecordedPoolReader(tmp_path / "nowhere")
