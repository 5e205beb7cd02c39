"""What both executables owe to oned: one plan on standard output whatever happens, messages on standard error.

The standard library alone is imported here: oned starts `place` again and again.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, TextIO

from one_preempt.adapters.driver.plan_document import plan_document
from one_preempt.core.model.plain_words import plain_words
from one_preempt.errors import OnePreemptError

LONGEST_MESSAGE = 500
_PIECE_BYTES = 1 << 20


class Messages:
    """Lines on standard error that oned understands: ERROR with a VM becomes what its owner reads while it waits."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def error(self, text: str, vm_id: int | None = None) -> None:
        """Something that an administrator, or the owner of the VM, should know."""
        self._write("ERROR", text, vm_id)

    def warning(self, text: str) -> None:
        """Something that only the administrator may want to know."""
        self._write("WARN", text, None)

    def info(self, text: str) -> None:
        """Something that nobody has to act on."""
        self._write("INFO", text, None)

    def _write(self, level: str, text: str, vm_id: int | None) -> None:
        # Words of users are in it: a line break would let them speak for the VMs of others.
        words = plain_words(text, LONGEST_MESSAGE)
        if vm_id is not None:
            words = f"{vm_id} {words}"
        elif words[:1].isdigit():
            words = f"({words})"  # oned takes a number there for a VM
        with suppress(OSError):  # where nobody listens the plan is printed all the same
            self._stream.write(f"{level}: {words}\n")


def run(plan_id: int, decide: Callable[[BinaryIO, Messages], str]) -> None:
    """Print the plan that `decide` makes of standard input, or an empty one with a message. Ends with exit code 0."""
    gc.disable()  # the process is over before there is anything worth collecting
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads cost more than they give here
    with suppress(OSError):  # nobody listens any more
        document = _standard_input()
        output = _standard_output_for_the_plan()
        errors = sys.stderr or open(os.devnull, "w")  # noqa: SIM115 - the process ends with it
        output.write(answer(plan_id, decide, document, Messages(errors)) + "\n")
        output.flush()
        errors.flush()
    # Neither freeing hundreds of megabytes nor a closed stream shall have the last word.
    os._exit(0)


def answer(plan_id: int, decide: Callable[[BinaryIO, Messages], str], document: BinaryIO, messages: Messages) -> str:
    """The plan that `decide` makes of a document, or an empty one with one message. The document is read to its end."""
    try:
        plan = decide(document, messages)
    except OnePreemptError as error:
        plan = plan_document(plan_id)
        messages.error(str(error))
    except Exception as error:  # noqa: BLE001 - a traceback would be lost, and a failure told of VM 0
        plan = plan_document(plan_id)
        messages.error(f"unexpected {type(error).__name__}: {error}")
    with suppress(OSError):
        while document.read(_PIECE_BYTES):
            pass  # oned must not be left with a broken pipe
    return plan


def _standard_input() -> BinaryIO:
    try:
        return open(0, "rb", buffering=0, closefd=False)
    except OSError:
        return open(os.devnull, "rb")


def _standard_output_for_the_plan() -> TextIO:
    """The real standard output; what anything else prints goes to standard error from now on."""
    if sys.stdout is not None:  # it is closed: the next line says so
        sys.stdout.flush()
    output = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    return output
