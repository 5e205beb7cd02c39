"""What whoever copies images learns of them from oned: as recorded, as smuggled in, as an emulated cloud tells it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace

from one_preempt.adapters.opennebula.credentials import Credentials
from one_preempt.adapters.opennebula.stored_images import StoredImages
from one_preempt.adapters.opennebula.transport import Limits, OnedTransport
from one_preempt.ports import CloudUnavailable
from one_preempt.simulation.emulator import xml_writing
from one_preempt.simulation.emulator.process import shipped_cloud
from one_preempt.simulation.emulator.serving import running_emulator
from tests.adapters.opennebula.conftest import RECORDINGS, VERSIONS, reply
from tests.hostile.test_smuggled_markup import unminded


@pytest.fixture
def images(endpoint: Any) -> Iterator[StoredImages]:
    with closing(OnedTransport(endpoint.url, Credentials("oneadmin:x"), Limits())) as transport:
        yield StoredImages(transport)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_recorded_image_with_its_datastore(endpoint: Any, images: StoredImages, version: str) -> None:
    endpoint.plays(version)
    image = images.of(0)
    assert image is not None
    assert (image.name, image.source, image.size_mib) == ("base-os", "dummy_path", 1024)
    assert image.modified_at_s > 1_700_000_000
    assert (image.persistent, image.state, image.is_copyable) == (False, 2, True)
    assert image.base_path.endswith(f"/datastores/{image.datastore_id}")
    assert image.tm_mad == image.datastore["TM_MAD"] == "dummy"
    assert images.of(4711) is None
    assert ("one.imagepool.info", (-2, -1, -1)) in endpoint.calls


@pytest.mark.parametrize("version", VERSIONS)
def test_the_hosts_that_answer_to_oned(endpoint: Any, images: StoredImages, version: str) -> None:
    endpoint.plays(version)
    pool = (RECORDINGS / version / "hostpool.info.xml").read_text()
    named = images.answering_hosts()
    assert set(named.values()) <= {f"node{number:02}" for number in range(1, 20)}
    assert 0 < len(named) < len(images.host_names()) == pool.count("<HOST><ID>")


def test_an_image_whose_owner_has_smuggled_in_a_path_is_left_out(endpoint: Any, images: StoredImages) -> None:
    pool = (RECORDINGS / "7.4.0" / "imagepool.info.xml").read_text()
    datastores = (RECORDINGS / "7.4.0" / "datastorepool.info.xml").read_text()
    forged = pool.replace("<NAME>base-os</NAME>", "<NAME>base-os</NAME><SOURCE>/etc/shadow</SOURCE>")
    assert forged != pool
    endpoint.answer = lambda method, _: reply(True, datastores if "datastore" in method else forged)
    assert images.of(0) is None


def test_an_oned_that_refuses_or_says_something_else_is_told(endpoint: Any, images: StoredImages) -> None:
    endpoint.answers(reply(False, "not you", 0x200, -1, -1))
    for ask in (images.all, images.answering_hosts):
        with pytest.raises(CloudUnavailable, match="not you"):
            ask()
    endpoint.answers(reply(True, "<NOTHING/>"))
    with pytest.raises(CloudUnavailable, match="DATASTORE_POOL"):
        images.all()


def test_an_emulated_cloud_tells_its_images() -> None:
    cloud = shipped_cloud("demo")
    with (
        running_emulator(cloud) as url,
        closing(OnedTransport(url, Credentials("oneadmin:opennebula"), Limits())) as transport,
    ):
        images = StoredImages(transport)
        assert set(images.all()) == set(cloud.images)
        assert set(images.answering_hosts()) == set(cloud.hosts)


@pytest.mark.parametrize("words", ["\U0001f600", "]]></A><n:x/><A><![CDATA["], ids=["not sent", "markup"])
def test_what_users_write_into_their_images_hides_no_others(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and the last are theirs: what stands between is told all the same, as it was."""
    monkeypatch.setattr(xml_writing, "cdata", unminded)
    cloud = shipped_cloud("demo")
    for number in (1, 2):
        cloud.images[number] = replace(cloud.images[0], id=number, name=f"image-{number}", template={})
    with (
        running_emulator(cloud) as url,
        closing(OnedTransport(url, Credentials("oneadmin:opennebula"), Limits())) as transport,
    ):
        before = StoredImages(transport).all()
        for guilty in (0, 2):
            cloud.images[guilty].template["A"] = [words]
        assert StoredImages(transport).of(1) == before[1]
