from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from one_preempt.configuration import settings
from tests.gateway.federation import Federation, federation


@pytest.fixture(autouse=True)
def _no_configuration_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "DEFAULT_CONFIGURATION", tmp_path / "none.conf")


@pytest.fixture
def world() -> Iterator[Federation]:
    with federation() as all_of_it:
        yield all_of_it
