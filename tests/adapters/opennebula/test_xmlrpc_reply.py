from __future__ import annotations

import xmlrpc.client

import pytest
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.adapters.opennebula.oned_errors import ActionError, AuthorizationError
from one_preempt.adapters.opennebula.xml_document import UnreadableDocument
from one_preempt.adapters.opennebula.xmlrpc_reply import Reply, document_in, parse_reply

PREFIX = (
    b'<?xml version="1.0" encoding="UTF-8"?>\r\n<methodResponse>\r\n<params>\r\n<param><value><array><data>\r\n'
    b"<value><boolean>1</boolean></value>\r\n<value><string>"
)
SUFFIX = (
    b"</string></value>\r\n<value><i4>0</i4></value>\r\n</data></array></value></param>\r\n</params>\r\n"
    b"</methodResponse>\r\n"
)
LEGAL = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff")


def as_oned_writes(text: str) -> bytes:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#x0d;")
    return PREFIX + escaped.encode() + SUFFIX


@given(st.text(LEGAL | st.sampled_from("\r\n\t<>&;\"'")))
def test_the_text_of_a_reply_is_the_same_whichever_way_it_is_read(text: str) -> None:
    body = as_oned_writes(text)
    assert parse_reply(body) == Reply(True, text)
    assert document_in(body) == text.encode()


@given(st.text(LEGAL))
def test_entities_that_users_wrote_themselves_stay_as_they_wrote_them(text: str) -> None:
    assert document_in(as_oned_writes(f"&amp;lt;{text}&lt;")) == f"&amp;lt;{text}&lt;".encode()


def test_markup_instead_of_text_goes_through_the_parser() -> None:
    with pytest.raises(UnreadableDocument):
        document_in(PREFIX + b"a<b>c</b>" + SUFFIX[:-30])
    assert document_in(PREFIX + b"a<![CDATA[<b>]]>c" + SUFFIX) == b"a<b>c"


def test_other_writers_of_xmlrpc_are_understood_too() -> None:
    body = xmlrpc.client.dumps(([True, "<A>é</A>", 0],), methodresponse=True).encode()
    assert document_in(body) == "<A>é</A>".encode()
    assert parse_reply(b"<methodResponse><params><param><value><array><data><value><boolean>1</boolean></value>"
                       b"<value>bare</value></data></array></value></param></params></methodResponse>") \
        == Reply(True, "bare")  # fmt: skip


def test_a_refusal_instead_of_a_document_is_raised() -> None:
    body = xmlrpc.client.dumps(([False, "not you", 0x200, 4, -1],), methodresponse=True).encode()
    with pytest.raises(AuthorizationError, match=r"not you \(AUTHORIZATION, 0x200\)"):
        document_in(body)


def test_control_characters_in_a_reply_do_not_cost_the_pool() -> None:
    body = PREFIX + b"&lt;A&gt;x\x01\x02y&lt;/A&gt;&#x1;" + SUFFIX
    assert parse_reply(body).value == "<A>x  y</A> "
    assert b"\x01" not in document_in(body)


@pytest.mark.parametrize(
    "item", ["<string>abc</string>", "<double>nan</double>", "<double>1e400</double>", "<nil/>", ""]
)
def test_a_code_that_is_no_whole_number_is_not_oneds(item: str) -> None:
    items = f"<value><boolean>0</boolean></value><value>no</value><value>{item}</value>"
    body = f"<methodResponse><params><param><value><array><data>{items}</data></array></value></param></params>"
    with pytest.raises(UnreadableDocument, match="not the list of items"):
        parse_reply(f"{body}</methodResponse>".encode())


@pytest.mark.parametrize("answer", [[False, "no\n2026-01-01 INFO \x85 forged \u202e" + "x" * 10_000, 0x800, 3, -1]])
def test_a_refusal_that_repeats_the_words_of_a_user_stays_one_short_line(answer: list[object]) -> None:
    with pytest.raises(ActionError) as caught:
        parse_reply(xmlrpc.client.dumps((answer,), methodresponse=True).encode()).checked()
    assert caught.value.text.isprintable()
    assert caught.value.text.startswith("no 2026-01-01 INFO forged x")
    assert len(str(caught.value)) < 1100


def test_an_answer_with_an_endless_name_gives_a_short_message() -> None:
    name = "n" * 40_000
    with pytest.raises(UnreadableDocument) as caught:
        parse_reply(f"<{name}/>".encode())
    assert len(str(caught.value)) < 200
