"""What `check` says of images that are brought to hosts: what would be done, and what is missing for it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from one_preempt.adapters.image_transfer.carrier import Carrier, ImagesById, TransferFailure
from one_preempt.adapters.image_transfer.factory import make_carrier
from one_preempt.adapters.image_transfer.image_files import checked_path
from one_preempt.adapters.image_transfer.tm_cache import is_cached
from one_preempt.adapters.opennebula.stored_images import StoredImages
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.bounded_io.child_process import Children, Finished
from one_preempt.configuration.image_transfer_settings import ImageTransferSettings, transfer_doubts
from one_preempt.configuration.settings import Settings
from one_preempt.entrypoints.cli.set_up import Finding, Grade, first_of
from one_preempt.explanation.explain import printable
from one_preempt.ports import CloudUnavailable

SUBJECT = "images"
LOOKS_AT_ONCE = 8
LONGEST_NAME = 60
SEE = "see docs/administrator/configure-images.md"
FIRST_WITH_CACHES = (7, 0, 1)


def judge_images(settings: Settings) -> Finding:
    """What would be done about images?"""
    given = settings.image_staging
    doubts = [f"image_staging.{doubt}" for doubt in transfer_doubts(given.transfer, acts=given.mode == "act")]
    if doubts and given.mode != "off":
        return Finding(SUBJECT, Grade.WARN, "; ".join(doubts), SEE)
    if given.mode == "act":
        how = f"by {given.transfer.method}, when {given.policy} says"
        return Finding(SUBJECT, Grade.OK, f"images are brought to hosts before reservations start, {how}")
    if given.mode == "advise":
        return Finding(SUBJECT, Grade.OK, "image_staging.mode: advise; which images would be brought is only logged")
    return Finding(SUBJECT, Grade.OK, "no image is brought to a host: image_staging.mode is off")


def judge_image_programs(settings: Settings) -> Iterator[Finding]:
    """Are the programs there that bring images, and may they be run?"""
    given = settings.image_staging.transfer
    if settings.image_staging.mode == "off" or given.method == "none":
        return
    command = given.command
    vectors = {"command.bring": command.bring, "command.remove": command.remove, "command.list": command.list}
    programs = {key: vector[0] for key, vector in vectors.items() if vector}
    if given.method == "tm-cache":
        programs = {"tm_cache.ssh_program": given.tm_cache.ssh_program}
    for key, program in programs.items():
        if not (os.path.isfile(program) and os.access(program, os.X_OK)):
            text = (
                f"image_staging.transfer.{key} names {printable(program, 200)}, which is not a program that can be run"
            )
            yield Finding(SUBJECT, Grade.FAIL, text, "name another one, or let the daemon's user run it (chmod)")
    yield from _keys(given)


def _keys(given: ImageTransferSettings) -> Iterator[Finding]:
    """With whose keys would hosts copy from here?"""
    cache = given.tm_cache
    if given.method != "tm-cache":
        return
    files = {"ssh_identity_file": cache.ssh_identity_file, "ssh_known_hosts_file": cache.ssh_known_hosts_file}
    for key, file in files.items():
        if file is not None and not os.access(file, os.R_OK):
            text = f"image_staging.transfer.tm_cache.{key} {printable(file, 200)} cannot be read"
            yield Finding(SUBJECT, Grade.FAIL, text, "correct the path, or its rights")
    if cache.forward_agent and not _is_socket(os.environ.get("SSH_AUTH_SOCK", "")):
        text = "hosts are to copy from the front-end with the keys of an ssh agent, and SSH_AUTH_SOCK names none here"
        mend = (
            "run check with the daemon's environment: its unit reads /run/one/ssh-agent.env, which "
            "opennebula-ssh-agent.service writes; where hosts have keys of their own, set tm_cache.forward_agent: false"
        )
        yield Finding(SUBJECT, Grade.WARN, text, mend)


def _is_socket(path: str) -> bool:
    try:
        return Path(path).is_socket()
    except OSError:
        return False


def judge_images_on_hosts(settings: Settings, transport: OnedTransport, version: str) -> Iterator[Finding]:
    """Are there images to be brought, can their files be seen here, and do hosts let us look at what they hold?

    `version` is oned's, as it says it: older ones have no caches.
    """
    given = settings.image_staging.transfer
    if settings.image_staging.mode == "off" or given.method == "none":
        return
    if given.method == "tm-cache" and not _has_caches(version):
        said = f"OpenNebula {printable(version.strip(), 40)}"
        text = f"{said} has no caches on hosts, as tm-cache needs: 7.0.1 was the first"
        mend = "write image_staging.transfer.method: command, with programs of yours, or image_staging.mode: off"
        yield Finding(SUBJECT, Grade.FAIL, text, mend)
        return
    with closing(transport.another()) as for_images:
        storage = StoredImages(for_images)
        try:
            images, hosts = storage.all(), storage.answering_hosts()
        except CloudUnavailable as error:
            yield Finding(SUBJECT, Grade.FAIL, str(error))
            return
        yield from _files(given, images)
        carrier = make_carrier(given, storage)
        if carrier.looks and hosts:
            yield from _looks(carrier, hosts, images)


def _has_caches(version: str) -> bool:
    """Whether that version has them, or calls itself what nobody can compare."""
    numbers = version.strip().split(".")[: len(FIRST_WITH_CACHES)]
    if not all(number.isascii() and number.isdigit() and len(number) < 9 for number in numbers):
        return True
    return tuple(map(int, numbers)) >= FIRST_WITH_CACHES


def _files(given: ImageTransferSettings, images: ImagesById) -> Iterator[Finding]:
    wanted = [one for one in images.values() if one.is_copyable]
    if given.method == "tm-cache":
        cached = [one for one in wanted if is_cached(one)]
        if not cached:
            text = f"none of the {len(wanted)} images that could be brought is in a datastore that hosts cache"
            mend = 'onedatastore update: CACHE_ENABLE = "YES", in image datastores with TM_MAD = "local"'
            yield Finding(SUBJECT, Grade.FAIL, text, mend)
        wanted = cached
    unseen: list[tuple[int, str]] = []
    for image in wanted:
        try:
            path = checked_path(image)
        except TransferFailure:
            continue  # no file: its driver keeps it elsewhere, and it is never copied
        if not os.access(path, os.R_OK):
            unseen.append((image.id, path))
    mend = "the daemon must run where the image datastores are, as their owner"
    texts = [f"image {image_id}: {path} cannot be read here" for image_id, path in unseen]
    found = [Finding(SUBJECT, Grade.FAIL, text, mend) for text in texts]
    yield from first_of(found, "more images cannot be read here")


def _looks(carrier: Carrier, hosts: Mapping[int, str], images: ImagesById) -> Iterator[Finding]:
    names = [hosts[host_id] for host_id in sorted(hosts)]
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as threads:
        told = list(threads.map(lambda host: _why_unseen(carrier, host, images), names))
    silent = [_silent(host, why) for host, why in zip(names, told, strict=True) if why]
    if not silent:
        yield Finding(SUBJECT, Grade.OK, f"{len(names)} hosts show which images they hold")
    yield from first_of(silent, "more hosts do not show what they hold")


def _silent(host: str, why: str) -> Finding:
    text = f"host {printable(host, LONGEST_NAME)} does not show what it holds: {why.removeprefix(f'{host}: ')}"
    return Finding(SUBJECT, Grade.FAIL, text, "mend that: no image can be brought there either")


def _why_unseen(carrier: Carrier, host: str, images: ImagesById) -> str:
    def run(arguments: list[str], timeout_s: float, extra_environment: dict[str, str] | None = None) -> Finished:
        return Children().run(arguments, timeout_s, extra_environment)

    try:
        carrier.look(host, images, run)
    except TransferFailure as failure:
        return str(failure)
    return ""
