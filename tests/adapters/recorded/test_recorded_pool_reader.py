from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from one_preempt.adapters.recorded.recorded_pool_reader import RecordedPoolReader
from one_preempt.adapters.recorded.recording import RecordingError
from one_preempt.core.model.pool_snapshot import RaftState

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings"


@pytest.mark.parametrize(("version", "newest"), [("7.4.0", 1795175414), ("6.10.0", 1795176388)])
def test_a_folder_of_raw_answers_is_read_as_of_its_newest_stamp(version: str, newest: int) -> None:
    reader = RecordedPoolReader(RECORDINGS / version)
    snapshot = reader.read()
    assert (reader.observed_at_s, snapshot.observed_at_s, snapshot.version) == (newest, newest, version)
    assert (len(snapshot.hosts), len(snapshot.vms), len(snapshot.clusters), snapshot.problems) == (6, 19, 3, ())
    assert snapshot == RecordedPoolReader(RECORDINGS / version).read()


def test_single_vms_are_those_of_the_pool() -> None:
    reader = RecordedPoolReader(RECORDINGS / "7.4.0")
    assert reader.read_vm(3) == reader.read().vms[3]
    assert reader.read_vm(4711) is None


def test_hosts_and_the_short_vm_pool_are_enough(tmp_path: Path) -> None:
    for name in ("hostpool.info.xml", "vmpool.info.xml"):
        shutil.copy(RECORDINGS / "7.4.0" / name, tmp_path / name)
    snapshot = RecordedPoolReader(tmp_path).read()
    assert (len(snapshot.hosts), len(snapshot.vms)) == (6, 19)
    assert not any(vm.extended for vm in snapshot.vms.values())
    assert (snapshot.version, snapshot.raft_state, snapshot.datastores) == ("", RaftState.SOLO, {})


@pytest.mark.parametrize("missing", ["hostpool.info.xml", "vmpool.infoextended.xml"])
def test_a_folder_without_hosts_or_vms_is_refused(missing: str, tmp_path: Path) -> None:
    for name in ("hostpool.info.xml", "vmpool.infoextended.xml"):
        if name != missing:
            shutil.copy(RECORDINGS / "7.4.0" / name, tmp_path / name)
    with pytest.raises(RecordingError, match="are needed"):
        RecordedPoolReader(tmp_path)


def test_a_folder_with_a_cut_pool_is_refused(tmp_path: Path) -> None:
    shutil.copy(RECORDINGS / "7.4.0" / "hostpool.info.xml", tmp_path)
    whole = (RECORDINGS / "7.4.0" / "vmpool.infoextended.xml").read_bytes()
    (tmp_path / "vmpool.infoextended.xml").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecordingError, match="cut off"):
        RecordedPoolReader(tmp_path)
