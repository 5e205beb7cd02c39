"""Failures that a person can mend."""

from __future__ import annotations


class OnePreemptError(Exception):
    """Bad input or surroundings; the message names what is wrong, where, and how to mend it.

    Entry points print it as one line, without a traceback.
    """
