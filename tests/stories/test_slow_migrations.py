"""Victims whose move outlasts several looks at the cloud: pools show where they go, and not where they still are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.front_row import FrontRow, front_row

MOVE_S = 60
DURATIONS = {"live_migrate_s": MOVE_S, "live_migrate_mib_per_s": 0, "save_s": MOVE_S, "save_mib_per_s": 0}
METHODS = {"live": ["live-migrate"], "cold": ["migrate"]}
ON_THE_FIRST = 'SCHED_REQUIREMENTS="ID = 0"'


def moved_for(row: FrontRow) -> tuple[int, int]:
    """A lease on the first host, and who asks for just that host."""
    anywhere = 'SCHED_RANK="-ID"\nLEASE=[TYPE="DC-MIGRATABLE"]'
    victim = row.submit("eva", cpu="4", more=anywhere)
    row.run(4)
    assert (row.is_running(victim), row.vm(victim).history[-1].host_id) == (True, 0)
    return victim, row.submit("lea", cpu="4", more=ON_THE_FIRST)


@pytest.mark.parametrize("method", METHODS)
def test_room_that_a_victim_is_still_leaving_is_waited_for(tmp_path: Path, method: str) -> None:
    settings = {"victims": {"methods": {"DC-MIGRATABLE": METHODS[method]}}}
    with front_row(tmp_path, settings, durations=DURATIONS) as row:
        victim, request = moved_for(row)
        for _ in range(12):
            row.run()
            if row.is_running(request):
                break
        told = "\n".join(row.log)
        assert row.is_running(request), told
        assert row.vm(request).history[-1].host_id == 0
        assert (row.is_running(victim), row.vm(victim).history[-1].host_id) == (True, 1)
        assert told.count("leaves for lease") == told.count("is over: the preemptor runs") == 1, told
