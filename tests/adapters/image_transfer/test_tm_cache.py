"""The caches of OpenNebula's driver `local`, filled by a stand-in for the program that it has on each host.

The stand-in takes what the driver of 7.4.0 gives that program, and keeps files as it does: the image, and beside it
what tells of when it is, once it is complete. ssh runs here what it was to run there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from one_preempt.adapters.image_transfer.carrier import TransferFailure
from one_preempt.adapters.image_transfer.tm_cache import TmCacheCarrier
from one_preempt.configuration.image_transfer_settings import TmCacheSettings
from tests.adapters.image_transfer.image_play import BRING, HOST, IMAGE_ID, REMOVE, Storage, run, written

SSH = """#!/bin/sh
echo "$@" >> {folder}/logins
while [ "$1" != -- ]; do shift; done
[ "$2" = {host} ] || {{ echo "ssh: Could not resolve hostname $2: Name or service not known" >&2; exit 255; }}
PATH={folder}/bin:$PATH exec sh -c "$3"
"""
RUBY = """#!/usr/bin/env python3
import json, os, shutil, sys
program, operation, configuration, image, modified, size, source = sys.argv[1:]
given = json.loads(configuration)
with open("{folder}/given.json", "w") as file:
    json.dump([sys.argv[1:3] + sys.argv[4:], given], file)
cache = given["ds_xml"].get("/DATASTORE/TEMPLATE/CACHE_PATH", "/var/lib/one/cache")
os.makedirs(cache, exist_ok=True)
told = os.path.join(cache, image + "-metadata")
if int(size) > 10_000_000:
    print("null")
elif not os.path.exists(source):
    print("null")
else:
    shutil.copy(source, os.path.join(cache, image))
    with open(told, "w") as file:
        file.write(f"---\\n:last_used: '2026-11-27T02:00:00+00:00'\\n:modtime: '{{modified}}'\\n")
    print(json.dumps({{"src": os.path.join(cache, image), "host": given["hostname"]}}))
"""


class Caches:
    def __init__(self, folder: Path, **datastore: str) -> None:
        self.folder = folder
        self.storage = Storage(folder, **datastore)
        (folder / "bin").mkdir()
        self.ssh = written(folder / "ssh", SSH.format(folder=folder, host=HOST))
        written(folder / "bin" / "ruby", RUBY.format(folder=folder))
        self.carrier = self.made()

    def made(self, timeout_s: float = 60, **settings: Any) -> TmCacheCarrier:
        given = {"ssh_program": self.ssh, "front_end": "front-end", **settings}
        return TmCacheCarrier(TmCacheSettings(**given), timeout_s, self.storage.of)

    def look(self, host: str = HOST) -> frozenset[int]:
        return self.carrier.look(host, self.storage.all(), run)

    def given(self) -> Any:
        return json.loads((self.folder / "given.json").read_text())


@pytest.fixture
def caches(tmp_path: Path) -> Caches:
    return Caches(tmp_path)


def test_an_image_comes_into_the_cache_and_is_seen_there(caches: Caches, tmp_path: Path) -> None:
    assert caches.look() == frozenset()
    for _ in range(2):
        caches.carrier.bring(BRING, run)
        assert caches.look() == {IMAGE_ID}
    assert (tmp_path / "cache" / "a1b2c3").stat().st_size == 2_000_000


def test_the_program_is_asked_as_the_driver_asks_it(tmp_path: Path) -> None:
    upstreams = "node-01,,node-02"
    cloud = Caches(
        tmp_path, CACHE_MAX_SIZE="20", CACHE_MIN_AGE="60", CACHE_UPSTREAMS=upstreams, DESCRIPTION="it's mine"
    )
    cloud.carrier.bring(BRING, run)
    arguments, configuration = cloud.given()
    source = f"{cloud.storage.base}/a1b2c3"
    assert arguments == ["/var/tmp/one/tm/lib/tm_cache.rb", "get", "a1b2c3", "1795000000", "2000000", source]
    assert configuration == {
        "ds_xml": {
            "/DATASTORE/TEMPLATE/CACHE_PATH": f"{cloud.folder}/cache",
            "/DATASTORE/TEMPLATE/CACHE_MAX_SIZE": "20",
            "/DATASTORE/TEMPLATE/CACHE_MIN_AGE": "60",
        },
        "hostname": HOST,
        "one_fe": "front-end",
        "upstreams": ["node-01", "node-02"],
    }


def test_the_login_asks_nobody_and_may_log_in_on_from_there(caches: Caches, tmp_path: Path) -> None:
    caches.carrier.bring(BRING, run)
    caches.made(forward_agent=False, ssh_user="oneadmin", ssh_port=2222).bring(BRING, run)
    first, second = (tmp_path / "logins").read_text().splitlines()
    assert "BatchMode=yes" in first
    assert "StrictHostKeyChecking=yes" in first
    assert "ForwardAgent=yes" in first
    assert "ForwardAgent" not in second
    assert "-p 2222" in second
    assert "-l oneadmin" in second


def test_an_image_that_was_changed_since_is_another_one(caches: Caches) -> None:
    caches.carrier.bring(BRING, run)
    caches.storage.change(modified_at_s=1_795_000_001)
    assert caches.look() == frozenset()
    caches.carrier.bring(BRING, run)
    assert caches.look() == {IMAGE_ID}


def test_what_is_on_its_way_is_not_there_yet(caches: Caches, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "a1b2c3").write_bytes(b"the first half")
    assert caches.look() == frozenset()
    (cache / "a1b2c3-metadata").write_text("")
    assert caches.look() == frozenset()


def test_a_cache_that_does_not_take_it_says_what_may_be_why(caches: Caches) -> None:
    (caches.storage.base / "a1b2c3").write_bytes(b"x" * 11_000_000)
    with pytest.raises(TransferFailure, match=r"image 7 of 10 MiB: .*CACHE_MAX_SIZE.*from front-end by scp"):
        caches.carrier.bring(BRING, run)


@pytest.mark.parametrize(
    ("ssh", "why"),
    [
        ("echo 'tm_cache.rb:310: wrong number of arguments' >&2; exit 1", "exit code 1: tm_cache.rb:310: wrong number"),
        ("exit 0", "did not take image 7"),
        ("echo '[1'", "did not take image 7"),
        ("echo 'Host key verification failed.' >&2; exit 255", "its ssh host key is not the known one"),
        ("echo 'o@n: Permission denied (publickey).' >&2; exit 255", "ssh does not let us in: o@n: Permission denied"),
        ("echo 'ssh: connect to host n port 22: No route' >&2; exit 255", "nobody answers there"),
        ("echo 'Connection reset by peer' >&2; exit 255", "ssh failed under way: Connection reset by peer"),
        ("kill -9 $$", "ssh was ended by a signal under way"),
        ("sleep 600", r"ssh did not come back within 0\.5 s and was killed; what it began there may go on"),
    ],
)
def test_what_goes_wrong_on_the_way_is_told(caches: Caches, tmp_path: Path, ssh: str, why: str) -> None:
    program = written(tmp_path / "odd-ssh", f"#!/bin/sh\n{ssh}\n")
    with pytest.raises(TransferFailure, match=why) as failure:
        caches.made(timeout_s=0.5 if "sleep" in ssh else 60, ssh_program=program).bring(BRING, run)
    assert str(failure.value).isprintable()
    with pytest.raises(TransferFailure, match=r"tm_cache\.ssh_program"):
        caches.made(ssh_program="/nonexistent/ssh").bring(BRING, run)


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"CACHE_ENABLE": "NO"}, 'caches nothing: write CACHE_ENABLE = "YES"'),
        ({"CACHE_PATH": "/x'; reboot; '"}, "CACHE_PATH of datastore 1 is no plain path"),
        ({"CACHE_MAX_SIZE": "a lot"}, "CACHE_MAX_SIZE of datastore 1 is no number"),
        ({"CACHE_UPSTREAMS": "node-01,-oProxyCommand=x"}, "CACHE_UPSTREAMS of datastore 1 names '-oProxyCommand=x'"),
    ],
)
def test_datastores_that_cache_nothing_or_say_strange_things(
    caches: Caches, attributes: dict[str, str], why: str
) -> None:
    image = caches.storage.images[IMAGE_ID]
    caches.storage.change(datastore={**image.datastore, **attributes})
    with pytest.raises(TransferFailure, match=why):
        caches.carrier.bring(BRING, run)
    assert not (caches.folder / "logins").exists()


def test_other_drivers_have_no_caches(caches: Caches) -> None:
    caches.storage.change(tm_mad="ssh")
    with pytest.raises(TransferFailure, match="whose driver 'ssh' has no caches on hosts: only 'local'"):
        caches.carrier.bring(BRING, run)
    assert caches.look() == frozenset()


def test_the_cache_makes_room_by_itself(caches: Caches, tmp_path: Path) -> None:
    caches.carrier.bring(BRING, run)
    (tmp_path / "logins").unlink()
    caches.carrier.remove(REMOVE, run)
    assert not (tmp_path / "logins").exists()


def test_a_host_that_is_away_or_has_a_strange_name_tells_nothing(caches: Caches) -> None:
    with pytest.raises(TransferFailure, match="nobody answers there"):
        caches.look("node-04")
    for name in ("-oProxyCommand=x", "a b", "$(reboot)"):
        with pytest.raises(TransferFailure, match="a name may have"):
            caches.look(name)
        with pytest.raises(TransferFailure, match="a name may have"):
            caches.carrier.bring(replace(BRING, host_name=name), run)
