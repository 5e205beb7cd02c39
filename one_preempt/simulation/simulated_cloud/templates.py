"""oned's template language: text (`NAME = "value"`, `NAME = [ A = "1", B = "2" ]`) and XML, both ways in one place.

The text form is a lexer with few guards: a quote inside a value ends it, and what follows is read as further
attributes. The simulated cloud keeps that trap, so that a front or a scheduler that writes users' words into
template text is caught.
"""

from __future__ import annotations

import re
from functools import lru_cache

from lxml import etree

from one_preempt.simulation.simulated_cloud.objects import Attribute, TemplateDict, Vector


class TemplateSyntaxError(Exception):
    """The text is no template; the message is oned's."""


_SKIP = re.compile(r"[ \t]*#[^\n]*(?:\n|$)|[ \t\r\n]+")
_NAME = re.compile(r"\w+", re.ASCII)
_EQUAL_EMPTY = re.compile(r"[ \t]*=[ \t]*\n")
_EQUAL = re.compile(r"[ \t]*=[ \t]*")
_OPEN = re.compile(r"[ \t]*\[[ \t\n]*")
_CLOSE = re.compile(r"[ \t\n]*\][ \t\n]*")
_COMMA = re.compile(r"[ \t\n]*,[ \t\n]*")
_QUOTED = re.compile(r'"((?:\\"|[^"])*)"')
_BARE = re.compile(r"[^=#\s,\[\]]+")


def parse_template(text: str) -> TemplateDict:
    """Read template text, or XML where it begins with "<". Raises `TemplateSyntaxError`."""
    return copy_template(_parsed(text))


@lru_cache(maxsize=64)
def _parsed(text: str) -> TemplateDict:
    """Remembered, for the members of a gang come with the same text one after the other."""
    if text.startswith("<"):
        return _parse_xml(text)
    return _Reader(text).read()


def _parse_xml(text: str) -> TemplateDict:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
    try:
        root = etree.fromstring(text.encode(), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise TemplateSyntaxError("Parse error: XML Template malformed.") from error
    template: TemplateDict = {}
    for child in root.iterchildren(tag=etree.Element):
        parts = list(child.iterchildren(tag=etree.Element))
        value: Attribute
        if parts:
            value = {str(part.tag).upper(): part.text.strip() for part in parts if part.text is not None}
        elif child.text is not None:
            value = child.text.strip()
        else:  # oned skips an element without content; an empty CDATA section is an empty text
            continue
        template.setdefault(str(child.tag).upper(), []).append(value)
    return template


class _Reader:
    """One pass over template text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> TemplateDict:
        template: TemplateDict = {}
        self._skip()
        while self._at < len(self._text):
            name = self._take(_NAME, "VARIABLE").upper()
            template.setdefault(name, []).append(self._attribute())
            self._skip()
        return template

    def _attribute(self) -> Attribute:
        if self._accept(_EQUAL_EMPTY):
            return ""
        self._take(_EQUAL, "EQUAL")
        if not self._accept(_OPEN):
            return self._value()
        vector: Vector = {}
        if self._accept(_CLOSE):
            return vector
        while True:
            self._skip()
            name = self._take(_NAME, "VARIABLE").upper()
            self._take(_EQUAL, "EQUAL")
            vector.setdefault(name, self._value())
            if self._accept(_CLOSE):
                return vector
            self._take(_COMMA, "COMMA or CBRACKET")

    def _value(self) -> str:
        quoted = _QUOTED.match(self._text, self._at)
        if quoted:
            self._at = quoted.end()
            return quoted.group(1).replace('\\"', '"').strip()
        return self._take(_BARE, "STRING")

    def _skip(self) -> None:
        while self._accept(_SKIP):
            pass

    def _accept(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self._text, self._at)
        if match is None or match.end() == match.start():
            return False
        self._at = match.end()
        return True

    def _take(self, pattern: re.Pattern[str], expected: str) -> str:
        match = pattern.match(self._text, self._at)
        if match is None or match.end() == match.start():
            raise self._unexpected(expected)
        self._at = match.end()
        return match.group()

    def _unexpected(self, expected: str) -> TemplateSyntaxError:
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - (self._text.rfind("\n", 0, self._at) + 1)
        found = "$end" if self._at >= len(self._text) else f"'{self._text[self._at]}'"
        return TemplateSyntaxError(
            f"Parse error: syntax error, unexpected {found}, expecting {expected} at line {line},"
            f" columns {column}:{column + 1}"
        )


def write_template(template: TemplateDict) -> str:
    """Template text that reads back as `template` (quotes escaped), for building clouds from descriptions."""
    lines = []
    for name, values in template.items():
        for value in values:
            if isinstance(value, str):
                lines.append(f"{name} = {_quoted(value)}")
            else:
                parts = ", ".join(f"{key} = {_quoted(text)}" for key, text in value.items())
                lines.append(f"{name} = [ {parts} ]")
    return "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    escaped = value.replace('"', '\\"')
    return f'"{escaped}"'


def text_of(template: TemplateDict, name: str, default: str = "") -> str:
    """The first text called `name`."""
    for value in template.get(name, ()):
        if isinstance(value, str):
            return value
    return default


def vectors_of(template: TemplateDict, name: str) -> list[Vector]:
    """All vectors called `name`, not copied."""
    return [value for value in template.get(name, ()) if isinstance(value, dict)]


def merged(template: TemplateDict, addition: TemplateDict) -> TemplateDict:
    """`template` with every attribute named in `addition` replaced by the addition's; an empty vector removes."""
    result = copy_template(template)
    for name, values in addition.items():
        kept = [value for value in values if value != {}]
        result.pop(name, None)
        if kept:
            result[name] = kept
    return result


def copy_template(template: TemplateDict) -> TemplateDict:
    """A copy that shares nothing."""
    return {
        name: [dict(value) if isinstance(value, dict) else value for value in values]
        for name, values in template.items()
    }
