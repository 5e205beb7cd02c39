"""Configurations with every mistake there is: one line that names the file, the place and the mistake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from one_preempt.configuration.doubts import doubts
from one_preempt.configuration.settings import Settings, SettingsError, parse_settings
from one_preempt.configuration.words import PATTERNS_IN_WORDS
from one_preempt.entrypoints.cli.command_line import cli


def unfolding(first: str, rest: str) -> str:
    """A few lines that refer to one another, nine times each."""
    lines = [f"a: &a {first}"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} " + rest.format(", ".join([f"*{before}"] * 9)))
    return "\n".join(lines)


MISTAKES = {
    "an unknown key": ("preemtion: act", "unknown key `preemtion`; do you mean `preemption`?"),
    "an unknown key further in": (
        "optimizer: {victims: 3}",
        "optimizer: unknown key `victims`; there are: policy, migration_threshold",
    ),
    "an unknown key of a rule": (
        "leases: {rules: [{name: a, match: {groups: b}}]}",
        "leases.rules[0].match: unknown key `groups`; do you mean `group`?",
    ),
    "a key twice": ("preemption: advise\npreemption: act", "line 2, column 1: the key 'preemption' is written twice"),
    "a key twice further in": ("limits:\n  attempts: 1\n  attempts: 3", "line 3, column 3: the key 'attempts'"),
    "a number as a key": ("1: 2", "a key: expected text"),
    "a list as a key": ("? [a, b]\n: 2", "unhashable key"),
    "a list": ("- a", "expected keys with values, such as `preemption: advise`"),
    "a section that is a number": ("limits: 7", "limits: expected a section of keys, got a whole number"),
    "a section without content": ("limits:", "limits: the section is empty: leave it out, or write a key"),
    "a word that is none of the words": ("preemption: perhaps", "'perhaps'; there are: act, advise"),
    "a word in a list": ("victims: {methods: {BE-SUSPENDABLE: [halt]}}", "'halt'; there are: live-migrate, migrate"),
    "a word as a key": (
        "victims: {methods: {BE: [stop]}}",
        "a key: unknown word 'BE'; there are: BE-CANCELLABLE",
    ),
    "a rule without a name": (
        "leases: {rules: [{name: '', match: {user: eva}, type: BE-SUSPENDABLE}]}",
        "leases.rules[0].name: expected text that is not empty",
    ),
    "a name that no database takes": (
        f"leases: {{rights: [{{name: {'x' * 256}, user: eva}}]}}",
        "leases.rights[0].name: expected text of at most 255 characters",
    ),
    "a policy that is none": ("preemption_policy: momml", "preemption_policy: no preemption policy is named 'momml'"),
    "an order that is none": ("queue_order: last", "queue_order: no queue order is named 'last'; there are: fair-sh"),
    "a share of nothing": (
        "fair_share: {shares: {astronomy: 0}}",
        "fair_share.shares[...]: expected a number of at least 0.001",
    ),
    "a share below nothing": ("fair_share: {shares: {astronomy: -3}}", "expected a number of at least 0.001"),
    "a share beyond all": ("fair_share: {shares: {astronomy: 10000000}}", "expected a number of at most 1000000"),
    "a share that is no number": (
        "fair_share: {shares: {astronomy: .nan}}",
        "column 34: astronomy is .nan, which is no number (NaN): write a finite number",
    ),
    "a share in words": ("fair_share: {shares: {astronomy: much}}", "fair_share.shares[...]: expected a number"),
    "a group that is a number": ("fair_share: {shares: {104: 2}}", "a key: expected text"),
    "a group without a name": ("fair_share: {shares: {'': 2}}", "a key: expected text that is not empty"),
    "shares as a list": ("fair_share: {shares: [astronomy]}", "fair_share.shares: expected a section of keys"),
    "a half-life of nothing": ("fair_share: {half_life_days: 0}", "half_life_days: expected a number of at least 0.01"),
    "a half-life for ever": ("fair_share: {half_life_days: .inf}", "half_life_days is .inf, which is infinite"),
    "what counts in other words": ("fair_share: {counts: memory}", "'memory'; there are: cpu, cpu-and-memory"),
    "a key of another policy": ("fair_share: {weight: 3}", "fair_share: unknown key `weight`"),
    "a backfilling that is none": (
        "time: {backfilling: all}",
        "time.backfilling: no backfilling policy is named 'all'",
    ),
    "a negative number": ("limits: {attempts: -1}", "limits.attempts: expected a whole number of at least 1"),
    "a huge number": (
        f"limits: {{attempts: {'9' * 30}}}",
        "limits.attempts: expected a whole number of at most 2147483648",
    ),
    "a number beyond measure": (f"limits: {{attempts: {'9' * 6000}}}", "a value is out of range"),
    "no number": ("overhead: {boot_s: .nan}", "boot_s is .nan, which is no number (NaN): write a finite number"),
    "no whole number": ("limits: {attempts: .nan}", "line 1, column 20: attempts is .nan, which is no number (NaN)"),
    "infinity": ("overhead: {boot_s: .inf}", "boot_s is .inf, which is infinite"),
    "infinity below": ("overhead: {boot_s: -.Inf}", "boot_s is -.Inf, which is infinite"),
    "an infinity in a list": ("victims: {methods: [stop, .inf]}", ".inf, which is infinite: write a finite number"),
    "no number as a key": ("fair_share: {shares: {.nan: 2}}", ".nan, which is no number (NaN)"),
    "too great for a number": ("overhead: {boot_s: 1.0e+999}", "boot_s is 1.0e+999, which is infinite"),
    "a whole number with a point": (
        "limits: {attempts: 2.5}",
        "limits.attempts: expected a whole number, got a number with a decimal point",
    ),
    "a rate close to nothing": (
        "overhead: {suspend_mib_per_s: 1.0e-300}",
        "suspend_mib_per_s: expected a number of at least 0.001",
    ),
    "a truth instead of a number": (
        "cycle_interval_s: true",
        "cycle_interval_s: expected a whole number, got a truth value",
    ),
    "a date instead of a number": (
        "cycle_interval_s: 2026-01-01",
        "cycle_interval_s: expected a whole number, got a date",
    ),
    "a date that is none": ("cycle_interval_s: 2026-13-99", "a value is out of range"),
    "a number in quotation marks": ("cycle_interval_s: '15'", "got text: write digits alone, no quotation marks"),
    "a number with a unit": ("cycle_interval_s: 15s", "got text: write digits alone, no quotation marks, unit"),
    "minutes and seconds": ("cycle_interval_s: 1:30", "cycle_interval_s: expected a whole number, got text"),
    "a leading zero": ("matchmaker: {max_vm: 010}", "matchmaker.max_vm: expected a whole number, got text"),
    "a fraction": ("matchmaker: {max_vm: 1.5}", "matchmaker.max_vm: expected a whole number, got a number"),
    "zero, where it must be more": ("opennebula: {connect_timeout_s: 0}", "expected a number above 0"),
    "a truth in other words": ("events: {enabled: yes}", "events.enabled: expected true or false, got text"),
    "a key without a value": ("cycle_interval_s:", "cycle_interval_s: there is no value: leave it out, or write a"),
    "a word without a value": ("log: {level: }", "leave it out, or write a word; there are: debug, error, info"),
    "an entry of a list without content": ("leases: {rules: [~]}", "leases.rules[0]: there is no value"),
    "no list": ("power: {hosts: {host: a}}", "power.hosts: expected a list, got a section: put brackets around it"),
    "a name that is a number": (
        "leases: {rights: [{name: r, user: 5}]}",
        "leases.rights[0].user: expected text or null, got a whole number: put it in quotation marks",
    ),
    "a name without letters": ("leases: {rights: [{name: r, user: ''}]}", "user: expected text that is not empty"),
    "a template that is none": (
        "leases: {rules: [{name: r, match: {template_id: -1}, type: BE-SUSPENDABLE}]}",
        "match.template_id: expected a whole number of at least 0",
    ),
    "a rule without a match": ("leases: {rules: [{name: r}]}", "leases.rules[0]: there must be a key `match`"),
    "an empty list": ("power: {control: {ipmitool: {cipher_suites: []}}}", "expected a list that is not empty"),
    "quiet hours that are none": (
        "power: {quiet_hours: ['22-6']}",
        'power.quiet_hours[0]: expected times of day from 00:00 to 23:59, such as "22:00-06:00"',
    ),
    "a host that cannot be one": ("power: {control: {hosts: {a b: {}}}}", "a key: expected the name of a host"),
    "no endpoint": ("opennebula: {endpoint: notaurl}", "opennebula.endpoint 'notaurl' is no http or https URL"),
    "an empty endpoint": ("opennebula: {endpoint: ''}", "opennebula.endpoint '' is no http or https URL"),
    "a broken endpoint": ("opennebula: {endpoint: 'http://[::1'}", "is no http or https URL: write one such as http"),
    "a relative login": ("opennebula: {auth_file: one_auth}", "opennebula.auth_file: expected the absolute path"),
    "a bus without tcp": ("events: {endpoint: 'localhost:2101'}", "events.endpoint 'localhost:2101' is no ZeroMQ"),
    "a bus without a port": ("events: {endpoint: 'tcp://localhost'}", "write one such as tcp://localhost:2101"),
    "a bus with a port that is none": ("events: {endpoint: 'tcp://localhost:99999'}", "is no ZeroMQ address"),
    "metrics without an address": ("metrics: {listen: ':9640'}", "metrics.listen ':9640' is no IP address with a port"),
    "metrics at a name": ("metrics: {listen: 'localhost:9640'}", "write one such as 127.0.0.1:9640, or '[::1]:9640'"),
    "metrics at a port that is none": ("metrics: {listen: '127.0.0.1:99999'}", "is no IP address with a port"),
    "metrics at a port alone": ("metrics: {listen: 9640}", "metrics.listen: expected text or null, got a whole number"),
    "metrics at half an address": ("metrics: {listen: '::1:9640'}", "is no IP address with a port"),
    "metrics at an endless address": (f"metrics: {{listen: '{'1' * 5000}:1'}}", "is no IP address with a port"),
    "a relative socket": ("socket: {path: one.sock}", "socket.path: expected the absolute path"),
    "a socket without a name": ("socket: {path: ''}", "socket.path: expected the absolute path"),
    "a relative log": ("log: {file: one.log}", "log.file: expected the absolute path"),
    "a relative file of promises": ("store: {held_capacity_file: h.json}", "held_capacity_file: expected the absolute"),
    "a database that is a path": ("store: {url: /var/leases.db}", "store.url '/var/leases.db' is no database URL"),
    "a database in memory": ("store: {url: 'sqlite://'}", "store.url 'sqlite://' keeps nothing"),
    "a relative database": ("store: {url: 'sqlite:///leases.db'}", "has no absolute path: write four slashes"),
    "a rank that ends too early": (
        "matchmaker: {host_rank: FREE_CPU +}",
        "matchmaker.host_rank cannot be read: column 11",
    ),
    "a host selection that is none": (
        "matchmaker: {host_policy: best}",
        "matchmaker.host_policy: no host selection is named 'best'; there are: custom, fixed",
    ),
    "an endless name": (f"queue_order: {'x' * 5000}", "no queue order is named 'xxx"),
    "an endless word": (f"log: {{level: {'x' * 5000}}}", "xxx...; there are: debug, error, info, warning"),
    "keys from elsewhere": ("limits: {<<: {attempts: 1, attempts: 3}}", "column 10: << is not allowed here"),
    "a day that is none": ("a: !!timestamp 5", "a value is not what its tag (!!...) says"),
    "a truth that is none": ("a: !!bool maybe", "a value is not what its tag (!!...) says"),
    "bytes": ("preemption: !!binary aGVsbG8=", "preemption: expected"),
    "a program": ("preemption: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
    "two documents": ("preemption: act\n---\npreemption: advise", "another document"),
    "tabs": ("limits:\n\tattempts: 3", "line 2, column 1"),
    "a quote that never ends": ("preemption: 'act", "line 1"),
    "a control character": ("preemption: act\x00", "line 1: a character that YAML does not allow"),
    "a control character in disguise": ('log: {file: "a\\0b"}', "line 1, column 13: there is a control character"),
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
    "text",
    [
        "",
        "\n# nothing\n",
        "\ufeffpreemption: act",
        "matchmaker:\n  host_rank: |\n    FREE_CPU\n",
        "matchmaker: {host_policy: LOAD-AWARE, max_vm: 0x10, max_host: 1_000}",
        "events: {endpoint: 'tcp://[::1]:2101'}",
        "events: {endpoint: 'ipc:///run/bus'}",
        "store: {url: 'mysql+pymysql://one:secret@db/leases?charset=utf8mb4'}",
        "power: {control: {hosts: {n1: {hardware_address: 11:22:33:44:55:06}}}}",
    ],
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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("victims: {methods: {BE-SUSPENDABLE: [stop, terminate]}}", ["lists terminate, which has no effect"]),
        ("victims: {methods: {DC-MIGRATABLE: [terminate]}}", ["terminate, which has", "lists nothing by which"]),
        (
            "victims: {methods: {BE-CANCELLABLE: []}}",
            ["BE-CANCELLABLE lists nothing by which such a lease could leave"],
        ),
        ("victims: {methods: {BE-SUSPENDABLE: [stop, stop]}}", ["victims.methods.BE-SUSPENDABLE lists stop twice"]),
        ("victims: {methods: {DC-NON-PREEMPTABLE: [stop]}}", ["DC-NON-PREEMPTABLE has no effect: nobody"]),
        ("victims: {methods: {BE-CANCELLABLE: [terminate], DC-MIGRATABLE: [migrate]}}", []),
        ("matchmaker: {host_rank: FREE_CPU}", ["matchmaker.host_rank has no effect, because matchmaker.host_policy"]),
        ("matchmaker: {datastore_policy: custom}", ["matchmaker.datastore_rank is empty: all count as equal"]),
        ("matchmaker: {host_policy: Custom, host_rank: FREE_CPU}", []),
        (f"socket: {{path: /{'x' * 103}}}", ["socket.path is longer than the 103 bytes"]),
        (f"socket: {{path: /{'x' * 102}}}", []),
        (
            "leases: {rights: [{name: a, user: u, max_share: 1}, {name: b, user: u, max_share: 1}]}",
            ["right 'b' has no effect: right 'a'"],
        ),
        ("leases: {rights: [{name: a, user: u, max_ahead_s: 0}, {name: b, group: u, max_share: 1}]}", []),
        ("leases: {rights: [{name: a, user: u, max_share: 0.999}]}", ["right 'a': max_share 0.999 counts as 100 %"]),
        ("leases: {rights: [{name: a, user: u, max_share: 0.29}]}", []),
        (
            "leases: {rules: [{name: a, match: {user: u}, duration_s: 9}, {name: b, match: {user: u}, duration_s: 8}]}",
            ["rule 'b' has no effect: rule 'a' comes before it"],
        ),
        ("preemption: act\noverhead: {suspend_mib_per_s: 500}", ["act and nobody may preempt"]),
        (
            (
                "preemption: act\noverhead: {suspend_mib_per_s: 500}\n"
                "leases: {rights: [{name: r, group: g, may_preempt: true, max_share: 1}]}"
            ),
            ["act and nobody may be preempted"],
        ),
        (
            (
                "preemption: act\nleases: {rights: [{name: r, group: g, may_preempt: true, "
                "may_claim: [BE-SUSPENDABLE], max_share: 1}]}"
            ),
            ["it takes 43 minutes to stop a VM of 16 GiB"],
        ),
    ],
)
def test_what_can_be_used_and_counts_for_nothing_is_doubted(text: str, told: list[str]) -> None:
    found = doubts(parse_settings(text, "one_preempt.conf"))
    assert len(found) == len(told)
    assert all(words in doubt for words, doubt in zip(told, found, strict=True))


def test_every_pattern_of_the_configuration_is_told_in_words() -> None:
    assert set(map(repr, _patterns(msgspec.inspect.type_info(Settings)))) == PATTERNS_IN_WORDS.keys()


def _patterns(kind: msgspec.inspect.Type) -> Iterator[str]:
    match kind:
        case msgspec.inspect.StrType(pattern=str(pattern)):
            yield pattern
        case msgspec.inspect.StructType(fields=fields):
            yield from (pattern for field in fields for pattern in _patterns(field.type))
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            yield from (*_patterns(key), *_patterns(value))
        case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.VarTupleType(item_type=item):
            yield from _patterns(item)
        case msgspec.inspect.UnionType(types=types):
            yield from (pattern for one in types for pattern in _patterns(one))
        case msgspec.inspect.Metadata(type=inner):
            yield from _patterns(inner)


@pytest.mark.parametrize("url", ["nosuch://x/y", "postgresql+psycopg2://u:secret@h", "postgresql://u:p@h:port/d"])
def test_the_check_names_the_file_where_a_database_cannot_be_one(url: str, tmp_path: Path) -> None:
    file = tmp_path / "one_preempt.conf"
    file.write_text(f"store: {{url: '{url}'}}")
    result = CliRunner().invoke(cli, ["config", "check", "--config", str(file)])
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {file}: store.url: ")
    assert "secret" not in result.output
