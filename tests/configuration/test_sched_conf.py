"""`config import`: what a sched.conf or rank.conf becomes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.configuration.chosen_policies import match_options
from one_preempt.configuration.sched_conf import SchedConfError, import_sched_conf, read_template
from one_preempt.configuration.settings import parse_settings
from one_preempt.entrypoints.cli.command_line import cli

SCHED_CONF = """
# a comment = with [ everything ] in it
MESSAGE_SIZE = 1073741824
TIMEOUT      = 45   # seconds
ONE_XMLRPC = "http://localhost:2633/RPC2"
HTTP_PROXY = ""
SCHED_INTERVAL = 15
MAX_VM       = 5000
MAX_DISPATCH = 30
MAX_HOST     = 2
LIVE_RESCHEDS = 1
COLD_MIGRATE_MODE = 2
DEFAULT_SCHED = [
   policy = 3,
   RANK   = "- (RUNNING_VMS * 50  + FREE_CPU)"
]
DEFAULT_DS_SCHED = [ POLICY = 2, RANK = "FREE_MB # no comment" ]
DEFAULT_NIC_SCHED = [ POLICY = 3 ]
DIFFERENT_VNETS = "NO"
MEMORY_SYSTEM_DS_SCALE = 1.5
LOG = [ SYSTEM = "file", DEBUG_LEVEL = 1 ]
"""


def imported(folder: Path, name: str, text: str) -> Result:
    path = folder / name
    path.write_text(text)
    return CliRunner().invoke(cli, ["config", "import", str(path)])


def test_a_file_without_end_is_none_of_the_matchmaker() -> None:
    result = CliRunner().invoke(cli, ["config", "import", "/dev/zero"])
    assert result.exit_code == 1
    assert "is it really the matchmaker's?" in result.output


def test_every_setting_of_a_sched_conf_is_taken_over(tmp_path: Path) -> None:
    result = imported(tmp_path, "sched.conf", SCHED_CONF.replace("# no comment", ""))
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout) == {
        "cycle_interval_s": 15,
        "opennebula": {"endpoint": "http://localhost:2633/RPC2", "read_timeout_s": 45.0},
        "matchmaker": {
            "max_vm": 5000,
            "max_dispatch": 30,
            "max_host": 2,
            "host_policy": "custom",
            "host_rank": "- (RUNNING_VMS * 50  + FREE_CPU)",
            "datastore_policy": "custom",
            "datastore_rank": "FREE_MB",
            "network_policy": "fixed",
            "network_rank": "",
            "different_networks": False,
            "memory_system_datastore_scale": 1.5,
            "live_rescheds": True,
            "cold_migrate_mode": "poweroff-hard",
        },
        "log": {"level": "warning"},
    }
    assert result.stderr == "HTTP_PROXY is not taken over: set the variable http_proxy for the daemon\n"


def test_an_external_scheduler_is_named_with_the_attributes_for_it(tmp_path: Path) -> None:
    text = 'EXTERNAL_SCHEDULER = [ SERVER = "http://localhost:4567" ]\nVM_ATTRIBUTE = "//CPU"\n'
    assert imported(tmp_path, "sched.conf", text).stderr.splitlines() == [
        "EXTERNAL_SCHEDULER is not taken over: there are no external schedulers; a policy can be written",
        "VM_ATTRIBUTE is not taken over: it is for EXTERNAL_SCHEDULER",
    ]


def test_what_is_printed_is_a_configuration_that_can_be_used(tmp_path: Path) -> None:
    settings = parse_settings(imported(tmp_path, "rank.conf", "MAX_HOST = 7").stdout, "test")
    assert match_options(settings).max_host == 7


def test_a_rank_conf_paces_no_cycles(tmp_path: Path) -> None:
    matchmaker = yaml.safe_load(imported(tmp_path, "rank.conf", "").stdout)["matchmaker"]
    assert (matchmaker["max_vm"], matchmaker["max_dispatch"], matchmaker["max_host"]) == (0, 0, 1)
    assert (matchmaker["host_policy"], matchmaker["datastore_policy"]) == ("striping", "striping")


def test_what_a_sched_conf_leaves_out_has_the_built_in_value() -> None:
    sections = import_sched_conf("", "/etc/one/sched.conf").sections
    assert (sections[""]["cycle_interval_s"], sections["matchmaker"]["max_vm"]) == (30, 300)


def test_a_file_of_another_name_is_known_by_its_settings() -> None:
    assert import_sched_conf("MAX_HOST = 1", "x").sections["matchmaker"]["max_vm"] == 0
    assert import_sched_conf("MAX_VM = 9", "x").sections["matchmaker"]["max_vm"] == 9


@pytest.mark.parametrize(
    ("name", "number", "policy"),
    [
        *(("DEFAULT_SCHED", n, p) for n, p in enumerate(("packing", "striping", "load-aware", "custom", "fixed"))),
        *(("DEFAULT_DS_SCHED", n, p) for n, p in enumerate(("packing", "striping", "custom", "fixed"))),
        *(("DEFAULT_NIC_SCHED", n, p) for n, p in enumerate(("packing", "striping", "custom", "fixed"))),
    ],
)
def test_policies_have_their_numbers(name: str, number: int, policy: str) -> None:
    side = {"DEFAULT_SCHED": "host", "DEFAULT_DS_SCHED": "datastore", "DEFAULT_NIC_SCHED": "network"}[name]
    matchmaker = import_sched_conf(f"{name} = [ POLICY = {number} ]", "rank.conf").sections["matchmaker"]
    assert matchmaker[f"{side}_policy"] == policy


MISTAKES = {
    "MAX_HOST": "line 1: expected NAME = VALUE, found 'MAX_HOST'",
    "\nMAX_HOST =": "line 2: expected a value, found the end",
    "LOG = [ A = 1": "line 1: expected ',', found the end",
    'A = "open': "line 1: a quotation mark is opened and never closed",
    "MAX_HOST = many": "MAX_HOST = many is no number from 0 to",
    "MAX_HOST = 1.5": "MAX_HOST = 1.5 is no whole number",
    "MAX_HOST = nan": "MAX_HOST = nan is no number",
    "MAX_HOST = [ A = 1 ]": 'MAX_HOST is one value: write MAX_HOST = "..."',
    "LOG = 3": "LOG is a list: write LOG = [ ... ]",
    "DEFAULT_SCHED = [ POLICY = 9 ]": "in DEFAULT_SCHED: POLICY = 9 is no number from 0 to 4",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str) -> None:
    result = imported(tmp_path, "rank.conf", text)
    assert result.exit_code == 1
    assert MISTAKES[text] in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_rank_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    result = imported(tmp_path, "rank.conf", 'DEFAULT_SCHED = [ POLICY = 3, RANK = "1 +" ]')
    assert result.exit_code == 1
    assert "matchmaker.host_rank cannot be read" in result.stderr


def test_settings_that_nobody_knows_are_told(tmp_path: Path) -> None:
    unknown, elsewhere = imported(tmp_path, "rank.conf", "MAX_HOTS = 1").stderr.splitlines()
    assert unknown == "MAX_HOTS is not known to the matchmaker"
    assert elsewhere.startswith("LIVE_RESCHEDS and COLD_MIGRATE_MODE are in oned.conf since 7.0")


@given(st.text(alphabet='AB=[],"\\ #\n1', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(SchedConfError):
        read_template(text, "x")
