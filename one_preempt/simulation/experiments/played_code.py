"""By which state of the code results were played: a digest beside each, and what is told where they are several."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import one_preempt
from one_preempt.simulation.experiments.experiment import Claim

# No simulation imports them: what a command prints changes no figure.
_DECIDES_NOTHING = ("entrypoints",)
_DIGITS = 12


def code_digest(package: Path = Path(one_preempt.__file__).parent) -> str:
    """What the sources of the package are that a simulation may import, as 12 hexadecimal digits.

    Another digest says that something was changed, be it a comment; the same one that all was the same.
    """
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package).as_posix()
        if not name.startswith(tuple(f"{folder}/" for folder in _DECIDES_NOTHING)):
            content = file.read_bytes()
            digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:_DIGITS]


def counts_in_words(codes: Mapping[str, int]) -> str:
    """How many results each state of the code has played, the most first; '' is code that is not known."""
    in_order = sorted(codes.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{count} by {code}" if code else f"{count} of unknown code" for code, count in in_order)


def code_claim(codes: Iterable[str]) -> Claim:
    """Whether all results were played by one state of the code; None where it is not known of any of them."""
    counted = Counter(codes)
    holds = None if set(counted) <= {""} else len(counted) == 1
    return Claim("all results are of one state of the code", "", counts_in_words(counted), holds, required=False)
