"""`one-preempt-place`: while the daemon answers, it places; otherwise plain VMs are placed here.

Called by oned with one line of base64 on standard input (`tests/recordings/7.4.0/place.stdin.base64.txt` is one).
Imports are few on purpose, see `driver_process`; what places is imported when the daemon does not answer.
"""

from __future__ import annotations

from typing import BinaryIO

from one_preempt.adapters.daemon_socket.client import ask_daemon
from one_preempt.adapters.driver.plan_document import PLACEMENT_PLAN, plan_document
from one_preempt.entrypoints.driver.daemon_address import daemon_socket_path
from one_preempt.entrypoints.driver.driver_process import Messages, run


def main() -> None:
    """Print a placement plan."""
    run(PLACEMENT_PLAN, decide)


def decide(document: BinaryIO, messages: Messages) -> str:
    """The plan: empty where the daemon answers, for then it alone places, or may not be asked."""
    path = daemon_socket_path()
    answer = ask_daemon("place", {}, path)
    if answer is None or not answer["ok"]:
        from one_preempt.configuration.settings import load_settings

        settings = load_settings()
        # Two that place would give room twice: a socket that is written in another way is asked now.
        if settings.socket.path != path:
            answer = ask_daemon("place", {}, settings.socket.path)
        if answer is None:
            from one_preempt.entrypoints.driver.placing_alone import place_alone

            return place_alone(settings, document, messages)
    if not answer["ok"]:
        messages.error(f"the daemon of one_preempt may be placing, so nothing is placed here: {answer.get('error')}")
    return plan_document(PLACEMENT_PLAN)


if __name__ == "__main__":
    main()
