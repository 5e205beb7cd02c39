"""The cache of images that the transfer driver `local` of OpenNebula 7.x keeps on each host, filled ahead of time.

When a VM is deployed, that driver asks the cache program of its host for the image, which copies it from the front-end
where it has it not, or of another time. Here the same program is asked the same question beforehand, by ssh as the
driver does it. So nothing has to be known of how the cache keeps its files, but to look at what it holds.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from typing import Any

from one_preempt.adapters.image_transfer.carrier import ImagesById, RunProgram, TransferFailure
from one_preempt.adapters.image_transfer.image_files import (
    LONGEST_WORDS,
    ImageFile,
    ImageOf,
    checked_host,
    image_file,
)
from one_preempt.bounded_io.child_process import LONGEST_OUTPUT_BYTES, Finished, NotStarted, TookTooLong
from one_preempt.bounded_io.ssh import SSH_FAILED, SshAccess, ssh_arguments, ssh_trouble
from one_preempt.configuration.image_transfer_settings import TmCacheSettings
from one_preempt.core.model.host_name import is_host_name
from one_preempt.core.model.image_transfer import ImageOrder
from one_preempt.core.model.plain_words import plain_words
from one_preempt.core.model.stored_image import StoredImage

DRIVER = "local"
_DEFAULT_CACHE = "/var/lib/one/cache"
_CACHE_PREFIX = "CACHE_"
_XML_PREFIX = "/DATASTORE/TEMPLATE/"
_LOOK_S = 60.0
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/-]{1,4000}")
_NUMBER = re.compile(r"[0-9]{1,9}")
# The file of each image has one beside it, written once the image is complete, which tells of when it is.
_LISTING = (
    'cd "$1" 2>/dev/null || exit 0; for told in *-metadata; do image=${told%-metadata}; if [ -f "$image" ]; then '
    'echo "$image $(sed -n "s/^:modtime: *//p" "$told")"; fi; done; echo .'
)
_LISTED = re.compile(r"(\S+) ['\"]?([0-9]+)['\"]?")


class TmCacheCarrier:
    """Implements `Carrier`. Needs image datastores with TM_MAD=local and CACHE_ENABLE=YES, and a login on each host."""

    def __init__(self, settings: TmCacheSettings, timeout_s: float, image_of: ImageOf) -> None:
        """`timeout_s`: when a copy is killed."""
        self._settings = settings
        self._timeout_s = timeout_s
        self._image_of = image_of
        self._front_end = settings.front_end or socket.gethostname()

    @property
    def looks(self) -> bool:
        """By the files of the cache."""
        return True

    def bring(self, order: ImageOrder, run: RunProgram) -> None:
        """Have the host's cache program get the image; it waits for another process there that gets the same."""
        host, file = checked_host(order.host_name), image_file(order, self._image_of)
        arguments = cache_arguments(file, host, self._front_end, self._settings.program)
        finished = self._run(host, arguments, self._timeout_s, run)
        said = finished.output.strip()
        if finished.code != 0:
            words = plain_words(_last_line(finished.errors or finished.output), LONGEST_WORDS)
            raise TransferFailure(
                f"the cache of {host} did not take image {order.image_id}: its program ended with exit code "
                f"{finished.code}: {words}"
            )
        if not _is_there(said):
            raise TransferFailure(
                f"the cache of {host} did not take image {order.image_id} of {file.size >> 20} MiB: it is smaller than "
                f"that (CACHE_MAX_SIZE), or full of what was used lately, or {host} cannot copy {file.path} from "
                f"{self._front_end} by scp"
            )

    def remove(self, order: ImageOrder, run: RunProgram) -> None:
        """Nothing is to be done: the cache makes room by itself, of what was not used for the longest time."""

    def look(self, host: str, images: ImagesById, run: RunProgram) -> frozenset[int]:
        """Compare the files of its caches with the images of today."""
        cached = [one for one in images.values() if is_cached(one)]
        found: set[int] = set()
        for path in sorted({_cache_path(one) for one in cached}):
            there = self._files_in(path, checked_host(host), run)
            found |= {
                one.id
                for one in cached
                if _cache_path(one) == path and there.get(one.source.rpartition("/")[2]) == one.modified_at_s
            }
        return frozenset(found)

    def _files_in(self, path: str, host: str, run: RunProgram) -> Mapping[str, int]:
        """The images that are complete in the cache at `path`, with the times of which they are."""
        finished = self._run(host, ["sh", "-c", _LISTING, "sh", path], _LOOK_S, run)
        lines = finished.output.splitlines()
        if len(finished.output) >= LONGEST_OUTPUT_BYTES or (lines and lines[-1] != "."):
            raise TransferFailure(f"the cache {path} of {host} holds more files than can be looked at")
        told = filter(None, map(_LISTED.fullmatch, lines))
        return {one[1]: int(one[2]) for one in told}

    def _run(self, host: str, vector: list[str], timeout_s: float, run: RunProgram) -> Finished:
        given = self._settings
        access = SshAccess(
            given.ssh_program, given.ssh_port, given.ssh_user, given.ssh_identity_file, given.ssh_known_hosts_file,
            given.connect_timeout_s, given.forward_agent,
        )  # fmt: skip
        try:
            finished = run(ssh_arguments(access, host, vector), timeout_s)
        except NotStarted as error:
            raise TransferFailure(
                f"cannot run {given.ssh_program}: {error}; name ssh in image_staging.transfer.tm_cache.ssh_program"
            ) from None
        except TookTooLong:
            raise TransferFailure(
                f"{host}: ssh did not come back within {timeout_s:g} s and was killed; what it began there may go on"
            ) from None
        if finished.may_be_killed:
            raise TransferFailure(f"{host}: ssh was ended by a signal under way")
        if finished.code == SSH_FAILED:
            trouble = ssh_trouble(finished.errors)
            said = plain_words(_last_line(finished.errors), LONGEST_WORDS)
            raise TransferFailure(f"{host}: {trouble.value}: {said}")
        return finished


def is_cached(image: StoredImage) -> bool:
    """Whether the driver looks for it in the caches of hosts at all."""
    return image.tm_mad == DRIVER and image.datastore.get("CACHE_ENABLE", "").upper() == "YES" and not image.persistent


def cache_arguments(file: ImageFile, host: str, front_end: str, program: str) -> list[str]:
    """What the driver has `host` run when a VM is made from the image there. Raises `TransferFailure`.

    Of the datastore only what the cache looks at goes along: the program puts it into commands of its own.
    """
    image = file.image
    if image.tm_mad != DRIVER:
        raise TransferFailure(
            f"image {image.id} is in datastore {image.datastore_id}, whose driver '{plain_words(image.tm_mad, 60)}' "
            f"has no caches on hosts: only '{DRIVER}' of OpenNebula 7.x has"
        )
    if not is_cached(image):
        raise TransferFailure(
            f'datastore {image.datastore_id} of image {image.id} caches nothing: write CACHE_ENABLE = "YES" into it '
            "(onedatastore update), and what it may take of a host's disk into CACHE_MAX_SIZE"
        )
    told = {name: text for name, text in image.datastore.items() if name.startswith(_CACHE_PREFIX)}
    upstreams = [one for one in told.get("CACHE_UPSTREAMS", "").split(",") if one]
    wrong = next((one for one in upstreams if not is_host_name(one)), None)
    if wrong is not None:
        raise TransferFailure(f"CACHE_UPSTREAMS of datastore {image.datastore_id} names '{plain_words(wrong, 60)}'")
    configuration: dict[str, Any] = {
        "ds_xml": {f"{_XML_PREFIX}CACHE_PATH": _cache_path(image)}
        | {
            f"{_XML_PREFIX}{name}": _number(image, name) for name in ("CACHE_MAX_SIZE", "CACHE_MIN_AGE") if name in told
        },
        "hostname": host,
        "one_fe": front_end,
        "upstreams": upstreams,
    }
    about = [file.name, str(image.modified_at_s), str(file.size), file.path]
    return ["ruby", program, "get", json.dumps(configuration), *about]


def _cache_path(image: StoredImage) -> str:
    path = image.datastore.get("CACHE_PATH") or _DEFAULT_CACHE
    if not _PLAIN_PATH.fullmatch(path):
        raise TransferFailure(
            f"CACHE_PATH of datastore {image.datastore_id} is no plain path: '{plain_words(path, 60)}'"
        )
    return path


def _number(image: StoredImage, name: str) -> str:
    text = image.datastore[name]
    if not _NUMBER.fullmatch(text):
        raise TransferFailure(f"{name} of datastore {image.datastore_id} is no number: '{plain_words(text, 60)}'")
    return text


def _is_there(said: str) -> bool:
    """The program tells where it has put the image; `null`, or nothing, where it has not."""
    try:
        told = json.loads(said)
    except ValueError:
        return False
    return isinstance(told, dict) and isinstance(told.get("src"), str)


def _last_line(words: str) -> str:
    lines = words.strip().splitlines()
    return lines[-1] if lines else "no reason given"
