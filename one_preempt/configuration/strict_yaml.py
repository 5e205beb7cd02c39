"""YAML without its traps: no key twice, no aliases that a small file unfolds to a huge one, no invisible characters.

What a person runs beside a simulation for himself (`load_yaml_with_aliases`) may have aliases.

Numbers are finite: NaN (.nan) is beyond no bound, and nothing here is infinite (.inf, 1.0e+999).

As in YAML 1.2 only `true` and `false` are truth values: `on`, `off`, `yes` and `no` are words. 1:30 and 010 are words,
too, which YAML 1.1 takes for the numbers 90 and 8.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from typing import Any

import yaml


class StrictYamlError(Exception):
    """The text cannot be used; the message says where and why."""


def load_strict_yaml(text: str) -> Any:
    """The content of one YAML document. Raises `StrictYamlError`."""
    return _loaded(text, _StrictLoader)


def load_yaml_with_aliases(text: str) -> Any:
    """The same, with aliases (``*name``) and merged keys (``<<``). Raises `StrictYamlError`."""
    return _loaded(text, _LoaderWithAliases)


def _loaded(text: str, loader: type[yaml.SafeLoader | yaml.CSafeLoader]) -> Any:
    try:
        return yaml.load(text, loader)
    except yaml.MarkedYAMLError as error:
        raise StrictYamlError(f"{_place(error)}{error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise StrictYamlError(f"line {line}: a character that YAML does not allow, {chr(error.character)!r}") from None
    except RecursionError:
        raise StrictYamlError("it is nested too deeply") from None
    except (AttributeError, KeyError):
        raise StrictYamlError("a value is not what its tag (!!...) says: leave the tag out") from None
    except ValueError as error:
        raise StrictYamlError(f"a value is out of range: {str(error).partition(';')[0]}") from None


def _place(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark
    return "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "


_MERGE = "tag:yaml.org,2002:merge"
_BOOLEAN, _INTEGER, _FLOAT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_DIGITS = "-+0123456789."
# Which words are truth values and numbers, by their first characters.
_PLAIN_WORDS = (
    (_BOOLEAN, r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    (_INTEGER, r"^[-+]?(?:0|[1-9][0-9_]*|0b[01_]+|0x[0-9a-fA-F_]+)$", _DIGITS),
    (_FLOAT, r"^[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?$", _DIGITS),
    (_FLOAT, r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", "-+."),
)


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """By the first character of a word what it may be: as in YAML 1.1 but for what `_PLAIN_WORDS` tells."""
    resolvers = {
        first: [(tag, pattern) for tag, pattern in of_first if tag not in (_BOOLEAN, _INTEGER, _FLOAT)]
        for first, of_first in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for tag, pattern, firsts in _PLAIN_WORDS:
        for first in firsts:
            resolvers.setdefault(first, []).append((tag, re.compile(pattern)))
    return resolvers


class _Constructor(yaml.constructor.SafeConstructor):
    yaml_implicit_resolvers = _resolvers()

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise _refusal(f"the key '{key.value[:40]}' is written twice: keep one", key.start_mark)
                seen.add(key.value)
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode):
                self._demand_finite(value, f"{key.value[:40]} is ")
        return super().construct_mapping(node, deep)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """As ever, for what no key tells more of: a key itself, or one of a list."""
        self._demand_finite(node)
        return super().construct_yaml_float(node)

    def _demand_finite(self, node: yaml.ScalarNode, of: str = "") -> None:
        if node.tag != _FLOAT or math.isfinite(number := super().construct_yaml_float(node)):
            return
        why = "no number (NaN)" if math.isnan(number) else "infinite"
        raise _refusal(f"{of}{node.value[:40]}, which is {why}: write a finite number", node.start_mark)

    yaml_constructors = yaml.constructor.SafeConstructor.yaml_constructors | {_FLOAT: construct_yaml_float}


class _LoaderWithAliases(_Constructor, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    pass


class _StrictLoader(_Constructor, yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise _refusal("an alias is not allowed here: write the value once more", event.start_mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode) and not _is_plain(node.value):
            raise _refusal(f"there is a control character in {node.value[:40]!r}", node.start_mark)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        for key, _ in node.value:
            if key.tag == _MERGE:
                raise _refusal("<< is not allowed here: write the keys themselves", key.start_mark)
        return super().construct_mapping(node, deep)


def _is_plain(text: str) -> bool:
    return text.isprintable() or all(character.isprintable() or character in "\t\n" for character in text)


def _refusal(problem: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, mark)
