"""What is wrong with a value of the configuration, or of a scenario, in words for people: after msgspec's message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import get_args

from one_preempt.configuration.choices import choices_at, keys_at
from one_preempt.configuration.power_control_settings import Address, HardwareAddress, HostName, UserName
from one_preempt.configuration.power_settings import DayTimes
from one_preempt.configuration.section import AbsolutePath

_TYPES = {
    "object": "a section of keys",
    "array": "a list",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "date": "a date",
    "datetime": "a date and time",
    "bytes": "bytes",
}
_GOT = _TYPES | {"object": "a section", "bool": "a truth value"}
LONGEST_SAID = 100
LONGEST_LIST = 150
_UNKNOWN_KEY = re.compile(rf"Object contains unknown field `(.{{1,{LONGEST_SAID}}})`")
_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}
_WITHOUT_QUOTATION_MARKS = frozenset({"int", "float", "bool", "date", "datetime"})
_EXPECTED = re.compile(
    r"Expected `(?P<types>[^`]+)`(?:, got `(?P<got>[^`]+)`| matching regex (?P<pattern>.+)"
    r"| of length (?P<size>[<>]=) (?P<length>\d+)| (?P<bound>[<>]=?) (?P<number>\S+))?"
)


def _pattern_of(kind: object) -> str:
    """How a message shows the pattern of an annotated text."""
    return repr(next(one.pattern for one in get_args(kind)[1:] if getattr(one, "pattern", None)))


PATTERNS_IN_WORDS = {
    _pattern_of(AbsolutePath): "the absolute path of a file, such as /var/lib/one/name",
    _pattern_of(Address): "a host name or an IP address; {host} stands for the name of the host",
    _pattern_of(DayTimes): 'times of day from 00:00 to 23:59, such as "22:00-06:00"',
    _pattern_of(HardwareAddress): 'a hardware address, such as "00:1a:2b:3c:4d:5e"',
    _pattern_of(HostName): "the name of a host: letters, digits, dots, hyphens and underscores",
    _pattern_of(UserName): "the name of a user: letters, digits and _ . @ \\ -",
    repr(r"^[0-9]{1,3}(\.[0-9]{1,3}){3}\Z"): "an IPv4 address, such as 192.168.1.255",
}
"""By the pattern, as a message shows it, what it stands for."""


def in_plain_words(message: str, kind: type) -> str:
    """msgspec's message about a value that is no `kind`: the place first, such as limits.attempts, then the words."""
    what, separator, where = message.partition(" - at `")
    place = where.rstrip("`").removeprefix("key` in `").removeprefix("$").removeprefix(".") if separator else ""
    of_key = where.startswith("key` in")
    words = choices_at(kind, f".{place}", of_key=of_key)
    text = _in_words(what, place, is_word=bool(words))
    if words:
        text = f"{text}; there are: {', '.join(words)}"
    elif unknown := _UNKNOWN_KEY.fullmatch(what):
        text += _keys_there(unknown[1], keys_at(kind, f".{place}"))
    text = f"a key: {text}" if of_key else text
    return f"{place}: {text}" if place else text


def _keys_there(unknown: str, keys: Sequence[str]) -> str:
    """Which key is meant, if one is called alike; else which there are, if they can be said in a line."""
    meant = get_close_matches(unknown, keys, n=1)
    if meant:
        return f"; do you mean `{meant[0]}`?"
    named = ", ".join(keys)
    return f"; there are: {named}" if 0 < len(named) <= LONGEST_LIST else ""


def _in_words(what: str, place: str, *, is_word: bool) -> str:
    expected = _EXPECTED.fullmatch(what)
    if expected is None:
        for theirs, ours in (
            ("Object contains unknown field", "unknown key"),
            ("Object missing required field", "there must be a key"),
            ("Invalid enum value", "unknown word"),
        ):
            what = what.replace(theirs, ours)
        return what if len(what) <= LONGEST_SAID else f"{what[:LONGEST_SAID]}..."
    types = expected["types"].split(" | ")
    wanted = "a word" if is_word else " or ".join(_TYPES.get(one, f"`{one}`") for one in types)
    if pattern := expected["pattern"]:
        return f"expected {PATTERNS_IN_WORDS.get(pattern, f'{wanted} that matches {pattern}')}"
    if expected["length"]:
        return _of_length(expected["size"], expected["length"], is_list="array" in types)
    if expected["number"]:
        return f"expected {wanted} {_BOUNDS[expected['bound']]} {expected['number'].removesuffix('.0')}"
    return f"expected {wanted}" if not expected["got"] else _of_another_type(types, wanted, expected["got"], place)


def _of_length(size: str, length: str, *, is_list: bool) -> str:
    if (size, length) == (">=", "1"):
        return f"expected {'a list' if is_list else 'text'} that is not empty"
    least = "at least" if size == ">=" else "at most"
    return f"expected {'a list' if is_list else 'text'} of {least} {length} {'entries' if is_list else 'characters'}"


def _of_another_type(types: list[str], wanted: str, got: str, place: str) -> str:
    if not place:
        return "expected keys with values, such as `preemption: advise`, a space after each colon"
    if got == "null":
        if "object" in types and not place.endswith("]"):
            return "the section is empty: leave it out, or write a key of it below it"
        return f"there is no value: leave it out, or write {wanted}"
    if got == "float" and "int" in types and "float" not in types:
        return f"expected {wanted}, got a number with a decimal point"
    mend = ""
    if wanted != "a word" and "str" in types and got in _WITHOUT_QUOTATION_MARKS:
        mend = ": put it in quotation marks"
    elif types[0] in ("int", "float") and got == "str":
        mend = ": write digits alone, no quotation marks, unit or leading zero"
    elif "array" in types:
        mend = ": put brackets around it, [ ]"
    return f"expected {wanted}, got {_GOT.get(got, f'`{got}`')}{mend}"
