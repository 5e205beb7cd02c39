"""XML-RPC on the wire as oned speaks it: calls in, replies out, byte for byte as recorded (raw/*.http.xml)."""

from __future__ import annotations

import re
import xmlrpc.client
from xml.parsers.expat import ExpatError

from msgspec import Struct

PARSE_ERROR = -503
NOT_SENT = -500

_I4 = range(-(2**31), 2**31)
# What may stand before the first element; a document type declaration may not.
_DOCTYPE = re.compile(rb"\xef?\xbb?\xbf?(?>\s|<!--.*?-->|<\?.*?\?>)*+<!DOCTYPE", re.DOTALL)

_PROLOG = b'<?xml version="1.0" encoding="UTF-8"?>\r\n<methodResponse>\r\n'
_EPILOG = b"</methodResponse>\r\n"
# What XML 1.0 forbids cannot reach oned by XML-RPC; where a description has it, it is left out.
_NONCHARACTERS = (("\ufffe".encode(), b""), ("\uffff".encode(), b""))
# oned's XML-RPC library takes and sends no character beyond the first 65,536 (plane 0 of Unicode).
_BEYOND = re.compile("[\U00010000-\U0010ffff]")
_NO_SUCH_TEXT = "UTF-8 string contains a character not in the Basic Multilingual Plane"
_NOT_IN_XML = bytes(set(range(0x20)) - set(b"\t\n\r"))
_ESCAPED = ((b"&", b"&amp;"), (b"<", b"&lt;"), (b">", b"&gt;"), (b"\r", b"&#x0d;"), *_NONCHARACTERS)


class Fault(Exception):
    """The call is not even a call: unknown method, wrong parameters, broken XML. Sent as an XML-RPC fault."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Call(Struct, frozen=True):
    """One method call: the name and the parameters as Python values (bool, int, float, str, list, dict, ...)."""

    method: str
    parameters: tuple[object, ...]


class Accepted(Struct, frozen=True):
    """A call that was accepted, with its value: an id, a document, a version."""

    value: int | str | bool


class Refused(Struct, frozen=True):
    """A call that was refused, with oned's error code and the object that the refusal is about (-1: none)."""

    text: str
    code: int
    object_id: int = -1


def decode_call(body: bytes) -> Call:
    """The call in a request body.

    Raises `Fault` -503 where the body is no XML-RPC call, declares entities, or has a number that an i4 cannot hold.
    """
    if _DOCTYPE.match(body):
        raise Fault(PARSE_ERROR, "Call has a document type declaration, which is not allowed")
    try:
        parameters, method = xmlrpc.client.loads(body.decode("utf-8"))
    except (ExpatError, xmlrpc.client.Error, ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise Fault(PARSE_ERROR, f"Call is not valid XML-RPC: {error}") from error
    if not method:
        raise Fault(PARSE_ERROR, "Call is not valid XML-RPC: it names no method")
    for parameter in parameters:
        if isinstance(parameter, int) and parameter not in _I4:
            raise Fault(PARSE_ERROR, f"Call is not valid XML-RPC: {parameter} is beyond an i4")
        if isinstance(parameter, str) and _BEYOND.search(parameter):
            raise Fault(PARSE_ERROR, f"Call is not valid XML-RPC: {_NO_SUCH_TEXT}")
    return Call(method, tuple(parameters))


def encode_reply(reply: Accepted | Refused) -> bytes:
    """The reply body: three items where the call was accepted, five where it was refused.

    Raises `Fault` -500 where a text of it cannot be sent.
    """
    text = reply.value if isinstance(reply, Accepted) else reply.text
    if isinstance(text, str) and _BEYOND.search(text):
        raise Fault(NOT_SENT, f"Unexpected error executing code for particular method: {_NO_SUCH_TEXT}")
    if isinstance(reply, Accepted):
        items = [_value(True), _value(reply.value), _value(0)]
    else:
        items = [_value(False), _value(reply.text), _value(reply.code), _value(reply.object_id), _value(-1)]
    array = [
        b"<params>\r\n<param><value><array><data>\r\n",
        *items,
        b"</data></array></value></param>\r\n</params>\r\n",
    ]
    return b"".join([_PROLOG, *array, _EPILOG])


def encode_fault(fault: Fault) -> bytes:
    """The body of an XML-RPC fault."""
    code = [b"<member><name>faultCode</name>\r\n", _value(fault.code), b"</member>\r\n"]
    text = [b"<member><name>faultString</name>\r\n", _value(fault.text), b"</member>\r\n"]
    struct = [b"<fault>\r\n<value><struct>\r\n", *code, *text, b"</struct></value>\r\n</fault>\r\n"]
    return b"".join([_PROLOG, *struct, _EPILOG])


def _value(value: int | str | bool) -> bytes:
    if isinstance(value, bool):
        return b"<value><boolean>%d</boolean></value>\r\n" % value
    if isinstance(value, int):
        return b"<value><i4>%d</i4></value>\r\n" % value
    text = value.encode("utf-8", "replace").translate(None, _NOT_IN_XML)
    for character, entity in _ESCAPED:
        text = text.replace(character, entity)
    return b"".join([b"<value><string>", text, b"</string></value>\r\n"])
