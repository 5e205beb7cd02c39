"""Our hooks in OpenNebula: the definitions, and how they are created, listed and deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lxml import etree
from msgspec import Struct

from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.adapters.opennebula.xml_document import read_objects

PREFIX = "one_preempt-"
ALL_OF_POOL = (-2, -1, -1)
# VMs: the states after which a host has room again; hosts: back again, or switched on.
STATES: Mapping[str, Mapping[str, str]] = {
    "vm-stopped": {"RESOURCE": "VM", "ON": "CUSTOM", "STATE": "STOPPED", "LCM_STATE": "LCM_INIT"},
    "vm-undeployed": {"RESOURCE": "VM", "ON": "CUSTOM", "STATE": "UNDEPLOYED", "LCM_STATE": "LCM_INIT"},
    "vm-done": {"RESOURCE": "VM", "ON": "CUSTOM", "STATE": "DONE", "LCM_STATE": "LCM_INIT"},
    "host-monitored": {"RESOURCE": "HOST", "STATE": "MONITORED"},
}
_NOT_KEPT = frozenset({"NAME", "TYPE", "ON"})


class InstalledHook(Struct, frozen=True):
    """One hook as oned has it; `attributes` are those of its template."""

    id: int
    name: str
    attributes: Mapping[str, str]


def definitions(command: str) -> dict[str, dict[str, str]]:
    """The attributes of each of our hooks by its name; `command` is the absolute path of `one-preempt-hook`."""
    return {
        PREFIX + name: {
            "NAME": PREFIX + name,
            "TYPE": "state",
            **state,
            "COMMAND": command,
            "ARGUMENTS": "$TEMPLATE",
            "ARGUMENTS_STDIN": "yes",
            "REMOTE": "NO",
            "TIMEOUT": "10",
        }
        for name, state in STATES.items()
    }


def installed_hooks(transport: OnedTransport) -> list[InstalledHook]:
    """Our hooks in oned, by name. Raises `CloudUnavailable` and `OnedError`."""
    problems: list[str] = []
    pool = transport.document("one.hookpool.info", *ALL_OF_POOL)
    found = read_objects(pool, "HOOK_POOL", "HOOK", _hook, problems)
    return sorted((hook for hook in found if hook.name.startswith(PREFIX)), key=lambda hook: (hook.name, hook.id))


def _hook(element: etree._Element) -> InstalledHook:
    attributes = {str(entry.tag): entry.text or "" for entry in element.iterfind("TEMPLATE/*")}
    return InstalledHook(int(element.findtext("ID") or ""), element.findtext("NAME") or "", attributes)


def is_as_defined(hook: InstalledHook, definition: Mapping[str, str]) -> bool:
    """oned has it as we would create it now."""
    return all(hook.attributes.get(name) == value for name, value in definition.items() if name not in _NOT_KEPT)


def install_hooks(transport: OnedTransport, command: str) -> Iterator[tuple[str, str]]:
    """Create what is missing, replace what differs; gives (name, what was done). Raises as `installed_hooks`."""
    present = {hook.name: hook for hook in installed_hooks(transport)}
    for name, definition in definitions(command).items():
        former = present.get(name)
        if former is not None and is_as_defined(former, definition):
            yield name, "was there already"
            continue
        if former is not None:
            transport.call("one.hook.delete", former.id).checked()
        transport.call("one.hook.allocate", _template(definition)).checked()
        yield name, "installed" if former is None else "replaced"


def remove_hooks(transport: OnedTransport) -> Iterator[str]:
    """Delete all of ours and no others; gives their names. Raises as `installed_hooks`."""
    for hook in installed_hooks(transport):
        transport.call("one.hook.delete", hook.id).checked()
        yield hook.name


def _template(definition: Mapping[str, str]) -> str:
    template = etree.Element("TEMPLATE")
    for name, value in definition.items():
        etree.SubElement(template, name).text = value
    return etree.tostring(template, encoding="unicode")
