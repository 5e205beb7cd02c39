"""oned repeats words of users in its refusals; from there they flow to messages, logs, the database and tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from one_preempt.entrypoints.cli.command_line import cli
from tests.hostile.corpus import TEXTS
from tests.hostile.front_row import FrontRow, front_row
from tests.stories.world import SETTINGS

SUSPENDABLE = 'LEASE=[TYPE="BE-SUSPENDABLE"]'
OURS = {"LEASE_STATUS", "SCHED_MESSAGE"}


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontRow]:
    """A lease for each of the words, refused with them, after the cycles that tell their owner."""
    paused = {"limits": {**SETTINGS["limits"], "retry_delay_s": 20}}
    host = {"name": "node", "cpu": 99, "memory_mib": 99_999}
    with front_row(tmp_path_factory.mktemp("words"), paused, [host], instant=True) as made:
        vm_ids = [made.submit("eva", more=SUSPENDABLE) for _ in TEXTS]
        told = (f"[one.vm.deploy] Cannot deploy {words} there" for words in TEXTS.values())
        made.transport.refuse = dict(zip(vm_ids, told, strict=True))
        made.run(4)
        yield made


def test_a_refusal_in_anybodys_words_sets_no_attribute(row: FrontRow) -> None:
    for vm_id in row.transport.refuse:
        written = row.vm(vm_id).user_template
        assert written.keys() == {"LEASE", *OURS}
        assert written["LEASE"] == [{"TYPE": "BE-SUSPENDABLE"}]
        for name in OURS:
            (text,) = written[name]
            assert isinstance(text, str)
            assert "was not started: [one.vm.deploy] Cannot deploy" in text
            assert text.isprintable()
            assert len(text) <= 250


def test_a_refusal_in_anybodys_words_forges_no_line_of_the_log(row: FrontRow) -> None:
    assert sum("refused [one.vm.deploy]" in line for line in row.log) >= len(TEXTS)
    for line in row.log:
        assert line.isprintable()
        assert len(line) <= 500


def test_the_commands_show_what_was_refused_harmlessly(row: FrontRow, tmp_path: Path) -> None:
    configuration = tmp_path / "one_preempt.conf"
    configuration.write_text(json.dumps({"store": {"url": f"sqlite:///{row.folder}/leases.db"}}))
    lease_ids = [lease["id"] for lease in json.loads(shown(configuration, "list", "--json"))]
    assert len(lease_ids) == len(TEXTS)
    for lease_id in lease_ids[::4]:
        for options in ((), ("--json",)):
            output = shown(configuration, "show", str(lease_id), *options)
            assert "Cannot deploy" in output
            assert all(line.isprintable() for line in output.splitlines())


def test_they_start_once_nothing_is_refused_any_more(row: FrontRow) -> None:
    vm_ids, row.transport.refuse = list(row.transport.refuse), {}
    row.run(8)
    assert all(map(row.is_running, vm_ids))


def shown(configuration: Path, *arguments: str) -> str:
    result = CliRunner().invoke(cli, ["lease", *arguments, "--config", str(configuration)])
    assert result.exit_code == 0, result.output
    return result.output
