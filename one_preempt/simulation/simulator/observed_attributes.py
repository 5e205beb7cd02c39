"""Templates of the simulated cloud as the paths and texts that expressions ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from one_preempt.simulation.simulated_cloud.objects import TemplateDict, Vector

Attributes = dict[str, tuple[str, ...]]


def paths_of(template: TemplateDict | Mapping[str, Sequence[str | Vector]], prefix: str) -> Attributes:
    """Every text of `template` under `prefix` and its path; a template or vector without entries is an empty text."""
    if not template:
        return {prefix.removesuffix("/"): ("",)} if prefix else {}
    found: dict[str, list[str]] = {}
    for name in sorted(template):
        for value in template[name]:
            if isinstance(value, str):
                found.setdefault(prefix + name, []).append(value)
            elif not value:
                found.setdefault(prefix + name, []).append("")
            else:
                for key in sorted(value):
                    found.setdefault(f"{prefix}{name}/{key}", []).append(value[key])
    return {path: tuple(texts) for path, texts in found.items()}
