"""`check` looks at how OpenNebula 7.x's scheduler driver is wired."""

from __future__ import annotations

from pathlib import Path

from one_preempt.entrypoints.cli.driver_set_up import judge_driver
from one_preempt.entrypoints.cli.set_up import Finding, Grade

RECORDINGS = Path(__file__).parent.parent / "recordings"
CONFIGURATION = (RECORDINGS / "7.4.0" / "system.config.xml").read_bytes()
CLUSTERS = (RECORDINGS / "7.4.0" / "clusterpool.info.xml").read_bytes()
FULL = (RECORDINGS / "7.4.0" / "cluster.info.plan_full_automation.xml").read_bytes()


def findings(folder: Path, *, clusters: bytes = CLUSTERS, hosts: int = 6) -> list[Finding]:
    return list(judge_driver(CONFIGURATION, clusters, hosts, folder))


def test_nothing_is_said_of_a_6_x() -> None:
    configuration = (RECORDINGS / "6.10.0" / "system.config.xml").read_bytes()
    assert list(judge_driver(configuration, CLUSTERS, 6, Path("/"))) == []


def test_a_missing_driver_folder_fails_for_oned_would_not_start_again(tmp_path: Path) -> None:
    found = findings(tmp_path)
    assert [finding.grade for finding in found] == [Grade.FAIL, Grade.FAIL]
    assert "probe/place" in found[0].text
    assert "probe/optimize" in found[1].text


def test_driver_executables_that_are_there_are_fine(tmp_path: Path) -> None:
    (tmp_path / "probe").mkdir()
    for name in ("place", "optimize"):
        (tmp_path / "probe" / name).touch(mode=0o755)
    assert {finding.grade for finding in findings(tmp_path)} == {Grade.OK}


def test_many_hosts_ask_for_a_slower_pace_of_oneds_placer(tmp_path: Path) -> None:
    found = findings(tmp_path / "absent", hosts=1250)
    assert [finding.text.split()[0] for finding in found] == ["SCHED_RETRY_TIME", "SCHED_MAX_WND_TIME"]
    assert findings(tmp_path / "absent", hosts=20) == []


def test_drs_that_moves_by_itself_is_doubted(tmp_path: Path) -> None:
    (found,) = findings(tmp_path / "absent", clusters=b"<CLUSTER_POOL>" + FULL + b"</CLUSTER_POOL>")
    assert found.grade is Grade.WARN
    assert "runs by itself" in found.text
