"""`policies`: which policies there are, of all families."""

from __future__ import annotations

import click

from one_preempt.entrypoints.cli.options import json_option, write_json, write_table
from one_preempt.policy_registry import (
    ALLOCATION_POLICIES,
    BACKFILLING_POLICIES,
    DISPATCH_POLICIES,
    ENERGY_POLICIES,
    HOST_SELECTIONS,
    IMAGE_STAGING_POLICIES,
    PREEMPTION_POLICIES,
    QUEUE_ORDERS,
)


@click.command("policies")
@json_option
def policies_command(as_json: bool) -> None:
    """List the policies of all families, from preemption to dispatch."""
    families = (
        ("preemption", "Preemption policies", "who is preempted", PREEMPTION_POLICIES.all().values()),
        ("queue order", "Queue orders", "which request is next", QUEUE_ORDERS.all().values()),
        ("backfilling", "Backfilling policies", "who may overtake", BACKFILLING_POLICIES.all().values()),
        ("energy", "Energy policies", "when hosts wake and sleep", ENERGY_POLICIES.all().values()),
        ("host selection", "Host selections", "which host is chosen", HOST_SELECTIONS.all().values()),
        (
            "image staging",
            "Image staging policies",
            "when images are transferred",
            IMAGE_STAGING_POLICIES.all().values(),
        ),
        (
            "workload allocation",
            "Workload allocation policies",
            "what each cluster gets",
            ALLOCATION_POLICIES.all().values(),
        ),
        ("dispatch", "Dispatch policies", "which cluster gets the next request", DISPATCH_POLICIES.all().values()),
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
