"""Descriptions: the shipped clouds are sound, mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.emulator.described_cloud import described_cloud
from one_preempt.simulation.emulator.description import read_description
from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.simulated_cloud.authorization import Right
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.states import LcmState

STORE = "datastores: [{name: d, type: system, total_mib: 1000}]\n"
HOST = "hosts: [{name: h, cpu: 4, memory_mib: 4096}]\n"


def cloud_of(tmp_path: Path, text: str) -> SimulatedCloud:
    path = tmp_path / "cloud.yaml"
    path.write_text(text)
    return described_cloud(read_description(path))


def test_the_demonstration_cloud_is_full_of_external_leases() -> None:
    cloud = shipped_cloud("demo")
    assert cloud.audit() == []
    assert cloud.overcommits == []
    assert sum(host.share.cpu_usage for host in cloud.hosts.values()) == 1200
    assert all(vm.lcm_state == LcmState.RUNNING and vm.gname == "externals" for vm in cloud.vms.values())
    local = cloud.authenticate("local1", "local1")
    assert cloud.groups[local.gid].name == "locals"
    assert cloud.vm_allocate(local, 'CPU="2"\nMEMORY="128"\nDISK=[IMAGE_ID="0"]\n', hold=True) == len(cloud.vms) - 1


@pytest.mark.parametrize("version", ["7.4.0", "6.10.0"])
def test_the_recorded_cloud_is_sound(version: str) -> None:
    assert shipped_cloud("recorded", version).audit() == []


def test_a_described_cloud_is_the_same_every_time() -> None:
    assert shipped_cloud("recorded").vms == shipped_cloud("recorded").vms


def test_words_of_a_description_are_words_and_no_truth_values_or_clock_times(tmp_path: Path) -> None:
    cloud = cloud_of(
        tmp_path, "hosts: [{name: h, cpu: 4, memory_mib: 4096, template: {A: on, B: no, C: 1:30, D: 010}}]"
    )
    assert [cloud.hosts[0].template[name] for name in "ABCD"] == [["on"], ["no"], ["1:30"], ["010"]]


def test_numbered_hosts_and_vms_get_their_numbers(tmp_path: Path) -> None:
    cloud = cloud_of(
        tmp_path,
        'hosts: [{name: "n{:02}", count: 3, cpu: 2, memory_mib: 4096}]\n'
        "datastores: [{name: d, type: system, total_mib: 1000}]\n"
        'vms: [{name: "v{}", count: 2, template: {CPU: 1, MEMORY: 512}, story: [deploy n02]}]\n',
    )
    assert [host.name for host in cloud.hosts.values()] == ["n01", "n02", "n03"]
    assert [vm.name for vm in cloud.vms.values()] == ["v1", "v2"]
    assert cloud.hosts[1].share.cpu_usage == 200


def test_rules_are_written_as_oned_shows_them(tmp_path: Path) -> None:
    cloud = cloud_of(tmp_path, 'acls: ["@1 HOST+NET/%0 USE+MANAGE #0", "#1 VM/#3 ADMIN *"]\n')
    assert [rule.text for rule in cloud.acls.values()][-2:] == ["@1 HOST+NET/%0 USE+MANAGE #0", "#1 VM/#3 ADMIN *"]
    assert list(cloud.acls.values())[-1].rights == Right.ADMIN


def test_roles_of_groups_carry_their_rules(tmp_path: Path) -> None:
    roles = '[{name: front, policy: ANTI_AFFINED, host_anti_affined: "0,2"}, {name: back, host_affined: "1"}]'
    cloud = cloud_of(tmp_path, f"vm_groups: [{{name: tiers, public: true, roles: {roles}}}]\n")
    group = cloud.vm_groups[0]
    assert [role.vector for role in group.roles] == [
        {"POLICY": "ANTI_AFFINED", "HOST_ANTI_AFFINED": "0,2"},
        {"HOST_AFFINED": "1"},
    ]
    assert group.permissions.other_u


def test_a_vm_is_deployed_to_the_first_host_where_it_fits(tmp_path: Path) -> None:
    vms = 'vms: [{name: "v{}", count: 3, template: {CPU: 2, MEMORY: 512}, story: [deploy h2 h1]}]\n'
    hosts = 'hosts: [{name: "h{}", count: 2, cpu: 4, memory_mib: 4096}]\n'
    cloud = cloud_of(tmp_path, STORE + hosts + vms)
    assert [vm.history[-1].hostname for vm in cloud.vms.values()] == ["h2", "h2", "h1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "hosts: [{name: h, cpus: 4, memory_mib: 1}]",
            r"cloud\.yaml: hosts\[0\]: unknown key `cpus`; do you mean `cpu`",
        ),
        ("host: []", "unknown key `host`; do you mean `hosts`"),
        ("hosts: [", r"cloud\.yaml: line 2, column 1: "),
        ("hosts: [{name: h, cpu: 4, memory_mib: 4096, cluster: nowhere}]", "hosts: h: there is no cluster 'nowhere'"),
        ("hosts: [{name: h, cpu: 4, memory_mib: 4096, status: asleep}]", "status 'asleep' is none of enabled"),
        ("datastores: [{name: d, type: tape}]", "datastores: d: type 'tape' is none of image"),
        ("users: [{name: u, group: none}]", "users: u: there is no group 'none'"),
        ("users: [{name: u, quota: {CPUS: 4}}]", "users: u: quota 'CPUS' is none of VMS"),
        ("acls: [everybody everything]", "'everybody everything' is no rule; write"),
        ("durations: {nap_s: 3}", "durations: .*nap_s"),
        ("durations: {boot_s: .nan}", "boot_s is .nan, which is no number"),
        ("drivers: {transfers: 0}", r"drivers\[\.\.\.\]: expected a whole number of at least 1"),
        ("version: new", r"version: expected text that matches .*\[6-9\]"),
        ("hosts: [{name: h, cpu: .inf, memory_mib: 4096}]", "line 1, column 24: cpu is .inf"),
        ("hosts: [{name: h, cpu: 1, memory_mib: 4096, count: -1}]", r"hosts\[0\]\.count"),
        ("hosts: [{name: h, cpu: 1, memory_mib: 4096, count: 2}]", "hosts: h: another host has this name"),
        ('hosts: [{name: "h{x}", cpu: 1, memory_mib: 4096}]', r"hosts: 'h\{x\}' has braces"),
        ('vms: [{name: "v{", template: {CPU: 1, MEMORY: 1}}]', r"vms: 'v\{' has braces"),
        ('hosts: [{name: h, cpu: 1, memory_mib: 1, template: {"A<B": 1}}]', r"hosts\[0\]\.template"),
        (
            'devices: {"7.4.0": [{VENDOR: a}]}\nhosts: [{name: h, cpu: 1, memory_mib: 1, devices: true}]',
            "devices: .* lacks ADDRESS",
        ),
        ("networks: [{name: n, first_ip: here}]", "networks: n: first_ip 'here' is no IPv4 address"),
        ("datastores: [{name: a, type: image, id: 1}, {name: b, type: system, id: 1}]", "another datastore has the id"),
        ("groups: [{name: oneadmin}]", "groups: oneadmin: another group has this name"),
        ("users: [{name: u}, {name: u}]", "users: u: another user has this name"),
        ("vms: [{name: v, template: {CPU: 1, MEMORY: 1, NIC: {NETWORK_ID: x}}}]", "vms: v: Could not get virtual"),
        ("images: [{name: i, datastore: d}]", "images: i: there is no datastore 'd'"),
        ("vms: [{name: v, template: {CPU: 1}}]", "vms: v: MEMORY attribute must be"),
        ("vms: [{name: v, based_on: t}]", "vms: v: there is no VM template 't'"),
        (HOST + "vms: [{name: v, template: {CPU: 1, MEMORY: 1}, story: [deploy x]}]", "v: 'deploy x' names nothing"),
        (
            HOST + STORE + "vms: [{name: v, template: {CPU: 5, MEMORY: 1}, story: [deploy h]}]",
            "Not enough CPU: 500/400",
        ),
        (HOST + "vms: [{name: v, template: {CPU: 1, MEMORY: 1}, story: [fly]}]", "v: 'fly' is refused: Action \"fly\""),
    ],
)
def test_a_mistake_is_named_in_one_message(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(OnePreemptError, match=message):
        cloud_of(tmp_path, text)
