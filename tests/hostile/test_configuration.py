"""Configurations with every mistake there is: one line that names the file, the place and the mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.settings import SettingsError, doubts, parse_settings


def unfolding(first: str, rest: str) -> str:
    """A few lines that refer to one another, nine times each."""
    lines = [f"a: &a {first}"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} " + rest.format(", ".join([f"*{before}"] * 9)))
    return "\n".join(lines)


MISTAKES = {
    "an unknown key": ("preemtion: act", "unknown key `preemtion`"),
    "an unknown key further in": ("limits: {victims: 3}", "limits: unknown key `victims`"),
    "a key twice": ("preemption: advise\npreemption: act", "line 2, column 1: the key 'preemption' stands twice"),
    "a key twice further in": ("limits:\n  attempts: 1\n  attempts: 3", "line 3, column 3: the key 'attempts'"),
    "a number as a key": ("1: 2", "a key: expected `str`"),
    "a list as a key": ("? [a, b]\n: 2", "unhashable key"),
    "a list": ("- a", "expected `object`"),
    "a section that is a number": ("limits: 7", "limits: expected `object`"),
    "a section without content": ("limits: ~", "limits: expected `object`"),
    "a word that is none of the words": ("preemption: perhaps", "'perhaps'; there are: act, advise"),
    "a word in a list": ("victims: {methods: {BE-SUSPENDABLE: [halt]}}", "'halt'; there are: live-migrate, migrate"),
    "a word as a key": (
        "victims: {methods: {BE: [stop]}}",
        "a key: Invalid enum value 'BE'; there are: BE-CANCELLABLE",
    ),
    "a rule without a name": (
        "leases: {rules: [{name: '', match: {user: eva}, type: BE-SUSPENDABLE}]}",
        "leases.rules[0].name: expected `str` of length >= 1",
    ),
    "a name that no database takes": (
        f"leases: {{rights: [{{name: {'x' * 256}, user: eva}}]}}",
        "leases.rights[0].name: expected `str` of length <= 255",
    ),
    "a policy that is none": ("preemption_policy: momml", "preemption_policy: no preemption policy is named 'momml'"),
    "an order that is none": ("queue_order: last", "queue_order: no queue order is named 'last'; there are: user-pr"),
    "a backfilling that is none": (
        "time: {backfilling: all}",
        "time.backfilling: no backfilling policy is named 'all'",
    ),
    "a negative number": ("limits: {attempts: -1}", "limits.attempts: expected `int` >= 1"),
    "a huge number": (f"limits: {{attempts: {'9' * 30}}}", "limits.attempts: expected `int` <="),
    "a number beyond measure": (f"limits: {{attempts: {'9' * 6000}}}", "a value is out of range"),
    "no number": ("overhead: {boot_s: .nan}", "overhead.boot_s: expected"),
    "infinity": ("overhead: {boot_s: .inf}", "overhead.boot_s: expected"),
    "a rate close to nothing": ("overhead: {suspend_mib_per_s: 1.0e-300}", "suspend_mib_per_s: expected `float` >="),
    "a truth instead of a number": ("cycle_interval_s: true", "cycle_interval_s: expected `int`"),
    "a date instead of a number": ("cycle_interval_s: 2026-01-01", "cycle_interval_s: expected `int`"),
    "a date that is none": ("cycle_interval_s: 2026-13-99", "a value is out of range"),
    "bytes": ("preemption: !!binary aGVsbG8=", "preemption: expected"),
    "a program": ("preemption: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
    "two documents": ("preemption: act\n---\npreemption: advise", "another document"),
    "tabs": ("limits:\n\tattempts: 3", "line 2, column 1"),
    "a quote that never ends": ("preemption: 'act", "line 1"),
    "a control character": ("preemption: act\x00", "line 1: a character that YAML does not allow"),
    "a control character in disguise": ('log: {file: "a\\0b"}', "line 1, column 13: a control character"),
    "a terminal's words in a key": ('"\\e[31mred": 1', "a control character"),
    "an alias": ("limits: &l {attempts: 1}\nvictims: *l", "line 2, column 10: an alias is not allowed"),
    "an alias to itself": ("&a a: *a", "an alias is not allowed"),
    "a bomb of lists": (unfolding("[x, x, x]", "[{}]"), "an alias is not allowed"),
    "a bomb of merged keys": (unfolding("{x: 1}", "{{<<: [{}]}}"), "an alias is not allowed"),
    "depth": ("[" * 3_000, "nested too deeply"),
}


@pytest.mark.parametrize(("text", "told"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_told_with_its_place(text: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_settings(text, "/etc/one_preempt.conf")
    message = str(caught.value)
    assert message.startswith("/etc/one_preempt.conf")
    assert told in message
    assert len(message) < 300


FILES = {
    "not UTF-8": (b"log: {file: '\xff\xfe'}", "not UTF-8"),
    "UTF-16": ("preemption: act".encode("utf-16"), "not UTF-8"),
    "a forged line": (b'"a\\nERROR forged": 1', "unknown key `a ERROR forged`"),
    "2 MB": (b"x" * 2_000_000, "longer than"),
}


@pytest.mark.parametrize(("content", "told"), FILES.values(), ids=FILES.keys())
@pytest.mark.parametrize("command", [("config", "check"), ("plan",)], ids="-".join)
def test_every_command_tells_it_in_one_harmless_line(
    command: tuple[str, ...], content: bytes, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "one_preempt.conf"
    file.write_bytes(content)
    result = CliRunner().invoke(cli, [*command, "--config", str(file)])
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert line.startswith("Error: ")
    assert told in line
    assert line.isprintable()


@pytest.mark.parametrize(("name", "told"), [("", "Is a directory"), ("nowhere", "No such file or directory")])
def test_a_folder_or_nothing_in_the_place_of_the_file_is_told(name: str, told: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["check", "--json", "--config", str(tmp_path / name)])
    assert result.exit_code == 1
    assert told in result.output


@pytest.mark.parametrize(
    "text", ["", "\n# nothing\n", "\ufeffpreemption: act", "matchmaker:\n  host_rank: |\n    FREE_CPU\n"]
)
def test_what_is_unusual_and_no_mistake_is_read(text: str) -> None:
    assert parse_settings(text, "one_preempt.conf").limits.attempts == 3


@pytest.mark.parametrize(
    ("match", "doubted"),
    [("attributes: {A: b}", "A"), ("template_id: 7", "TEMPLATE_ID"), ("template_id: 7, group: g", ""), ("user: u", "")],
)
def test_a_right_that_users_could_give_themselves_is_doubted(match: str, doubted: str) -> None:
    found = doubts(parse_settings(f"leases: {{rules: [{{name: r, may_preempt: true, match: {{{match}}}}}]}}", "f"))
    assert [f"lets whoever writes {doubted} preempt others" in doubt for doubt in found] == [True] * bool(doubted)
