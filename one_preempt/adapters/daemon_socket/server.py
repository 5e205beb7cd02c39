"""The daemon's end of the socket: threads that answer short questions of trusted users while the daemon schedules."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from one_preempt.adapters.daemon_socket.client import ANSWER_WITHIN_S
from one_preempt.adapters.daemon_socket.line_socket import MAX_CLIENTS, OWNER_ALONE, LineSocket, refusal
from one_preempt.adapters.daemon_socket.messages import Message, MessageError, parse_message

# None leaves a question without an answer, as if nobody were there.
Answer = Callable[[Message], Mapping[str, object] | None]


def trusted_users() -> frozenset[int]:
    """The daemon's own user and root: for others the socket cannot be opened either."""
    return frozenset({os.geteuid(), 0})


class DaemonSocket:
    """Answers by `answer`, which is called in threads of the socket's own and must not wait for anything."""

    def __init__(
        self,
        answer: Answer,
        users: frozenset[int],
        timeout_s: float = ANSWER_WITHIN_S,
        max_clients: int = MAX_CLIENTS,
    ) -> None:
        self._answer = answer
        self._users = users
        self._socket = LineSocket(self._reply, OWNER_ALONE, "socket.path", timeout_s, max_clients)

    def listening(self, path: Path) -> AbstractContextManager[Callable[[], bool]]:
        """Answer at `path` inside the context, which gives a question: is our socket still what stands there?

        Raises `SocketUnavailable`.
        """
        return self._socket.listening(path)

    def _reply(self, line: bytes, uid: int) -> Mapping[str, object] | None:
        if uid not in self._users:
            return refusal("only the daemon's own user and root are answered")
        try:
            return self._answer(parse_message(line))
        except MessageError as error:
            return refusal(str(error))
