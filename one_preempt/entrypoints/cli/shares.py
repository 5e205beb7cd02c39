"""`shares`: who has used how much of a share, and so who is next in the queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.composition import open_made_store
from one_preempt.configuration.chosen_policies import fair_share_order
from one_preempt.configuration.settings import Settings, load_settings
from one_preempt.core.model.owner_use import MeasuredUse
from one_preempt.core.queue_order.fair_share import POLICY
from one_preempt.entrypoints.cli.options import config_option, json_option, write_json, write_renderables
from one_preempt.explanation.explain import JsonObject
from one_preempt.explanation.fair_shares import groups_in_turn, shares_document, shares_tables


@click.command("shares")
@config_option
@json_option
def shares_command(config_path: Path | None, as_json: bool) -> None:
    """Show how much of their shares groups and users have used lately: whoever has used least is next.

    Use is as the daemon measured it last, shares are as configured. Those who are not listed have used nothing, and
    come first.
    """
    settings = load_settings(config_path)
    with closing(open_made_store(settings)) as store:
        use = MeasuredUse.of(store.load(SystemClock().now_s()).owner_use)
    if as_json:
        write_json(document(settings, use))
    else:
        show(settings, use)


def document(settings: Settings, use: MeasuredUse) -> JsonObject:
    """How all stand as plain objects. `measured_at` in seconds since the epoch, null where it never was."""
    order = fair_share_order(settings.fair_share)
    return {
        "queue_order": settings.queue_order,
        "is_in_force": _is_in_force(settings),
        "measured_at": use.measured_at_s,
        "half_life_s": order.measures.half_life_s,
        "counts": settings.fair_share.counts,
        "groups": shares_document(groups_in_turn(use, order)),
    }


def show(settings: Settings, use: MeasuredUse) -> None:
    """The same for people."""
    from rich.text import Text

    from one_preempt.explanation.tables import instant

    order = fair_share_order(settings.fair_share)
    groups = groups_in_turn(use, order)
    measured = "nothing was measured" if use.measured_at_s is None else f"measured {instant(use.measured_at_s)}"
    parts: list[object] = list(shares_tables(groups, f"Fair share, {measured}"))
    parts += [Text(line, style="dim") for line in _notes(settings, use)]
    write_renderables(parts)


def _notes(settings: Settings, use: MeasuredUse) -> Iterator[str]:
    if not _is_in_force(settings):
        yield (
            f"Nobody goes by this: queue_order is {settings.queue_order}, and nothing is measured. "
            f"To change that write queue_order: {POLICY.name}."
        )
    elif use.measured_at_s is None:
        yield "The daemon has measured nothing yet: it does so every five minutes, once anybody has a VM on a host."
    if use.measured_at_s is not None:
        yield (
            f"CPU hours fade: those of {settings.fair_share.half_life_days:g} days ago count half. Whoever is not "
            "listed has used nothing lately, and comes first."
        )


def _is_in_force(settings: Settings) -> bool:
    return settings.queue_order.casefold() == POLICY.name
