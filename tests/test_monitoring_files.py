"""The alerts, the dashboard and the document about metrics name what the daemon serves, and only that."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from one_preempt.adapters.metrics.instruments import Instruments
from one_preempt.adapters.metrics.observed import Observed
from one_preempt.core.phases.reservations.in_danger import IN_DANGER
from tests.scraped import samples_of

ROOT = Path(__file__).parents[1]
RULES = ROOT / "packaging/prometheus/one_preempt.rules.yml"
TOLD = ROOT / "tests/alerts/one_preempt.test.yml"
DASHBOARD = ROOT / "packaging/grafana/one_preempt.json"
PAGE = ROOT / "docs/administrator/metrics.md"
COLUMNS = 24
# What Prometheus adds to what it reads.
OF_PROMETHEUS = {"job", "instance"}
NAME = re.compile(r"\b(?:one_preempt|process)_[a-z_]+\b")
SELECTOR = re.compile(r"\b((?:one_preempt|process)_[a-z_]+)\{([^}]*)\}")
MATCHER = re.compile(r'([a-z_]+)(=~|!=|!~|=)"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|without) \(([^)]*)\)")
QUOTED = re.compile(r'"[^"]*"')


def served() -> dict[str, dict[str, set[str]]]:
    """By the name of each sample that can be served: its labels, and the words that they were seen to have."""
    everything = Observed(
        leases={("BE-SUSPENDABLE", "running"): 1},
        refused_leases={"some-code": 1},
        waiting_leases={IN_DANGER: 1},
        wait_starts_s={IN_DANGER: 1},
        hosts={"asleep": 1},
        power_w=1.0,
        always_on_power_w=2.0,
    )
    instruments = Instruments(lambda: everything)
    instruments.count_call("one.vm.info", 0.1, False)
    instruments.last_cycle_end.labels("done").set(1)
    found: dict[str, dict[str, set[str]]] = {}
    for name, labels in samples_of(instruments.page().decode()):
        words = found.setdefault(name, {})
        for label, word in labels:
            words.setdefault(label, set()).add(word)
    # Cycles with the same results have ended at some time.
    found["one_preempt_last_cycle_end_timestamp_seconds"] = found["one_preempt_cycles_total"]
    return found


SERVED = served()


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression of both files, by what it is for."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel.get("targets", ()):
            yield f"{panel['title']} {target['refId']}", target["expr"]


EXPRESSIONS = list(expressions())


@pytest.mark.parametrize(("of", "expression"), EXPRESSIONS, ids=[of for of, _expression in EXPRESSIONS])
def test_an_expression_asks_for_what_is_served(of: str, expression: str) -> None:
    bare = QUOTED.sub('""', expression)
    names = NAME.findall(bare)
    assert names or expression.startswith("up{"), of
    assert set(names) <= SERVED.keys()
    for name, matchers in SELECTOR.findall(expression):
        for label, sign, words in MATCHER.findall(matchers):
            assert label in SERVED[name].keys() | OF_PROMETHEUS, f"{of}: {name} has no label {label}"
            if label not in OF_PROMETHEUS and sign in ("=", "=~", "!="):
                assert set(words.split("|")) <= SERVED[name][label], f"{of}: {label} is never all of {words}"
    labels = {label for name in names for label in SERVED[name]} | OF_PROMETHEUS
    for grouping in GROUPING.findall(bare):
        assert {label.strip() for label in grouping.split(",")} <= labels, of


def test_what_legends_and_annotations_fill_in_is_left_by_the_expression() -> None:
    for rule in rules():
        filled = set(re.findall(r"\$labels\.([a-z_]+)", json.dumps(rule["annotations"])))
        grouped = {label.strip() for grouping in GROUPING.findall(rule["expr"]) for label in grouping.split(",")}
        names = NAME.findall(QUOTED.sub('""', rule["expr"]))
        kept = grouped or OF_PROMETHEUS.union(*(SERVED[name] for name in names))
        assert filled <= kept, rule["alert"]
    for panel in panels():
        for target in panel.get("targets", ()):
            filled = set(re.findall(r"\{\{([a-z_]+)\}\}", target["legendFormat"]))
            grouped = {label.strip() for grouping in GROUPING.findall(target["expr"]) for label in grouping.split(",")}
            assert filled <= (grouped or OF_PROMETHEUS), panel["title"]


def test_the_alerts_have_names_of_their_own_a_grade_and_words_for_who_is_woken() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_to_prometheus_the_alerts_tell_what_they_should_and_the_page_is_in_order() -> None:
    for verb, file in (("check", RULES), ("test", TOLD)):
        checked = subprocess.run(["promtool", verb, "rules", file], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    page = Instruments(lambda: Observed(waiting_leases={IN_DANGER: 1})).page().decode()
    checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_the_dashboard_shows_each_family_of_ours() -> None:
    shown = {name for _of, expression in EXPRESSIONS for name in NAME.findall(expression)}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in SERVED if name.startswith("one_preempt_")}
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    # By the last the front-ends are listed.
    assert families - shown == {"one_preempt_build_info"}
    assert "label_values(one_preempt_build_info, instance)" in DASHBOARD.read_text()


def test_the_panels_of_the_dashboard_have_ids_of_their_own_and_do_not_overlap() -> None:
    found = panels()
    assert len({panel["id"] for panel in found}) == len(found)
    taken: set[tuple[int, int]] = set()
    for panel in found:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= COLUMNS
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert taken.isdisjoint(cells), panel["title"]
        taken |= cells


def test_metrics_md_tells_of_each_metric_with_its_labels_and_the_words_that_are_few() -> None:
    rows = re.findall(r"^\| (`(?:one_preempt|process)_.*?) \| ?(.*?) ?\| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    told = {
        name: (set(re.findall(r"`(\w+)`", labels)), meaning)
        for names, labels, meaning in rows
        for name in re.findall(r"`(\w+)`", names)
    }
    families = {re.sub(r"_(bucket|sum|count)$", "", name): labels for name, labels in SERVED.items()}
    assert told.keys() == families.keys()
    for name, labels in families.items():
        labels_told, meaning = told[name]
        assert labels_told == labels.keys() - {"le"}, name
        for label in labels.keys() & {"verdict", "outcome"}:
            assert all(f"`{word}`" in meaning for word in labels[label]), name
        if label_words := labels.get("result"):
            of = told["one_preempt_cycles_total"][1] if name.startswith("one_preempt_last_cycle") else meaning
            assert all(f"`{word}`" in of or f"a `{word}`" in of for word in label_words), name


def test_the_documents_name_both_files() -> None:
    text = PAGE.read_text()
    assert str(RULES.relative_to(ROOT)) in text
    assert str(DASHBOARD.relative_to(ROOT)) in text
    assert 'job="one_preempt"' in RULES.read_text()
    assert "job_name: one_preempt" in text
