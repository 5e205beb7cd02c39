"""`plan`: one cycle that decides and verifies, and does nothing; on the live cloud or on a recording."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
from msgspec.structs import replace

from one_preempt.composition import PlannedCycle, plan_once
from one_preempt.configuration.chosen_policies import chosen_queue_order, overhead_rates
from one_preempt.configuration.settings import load_settings
from one_preempt.core.queue_order.fair_share import FairShare
from one_preempt.entrypoints.cli.options import (
    config_option,
    json_option,
    settings_or_shipped,
    source_option,
    write_json,
    write_renderables,
)
from one_preempt.explanation.explain import JsonObject, leases_on_hold, plan_document, printable, refusal_document
from one_preempt.explanation.fair_shares import groups_in_turn, shares_document, shares_tables
from one_preempt.explanation.overheads import (
    LearnedOverhead,
    learned_overheads,
    overhead_tables,
    overheads_document,
)


@click.command("plan")
@config_option
@source_option
@click.option("--policy", metavar="NAME", help="Preemption policy instead of the configured one.")
@json_option
def plan_command(config_path: Path | None, source: Path | None, policy: str | None, as_json: bool) -> int:
    """Show what the scheduler would do now, and why; nothing is done. Exit code 1 if the plan breaks a rule."""
    settings = load_settings(config_path) if source is None else settings_or_shipped(config_path)
    if policy:
        settings = replace(settings, preemption_policy=policy)
    planned = plan_once(settings, source)
    order = chosen_queue_order(settings)
    groups = groups_in_turn(planned.state.use, order) if isinstance(order, FairShare) else []
    learned = learned_overheads(planned.state, overhead_rates(settings), learns=settings.overhead.learn)
    if as_json:
        write_json(document(planned, learned) | {"shares": shares_document(groups)})
    else:
        show(planned, learned, shares_tables(groups, "Whose leases are next, by fair share"))
    return 1 if planned.violations else 0


def document(planned: PlannedCycle, learned: list[LearnedOverhead]) -> JsonObject:
    """The plan, who is on HOLD, what the recount found wrong in it, what was not as recorded, and learned overheads."""
    return plan_document(planned.plan) | {
        "on_hold": [refusal_document(one) for one in leases_on_hold(planned.state)],
        "violations": [{"code": broken.code, "text": broken.text} for broken in planned.violations],
        "discrepancies": [
            {"code": found.code, "text": found.text, "vm_id": found.vm_id} for found in planned.discrepancies
        ],
        "learned_overheads": overheads_document(learned),
    }


def show(planned: PlannedCycle, learned: list[LearnedOverhead], shares: Iterable[object]) -> None:
    """The same for people."""
    from rich.text import Text

    from one_preempt.explanation.tables import plan_tables

    parts: list[object] = [*plan_tables(planned.plan, planned.state), *shares, *overhead_tables(learned, planned.state)]
    parts += [Text(f"WRONG: {printable(broken.text)}", style="bold red") for broken in planned.violations]
    if not planned.violations:
        parts.append(Text("The independent recount agrees with the plan; nothing was done.", style="dim"))
    write_renderables(parts)
