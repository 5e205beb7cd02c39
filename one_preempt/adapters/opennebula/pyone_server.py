"""pyone's server object over our transport: its calls, our timeouts, and errors that keep code and object."""

from __future__ import annotations

from typing import Any

from one_preempt.adapters.opennebula.transport import OnedTransport


def pyone_server(transport: OnedTransport) -> Any:
    """A pyone server whose calls go through `transport`.

    Refusals are `OnedError`, not pyone's exceptions, which lack the code and the object. pyone is imported
    here because that takes longer than anything else at start-up.
    """
    try:
        from pyone.server_xrpc import OneServerXRPC as XmlRpcServer
    except ModuleNotFoundError:  # before 7.2 there was no other kind
        from pyone import OneServer as XmlRpcServer

    class Server(XmlRpcServer):  # type: ignore[misc]
        def _do_request(self, method: str, parameters: tuple[Any, ...]) -> list[Any]:
            # pyone puts its session first; the transport adds the real one, so that pyone never knows it.
            return [True, transport.call(method, *parameters[1:]).checked(), 0]

    return Server(transport.endpoint, session="")
