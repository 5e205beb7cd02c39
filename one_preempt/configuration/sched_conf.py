"""`sched.conf` and `rank.conf`, the matchmaker's own configurations, turned into ours.

Both are written in OpenNebula's template language: `NAME = VALUE`, quoted or not, and `NAME = [ A = 1, B = "x" ]`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from one_preempt.errors import OnePreemptError

Yaml = bool | int | float | str
Vector = Mapping[str, str]

_TOKEN = re.compile(
    r"""(?P<blank>\s+|\#[^\n]*) | (?P<name>[A-Za-z]\w*)(?=[ \t]*=) | (?P<mark>[=\[\],])
      | "(?P<quoted>(?:\\.|[^"\\])*)" | (?P<bare>[^\s=\[\],"\#][^\n,\]\#]*)""",
    re.VERBOSE | re.DOTALL,
)
_SIDES = {
    "host": ("DEFAULT_SCHED", ("packing", "striping", "load-aware", "custom", "fixed")),
    "datastore": ("DEFAULT_DS_SCHED", ("packing", "striping", "custom", "fixed")),
    "network": ("DEFAULT_NIC_SCHED", ("packing", "striping", "custom", "fixed")),
}
_MIGRATE_MODES = ("save", "poweroff", "poweroff-hard")
_LOG_LEVELS = ("error", "warning", "info", "debug", "debug", "debug")
_WITHOUT_COUNTERPART = {
    "HTTP_PROXY": "set the variable http_proxy for the daemon",
    "EXTERNAL_SCHEDULER": "there are no external schedulers; a policy can be written",
    "VM_ATTRIBUTE": "it is for EXTERNAL_SCHEDULER",
    "MAX_BACKUP": "OpenNebula paces backups itself since 6.8",
    "MAX_BACKUP_HOST": "OpenNebula paces backups itself since 6.8",
}
_IN_ONED_CONF = (
    "LIVE_RESCHEDS and COLD_MIGRATE_MODE are in oned.conf since 7.0: where they are not 0 there, "
    "write matchmaker.live_rescheds and matchmaker.cold_migrate_mode"
)
_SHARED = {*(name for name, _ in _SIDES.values()), "MAX_HOST", "DIFFERENT_VNETS", "MEMORY_SYSTEM_DS_SCALE", "LOG"}
_ONLY_SCHED = {
    "MAX_VM", "MAX_DISPATCH", "SCHED_INTERVAL", "TIMEOUT", "ONE_XMLRPC", "LIVE_RESCHEDS", "COLD_MIGRATE_MODE",
    "MESSAGE_SIZE", *_WITHOUT_COUNTERPART,
}  # fmt: skip


class SchedConfError(OnePreemptError):
    """The file cannot be read, or says what the matchmaker would not take; the message names the place."""


class Imported(Struct, frozen=True):
    """Our configuration by section ("" for the whole), and what was not taken over, one sentence each."""

    sections: Mapping[str, Mapping[str, Yaml]]
    notes: tuple[str, ...]


def import_sched_conf(text: str, source: str) -> Imported:
    """What behaves as the `sched.conf` or `rank.conf` with this text; `source` is its path. Raises `SchedConfError`.

    What the file leaves out has the matchmaker's built-in value. A file that is not called rank.conf is a sched.conf
    where it is called so, or names a setting that only those have.
    """
    said = _Said(read_template(text, source), source)
    is_rank = source.endswith("rank.conf") or not (source.endswith("sched.conf") or said.names & _ONLY_SCHED)
    sections = {"": {}, "opennebula": {}} if is_rank else _of_the_cycle(said)
    sections["matchmaker"] = {
        "max_vm": 0 if is_rank else said.whole("MAX_VM", 300, 0),
        "max_dispatch": 0 if is_rank else said.whole("MAX_DISPATCH", 30, 0),
        "max_host": said.whole("MAX_HOST", 1, 0),
        **_policies(said),
        "different_networks": said.text("DIFFERENT_VNETS", "YES").upper() == "YES",
        "memory_system_datastore_scale": max(-1.0, said.real("MEMORY_SYSTEM_DS_SCALE", 0.0, -1e9, 100.0)),
    }
    if not is_rank:
        sections["matchmaker"]["live_rescheds"] = said.whole("LIVE_RESCHEDS", 0, 0, 1) == 1
        sections["matchmaker"]["cold_migrate_mode"] = _MIGRATE_MODES[said.whole("COLD_MIGRATE_MODE", 0, 0, 2)]
    sections["log"] = {"level": _LOG_LEVELS[said.inside("LOG").whole("DEBUG_LEVEL", 3, 0, 5)]}
    known = _SHARED if is_rank else _SHARED | _ONLY_SCHED
    notes = [f"{name} is not taken over: {why}" for name, why in _WITHOUT_COUNTERPART.items() if name in said.names]
    notes += [f"{name} is not known to the matchmaker" for name in sorted(said.names - known)]
    if is_rank:
        notes.append(_IN_ONED_CONF)
    return Imported({name: values for name, values in sections.items() if values}, tuple(notes))


def _of_the_cycle(said: _Said) -> dict[str, dict[str, Yaml]]:
    """What only the daemon of 6.x has."""
    endpoint = said.text("ONE_XMLRPC", "")
    opennebula: dict[str, Yaml] = {"endpoint": endpoint} if endpoint else {}
    opennebula["read_timeout_s"] = said.real("TIMEOUT", 60.0, 1.0, 600.0)
    return {"": {"cycle_interval_s": said.whole("SCHED_INTERVAL", 30, 1)}, "opennebula": opennebula}


def _policies(said: _Said) -> dict[str, Yaml]:
    found: dict[str, Yaml] = {}
    for side, (name, policies) in _SIDES.items():
        choice = said.inside(name)
        policy = policies[choice.whole("POLICY", 1, 0, len(policies) - 1)]
        found[f"{side}_policy"] = policy
        found[f"{side}_rank"] = choice.text("RANK", "") if policy == "custom" else ""
    return found


class _Said:
    """The values of a file, checked when they are asked for."""

    def __init__(self, entries: Mapping[str, str | Vector], place: str) -> None:
        self._entries = entries
        self._place = place
        self.names = set(entries)

    def text(self, name: str, otherwise: str) -> str:
        value = self._entries.get(name, otherwise)
        if not isinstance(value, str):
            raise SchedConfError(f'{self._place}: {name} is one value: write {name} = "..."')
        return value.strip()

    def whole(self, name: str, otherwise: int, least: int, most: int = 2**31) -> int:
        value = self.real(name, otherwise, least, most)
        if value != int(value):
            raise SchedConfError(f"{self._place}: {name} = {value:g} is no whole number")
        return int(value)

    def real(self, name: str, otherwise: float, least: float, most: float) -> float:
        written = self.text(name, "") or str(otherwise)
        try:
            value = float(written)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise SchedConfError(f"{self._place}: {name} = {written[:40]} is no number from {least:g} to {most:g}")
        return value

    def inside(self, name: str) -> _Said:
        vector = self._entries.get(name, {})
        if isinstance(vector, str):
            raise SchedConfError(f"{self._place}: {name} is a list: write {name} = [ ... ]")
        return _Said(vector, f"{self._place}: in {name}")


def read_template(text: str, source: str) -> dict[str, str | Vector]:
    """The entries by name, upper case; the last one counts where a name is repeated. Raises `SchedConfError`."""
    entries: dict[str, str | Vector] = {}
    tokens = _Tokens(text, source)
    while tokens.kind != "end":
        name = tokens.take("name").upper()
        tokens.take("=")
        entries[name] = _vector(tokens) if tokens.kind == "[" else tokens.take("value")
    return entries


def _vector(tokens: _Tokens) -> Vector:
    values: dict[str, str] = {}
    tokens.take("[")
    while tokens.kind != "]":
        name = tokens.take("name").upper()
        tokens.take("=")
        values[name] = tokens.take("value")
        if tokens.kind != "]":
            tokens.take(",")
    tokens.take("]")
    return values


class _Tokens:
    """The words of a template one after the other; `kind` is that of the next one."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._words = self._read(text)
        self.kind, self._word, self._line = next(self._words)

    def take(self, kind: str) -> str:
        """The next word, which must be of this kind."""
        if self.kind != kind:
            wanted = {"name": "NAME = VALUE", "value": "a value"}.get(kind, f"'{kind}'")
            found = "the end" if self.kind == "end" else repr(self._word[:40])
            raise SchedConfError(f"{self._source}, line {self._line}: expected {wanted}, found {found}")
        word = self._word
        self.kind, self._word, self._line = next(self._words)
        return word

    def _read(self, text: str) -> Iterator[tuple[str, str, int]]:
        at, line = 0, 1
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise SchedConfError(f"{self._source}, line {line}: a quotation mark is opened and never closed")
            word = match[match.lastgroup or 0]
            if match.lastgroup == "mark":
                yield word, word, line
            elif match.lastgroup == "name":
                yield "name", word, line
            elif match.lastgroup == "quoted":
                yield "value", re.sub(r"\\(.)", r"\1", word), line
            elif match.lastgroup == "bare":
                yield "value", word.strip(), line
            at, line = match.end(), line + match[0].count("\n")
        while True:
            yield "end", "", line
