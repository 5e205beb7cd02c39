"""A LEASE in a template of its owner: read back by oned's grammar it is what was asked for, and nothing more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.adapters.opennebula.owner_template import added_attributes, with_lease
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.simulated_cloud.templates import parse_template

LEASE = {"TYPE": "BE-SUSPENDABLE", "NAME": "sweep:42", "START": "+01:00:00"}
MARKS = {"LEASE_SUBMISSION": "cafe"}
OWN = {"LEASE": [LEASE], "LEASE_SUBMISSION": ["cafe"]}
HARMLESS = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters='"\\'), min_size=1, max_size=30)


def test_what_is_added_to_a_vm_template_is_the_lease_and_its_mark() -> None:
    assert parse_template(added_attributes(LEASE, MARKS)) == OWN


@settings(derandomize=True)
@given(text=st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1))
def test_a_word_in_xml_is_only_a_word(text: str) -> None:
    assert parse_template(added_attributes({"NAME": text}, MARKS))["LEASE"] == [{"NAME": text}]


@settings(derandomize=True)
@given(text=HARMLESS)
def test_a_word_in_text_is_only_a_word(text: str) -> None:
    told = parse_template(with_lease('CPU = "1"', {"NAME": text}, MARKS))
    assert told == {"CPU": ["1"], "LEASE": [{"NAME": text}], "LEASE_SUBMISSION": ["cafe"]}


@pytest.mark.parametrize("text", ['" ]\nUSER_PRIORITY = "100', "ends in \\", "two\nlines", "\x9b"])
def test_a_word_that_could_break_out_is_refused(text: str) -> None:
    with pytest.raises(OnePreemptError, match="leave out quotation marks"):
        with_lease('CPU = "1"', {"NAME": text}, MARKS)


@pytest.mark.parametrize("template", ['CPU = "1"', 'CPU = "1" # comment', 'CPU = "1"\n', "CPU=1"])
def test_a_text_template_keeps_what_it_has(template: str) -> None:
    assert parse_template(with_lease(template, LEASE, MARKS)) == {"CPU": ["1"], **OWN}


def test_a_lease_of_an_xml_template_is_replaced() -> None:
    template = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<VM><CPU>1</CPU><LEASE>x</LEASE><LEASE><TYPE>y</TYPE></LEASE></VM>'
    )
    assert parse_template(with_lease(template, LEASE, MARKS)) == {"CPU": ["1"], **OWN}


@pytest.mark.parametrize(
    "template", ["<VM><CPU>1</CPU>", "< >", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'], ids=["cut", "none", "DTD"]
)
def test_xml_that_is_none_is_refused(template: str) -> None:
    with pytest.raises(OnePreemptError):
        with_lease(template, LEASE, MARKS)
