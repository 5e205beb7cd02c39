"""The plan of `optimize`: what the cluster's ONE_DRS asks for, or else the configuration; and who could sleep then."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from msgspec import Struct

from one_preempt.adapters.driver.plan_document import PlanAction, plan_document
from one_preempt.configuration.chosen_policies import admission_rules, power_rules
from one_preempt.configuration.settings import OptimizerSettings, load_settings
from one_preempt.core.balancing.balance import balance
from one_preempt.core.balancing.cluster_load import Weights
from one_preempt.core.balancing.migrations import UNLIMITED, BalancingLimits, Migrations
from one_preempt.core.balancing.movable import movable_vms
from one_preempt.core.balancing.pack import pack
from one_preempt.core.energy.energy_integration import MJ_PER_KWH
from one_preempt.core.energy.power_model import MW_PER_W
from one_preempt.core.energy.power_rules import PowerMode
from one_preempt.core.energy.sleep_advice import sleep_advice
from one_preempt.core.matching.host_table import host_table
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.model.plan import Placement
from one_preempt.entrypoints.driver.driver_process import Messages
from one_preempt.entrypoints.driver.inputs import Inputs, read_inputs
from one_preempt.entrypoints.driver.plain_placement import hold_promised

OPTIMIZE_WITHIN_S = 10.0
DAY_S = 86_400
POLICIES = {"balance": balance, "pack": pack}
_UNUSED_WEIGHTS = ("CPU_USAGE_WEIGHT", "NET_WEIGHT", "DISK_WEIGHT")
_THRESHOLDS = ("MIGRATION_THRESHOLD", "HOST_MIGRATION_THRESHOLD")


class Wish(Struct, frozen=True):
    """What is wanted of the cluster."""

    policy: str
    limits: BalancingLimits


def optimize_cluster(cluster_id: int, stream: BinaryIO, messages: Messages) -> str:
    """The plan for one cluster: as many migrations, best first, as were found in time; each of them fits by itself."""
    started_s = time.monotonic()
    inputs = read_inputs(load_settings(), stream, messages)
    cluster = inputs.document.snapshot.clusters.get(cluster_id)
    if cluster is None:
        messages.error(f"cluster {cluster_id} is not in the document")
        return plan_document(cluster_id)
    wish = wish_of(cluster.attributes, inputs.settings.optimizer, messages)
    found: list[Placement] = []
    for placed in migrations(inputs, wish):
        if time.monotonic() - started_s > OPTIMIZE_WITHIN_S:
            messages.warning(
                f"time was up after {OPTIMIZE_WITHIN_S:g} s: the plan for cluster {cluster_id} is cut short"
            )
            break
        found.append(placed)
    _advise_sleep(cluster_id, inputs, found, messages)
    return plan_document(cluster_id, map(_action, found))


def _advise_sleep(cluster_id: int, inputs: Inputs, moves: Sequence[Placement], messages: Messages) -> None:
    """Say which hosts could sleep once the plan is carried out; a plan cannot switch them."""
    rules = power_rules(inputs.settings.power)
    if rules.mode is PowerMode.OFF:
        return
    snapshot = inputs.document.snapshot
    advice = sleep_advice(snapshot, moves, inputs.promised.held.keys(), rules)
    if advice is None:
        return
    names = ", ".join(snapshot.hosts[host_id].name for host_id in advice.host_ids)
    after = f"after {len(moves)} migration{'s' if len(moves) > 1 else ''} " if moves else ""
    how = "the daemon sends idle hosts to sleep" if rules.enforced else "with power.mode: enforce the daemon does it"
    messages.info(
        f"in cluster {cluster_id} {names} could sleep {after}and save {advice.saved_mw / MW_PER_W:.0f} W, "
        f"{advice.saved_mw * DAY_S / MJ_PER_KWH:.2f} kWh a day; {how}"
    )


def migrations(inputs: Inputs, wish: Wish) -> Iterator[Placement]:
    """The migrations that serve the wish, in order."""
    snapshot, prematched = inputs.document.snapshot, inputs.document.prematched
    matchmaker = Matchmaker(snapshot, host_table(snapshot.hosts), inputs.options, prematched)
    room = matchmaker.new_room()
    hold_promised(room, inputs.promised.held)
    movable = movable_vms(snapshot.vms.values(), prematched, admission_rules(inputs.settings), inputs.promised.vm_ids)
    return POLICIES[wish.policy](Migrations(matchmaker, room, movable, wish.limits))


def wish_of(attributes: Mapping[str, tuple[str, ...]], settings: OptimizerSettings, messages: Messages) -> Wish:
    """What ONE_DRS says in the cluster's template; the configuration where it says nothing that can be read."""

    def said(name: str) -> str:
        return attributes.get(f"ONE_DRS/{name}", ("",))[0].strip()

    def number(name: str, otherwise: float) -> float:
        try:
            value = float(said(name) or otherwise)
        except ValueError:
            value = float("nan")
        if not -1 <= value <= 1e6:
            messages.warning(f"ONE_DRS/{name} = {said(name)} is no number that can be used: {otherwise:g} is taken")
            return otherwise
        return value

    policy = said("POLICY").lower() or settings.policy
    if policy not in POLICIES:
        messages.warning(f"ONE_DRS/POLICY = {policy} is not known: {settings.policy} is taken")
        policy = settings.policy
    for name in _UNUSED_WEIGHTS:
        if number(name, 0) > 0:
            messages.warning(f"ONE_DRS/{name} is not considered: load is what VMs were given of CPU and memory")
    thresholds = [int(number(name, settings.migration_threshold)) for name in _THRESHOLDS if said(name)] or [
        settings.migration_threshold
    ]
    weights = Weights(*(max(0, int(number(name, 1) * 100)) for name in ("CPU_WEIGHT", "MEMORY_WEIGHT")))
    limited = [threshold for threshold in thresholds if threshold != UNLIMITED]
    return Wish(
        policy,
        BalancingLimits(
            migrations=min(limited) if limited else UNLIMITED,
            weights=weights if weights != Weights(0, 0) else Weights(),
        ),
    )


def _action(placed: Placement) -> PlanAction:
    assert placed.datastore_id is not None, "a migration stays on its datastore"
    return PlanAction(placed.vm_id, "migrate", placed.host_id, placed.datastore_id)
