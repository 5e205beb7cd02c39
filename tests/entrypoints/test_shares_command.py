"""`shares`: who has used how much of a share, as the daemon measured it last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from one_preempt.adapters.clock import SystemClock
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.ledger import LedgerChanges
from one_preempt.core.model.owner_use import OwnerUse
from one_preempt.entrypoints.cli.command_line import cli

NOW_S = 1_800_000_000
HOUR = 360_000
SHARES = {"half_life_days": 2.5, "shares": {"astronomy": 3, "idle": 2}}


def configured(folder: Path, **settings: object) -> None:
    content = {"store": {"url": f"sqlite:///{folder}/leases.db"}, "queue_order": "fair-share", "fair_share": SHARES}
    (folder / "one_preempt.conf").write_text(yaml.dump(content | settings))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    configured(tmp_path)
    monkeypatch.setenv("ONE_PREEMPT_CONF", str(tmp_path / "one_preempt.conf"))
    monkeypatch.setattr(SystemClock, "now_s", lambda _clock: NOW_S)
    return tmp_path


@pytest.fixture
def store(folder: Path) -> Iterator[SqlLeaseStore]:
    with closing(SqlLeaseStore(f"sqlite:///{folder}/leases.db")) as opened:
        yield opened


@pytest.fixture
def measured(store: SqlLeaseStore) -> None:
    rows = (
        OwnerUse(1, 5, "users", "ann", 40 * HOUR, NOW_S - 60),
        OwnerUse(1, 6, "users", "bob\x1b[31m", 10 * HOUR, NOW_S - 60),
        OwnerUse(100, 7, "astronomy", "cleo", 120 * HOUR, NOW_S - 60),
    )
    store.apply(LedgerChanges(owner_use=rows))


def run(*arguments: str) -> Result:
    answer = CliRunner().invoke(cli, ["shares", *arguments])
    assert answer.exit_code == 0, answer.output
    return answer


def told() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("--json").stdout)
    return found


@pytest.mark.usefixtures("measured")
def test_groups_and_their_users_stand_in_the_order_in_which_they_are_next() -> None:
    found = told()
    assert (found["is_in_force"], found["measured_at"], found["half_life_s"]) == (True, NOW_S - 60, 216_000)
    idle, astronomy, users = found["groups"]
    assert (idle["position"], idle["group"], idle["gid"], idle["share"], idle["users"]) == (1, "idle", None, 2.0, [])
    assert (astronomy["gid"], astronomy["share"], astronomy["used_cpu_hours"]) == (100, 3.0, 120.0)
    assert (astronomy["part_of_shares"], astronomy["used_cpu_hours_by_share"]) == (0.5, 40.0)
    assert (users["group"], users["part_of_use"], users["used_cpu_hours_by_share"]) == ("users", 0.294118, 50.0)
    assert [(one["position"], one["uid"], one["used_cpu_hours"]) for one in users["users"]] == [
        (1, 6, 10.0),
        (2, 5, 40.0),
    ]


@pytest.mark.usefixtures("measured")
def test_people_read_the_same_and_no_name_reaches_their_terminal() -> None:
    table = run().stdout
    assert "astronomy" in table
    assert "70.6 %" in table
    assert "those of 2.5 days ago count half" in table
    assert "\x1b" not in table


@pytest.mark.usefixtures("measured")
def test_where_another_order_is_chosen_nobody_goes_by_it(folder: Path) -> None:
    configured(folder, queue_order="user-priority")
    assert told()["is_in_force"] is False
    assert "Nobody goes by this: queue_order is user-priority" in run().stdout


@pytest.mark.usefixtures("store")
def test_before_anything_was_measured_that_is_said(folder: Path) -> None:
    configured(folder, fair_share={})
    found = told()
    assert (found["measured_at"], found["groups"]) == (None, [])
    assert "has measured nothing yet" in run().stdout


@pytest.mark.usefixtures("folder")
def test_without_a_database_there_is_one_line() -> None:
    answer = CliRunner().invoke(cli, ["shares"])
    assert answer.exit_code == 1
    assert "Traceback" not in answer.output
    assert len(answer.stderr.splitlines()) == 1
