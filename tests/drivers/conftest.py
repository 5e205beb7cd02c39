"""Drivers find no daemon and no promises, unless a test says so."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration in force; its socket and file of promises are named in the test's own folder."""
    path = tmp_path / "one_preempt.conf"
    path.write_text(f"socket:\n  path: {tmp_path}/daemon.sock\nstore:\n  held_capacity_file: {tmp_path}/held.json\n")
    monkeypatch.setenv("ONE_PREEMPT_CONF", str(path))
    return path
