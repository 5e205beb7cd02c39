"""The picture and the tables of the rule base in the documents are those of the code."""

from __future__ import annotations

import re
import runpy
import xml.etree.ElementTree as ElementTree
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "docs/energy"
MADE = runpy.run_path(str(FOLDER / "make_rule_base.py"))
MEND = "run: python docs/energy/make_rule_base.py"


def test_the_picture_is_the_one_that_the_rules_make() -> None:
    assert (FOLDER / "rule-base.svg").read_text() == MADE["picture"](), MEND


def test_the_tables_are_those_that_the_rules_make() -> None:
    page = (FOLDER / "rule-base.md").read_text()
    assert page == MADE["page"](page), MEND
    assert len(re.findall(r"^\| \d+ \|", page, re.MULTILINE)) == 20


def test_the_picture_is_well_formed_and_draws_the_whole_surface() -> None:
    root = ElementTree.fromstring(MADE["picture"]())
    assert len(root.findall("{http://www.w3.org/2000/svg}polygon")) == MADE["STEPS"] ** 2
