from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from one_preempt.adapters.opennebula.message_template import ForbiddenAttribute, message_template
from one_preempt.core.model.plain_words import plain_words
from one_preempt.simulation.simulated_cloud.templates import merged, parse_template

ATTACKS = [
    'bad" \nUSER_PRIORITY="999',
    "</LEASE_STATUS><USER_PRIORITY>999</USER_PRIORITY><LEASE_STATUS>",
    "]]></LEASE_STATUS><SCHED_RANK>1</SCHED_RANK><LEASE_STATUS><![CDATA[",
    "<!DOCTYPE a><LEASE><TYPE>DC-NON-PREEMPTABLE</TYPE></LEASE>",
    "&lt;USER_PRIORITY&gt;999",
    "\x00\x08\x1b[2J\ufffe\uffff\x85\u2028\u202e",
]


@given(st.text(st.characters(codec=None)), st.text())
@example(*ATTACKS[:2])
@example(*ATTACKS[2:4])
@example(*ATTACKS[4:])
def test_words_of_users_become_words_whatever_they_are(status: str, message: str) -> None:
    written = message_template([("LEASE_STATUS", status), ("SCHED_MESSAGE", message)])
    root = etree.fromstring(written.encode())
    assert [child.tag for child in root] == ["LEASE_STATUS", "SCHED_MESSAGE"]
    for child in root:
        assert len(child) == 0
        text = child.text or ""
        assert len(text) <= 250
        assert "]]>" not in text
        assert all(character == " " or unicodedata.category(character)[0] not in "CZ" for character in text)


def test_the_same_words_are_read_back() -> None:
    text = 'VM 3 waits: 2 of "4" CPUs < needed & more, für später'
    assert etree.fromstring(message_template([("SCHED_MESSAGE", text)]).encode()).findtext("SCHED_MESSAGE") == text


def test_an_empty_text_is_an_empty_cdata_section_since_oned_skips_an_empty_element() -> None:
    written = message_template([("LEASE_STATUS", "running"), ("SCHED_MESSAGE", "")])
    assert parse_template(written) == {"LEASE_STATUS": ["running"], "SCHED_MESSAGE": [""]}
    assert merged({"SCHED_MESSAGE": ["one_preempt: waits"]}, parse_template(written))["SCHED_MESSAGE"] == [""]


def test_long_texts_are_cut_and_say_so() -> None:
    assert plain_words("x" * 1_000_000, 250) == "x" * 247 + "..."
    assert plain_words("x" * 250, 250) == "x" * 250


@given(st.text(st.characters(codec=None)), st.integers(8, 40))
@example("x]]>" * 9, 12)
@example("a b c d e f g h i", 9)
def test_words_that_were_written_once_stay_as_they_are(text: str, longest: int) -> None:
    once = plain_words(text, longest)
    assert plain_words(once, longest) == once
    assert plain_words(once, longest + 10) == once


def test_what_oned_cannot_carry_is_replaced() -> None:
    assert plain_words("for Zo\xeb \U0001f600!", 250) == "for Zo\xeb \ufffd!"


def test_line_breaks_become_spaces() -> None:
    assert plain_words("one\r\n two\tthree\x00four", 250) == "one two three four"


@pytest.mark.parametrize("name", ["USER_PRIORITY", "SCHED_RANK", "LEASE", "TEMPLATE", "A><B", "\n"])
def test_other_attributes_are_refused(name: str) -> None:
    with pytest.raises(ForbiddenAttribute, match="only LEASE_STATUS and SCHED_MESSAGE"):
        message_template([(name, "1")])
