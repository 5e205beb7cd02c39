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
        ("preemption", "Preemption policies", "who is preempted", preemption_policies().values()),
        ("queue order", "Queue orders", "which request is next", queue_orders().values()),
        ("backfilling", "Backfilling policies", "who may overtake", backfilling_policies().values()),
        ("energy", "Energy policies", "when hosts wake and sleep", energy_policies().values()),
        ("host selection", "Host selections", "which host is chosen", host_selections().values()),
        ("image staging", "Image staging policies", "when images are transferred", image_staging_policies().values()),
        (
            "workload allocation",
            "Workload allocation policies",
            "what each cluster gets",
            allocation_policies().values(),
        ),
        ("dispatch", "Dispatch policies", "which cluster gets the next request", dispatch_policies().values()),
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
    blank_line = ""
    for _family, title, answers, found in families:
        write_table(blank_line + title, ("name", answers), ((policy.name, policy.description) for policy in found))
        blank_line = "\n"
