"""`policies`: which preemption, backfilling and energy policies there are."""

from __future__ import annotations

import click

from one_preempt.entrypoints.cli.options import json_option, write_json, write_table
from one_preempt.policy_registry import backfilling_policies, energy_policies, preemption_policies


@click.command("policies")
@json_option
def policies_command(as_json: bool) -> None:
    """List the preemption, the backfilling and the energy policies."""
    leaving, overtaking = preemption_policies().values(), backfilling_policies().values()
    sleeping = energy_policies().values()
    if as_json:
        write_json(
            [
                {"family": family, "name": policy.name, "description": policy.description}
                for family, policies in (("preemption", leaving), ("backfilling", overtaking), ("energy", sleeping))
                for policy in policies
            ]
        )
        return
    write_table("Preemption policies", ("name", "leaves"), ((policy.name, policy.description) for policy in leaving))
    write_table(
        "Backfilling policies", ("name", "promises"), ((policy.name, policy.description) for policy in overtaking)
    )
    write_table("Energy policies", ("name", "hosts"), ((policy.name, policy.description) for policy in sleeping))
