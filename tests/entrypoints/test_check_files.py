"""What `check` makes of the files that the daemon needs."""

from __future__ import annotations

from pathlib import Path

from one_preempt.entrypoints.cli.check import judge_database
from one_preempt.entrypoints.cli.set_up import Grade
from one_preempt.settings import Settings, StoreSettings
from tests.other_users import closed


def test_a_database_in_a_folder_that_is_closed_is_graded_as_failed(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    with closed(folder):
        finding = judge_database(Settings(store=StoreSettings(url=f"sqlite:///{folder}/leases.db")))
    assert finding.grade is Grade.FAIL
    assert "Permission denied; run this as the user that runs the scheduler" in finding.text
