"""Whose leases are on record: by name where oned tells the names, by id otherwise."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.lease import LeaseTerms
from one_preempt.core.model.ledger import LeaseRecord, LedgerChanges
from tests.entrypoints.lease.conftest import CloudOfUsers

EXTERNALS, DELETED = 101, 4711
NOBODY_LISTENS = "http://127.0.0.1:1/RPC2"


def a_record(lease_id: int, uid: int, gid: int) -> LeaseRecord:
    return LeaseRecord(lease_id, LeaseTerms(), uid, gid, (lease_id,), True, False, 1, 1)


@pytest.fixture
def configuration(users: CloudOfUsers, tmp_path: Path) -> Path:
    """The lease 0 is eva's, the lease 1 belongs to who was deleted."""
    url = f"sqlite:///{tmp_path}/leases.db"
    path = tmp_path / "one_preempt.conf"
    path.write_text(f"store: {{url: '{url}'}}\n")
    with closing(SqlLeaseStore(url)) as store:
        ours, others = a_record(0, users.caller("eva").uid, EXTERNALS), a_record(1, DELETED, DELETED)
        store.apply(LedgerChanges(admitted=(ours, others)))
    return path


def shown(users: CloudOfUsers, configuration: Path, *arguments: str, **environment: str) -> str:
    environment = {"ONE_PREEMPT_CONF": str(configuration), **environment}
    result = users.run("oneadmin", "lease", *arguments, **environment)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def rows(text: str) -> dict[str, list[str]]:
    return {cells[0]: cells for line in text.splitlines() if (cells := line.split())}


def test_the_administrator_sees_who_owns_a_lease(users: CloudOfUsers, configuration: Path) -> None:
    table = rows(shown(users, configuration, "list"))
    assert table["0"][2] == "eva"
    assert table["1"][2:4] == ["uid", str(DELETED)]
    uid = users.caller("eva").uid
    assert f"eva (uid {uid}), group externals (gid {EXTERNALS})" in shown(users, configuration, "show", "0")
    assert f"uid {DELETED}, gid {DELETED}" in shown(users, configuration, "show", "1")


def test_programs_get_the_names_beside_the_ids(users: CloudOfUsers, configuration: Path) -> None:
    def owners(documents: list[dict[str, Any]]) -> list[tuple[object, ...]]:
        return [tuple(one[key] for key in ("uid", "gid", "user", "group")) for one in documents]

    uid = users.caller("eva").uid
    expected = [(uid, EXTERNALS, "eva", "externals"), (DELETED, DELETED, None, None)]
    assert owners(json.loads(shown(users, configuration, "list", "--json"))) == expected
    assert owners([json.loads(shown(users, configuration, "show", "1", "--json"))]) == expected[1:]
    users.submit("eva", "--type", "BE-SUSPENDABLE")
    assert owners(json.loads(users.run("eva", "lease", "list", "--json").stdout)) == expected[:1]


@pytest.mark.parametrize("environment", [{"ONE_XMLRPC": NOBODY_LISTENS}, {"ONE_AUTH": "/nowhere"}])
def test_without_an_answer_of_oned_the_ids_are_shown(
    users: CloudOfUsers, configuration: Path, environment: dict[str, str]
) -> None:
    assert rows(shown(users, configuration, "list", **environment))["0"][2] == "uid"
    (first, _other) = json.loads(shown(users, configuration, "list", "--json", **environment))
    assert (first["uid"], first["user"], first["group"]) == (users.caller("eva").uid, None, None)


def test_names_cannot_reach_the_terminal(users: CloudOfUsers, configuration: Path) -> None:
    users.cloud.users[users.caller("eva").uid].name = "\x1b]0;mine\x07e[red]va" + "x" * 300
    for command in (("list",), ("show", "0")):
        text = shown(users, configuration, *command)
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "e[red]va" in text
        assert "x" * 41 not in text
