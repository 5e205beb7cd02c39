"""Figures that somebody adds by a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from one_preempt.errors import OnePreemptError
from one_preempt.simulation import probes
from one_preempt.simulation.probes.comparison import compare, in_words
from tests.simulation.probes.test_probes import played
from tests.simulation.simulator.small_stories import request

PAGE = Path(__file__).parents[3] / "docs" / "contributor" / "add-a-probe.md"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The probe of the page, in a folder of its own beside the others."""
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    (tmp_path / "started_at_once.py").write_text(found[1])
    monkeypatch.setattr(probes, "__path__", [*probes.__path__, str(tmp_path)])
    return tmp_path / "started_at_once.py"


@pytest.mark.usefixtures("example")
def test_the_probe_of_the_page_is_a_row_of_the_table() -> None:
    figures = played(request(1, 0, 4, 300), request(2, 10, 4, 50)).figures.flat()
    assert figures["own.started_at_once_share"] == 0.5
    *_, row = compare([[figures]])
    assert (row.title, in_words(row.values[0], row.unit)) == ("started at once", "50 %")


def test_two_of_the_same_key_are_refused_before_anything_is_played(example: Path) -> None:
    example.with_name("another.py").write_text(example.read_text())
    with pytest.raises(OnePreemptError, match="two probes have the key 'started_at_once_share'"):
        played()
