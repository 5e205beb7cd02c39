"""Files in YAML that a person writes for a simulation: read, and checked against what they may hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from one_preempt.configuration.strict_yaml import StrictYamlError
from one_preempt.configuration.words import in_plain_words
from one_preempt.errors import OnePreemptError, cause_of

_LONGEST_FILE = 1 << 20
_Kind = TypeVar("_Kind")


def read_described(path: Path, kind: type[_Kind], what: str, load: Callable[[str], Any]) -> _Kind:
    """The value in a file; `what` names it in messages, `load` is one of `strict_yaml`'s functions.

    Raises `OnePreemptError`, which names the file, the place and the mend.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_LONGEST_FILE + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise OnePreemptError(f"{path}: cannot be read: {cause_of(error)}") from error
    if len(text) > _LONGEST_FILE:
        raise OnePreemptError(f"{path}: longer than {_LONGEST_FILE} characters: is it really {what}?")
    try:
        return msgspec.convert(load(text), kind)
    except StrictYamlError as error:
        raise OnePreemptError(f"{path}: {error}") from error
    except (msgspec.ValidationError, TypeError) as error:
        raise OnePreemptError(f"{path}: {in_plain_words(str(error), kind)}") from error
