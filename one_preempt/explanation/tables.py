"""A plan as tables for people: what is done where and why, who is preempted for whom, what is reserved, who waits.

Names come from users, so they enter as plain `Text`, never as markup.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from one_preempt.core.model.cluster_state import ClusterState, Discrepancy
from one_preempt.core.model.plan import Action, ActionKind, Plan, Preemption, Refusal
from one_preempt.core.model.reservation import Booking, Reservation, Verdict, VerdictGiven
from one_preempt.core.model.time import ms_to_seconds
from one_preempt.explanation.explain import leases_on_hold, printable

NAME_LENGTH = 40
REASON_LENGTH = 400
VMS_NAMED = 6

KIND_STYLES = {
    ActionKind.DEPLOY: "green",
    ActionKind.RESUME: "green",
    ActionKind.MIGRATE: "yellow",
    ActionKind.LIVE_MIGRATE: "yellow",
    ActionKind.SUSPEND: "yellow",
    ActionKind.STOP: "yellow",
    ActionKind.UNDEPLOY: "red",
    ActionKind.TERMINATE: "red",
}
VERDICT_STYLES = {Verdict.ACCEPTED: "green", Verdict.REFUSED: "red", Verdict.CONVERTED: "yellow"}


class Names(Struct, frozen=True):
    """How ids are shown, from what was observed."""

    state: ClusterState

    def vm(self, vm_id: int) -> str:
        """Id and name of a VM."""
        vm = self.state.snapshot.vms.get(vm_id)
        return f"{vm_id} {printable(vm.name, NAME_LENGTH)}" if vm else str(vm_id)

    def host(self, host_id: int | None) -> str:
        """Name of a host, its id where it is not known, nothing for None."""
        if host_id is None:
            return ""
        host = self.state.snapshot.hosts.get(host_id)
        return printable(host.name, NAME_LENGTH) if host else str(host_id)

    def lease(self, lease_id: int) -> str:
        """The lease's own name where it has one."""
        lease = self.state.leases.get(lease_id)
        name = lease.terms.name if lease else ""
        return f"{lease_id} {printable(name, NAME_LENGTH)}" if name else str(lease_id)

    def lease_type(self, lease_id: int) -> str:
        """Type of a lease, or nothing where the lease is not known."""
        lease = self.state.leases.get(lease_id)
        return lease.terms.type.value if lease else ""


def plan_tables(plan: Plan, state: ClusterState) -> Iterator[RenderableType]:
    """The plan from the headline to what was noticed on the way; parts with nothing to say are left out."""
    names = Names(state)
    yield headline(plan)
    yield from _step_tables(plan, names)
    for preemption in plan.preemptions:
        yield from preemption_tables(preemption, names, "preempts")
    for preemption in plan.advised:
        yield from preemption_tables(preemption, names, "would preempt")
    if plan.advised_actions:
        yield action_table(plan.advised_actions, names, "What would be done (preemption: advise)")
    yield from power_tables(plan)
    yield from image_tables(plan)
    for end in plan.ended_preemptions:
        how = "fulfilled" if end.fulfilled else "given up"
        yield Text(f"Preemption {end.preemption_id} is {how}: {printable(end.reason.text, REASON_LENGTH)}")
    for table in (
        verdict_table(plan.verdicts, names),
        booking_table(plan, names, state.reservations),
        refusal_table(plan.refusals, names, "Who waits"),
        refusal_table(leases_on_hold(state), names, "Who is on HOLD by the LEASE attribute"),
        discrepancy_table(state.discrepancies, names),
    ):
        if table.row_count:
            yield table


def _step_tables(plan: Plan, names: Names) -> Iterator[RenderableType]:
    """What is done; of messages to owners only how many."""
    messages = [action for action in plan.actions if action.kind is ActionKind.MESSAGE]
    steps = [action for action in plan.actions if action.kind is not ActionKind.MESSAGE]
    if steps:
        yield action_table(steps, names, "What is done")
    if messages:
        vms = "one VM" if len(messages) == 1 else f"{len(messages)} VMs"
        yield Text(f"LEASE_STATUS or SCHED_MESSAGE of {vms} changes (--json shows how).", style="dim")


def instant(at_s: int) -> str:
    """An instant for people, in UTC."""
    try:
        return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # a stamp that some document holds and no calendar
        return f"{at_s} s after 1970"


def seconds(duration_ms: int) -> str:
    """A duration for people, to a tenth of a second."""
    return f"{ms_to_seconds(duration_ms):.1f} s"


def headline(plan: Plan) -> Text:
    """When, by which policy, and how much."""
    steps = sum(action.kind is not ActionKind.MESSAGE for action in plan.actions)
    counts = [(steps, "action"), (len(plan.preemptions), "preemption"), (len(plan.refusals), "refusal")]
    if plan.advised:
        counts.append((len(plan.advised), "advised preemption"))
    if plan.verdicts:
        counts.append((len(plan.verdicts), "verdict"))
    said = ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
    wake = f"; next decision at {instant(plan.wake_at_s)}" if plan.wake_at_s is not None else ""
    return Text(f"Plan of {instant(plan.made_at_s)}, preemption policy {plan.policy}: {said}{wake}", style="bold")


def action_table(actions: Iterable[Action], names: Names, title: str) -> Table:
    """Actions in order; `after` names the rows that must be done before."""
    table = titled_table(title, "#", "action", "VM", "lease", "host", "after", "why")
    rows: dict[str, str] = {}
    for number, action in enumerate(actions, start=1):
        rows[action.id] = str(number)
        table.add_row(
            str(number),
            Text(action.kind.value, style=KIND_STYLES.get(action.kind, "")),
            Text(names.vm(action.vm_id)),
            Text(names.lease(action.lease_id)),
            Text(names.host(action.host_id)),
            ", ".join(rows.get(before, before) for before in action.after),
            Text(printable(action.reason.text, REASON_LENGTH)),
        )
    return table


def power_tables(plan: Plan) -> Iterator[RenderableType]:
    """What is asked, or would be asked, of oned and of power control for which host, and why."""
    advised = "Host power, as it would be (power.mode: advise)"
    for steps, title in ((plan.power_steps, "Host power"), (plan.advised_power_steps, advised)):
        table = titled_table(title, "step", "host", "why")
        for step in steps:
            table.add_row(Text(step.kind.value), Text(printable(step.host_name)), Text(printable(step.reason_text)))
        if steps:
            yield table


def image_tables(plan: Plan) -> Iterator[RenderableType]:
    """Which image is brought, or would be, to which host or removed there, by when, and why."""
    advised = "Images on hosts, as it would be (image_staging.mode: advise)"
    for orders, title in ((plan.image_orders, "Images on hosts"), (plan.advised_image_orders, advised)):
        table = titled_table(title, "step", "image", "MiB", "host", "needed at", "why")
        for order in orders:
            needed = "" if order.needed_at_s is None else instant(order.needed_at_s)
            cells = (order.kind.value, str(order.image_id), str(order.size_mib), printable(order.host_name), needed)
            table.add_row(*map(Text, cells), Text(printable(order.reason_text)))
        if orders:
            yield table


def preemption_tables(preemption: Preemption, names: Names, verb: str) -> Iterator[RenderableType]:
    """One preemption: the sentence, the candidate sets with the chosen one marked, the victims."""
    yield preemption_sentence(preemption, names, verb)
    if preemption.considered:
        yield candidate_table(preemption)
    yield victim_table(preemption, names)


def preemption_sentence(preemption: Preemption, names: Names, verb: str) -> Text:
    """Who preempts whom, at what price, and how sure it is that there is none better."""
    leaving = ", ".join(names.lease(lease_id) for lease_id in preemption.victim_lease_ids)
    sure = "proven best" if preemption.optimal else f"at least {seconds(preemption.bound_ms)} whatever is chosen"
    going = ", ".join(f"VM {place.vm_id} to {names.host(place.host_id)}" for place in preemption.placements)
    return Text(
        f"Lease {names.lease(preemption.preemptor_lease_id)} {verb} {leaving} ({preemption.policy}): "
        f"overhead {seconds(preemption.overhead_ms)}, {sure}; then {going or 'no VM is placed'}",
        style="bold",
    )


def candidate_table(preemption: Preemption) -> Table:
    """The candidate sets looked at, cheapest first, as {lease ids}."""
    shown, counted = len(preemption.considered), max(preemption.candidate_count, len(preemption.considered))
    title = "Candidate sets" if shown == counted else f"Candidate sets ({shown} of {counted})"
    if preemption.median_overhead_ms is not None:
        title += f", median overhead {seconds(preemption.median_overhead_ms)}"
    table = titled_table(title, "leases", "overhead", "frees VMs", "")
    for candidate in preemption.considered:
        chosen = tuple(sorted(candidate.lease_ids)) == preemption.victim_lease_ids
        table.add_row(
            "{" + ", ".join(str(lease_id) for lease_id in candidate.lease_ids) + "}",
            seconds(candidate.overhead_ms),
            str(candidate.frees_vms),
            "chosen" if chosen else "",
            style="bold green" if chosen else "",
        )
    return table


def victim_table(preemption: Preemption, names: Names) -> Table:
    """Every VM that leaves, how, and where to."""
    table = titled_table("Victims", "VM", "lease", "type", "leaves", "by", "to")
    for victim in preemption.victims:
        table.add_row(
            Text(names.vm(victim.vm_id)),
            Text(names.lease(victim.lease_id)),
            names.lease_type(victim.lease_id),
            Text(names.host(victim.host_id)),
            victim.method.value,
            Text(names.host(victim.target_host_id)),
        )
    return table


def verdict_table(verdicts: Iterable[VerdictGiven], names: Names) -> Table:
    """What is said to leases that asked for a START or a DEADLINE, or to be served at once."""
    table = titled_table("Answers to START and DEADLINE", "lease", "verdict", "why")
    for given in verdicts:
        table.add_row(
            Text(names.lease(given.lease_id)),
            Text(given.verdict.value, style=VERDICT_STYLES.get(given.verdict, "")),
            Text(printable(given.text, REASON_LENGTH)),
        )
    return table


def booking_table(plan: Plan, names: Names, before: Mapping[int, Sequence[Reservation]]) -> Table:
    """Reservations that are made, changed or withdrawn; `before` are those that leases had."""
    table = titled_table("Room over time", "lease", "", "from", "until", "hosts", "kind")
    starting = {action.lease_id for action in plan.actions if action.kind is ActionKind.DEPLOY}
    for booking in plan.bookings:
        lease, change = Text(names.lease(booking.lease_id)), _change(booking, before, starting)
        if not booking.reservations:
            table.add_row(lease, change)
        for number, one in enumerate(booking.reservations):
            table.add_row(
                *((lease, change) if number == 0 else ("", "")),
                instant(one.start_at_s),
                "open" if one.end_at_s is None else instant(one.end_at_s),
                Text(", ".join(map(names.host, one.host_ids)) or "picked at the start"),
                Text("firm", style="green") if one.firm else "promise",
            )
    return table


def _change(booking: Booking, before: Mapping[int, Sequence[Reservation]], starting: Container[int]) -> str:
    if booking.reservations:
        return "changed" if before.get(booking.lease_id) else "reserved"
    return "starts now" if booking.lease_id in starting else "withdrawn"


def refusal_table(refusals: Iterable[Refusal], names: Names, title: str) -> Table:
    """Who gets nothing this time, and why."""
    table = titled_table(title, "VMs", "lease", "code", "why")
    for refusal in refusals:
        named = ", ".join(names.vm(vm_id) for vm_id in refusal.vm_ids[:VMS_NAMED])
        more = len(refusal.vm_ids) - VMS_NAMED
        table.add_row(
            Text(f"{named} and {more} more" if more > 0 else named),
            Text(names.lease(refusal.lease_id)),
            refusal.reason.code,
            Text(printable(refusal.reason.text, REASON_LENGTH)),
        )
    return table


def discrepancy_table(discrepancies: Iterable[Discrepancy], names: Names) -> Table:
    """What was not as recorded, or could not be read."""
    table = titled_table("Noticed", "VM", "code", "what")
    for found in discrepancies:
        vm = "" if found.vm_id is None else names.vm(found.vm_id)
        table.add_row(Text(vm), Text(found.code), Text(printable(found.text, REASON_LENGTH)))
    return table


def titled_table(title: str, *columns: str) -> Table:
    """An empty table in the project's one look."""
    # As text: what people named is no markup.
    named = Text(title, style="bold")
    table = Table(title=named, title_justify="left", header_style="dim", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
