"""The file format: gzip-packed JSON of oned's documents, cut down to what the allow-list names."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lxml import etree
from msgspec import Struct

from one_preempt.adapters.opennebula.snapshot_assembly import VERSION
from one_preempt.adapters.opennebula.xml_document import parse_document
from one_preempt.adapters.recorded.allow_list import (
    allowed_copy,
    allowed_in,
    named_by_users_alone,
    names_in_expressions,
)
from one_preempt.errors import OnePreemptError

if TYPE_CHECKING:
    from one_preempt.adapters.opennebula.transport import OnedTransport

FORMAT = "one_preempt recording"
FORMAT_VERSION = 1
# Ten thousand VMs on a thousand hosts take 40 MB.
LARGEST_RECORDING = 1 << 28
LATEST_S = 1 << 36
OWNER_ONLY = 0o600
# How every recording begins: a few bytes that unpack to gigabytes of something else are not unpacked.
_HEAD = json.dumps({"format": FORMAT}).removesuffix("}").encode()


class RecordingError(OnePreemptError):
    """A file or folder that is no usable recording."""


class Recording(Struct, frozen=True):
    """oned's documents by the call they answer, and when they were read, where that is known."""

    observed_at_s: int | None
    documents: Mapping[str, bytes]


def write_recording(
    transport: OnedTransport,
    path: Path,
    observed_at_s: int,
    extra_user_attributes: frozenset[str] = frozenset(),
) -> tuple[str, ...]:
    """Read all pools and write them to `path`, whole or not at all, readable by the owner only.

    `extra_user_attributes` are the names that the administrator's rules look at in user templates. What comes back are
    the attributes of hosts and the like that are in it only because users' requirements or ranks name them.
    Raises `CloudUnavailable`, and `RecordingError` where the file cannot be written.
    """
    _demand_file(path)
    # Only writing needs a network: whoever reads a recording shall not wait for its libraries.
    from one_preempt.adapters.opennebula.pool_reader import read_documents

    documents, named_by_users = without_secrets(read_documents(transport), extra_user_attributes)
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "observed_at_s": observed_at_s,
        "documents": {name: documents[name].decode(errors="replace") for name in sorted(documents)},
    }
    _write_whole(path, gzip.compress(json.dumps(content).encode(), mtime=0))
    return named_by_users


def without_secrets(
    documents: Mapping[str, bytes], extra_user_attributes: frozenset[str]
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """`documents` with only what the allow-list names, and the attributes that only users' expressions name.

    Characters that XML forbids are gone as well.
    """
    roots = {name: parse_document(text, [], name) for name, text in documents.items() if text and name != VERSION}
    allowed = allowed_in(names_in_expressions(roots.values()), extra_user_attributes)
    kept = {name: allowed_copy(root, allowed[name]) for name, root in roots.items() if name in allowed}
    texts = {name: etree.tostring(root) for name, root in kept.items()}
    return {VERSION: documents.get(VERSION, b"")[:40], **texts}, named_by_users_alone(roots, kept)


def read_recording(path: Path) -> Recording:
    """The recording in a file. Raises `RecordingError`."""
    try:
        with gzip.open(path) as packed:
            head = packed.read(len(_HEAD))
            text = head + packed.read(LARGEST_RECORDING) if head == _HEAD else b""
    except EOFError:
        raise RecordingError(f"{path} ends in the middle: was it cut off while being copied? Record it again") from None
    except (gzip.BadGzipFile, zlib.error):
        raise RecordingError(f"{path} is no recording: make one with one-preempt record") from None
    except OSError as error:
        raise RecordingError(f"cannot read the recording {path}: {error.strerror or error}") from None
    if len(text) >= LARGEST_RECORDING:
        raise RecordingError(f"{path} is larger than {LARGEST_RECORDING} bytes: is it really a recording?")
    return _checked(path, text)


def _checked(path: Path, text: bytes) -> Recording:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise RecordingError(f"{path} is no recording: make one with one-preempt record")
    if content.get("format_version") != FORMAT_VERSION:
        written = repr(content.get("format_version"))[:20]
        raise RecordingError(f"{path} is a recording of format {written}, this program reads {FORMAT_VERSION}")
    observed_at_s, documents = content.get("observed_at_s"), content.get("documents")
    if not isinstance(observed_at_s, int) or not isinstance(documents, dict) or not 0 < observed_at_s < LATEST_S:
        raise RecordingError(f"{path} is a damaged recording: record it again")
    return Recording(observed_at_s, {name: str(text).encode(errors="replace") for name, text in documents.items()})


def _demand_file(path: Path) -> None:
    """Nothing is there but, at most, a file: what is replaced must be no device, as /dev/null is, pipe or socket."""
    try:
        if path.exists() and not path.is_file():
            raise RecordingError(f"cannot write the recording {path}: what is there is not a file; name another place")
    except OSError as error:
        raise RecordingError(f"cannot write the recording {path}: {error.strerror or error}") from None


def _write_whole(path: Path, content: bytes) -> None:
    """Under another name first, so that a crash leaves the old file or the new one, never half."""
    temporary = ""
    try:
        target = path.resolve()  # of a link the file is replaced, not the link: /dev/stdout is one
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), OWNER_ONLY)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise RecordingError(f"cannot write the recording {path}: {error.strerror or error}") from None
