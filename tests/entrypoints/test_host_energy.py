"""`host energy`: kilowatt-hours over a period, by policy and host."""

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
from one_preempt.core.model.power_history import HostUse, HostUseStay
from one_preempt.entrypoints.cli.command_line import cli

NOW_S = 1_800_000_000
DAY_S = 86_400
WATTS = {"model": {"idle_w": 100, "peak_w": 200}, "models": [{"host": "big*", "idle_w": 1000, "peak_w": 1000}]}


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "one_preempt.conf"
    file.write_text(yaml.dump({"store": {"url": f"sqlite:///{tmp_path}/leases.db"}, "power": WATTS}))
    monkeypatch.setenv("ONE_PREEMPT_CONF", str(file))
    monkeypatch.setattr(SystemClock, "now_s", lambda _clock: NOW_S)
    return file


@pytest.fixture
def store(configuration: Path) -> Iterator[SqlLeaseStore]:
    with closing(SqlLeaseStore(f"sqlite:///{configuration.parent}/leases.db")) as opened:
        yield opened


def stay(host_id: int, use: HostUse, since_days: float, until_days: float | None = None, policy: str = "PEMP",
         name: str = "", load: int = 0) -> HostUseStay:  # fmt: skip
    """Days are counted back from now."""
    until_s = None if until_days is None else NOW_S - int(until_days * DAY_S)
    return HostUseStay(
        host_id, name or f"node{host_id}", "rack", use, policy, NOW_S - int(since_days * DAY_S), until_s, load
    )


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["host", "energy", *arguments])


def told(*arguments: str) -> dict[str, Any]:
    answer = run("--json", *arguments)
    assert answer.exit_code == 0, answer.output
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def test_what_was_taken_and_saved_is_told_by_policy_and_host(store: SqlLeaseStore) -> None:
    store.record_host_use((
        stay(1, HostUse.ON, 4, 2, policy="", load=50),
        stay(1, HostUse.OFF, 2),
        stay(2, HostUse.ON, 2, name="big2"),
    ))  # fmt: skip
    found = told("--days", "3")
    assert (found["from"], found["until"], found["history_begins"]) == (NOW_S - 3 * DAY_S, NOW_S, None)
    unobeyed, pemp = found["policies"]
    assert (unobeyed["policy"], unobeyed["hosts"], unobeyed["taken_kwh"], unobeyed["saved_kwh"]) == (None, 1, 3.6, 0)
    assert (pemp["policy"], pemp["hosts"], pemp["taken_kwh"], pemp["always_on_kwh"]) == ("PEMP", 2, 48.0, 52.8)
    assert (found["total"]["saved_kwh"], found["total"]["counted_s"]) == (4.8, 5 * DAY_S)
    assert found["total"]["saved_share"] == pytest.approx(4.8 / 56.4, abs=1e-6)
    assert [(one["name"], one["policy"], one["off_s"]) for one in found["hosts"]] == [
        ("node1", None, 0), ("node1", "PEMP", 2 * DAY_S), ("big2", "PEMP", 0),
    ]  # fmt: skip
    table = run("--days", "3", "--hosts").stdout
    assert "(nothing enforced)" in table
    assert "all together" in table
    assert "big2" in table


def test_everything_has_what_was_pruned_as_well(store: SqlLeaseStore) -> None:
    store.record_host_use((stay(1, HostUse.OFF, 100, 90), stay(1, HostUse.ON, 90, 80), stay(1, HostUse.OFF, 80)))
    store.prune(NOW_S - 85 * DAY_S)
    assert told("--days", "100")["total"]["counted_s"] == 90 * DAY_S
    assert told("--days", "100")["history_begins"] == NOW_S - 90 * DAY_S
    found = told("--all")
    assert (found["from"], found["total"]["counted_s"]) == (NOW_S - 100 * DAY_S, 100 * DAY_S)
    assert found["total"]["off_s"] == 90 * DAY_S


def test_it_is_said_when_the_history_is_shorter_than_asked(store: SqlLeaseStore) -> None:
    store.record_host_use((stay(1, HostUse.ON, 2),))
    assert told()["history_begins"] == NOW_S - 2 * DAY_S
    assert "Nothing is known from before 2027-01-13T08:00:00Z" in run().stdout


def test_where_nothing_was_counted_that_is_said(store: SqlLeaseStore) -> None:
    assert "nothing was counted. Hosts are handed over by power.hosts." in run().stdout
    assert told()["policies"] == []


def test_without_a_database_it_is_said_who_makes_it(configuration: Path) -> None:
    answer = run()
    assert answer.exit_code == 1
    assert "there is no database of leases at" in answer.stderr
    assert not (configuration.parent / "leases.db").exists()


def test_all_and_days_exclude_each_other(store: SqlLeaseStore) -> None:
    assert run("--all", "--days", "3").exit_code == 2
