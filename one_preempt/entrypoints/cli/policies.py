"""`policies`: which policies there are, of all families."""

from __future__ import annotations

import click

from one_preempt.entrypoints.cli.options import json_option, write_json, write_table
from one_preempt.policy_registry import (
    allocation_policies,
    backfilling_policies,
    dispatch_policies,
    energy_policies,
    host_selections,
    image_staging_policies,
    preemption_policies,
    queue_orders,
)


@click.command("policies")
@json_option
def policies_command(as_json: bool) -> None:
    """List the policies of all families, from preemption to dispatch."""
    families = (
        ("preemption", "Preemption policies", "leaves", preemption_policies().values()),
        ("queue order", "Queue orders", "is next", queue_orders().values()),
        ("backfilling", "Backfilling policies", "promises", backfilling_policies().values()),
        ("energy", "Energy policies", "hosts", energy_policies().values()),
        ("host selection", "Host selections", "is taken", host_selections().values()),
        ("image staging", "Image staging policies", "transfers", image_staging_policies().values()),
        ("workload allocation", "Workload allocation policies", "sends", allocation_policies().values()),
        ("dispatch", "Dispatch policies", "sends next", dispatch_policies().values()),
    )
    if as_json:
        write_json(
            [
                {"family": family, "name": policy.name, "description": policy.description}
                for family, _title, _answers, found in families
                for policy in found
            ]
        )
        return
    for _family, title, answers, found in families:
        write_table(title, ("name", answers), ((policy.name, policy.description) for policy in found))
