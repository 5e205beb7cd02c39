"""From how long hosts were on, booting, shutting down and off to kilowatt-hours, and beside them what always-on takes.

The models are those of today, and so are the names by which they are found: who corrects a host's watts, or renames it,
has its past counted with them as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.energy.energy_integration import kwh
from one_preempt.core.energy.power_model import FULL_PERCENT, HostPower
from one_preempt.core.model.power_history import HostUse, HostUseStay, HostUseTotal

PowerOfHost = Callable[[str, str], HostPower]
"""The power of a host by its name and its cluster's."""


class EnergyAccount(Struct, frozen=True):
    """What one host took under one policy ('': none was obeyed). Energies in millijoules, times in seconds.

    `always_on_mj`: had it been on all that time, with the same load while it was on, and idle else. `boots`: begun in
    that time. `on_s`, `coming_s` (booting or shutting down), `off_s` and `failed_s` add up to the time counted.
    """

    host_id: int
    host_name: str
    policy: str
    taken_mj: int = 0
    always_on_mj: int = 0
    boots: int = 0
    on_s: int = 0
    coming_s: int = 0
    off_s: int = 0
    failed_s: int = 0

    @property
    def taken_kwh(self) -> float:
        """What was taken, for people."""
        return kwh(self.taken_mj)

    @property
    def always_on_kwh(self) -> float:
        """What always-on had taken, for people."""
        return kwh(self.always_on_mj)

    @property
    def saved_kwh(self) -> float:
        """Of that what was not taken; negative where switching took more than it saved."""
        return kwh(self.always_on_mj - self.taken_mj)

    @property
    def saved_share(self) -> float:
        """The same, of what always-on takes: 0 to 1."""
        return 1 - self.taken_mj / self.always_on_mj if self.always_on_mj else 0.0

    @property
    def counted_s(self) -> int:
        """All of the time that is known."""
        return self.on_s + self.coming_s + self.off_s + self.failed_s


def accounts(
    stays: Iterable[HostUseStay],
    totals: Iterable[HostUseTotal],
    power_of: PowerOfHost,
    from_s: int,
    until_s: int,
) -> tuple[EnergyAccount, ...]:
    """One account for each policy and host, by policy and host id, under the name that the host was given last.

    Of `stays` what lies between the two instants counts, of `totals` all.
    """
    found: dict[tuple[str, int], EnergyAccount] = {}
    stays, totals = list(stays), list(totals)
    names = _last_names(stays, totals)
    spans = [_of_stay(stay, power_of(*names[stay.host_id]), from_s, until_s) for stay in stays]
    spans += [_of_total(total, power_of(*names[total.host_id])) for total in totals]
    for span in spans:
        if span.counted_s:
            before = found.get((span.policy, span.host_id))
            found[span.policy, span.host_id] = span if before is None else added(before, span)
    return tuple(replace(found[key], host_name=names[key[1]][0]) for key in sorted(found))


def _last_names(stays: Iterable[HostUseStay], totals: Iterable[HostUseTotal]) -> dict[int, tuple[str, str]]:
    """The name of each host, and of its cluster, by host id."""
    ended = [(total.last_s, total.host_id, total.host_name, total.cluster_name) for total in totals]
    began = [(stay.since_s, stay.host_id, stay.host_name, stay.cluster_name) for stay in stays]
    # What was pruned is older than all that was not.
    return {host_id: (name, cluster) for _, host_id, name, cluster in (*sorted(ended), *sorted(began))}


def added(one: EnergyAccount, other: EnergyAccount) -> EnergyAccount:
    """Both together, under the names of the first."""
    return EnergyAccount(
        one.host_id,
        one.host_name,
        one.policy,
        one.taken_mj + other.taken_mj,
        one.always_on_mj + other.always_on_mj,
        one.boots + other.boots,
        one.on_s + other.on_s,
        one.coming_s + other.coming_s,
        one.off_s + other.off_s,
        one.failed_s + other.failed_s,
    )


def _of_stay(stay: HostUseStay, power: HostPower, from_s: int, until_s: int) -> EnergyAccount:
    """The part of a stay that lies between two instants."""
    begins_s = max(stay.since_s, from_s)
    ends_s = max(until_s if stay.until_s is None else min(stay.until_s, until_s), begins_s)
    boot_ends_s = min(max(stay.since_s + power.boot_s, begins_s), ends_s)
    begun = int(from_s <= stay.since_s < until_s)
    return _account(stay, power, ends_s - begins_s, boot_ends_s - begins_s, begun)


def _of_total(total: HostUseTotal, power: HostPower) -> EnergyAccount:
    booted_s = min(total.lasted_s, total.stays * power.boot_s)
    return _account(total, power, total.lasted_s, booted_s, total.stays)


def _account(
    of: HostUseStay | HostUseTotal, power: HostPower, lasted_s: int, booted_s: int, begun: int
) -> EnergyAccount:
    """The energy of so many seconds; of a boot `booted_s` draw the power of booting, and the rest that of idling."""
    idle_mj, use = lasted_s * power.curve.idle_mw, of.use
    always_on_mj = idle_mj
    match use:
        case HostUse.ON:
            taken_mj = always_on_mj = lasted_s * power.curve.power_mw(of.load_percent, FULL_PERCENT)
        case HostUse.BOOTING:
            taken_mj = booted_s * power.boot_mw + (lasted_s - booted_s) * power.curve.idle_mw
        case HostUse.SHUTTING_DOWN:
            taken_mj = lasted_s * power.shutdown_mw
        case HostUse.OFF:
            taken_mj = lasted_s * power.off_mw
        case HostUse.FAILED:
            # Nobody can tell; it may well be on and idle.
            taken_mj = idle_mj
    return EnergyAccount(
        of.host_id,
        of.host_name,
        of.policy,
        taken_mj,
        always_on_mj,
        boots=begun if use is HostUse.BOOTING else 0,
        on_s=lasted_s if use is HostUse.ON else 0,
        coming_s=lasted_s if use in (HostUse.BOOTING, HostUse.SHUTTING_DOWN) else 0,
        off_s=lasted_s if use is HostUse.OFF else 0,
        failed_s=lasted_s if use is HostUse.FAILED else 0,
    )
