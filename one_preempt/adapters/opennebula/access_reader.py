"""Users, groups, quotas and access rules as values. Passwords and tokens in the documents are not looked at."""

from __future__ import annotations

import math

from lxml.etree import _Element

from one_preempt.adapters.opennebula.xml_document import (
    amount,
    first_texts_of,
    ids_in,
    numbers_in,
    read_objects,
    texts_of,
    whole_number,
)
from one_preempt.core.model.access import AclRule, Directory, Group, Quota, User

_USED = "_USED"


def read_directory(user_pool: bytes, group_pool: bytes, acl: bytes, problems: list[str]) -> Directory:
    """Who exists and who may do what, from one.userpool.info, one.grouppool.info and one.acl.info."""
    rules = read_objects(acl, "ACL_POOL", "ACL", _acl_rule, problems) if acl else []
    user_quotas, default_user_quotas = _quotas(user_pool, "USER", problems)
    group_quotas, default_group_quotas = _quotas(group_pool, "GROUP", problems)

    def user(element: _Element) -> User:
        texts = first_texts_of(element)
        user_id = amount(texts["ID"])
        return User(
            id=user_id,
            name=texts["NAME"],
            gid=whole_number(texts["GID"]),
            gname=texts.get("GNAME", ""),
            group_ids=ids_in(element.find("GROUPS")),
            enabled=texts.get("ENABLED", "1") == "1",
            vm_quotas=user_quotas.get(user_id, ()),
        )

    def group(element: _Element) -> Group:
        texts = first_texts_of(element)
        group_id = amount(texts["ID"])
        return Group(group_id, texts["NAME"], ids_in(element.find("USERS")), group_quotas.get(group_id, ()))

    users = read_objects(user_pool, "USER_POOL", "USER", user, problems) if user_pool else []
    groups = read_objects(group_pool, "GROUP_POOL", "GROUP", group, problems) if group_pool else []
    return Directory(
        users={user.id: user for user in sorted(users, key=lambda user: user.id)},
        groups={group.id: group for group in sorted(groups, key=lambda group: group.id)},
        acl_rules=tuple(sorted(rules, key=lambda rule: rule.id)),
        default_user_vm_quotas=default_user_quotas,
        default_group_vm_quotas=default_group_quotas,
    )


def _acl_rule(element: _Element) -> AclRule:
    texts = first_texts_of(element)
    fields = (int(texts[name], 16) for name in ("USER", "RESOURCE", "RIGHTS", "ZONE"))
    return AclRule(amount(texts["ID"]), *fields)


def _quotas(document: bytes, kind: str, problems: list[str]) -> tuple[dict[int, tuple[Quota, ...]], tuple[Quota, ...]]:
    """The VM quotas by the id of their user or group, and those that hold where none is set."""
    if not document:
        return {}, ()
    pool = f"{kind}_POOL"
    own = dict(read_objects(document, pool, "QUOTAS", lambda found: (ids_in(found)[0], _vm_quotas(found)), problems))
    defaults = read_objects(document, pool, f"DEFAULT_{kind}_QUOTAS", _vm_quotas, problems)
    return own, defaults[0] if defaults else ()


def _vm_quotas(element: _Element) -> tuple[Quota, ...]:
    return tuple(_quota(texts_of(quota)) for quota in element.findall("VM_QUOTA/VM"))


def _quota(texts: dict[str, str]) -> Quota:
    clusters = numbers_in(texts.pop("CLUSTER_IDS", ""))
    numbers = {name: float(text) for name, text in texts.items() if text}
    if not all(math.isfinite(number) for number in numbers.values()):
        raise ValueError("a quota is not a finite number")
    return Quota(
        cluster_ids=tuple(cluster for cluster in clusters if cluster >= 0),
        limits={name: number for name, number in numbers.items() if not name.endswith(_USED)},
        used={name.removesuffix(_USED): number for name, number in numbers.items() if name.endswith(_USED)},
    )
