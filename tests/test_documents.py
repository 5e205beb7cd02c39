"""The documents agree with the code: links, commands, configuration keys, quoted messages, the worked policy."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import msgspec
import pytest
import yaml
from click.testing import CliRunner
from msgspec import inspect

from one_preempt.adapters.lease_store.named_database import GATEWAY_LEDGER, LEASES, Purpose
from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.configuration.settings import Settings, SettingsError, parse_settings
from one_preempt.configuration.strict_yaml import load_strict_yaml
from one_preempt.core import preemption
from one_preempt.core.preemption.problem import Choice
from one_preempt.core.preemption.victim_choice import choose_victims
from one_preempt.entrypoints.cli.command_line import cli
from one_preempt.policy_registry import PREEMPTION_POLICIES
from one_preempt.simulation.experiments import ccpe13_table3
from one_preempt.simulation.experiments.trial import Trial, play
from one_preempt.simulation.probes.comparison import compare
from one_preempt.simulation.simulator.result import Interruption, RequestRecord
from one_preempt.simulation.simulator.site import Site, simulation_settings
from one_preempt.simulation.workload.workload import MachineSet, Workload
from tests.papers.contended_testbed import contended_testbed

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CONFIGURE = sorted((ROOT / "docs/administrator").glob("configure*.md"))
SHIPPED = ROOT / "etc/one_preempt.conf"
REQUIRED = "required"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    .*(?:\n(?:    .*)?)*", re.MULTILINE)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
TABLE_OF_KEYS = re.compile(r"^\| key \| default \|.*\n(?:\|.*\n)+", re.MULTILINE)
ROW_OF_KEY = re.compile(r"^\| `([a-z_.\[\]]+)` \| `?([^`|]*)`? \| (.*?) \|", re.MULTILINE)


def prose(path: Path) -> str:
    """The text without its code blocks."""
    return INDENTED.sub("", FENCE.sub("", path.read_text()))


def ids(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


# -- links -----------------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """The anchors that headings get: small letters, no punctuation, hyphens for blanks."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=ids(DOCUMENTS))
def test_links_lead_somewhere(path: Path) -> None:
    for link in LINK.findall(prose(path)):
        if "://" in link:
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        assert target.exists(), f"{link} does not exist"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        links = (path.parent / link.partition("#")[0] for link in LINK.findall(prose(path)) if ".md" in link)
        waiting += [link.resolve() for link in links]
    assert {path for path in DOCUMENTS if ROOT / "docs" in path.parents} <= reached


# The files of the worked examples.
NO_FILES = {"one_preempt/core/preemption/newest.py", "one_preempt/simulation/probes/started_at_once.py"}


def test_files_of_the_source_that_the_documents_name_exist() -> None:
    for path in DOCUMENTS:
        for span in CODE_SPAN.findall(prose(path)):
            if re.fullmatch(r"[\w.*]+(/[\w.*]+)+\.(py|yaml|conf|md|json)", span) and span not in NO_FILES:
                assert [*ROOT.glob(span), *(ROOT / "one_preempt").glob(span)], f"{path.name}: {span} does not exist"


def test_files_that_the_documents_name_without_their_folder_exist() -> None:
    folders = ("one_preempt", "tests", "benchmarks", "packaging", "docs")
    names = {file.name for folder in folders for file in (ROOT / folder).rglob("*.py")}
    for path in DOCUMENTS:
        code = "\n".join(code_of(path))
        missing = set(re.findall(r"(?<![\w./*])\w+\.py\b", code)) - names
        assert not missing, f"{path.name}: {sorted(missing)} do not exist"


# -- commands --------------------------------------------------------------------------------------------


def code_of(path: Path) -> Iterator[str]:
    """Lines and spans of code."""
    text = path.read_text()
    for _language, block in FENCE.findall(text):
        yield from block.splitlines()
    for block in INDENTED.findall(FENCE.sub("", text)):
        yield from block.splitlines()
    yield from CODE_SPAN.findall(prose(path))


def commands_of(path: Path) -> Iterator[list[str]]:
    """Every command line of ours in a document, as words after `one-preempt`."""
    for line in code_of(path):
        found = re.search(r"(?:^|[\s/])one-preempt(?= [a-z-])", line)
        if found and not line.strip().startswith(("ln ", "systemctl", "journalctl")):
            yield shlex.split(line[found.end() :], comments=True)


@pytest.mark.parametrize("path", DOCUMENTS, ids=ids(DOCUMENTS))
def test_commands_and_their_options_exist(path: Path) -> None:
    for words in commands_of(path):
        command: click.Command = cli
        for word in words:
            if word.startswith("-") or not isinstance(command, click.Group):
                break
            found = command.get_command(click.Context(command), word)
            assert found is not None, f"{' '.join(words)}: there is no such command"
            command = found
        known = {option for parameter in command.params for option in parameter.opts}
        given = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert given <= known | {"--help"}, f"{command.name} has no option {given - known}"


def test_files_of_ours_that_commands_in_the_documents_take_exist() -> None:
    taken = {word for path in DOCUMENTS for words in commands_of(path) for word in words if word.startswith("tests/")}
    assert "tests/traces/haizea-blue-30days.swf.gz" in taken
    assert [word for word in sorted(taken) if not (ROOT / word).exists()] == []


def test_the_documents_name_commands() -> None:
    named = {words[0] for path in DOCUMENTS for words in commands_of(path) if words}
    assert {"plan", "record", "check", "daemon", "pause", "resume", "lease", "db", "config", "policies"} <= named


@pytest.mark.parametrize("command", sorted({words[0] for path in DOCUMENTS for words in commands_of(path)}))
def test_a_named_command_has_help(command: str) -> None:
    assert CliRunner().invoke(cli, [command, "--help"]).exit_code == 0


def test_make_targets_in_the_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        found[1]
        for path in DOCUMENTS
        for line in code_of(path)
        if (found := re.match(r"\s*make ([a-z]+)", line)) is not None
    }
    assert {"demo", "test"} <= named <= targets


# -- configuration ---------------------------------------------------------------------------------------


def keys_of(kind: inspect.Type, prefix: str = "") -> Iterator[tuple[str, inspect.Field]]:
    """Every key of a section and below, as `limits.attempts` or `leases.rules[].name`."""
    if isinstance(kind, inspect.UnionType):
        kind = next(one for one in kind.types if not isinstance(one, inspect.NoneType))
    if isinstance(kind, inspect.ListType | inspect.VarTupleType):
        yield from keys_of(kind.item_type, prefix + "[]")
    if not isinstance(kind, inspect.StructType):
        return
    for field in kind.fields:
        key = f"{prefix}.{field.name}".lstrip(".")
        if not isinstance(field.type, inspect.StructType) or field.required:
            yield key, field
        yield from keys_of(field.type, key)


KEYS = dict(keys_of(inspect.type_info(Settings)))


def shipped_value(field: inspect.Field) -> object:
    if field.required:
        return REQUIRED
    default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return list(default) if isinstance(default, tuple) else default


def words_of(kind: inspect.Type) -> set[str]:
    """The words that may be written for a key."""
    if isinstance(kind, inspect.LiteralType):
        return {str(word) for word in kind.values}
    return set().union(*map(words_of, kind.types)) if isinstance(kind, inspect.UnionType) else set()


def test_the_pages_on_the_configuration_have_every_key_with_its_default_and_words() -> None:
    tables = "".join(table for page in CONFIGURE for table in TABLE_OF_KEYS.findall(page.read_text()))
    rows = {key: (default, meaning) for key, default, meaning in ROW_OF_KEY.findall(tables)}
    assert set(rows) == set(KEYS)
    for key, field in KEYS.items():
        default, meaning = rows[key]
        assert yaml.safe_load(default) == shipped_value(field), key
        allowed = {word for word in words_of(field.type) if f"`{word}`" not in meaning}
        assert not allowed, f"{key}: {allowed} is allowed and not named"


def flattened(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        key = f"{prefix}.{name}".lstrip(".")
        if isinstance(value, Mapping) and key not in KEYS:
            yield from flattened(value, key)
        else:
            yield key, value


def test_the_shipped_configuration_has_every_key_with_its_default() -> None:
    written = dict(flattened(load_strict_yaml(SHIPPED.read_text())))
    assert set(written) == {key for key in KEYS if "[]" not in key}
    differing = {key for key, value in written.items() if value != shipped_value(KEYS[key])}
    assert differing <= {"victims.methods"}, "the methods are written out; the next test holds them"


def test_the_shipped_configuration_decides_as_none_at_all() -> None:
    shipped = parse_settings(SHIPPED.read_text(), str(SHIPPED))
    assert policies(shipped) == policies(Settings())
    assert admission_rules(shipped) == admission_rules(Settings())


# Scenario files are no configurations; tests/simulation/scenario reads the one that a document shows.
CONFIGURATIONS = [
    (path, text)
    for path in DOCUMENTS
    for language, text in FENCE.findall(path.read_text())
    if language == "yaml" and not text.startswith("name:")
]


@pytest.mark.parametrize(("path", "text"), CONFIGURATIONS, ids=ids([path for path, _text in CONFIGURATIONS]))
def test_configurations_in_the_documents_can_be_read(path: Path, text: str) -> None:
    policies(parse_settings(text, str(path)))


# A key of scenario files.
NO_KEYS = {"leases.images"}


def test_keys_of_the_configuration_that_the_documents_name_exist() -> None:
    sections = {key.partition(".")[0] for key in KEYS if "." in key}
    known = {key.replace("[]", "") for key in KEYS}
    known |= NO_KEYS | {key[: found.start()] for key in known for found in re.finditer(r"\.", key)}
    for path in DOCUMENTS:
        for span in CODE_SPAN.findall(prose(path)):
            named = re.match(r"([a-z_]+)\.[a-z_\[\].]+(?=$|[:\s])", span)
            if named is not None and named[1] in sections and ".db" not in span and not span.endswith(".py"):
                assert named[0].replace("[]", "") in known, f"{path.name}: there is no key {named[0]}"


def test_the_commented_examples_of_the_shipped_configuration_can_be_read() -> None:
    text = SHIPPED.read_text()
    for key in ("rules", "rights"):
        example = re.search(rf"Example:\n((?:  #   .*\n)+)  {key}: \[\]", text)
        assert example is not None
        entries = yaml.safe_load(example[1].replace("  #   ", ""))
        parse_settings(yaml.safe_dump({"leases": {key: entries}}), key)


def test_a_wrong_key_would_be_noticed() -> None:
    with pytest.raises(SettingsError, match="unknown key"):
        parse_settings("limits: {victim_in_flight: 3}", "this test")


# -- quoted messages -------------------------------------------------------------------------------------

QUOTING = [
    ROOT / "docs/administrator/troubleshoot.md",
    ROOT / "docs/administrator/operate.md",
    ROOT / "docs/user/lease-attribute.md",
]
# What stands for something else in a quoted message: three dots, numbers, other quoted words, punctuation around them.
STANDS_FOR = re.compile(r"\.\.\.|'[^']*'|[\d@,:;()]+")


def texts_of_the_code() -> str:
    """All source, with strings that go on in the next line put together, and databases called by their purposes."""
    source = "\n".join(path.read_text() for path in sorted((ROOT / "one_preempt").rglob("*.py")))
    text = re.sub(r"[\"']\s*\n\s*f?[\"']", "", source)
    return "\n".join(in_words_about(purpose, text) for purpose in (LEASES, GATEWAY_LEDGER))


def in_words_about(purpose: Purpose, text: str) -> str:
    return re.sub(r"\{(?:\w+\.)*(what|program|process|turn|key)\}", lambda word: getattr(purpose, word[1]), text)


def quoted_in_tables(path: Path) -> Iterator[str]:
    for line in prose(path).splitlines():
        if line.startswith("|"):
            yield from CODE_SPAN.findall(line.split("|")[1])


def test_messages_quoted_in_tables_are_those_of_the_code() -> None:
    code = texts_of_the_code()
    parts = [
        part.strip(" .?!")
        for path in QUOTING
        for quoted in quoted_in_tables(path)
        for part in STANDS_FOR.split(quoted)
        if len(part.split()) > 2
    ]
    assert len(parts) > 40
    assert sorted(part for part in parts if part not in code) == []


REFUSALS = re.compile(r"^  refusals:\s*(\{[^}]*\}|(?:\n    .*)+)", re.MULTILINE)


def test_every_reason_to_wait_that_a_scenario_expects_is_on_the_page_on_trouble() -> None:
    scenarios = "\n".join(path.read_text() for path in sorted((ROOT / "tests/scenarios").glob("*.yaml")))
    codes = {code for found in REFUSALS.findall(scenarios) for code in re.findall(r"\d+: ([a-z][a-z-]+)", found)}
    assert len(codes) > 40
    page = (ROOT / "docs/administrator/troubleshoot.md").read_text()
    assert sorted(code for code in codes if f"`{code}`" not in page) == []


# -- figures and the worked examples ----------------------------------------------------------------------


def test_our_column_of_table_three_is_what_the_experiment_gives() -> None:
    text = (ROOT / "docs/papers.md").read_text()
    for row in ccpe13_table3.EXPERIMENT.run().rows:
        preempted = row["preempted"]
        assert isinstance(preempted, tuple)
        ours = "{" + ", ".join(map(str, preempted)) + "}" if preempted else "rejected"
        published = re.search(rf"^\| {row['policy']} \|.*$", text, re.MULTILINE)
        assert published is not None
        cells = [cell.strip() for cell in published[0].strip("|").split("|")]
        assert cells[2] == ours
        assert float(cells[4]) == row["overhead_s"]
        assert float(cells[6]) == row["makespan_s"]


def test_simulate_md_names_the_figures_of_the_table_and_what_a_record_has() -> None:
    page = (ROOT / "docs/researcher/simulate.md").read_text()
    keys = {re.sub(r"_(median|p90|p99|max)\.all$", "_mean.all", key) for key in figures_of_the_table()}
    kept = {*RequestRecord.__struct_fields__, *Interruption.__struct_fields__}
    assert len(keys) > 15
    assert sorted(name for name in keys | kept if f"`{name}`" not in page) == []


def figures_of_the_table() -> set[str]:
    played = play(Trial(Workload(()), Site((MachineSet(1, 100, 1024),)), simulation_settings(Settings())))
    return {row.key for row in compare([[dict.fromkeys(played.figures.flat(), 0.0)]])}


def test_the_lines_of_python_about_simulations_play_one(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/researcher/simulate.md").read_text()
    (code,) = [text for language, text in FENCE.findall(page) if language == "python"]
    exec(compile(code, "simulate.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["1 completed 0", "2 completed 500000"]
    assert "mean=220.0" in lines[2]


def test_the_worked_policy_is_found_and_chooses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/contributor/add-a-policy.md").read_text()
    code = next(text for language, text in FENCE.findall(page) if language == "python")
    (tmp_path / "newest.py").write_text(code)
    monkeypatch.setattr(preemption, "__path__", [*preemption.__path__, str(tmp_path)])
    found = PREEMPTION_POLICIES.all()
    problem = contended_testbed()
    chosen = {name: choose_victims(problem, found[name]) for name in ("NEWEST", "MOV", "MLIP")}
    victims = {name: choice.lease_ids for name, choice in chosen.items() if isinstance(choice, Choice)}
    assert victims == {"NEWEST": (5, 6), "MOV": (2, 3, 5), "MLIP": (1, 6)}
