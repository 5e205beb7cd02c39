"""ACL rules as text, ``@100 HOST+NET/* USE+MANAGE #0``, into the four hexadecimal numbers of one.acl.addrule."""

from __future__ import annotations

from one_preempt.errors import OnePreemptError
from one_preempt.simulation.simulated_cloud.authorization import (
    EVERYTHING,
    INDIVIDUAL,
    OF_CLUSTER,
    OF_GROUP,
    ObjectKind,
    Right,
)

_SELECTORS = {"#": INDIVIDUAL, "@": OF_GROUP, "%": OF_CLUSTER}


def parse_rule(text: str) -> tuple[str, str, str, str]:
    """User, resource, rights and zone; the zone may be left out and is then every zone.

    Raises `OnePreemptError` that shows the rule and how one is written.
    """
    try:
        user, resource, rights, zone = text.split() if len(text.split()) != 3 else [*text.split(), "*"]
        kinds, _, selector = resource.partition("/")
        resource_number = sum(ObjectKind[kind] for kind in kinds.split("+")) | _selector(selector)
        right_number = sum(Right[right] for right in rights.split("+"))
        numbers = (_selector(user), resource_number, right_number, _selector(zone))
    except (KeyError, ValueError) as error:
        raise OnePreemptError(
            f"acls: {text!r} is no rule; write the user, the resource, the rights and the zone as in"
            " '@100 HOST+NET/* USE+MANAGE #0'"
        ) from error
    user_hex, resource_hex, rights_hex, zone_hex = (f"{number:#x}" for number in numbers)
    return user_hex, resource_hex, rights_hex, zone_hex


def _selector(text: str) -> int:
    if text == "*":
        return EVERYTHING
    return _SELECTORS[text[:1]] | int(text[1:])
