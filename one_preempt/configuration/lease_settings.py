"""What the configuration says about leases: its section `leases`. Values are checked here, once.

Rules give types to VMs without a LEASE attribute; rights say how far the LEASE attributes of users may go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from one_preempt.configuration.section import EntryName, NotNegative, Positive, Section, TypeName

Name = Annotated[str, msgspec.Meta(min_length=1)]
Share = Annotated[float, msgspec.Meta(ge=0.01, le=1)]
# Below this it is the binary fraction, not what was written.
LEAST_PER_CENT = 1e-6


class MatchSettings(Section, frozen=True):
    """Which VMs a rule is for: all keys given must hold. `attributes`: user template name -> shell pattern."""

    user: Name | None = None
    group: Name | None = None
    template_id: NotNegative | None = None
    attributes: dict[Name, str] = {}
    through_gateway: bool | None = None


class LeaseRuleSettings(Section, frozen=True):
    """Gives VMs without a LEASE attribute a type or a duration. The first rule that matches counts."""

    name: EntryName
    match: MatchSettings
    type: TypeName | None = None
    may_preempt: bool = False
    shutdown_ok: bool = False
    max_suspensions: NotNegative | None = None
    shielded_by_lock: bool = True
    duration_s: Positive | None = None


class RightsSettings(Section, frozen=True):
    """What the LEASE attributes of a user or group may claim. The first entry that matches counts."""

    name: EntryName
    user: Name | None = None
    group: Name | None = None
    through_gateway: bool | None = None
    may_claim: list[TypeName] = []
    may_preempt: bool = False
    max_size: Positive | None = None
    max_duration_s: Positive | None = None
    max_ahead_s: NotNegative | None = None
    max_leases: NotNegative | None = None
    least_max_suspensions: NotNegative | None = None
    most_suspensions: NotNegative | None = None
    max_share: Share | None = None


class LeaseSettings(Section, frozen=True):
    """Rules and rights; `beyond_rights` is what happens to a claim that goes further."""

    beyond_rights: Literal["hold", "fall_back"] = "hold"
    rules: list[LeaseRuleSettings] = []
    rights: list[RightsSettings] = []


def lease_faults(leases: LeaseSettings) -> Iterator[str]:
    """One sentence for each thing that cannot be meant."""
    for kind, names in (
        ("rules", [rule.name for rule in leases.rules]),
        ("rights", [one.name for one in leases.rights]),
    ):
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"leases.{kind} has two entries named '{name}': names must differ"
    for rule in leases.rules:
        if rule.type is None and rule.duration_s is None and not rule.may_preempt and rule.shielded_by_lock:
            yield f"rule '{rule.name}' changes nothing: write type, duration_s or may_preempt"
        if rule.match in (MatchSettings(through_gateway=False), MatchSettings()):
            yield f"rule '{rule.name}' matches every VM: name a user, group, template or attribute"
    for right in leases.rights:
        if (right.user is None) == (right.group is None):
            yield f"right '{right.name}' must name either a user or a group"
        least, most = right.least_max_suspensions, right.most_suspensions
        if least is not None and most is not None and least > most:
            yield f"right '{right.name}': least_max_suspensions ({least}) is above most_suspensions ({most})"


def lease_doubts(leases: LeaseSettings) -> Iterator[str]:
    """What can be used and is probably not meant, one sentence each."""
    yield from (
        f"rule '{rule.name}' lets whoever writes {', '.join(_matched_names(rule.match))} preempt others: "
        "users write their templates themselves, so name a user or group too"
        for rule in leases.rules
        if rule.may_preempt and rule.match.user is None and rule.match.group is None
    )
    yield from (
        f"rule '{rule.name}': max_suspensions has no effect without duration_s, "
        "because a best-effort lease without an end may be suspended any number of times"
        for rule in leases.rules
        if rule.max_suspensions is not None and rule.duration_s is None and (rule.type or "").startswith("BE-")
    )
    yield from (
        f"right '{right.name}': max_share has no effect, because max_ahead_s is 0: nothing may be reserved in advance"
        for right in leases.rights
        if right.max_share is not None and right.max_ahead_s == 0
    )
    yield from (
        f"right '{right.name}': max_share {right.max_share:g} counts as {round(100 * right.max_share)} %, "
        "because shares are counted in whole per cent"
        for right in leases.rights
        if right.max_share is not None and abs(100 * right.max_share - round(100 * right.max_share)) > LEAST_PER_CENT
    )
    yield from (
        f"right '{right.name}' does not limit reservations: by START and DEADLINE its owners may have all that is "
        "free, however far ahead; write max_ahead_s (0 grants none), or max_share (1 if you mean that)"
        for right in leases.rights
        if right.max_ahead_s is None and right.max_share is None
    )
    yield from (
        f"right '{right.name}' lets leases preempt that came through a gateway: their owners write LEASE_GATEWAY "
        "themselves, so it is granted to all of them"
        for right in leases.rights
        if right.through_gateway and right.may_preempt
    )
    for place, right in enumerate(leases.rights):
        earlier = (
            one
            for one in leases.rights[:place]
            if (one.user, one.group) == (right.user, right.group)
            and one.through_gateway in (None, right.through_gateway)
        )
        if first := next(earlier, None):
            yield f"right '{right.name}' has no effect: right '{first.name}' comes before it, for the same owners"
    for place, rule in enumerate(leases.rules):
        if before := next((one for one in leases.rules[:place] if one.match == rule.match), None):
            yield f"rule '{rule.name}' has no effect: rule '{before.name}' comes before it and matches the same"


def _matched_names(match: MatchSettings) -> list[str]:
    """What a VM must have; oned takes a TEMPLATE_ID that a user writes into a template of his own as it is."""
    return [*sorted(match.attributes), *(["TEMPLATE_ID"] if match.template_id is not None else [])]
