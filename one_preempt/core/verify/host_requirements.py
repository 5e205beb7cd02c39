"""Does a host meet a requirement? Read word by word for this one host, with a third answer: not known.

`ATTRIBUTE op VALUE`, joined by & and | from left to right, ! before what it turns round. What is written strangely, or
would take long to look at, is not known: nobody is refused for what another reader would read otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from one_preempt.core.model.host import Host

# Owners write them: what is longer, or would be compared with a longer text, is not looked at.
MOST_CHARACTERS = 4096
MOST_OF_A_VALUE = 1024
CURRENT_VMS = "CURRENT_VMS"

_WORD = re.compile(
    r'\s*(?:"(?P<quoted>[^"]*)"|(?P<plain>[A-Za-z][0-9A-Za-z_]*)|(?P<number>-?[0-9]+(?:\.[0-9]+)?)'
    r"|(?P<sign>!=|@>|[=<>!&|()]))",
    re.ASCII,
)
_END = re.compile(r"\s*", re.ASCII)
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?", re.ASCII)
_COMPARING = frozenset({"=", "!=", ">", "<", "@>"})
# Where a name is looked for. What stands elsewhere in a document is not found by it.
_PLACES = (
    "", "HOST_SHARE/", "HOST_SHARE/DATASTORES/", "TEMPLATE/", "MONITORING/CAPACITY/", "MONITORING/SYSTEM/",
    "CLUSTER_TEMPLATE/",
)  # fmt: skip
# What follows from who is there, and from when the host was looked at last.
_LOAD = ("HOST_SHARE/", "MONITORING/")
_PASSING = frozenset({"STATE", "PREV_STATE", "LAST_MON_TIME"})
# What a host's document says and is not among its attributes.
_TYPED: dict[str, Callable[[Host], object]] = {
    "ID": lambda host: host.id,
    "NAME": lambda host: host.name,
    "STATE": lambda host: int(host.state),
    "CLUSTER_ID": lambda host: host.cluster_id,
    "CLUSTER": lambda host: host.cluster_name,
    "HOST_SHARE/MAX_CPU": lambda host: host.max_cpu_centi,
    "HOST_SHARE/CPU_USAGE": lambda host: host.cpu_usage_centi,
    "HOST_SHARE/MAX_MEM": lambda host: host.max_memory_kib,
    "HOST_SHARE/MEM_USAGE": lambda host: host.memory_usage_kib,
    "HOST_SHARE/RUNNING_VMS": lambda host: host.running_vms,
}
# The matchmaker compares in single precision.
_TOO_CLOSE = 1e-5
# One text is held against one host after the other.
_TEXTS_KEPT = 64

Residents = Callable[[int], bool | None]
"""Is a VM on the host? None: not known."""


class _Unread(Exception):
    """It is not written as this reader reads."""


class _Word(Struct, frozen=True):
    """`kind`: quoted, plain, number or sign."""

    kind: str
    text: str


class _Level(Struct):
    """What was read inside of parentheses so far; `joins`: & or |, "" before the first part. `turned`: by a !."""

    value: bool | None = None
    joins: str = ""
    turned: bool = False


def meets(text: str, host: Host, residents: Residents, *, load_is_known: bool) -> bool | None:
    """Whether a host meets the requirement `text`; None: not known.

    `load_is_known`: what the host says of its load holds for the time that is asked for.
    """
    if not text.strip():
        return True
    if len(text) > MOST_CHARACTERS:
        return None
    try:
        return _value(_words(text), host, residents, load_is_known=load_is_known)
    except _Unread:
        return None


@lru_cache(_TEXTS_KEPT)
def _words(text: str) -> tuple[_Word, ...]:
    found, at = list[_Word](), 0
    while (word := _WORD.match(text, at)) is not None:
        assert word.lastgroup is not None, "each way to match is named"
        found.append(_Word(word.lastgroup, word[word.lastgroup]))
        at = word.end()
    if _END.fullmatch(text, at) is None:
        raise _Unread
    return tuple(found)


def _value(words: Sequence[_Word], host: Host, residents: Residents, *, load_is_known: bool) -> bool | None:
    levels, left, is_complete = [_Level()], iter(words), False
    for word in left:
        sign = word.text if word.kind == "sign" else ""
        if is_complete and sign in ("&", "|"):
            levels[-1].joins, is_complete = sign, False
        elif is_complete and sign == ")" and len(levels) > 1:
            inner = levels.pop()
            _join(levels[-1], inner.value)
        elif not is_complete and sign == "!":
            levels[-1].turned = not levels[-1].turned
        elif not is_complete and sign == "(":
            levels.append(_Level())
        elif not is_complete and word.kind in ("quoted", "plain"):
            _join(levels[-1], _compared(word.text, left, host, residents, load_is_known=load_is_known))
            is_complete = True
        else:
            raise _Unread
    if not is_complete or len(levels) > 1:
        raise _Unread
    return levels[0].value


def _join(level: _Level, part: bool | None) -> None:
    """One more part of what stands between parentheses was read."""
    if level.turned and part is not None:
        part = not part
    if level.joins == "&":
        part = False if False in (part, level.value) else None if None in (part, level.value) else True
    elif level.joins == "|":
        part = True if True in (part, level.value) else None if None in (part, level.value) else False
    level.value, level.joins, level.turned = part, "", False


def _compared(
    name: str, left: Iterator[_Word], host: Host, residents: Residents, *, load_is_known: bool
) -> bool | None:
    """The comparison of an attribute with what is written behind it."""
    operator, wanted = next(left, None), next(left, None)
    if operator is None or operator.kind != "sign" or operator.text not in _COMPARING:
        raise _Unread
    if wanted is None or wanted.kind == "sign" or (operator.text in "<>" and wanted.kind != "number"):
        raise _Unread
    if name == CURRENT_VMS:
        return _is_there(operator.text, wanted, residents)
    values = _values(host, name, load_is_known=load_is_known)
    if not values:
        # Where there is no such attribute, no comparison with it is true.
        return None if values is None else False
    if wanted.kind == "number":
        return _compared_as_numbers(operator.text, wanted.text, values)
    return _compared_as_texts(operator.text, wanted.text, values)


def _is_there(operator: str, wanted: _Word, residents: Residents) -> bool | None:
    if operator not in ("=", "!=") or _WHOLE_NUMBER.fullmatch(wanted.text) is None or wanted.kind != "number":
        return None
    found = residents(int(wanted.text))
    return found if found is None or operator == "=" else not found


def _values(host: Host, name: str, *, load_is_known: bool) -> list[str] | None:
    """All that the host's document has under a name; None: not known."""
    if name.startswith("/") or name == "VMS" or name.startswith("VMS/"):
        return None
    found, load = list[str](), False
    for path in [place + name for place in _PLACES]:
        texts = host.attributes.get(path)
        if texts is None:
            texts = (str(_TYPED[path](host)),) if path in _TYPED else ()
        load |= bool(texts) and (path.startswith(_LOAD) or path in _PASSING)
        found += texts
    return None if (load and not load_is_known) or any(len(text) > MOST_OF_A_VALUE for text in found) else found


def _compared_as_numbers(operator: str, wanted: str, values: Sequence[str]) -> bool | None:
    is_whole = "." not in wanted
    form = _WHOLE_NUMBER if is_whole else _NUMBER
    if form.fullmatch(wanted) is None or any(form.fullmatch(text) is None for text in values):
        return None
    limit, numbers = float(wanted), [float(text) for text in values]
    if not is_whole and any(abs(one - limit) <= _TOO_CLOSE * max(abs(one), abs(limit), 1e-9) for one in numbers):
        return None
    if operator == "@>":
        return limit in numbers
    if len(set(numbers)) > 1:
        # Which of them counts is not known here.
        return None
    first = numbers[0]
    return {"=": first == limit, "!=": first != limit, ">": first > limit, "<": first < limit}[operator]


def _compared_as_texts(operator: str, pattern: str, values: Sequence[str]) -> bool | None:
    """`pattern` is one of a shell; in brackets, and behind a backslash, this reader does not look."""
    if not pattern or "[" in pattern or "\\" in pattern:
        return None
    alike = [fnmatchcase(text, pattern) for text in values]
    if operator == "@>":
        return any(alike)
    if len(set(values)) > 1:
        return None
    return alike[0] if operator == "=" else not alike[0]
