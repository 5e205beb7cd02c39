"""Whose certificates are trusted: a file that is named for it, or a folder."""

from __future__ import annotations

import ssl
from pathlib import Path


def authorities_fault(place: str) -> str | None:
    """Why the certificates at `place` cannot be used, in words that follow its name; None where they can."""
    try:
        if Path(place).is_dir():
            return None
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(place)
    except ssl.SSLError:
        return "holds no certificates in PEM form"
    except OSError as error:
        return f"cannot be read: {error.strerror or 'it cannot be opened'}"
    return None
