"""The small clouds that random stories are told on: hosts with and without devices, pinned ones, networks, a group."""

from __future__ import annotations

import random
from typing import Any

from tests.stories.world import description

GPU = {"VENDOR": "10de", "DEVICE": "0863", "CLASS": "0302"}
VM_GROUP = 0


def random_cloud(seed: int) -> dict[str, Any]:
    """A description; the same for the same seed."""
    chance = random.Random(seed + 1_000_000)
    hosts: list[dict[str, Any]] = [
        {
            "name": f"node{number}",
            "cpu": chance.choice([1, 2, 3, 4]),
            "memory_mib": chance.choice([2048, 4096, 8192]),
            "devices": chance.random() < 0.6,
        }
        for number in range(chance.choice([1, 2, 2, 3]))
    ]
    if chance.random() < 0.5:
        numa = {"nodes": 2, "cores_per_node": 2, "threads_per_core": 2, "memory_mib_per_node": 2048}
        hosts.append(
            {"name": "pinned", "cpu": 8, "memory_mib": 4096, "numa": numa, "template": {"PIN_POLICY": "PINNED"}}
        )
    rule = {"ANTI_AFFINED": "front, back"} if chance.random() < 0.5 else {}
    return description(
        hosts,
        devices={"7.4.0": [{"ADDRESS": f"0000:0{bus}:00:0", **GPU} for bus in (2, 3)[: chance.choice([1, 2])]]},
        networks=[
            {"name": "narrow", "clusters": ["main"], "public": True, "size": 2},
            {"name": "wide", "clusters": ["main"], "public": True, "size": 20, "first_ip": "10.0.0.1"},
        ],
        vm_groups=[
            {
                "name": "tiers",
                "public": True,
                "roles": [{"name": "front", "policy": "ANTI_AFFINED"}, {"name": "back", "policy": "AFFINED"}],
                "template": rule,
            }
        ],
    )
