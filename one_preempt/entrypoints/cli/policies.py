"""`policies`: which preemption policies there are."""

from __future__ import annotations

import click

from one_preempt.entrypoints.cli.options import json_option, write_json, write_table
from one_preempt.policy_registry import preemption_policies


@click.command("policies")
@json_option
def policies_command(as_json: bool) -> None:
    """List the preemption policies."""
    policies = preemption_policies().values()
    if as_json:
        write_json([{"name": policy.name, "description": policy.description} for policy in policies])
    else:
        write_table(
            "Preemption policies", ("name", "leaves"), ((policy.name, policy.description) for policy in policies)
        )
