"""Which words, policies and ranks a place of the configuration takes: for messages about one that it does not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

LONGEST_NAME = 80
_STEP = re.compile(r"\.([^.\[\]]+)|\[[^\]]*\]")

SHIPPED_POLICIES = {
    "preemption_policy": frozenset({"mlip", "moml", "mov", "nop"}),
    "queue_order": frozenset({"fair-share", "user-priority"}),
    "matchmaker.host_policy": frozenset({"custom", "fixed", "load-aware", "packing", "striping"}),
    "time.backfilling": frozenset({"conservative", "easy", "intermediate", "none"}),
    "image_staging.policy": frozenset({"edf", "edf/jit", "fifo"}),
    "power.policy": frozenset({"always-on", "gesp", "look-ahead", "pemp", "sesp"}),
    "gateway.allocation_policy": frozenset({"bcf", "lrf", "pap", "rr"}),
    "gateway.fall_back": frozenset({"bcf", "lrf", "pap", "rr"}),
    "gateway.dispatch_policy": frozenset({"rnd", "rr", "rtdp"}),
}
"""By key the names, in small letters, for which nobody has to look at the policies' files."""


def policy_faults(named: Mapping[str, str]) -> Iterator[str]:
    """One sentence for each key of `SHIPPED_POLICIES` that names a policy that there is not, with those there are."""
    unknown = {key: name for key, name in named.items() if name.casefold() not in SHIPPED_POLICIES[key]}
    if not unknown:
        return
    # Loading all policies takes time, and who starts often has none of his own.
    from one_preempt import policy_registry

    of_key = {
        "preemption_policy": policy_registry.PREEMPTION_POLICIES.named,
        "queue_order": policy_registry.QUEUE_ORDERS.named,
        "matchmaker.host_policy": policy_registry.HOST_SELECTIONS.named,
        "time.backfilling": policy_registry.BACKFILLING_POLICIES.named,
        "power.policy": policy_registry.ENERGY_POLICIES.named,
        "image_staging.policy": policy_registry.slot_planning_policy,
        "gateway.allocation_policy": policy_registry.ALLOCATION_POLICIES.named,
        "gateway.fall_back": policy_registry.ALLOCATION_POLICIES.named,
        "gateway.dispatch_policy": policy_registry.DISPATCH_POLICIES.named,
    }
    for key, name in unknown.items():
        try:
            of_key[key](name)
        except policy_registry.UnknownPolicy as error:
            told = str(error) if len(name) <= LONGEST_NAME else str(error).replace(name, f"{name[:LONGEST_NAME]}...")
            yield f"{key}: {told}"


def rank_faults(ranks: Mapping[str, str]) -> Iterator[str]:
    """One sentence for each key of `ranks` whose expression cannot be read."""
    written = {key: expression for key, expression in ranks.items() if expression}
    if not written:
        return
    # numpy takes time to load, and most have no rank of their own.
    from one_preempt.core.matching.expressions.rank import parse_rank
    from one_preempt.core.matching.expressions.tokens import ExpressionError

    for key, expression in written.items():
        try:
            parse_rank(expression)
        except ExpressionError as error:
            yield f"{key} cannot be read: {error}"


def choices_at(kind: type, place: str, *, of_key: bool) -> tuple[str, ...]:
    """The words that may stand at `place`, such as .power.models[0].host, below a structure; none where any may.

    `of_key`: those that the keys of the mapping there may be.
    """
    ends = _types_at(kind, place)
    if of_key:
        ends = [one.key_type for one in ends if isinstance(one, msgspec.inspect.DictType)]
    return tuple(word for one in ends for word in _words(one))


def _words(kind: msgspec.inspect.Type) -> tuple[str, ...]:
    match kind:
        case msgspec.inspect.LiteralType():
            return tuple(map(str, kind.values))
        case msgspec.inspect.EnumType():
            return tuple(str(member.value) for member in kind.cls)
    return ()


def keys_at(kind: type, place: str) -> tuple[str, ...]:
    """The keys that the section at `place` may have, as `choices_at` counts places; none where any may."""
    ends = _types_at(kind, place)
    return tuple(key.encode_name for one in ends if isinstance(one, msgspec.inspect.StructType) for key in one.fields)


def _types_at(kind: type, place: str) -> list[msgspec.inspect.Type]:
    found: list[msgspec.inspect.Type] = [msgspec.inspect.type_info(kind)]
    for step in _STEP.finditer(place):
        found = [inner for one in found for outer in _alternatives(one) for inner in _inside(outer, step[1])]
    return [outer for one in found for outer in _alternatives(one)]


def _alternatives(kind: msgspec.inspect.Type) -> list[msgspec.inspect.Type]:
    if isinstance(kind, msgspec.inspect.Metadata):
        return _alternatives(kind.type)
    if isinstance(kind, msgspec.inspect.UnionType):
        return [one for each in kind.types for one in _alternatives(each)]
    return [kind]


def _inside(kind: msgspec.inspect.Type, name: str | None) -> list[msgspec.inspect.Type]:
    """What has that name in a structure; without a name what stands in a list or a mapping."""
    match kind:
        case msgspec.inspect.StructType():
            return [field.type for field in kind.fields if field.encode_name == name]
        case msgspec.inspect.DictType():
            return [kind.value_type]
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            return [kind.item_type]
        case _:
            return []
