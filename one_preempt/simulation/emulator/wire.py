"""XML-RPC on the wire as oned speaks it: calls in, replies out, byte for byte as recorded (raw/*.http.xml)."""

from __future__ import annotations

import xmlrpc.client
from dataclasses import dataclass
from xml.parsers.expat import ExpatError

PARSE_ERROR = -503

_PROLOG = '<?xml version="1.0" encoding="UTF-8"?>\r\n<methodResponse>\r\n'
_EPILOG = "</methodResponse>\r\n"


class Fault(Exception):
    """The call is not even a call: unknown method, wrong parameters, broken XML. Sent as an XML-RPC fault."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class Call:
    """One method call: the name and the parameters as Python values (bool, int, float, str, list, dict, ...)."""

    method: str
    parameters: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    """A call that was accepted, with its value: an id, a document, a version."""

    value: int | str | bool


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that was refused, with oned's error code and the object that the refusal is about (-1: none)."""

    text: str
    code: int
    object_id: int = -1


def decode_call(body: bytes) -> Call:
    """The call in a request body. Raises `Fault` -503 where the body is no XML-RPC call, or declares entities."""
    if b"<!DOCTYPE" in body.partition(b"<methodCall")[0]:
        raise Fault(PARSE_ERROR, "Call has a document type declaration, which is not allowed")
    try:
        parameters, method = xmlrpc.client.loads(body.decode("utf-8"))
    except (ExpatError, xmlrpc.client.Error, UnicodeDecodeError, ValueError, TypeError, LookupError) as error:
        raise Fault(PARSE_ERROR, f"Call is not valid XML-RPC: {error}") from error
    if not method:
        raise Fault(PARSE_ERROR, "Call is not valid XML-RPC: it names no method")
    return Call(method, tuple(parameters))


def encode_reply(reply: Accepted | Refused) -> bytes:
    """The reply body: three items where the call was accepted, five where it was refused."""
    if isinstance(reply, Accepted):
        items = [_value(True), _value(reply.value), _value(0)]
    else:
        items = [_value(False), _value(reply.text), _value(reply.code), _value(reply.object_id), _value(-1)]
    array = "<param><value><array><data>\r\n" + "".join(items) + "</data></array></value></param>\r\n"
    return f"{_PROLOG}<params>\r\n{array}</params>\r\n{_EPILOG}".encode()


def encode_fault(fault: Fault) -> bytes:
    """The body of an XML-RPC fault."""
    members = (
        f"<member><name>faultCode</name>\r\n{_value(fault.code)}</member>\r\n"
        f"<member><name>faultString</name>\r\n{_value(fault.text)}</member>\r\n"
    )
    return f"{_PROLOG}<fault>\r\n<value><struct>\r\n{members}</struct></value>\r\n</fault>\r\n{_EPILOG}".encode()


def _value(value: int | str | bool) -> str:
    if isinstance(value, bool):
        return f"<value><boolean>{value:d}</boolean></value>\r\n"
    if isinstance(value, int):
        return f"<value><i4>{value}</i4></value>\r\n"
    text = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#x0d;")
    return f"<value><string>{text}</string></value>\r\n"
