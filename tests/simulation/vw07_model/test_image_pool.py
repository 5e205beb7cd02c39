"""What a node keeps of images: never more than its limit, and nothing goes that somebody uses."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from one_preempt.simulation.vw07_model.image_pool import ImagePool, Keeping, PoolRules

SIZES_MB = {"a": 600, "b": 600, "c": 300, "d": 900}
CACHE = PoolRules(limit_mb=1800, keeping=Keeping.UNTIL_EVICTED)


@dataclass
class PlainPool:
    """The same in the plainest words: lists, and a search through them each time."""

    rules: PoolRules
    images: list[str] = field(default_factory=list)
    came: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)
    users: dict[int, str] = field(default_factory=dict)

    def size_mb(self) -> int:
        of_users = sum(SIZES_MB[image] for image in self.users.values()) if self.rules.copies else 0
        return sum(SIZES_MB[image] for image in self.images) + of_users

    def use(self, image: str, vm: int, now_ms: int, end_ms: int) -> bool:
        """Bring it where it is not there; is there room?"""
        before = (list(self.images), dict(self.users))
        is_new = image not in self.images
        self.images += [image] if is_new else []
        self.users[vm] = image
        while self.rules.limit_mb is not None and self.size_mb() > self.rules.limit_mb:
            unused = [one for one in self.images if one not in self.users.values()]
            if self.rules.keeping == Keeping.UNTIL_LAST_END or not unused:
                self.images, self.users = before
                return False
            self.images.remove(min(unused, key=lambda one: (self.uses[one], self.came[one], one)))
        if is_new:
            self.uses[image], self.came[image], self.ends[image] = 0, now_ms, end_ms
        self.uses[image] += 1
        self.ends[image] = max(self.ends[image], end_ms)
        return True

    def leave(self, vm: int, now_ms: int) -> None:
        self.users.pop(vm, None)
        if self.rules.keeping == Keeping.UNTIL_LAST_END:
            self.images = [one for one in self.images if one in self.users.values() or self.ends[one] >= now_ms]


def used_mb(pool: ImagePool) -> int:
    copies = sum(one.size_mb * len(one.users) for one in pool.templates.values()) if pool.rules.copies else 0
    return sum(one.size_mb for one in pool.templates.values()) + copies


def used(pool: ImagePool, image: str, vm: int, now_ms: int, end_ms: int) -> ImagePool | None:
    if pool.is_there(image, now_ms):
        return pool.joined(image, vm, end_ms)
    return pool.brought(image, SIZES_MB[image], now_ms, vm, end_ms)


@given(
    st.sampled_from([None, 900, 1500, 1800, 2400]),
    st.sampled_from(Keeping),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(sorted(SIZES_MB)), st.integers(0, 3), st.integers(0, 9)), max_size=25),
)
def test_a_pool_is_as_full_as_a_plain_one_and_nothing_goes_that_is_used(
    limit_mb: int | None, keeping: Keeping, copies: bool, story: list[tuple[str, int, int]]
) -> None:
    """VM after VM comes to the node and has the place of the one that was there before."""
    rules = PoolRules(limit_mb, keeping, copies)
    pool, plain, places = ImagePool(rules), PlainPool(rules), dict.fromkeys(range(4), -1)
    for now_ms, (image, place, lasts_ms) in enumerate(story):
        plain.leave(places[place], now_ms)
        pool = pool.left(places[place]).expired(now_ms)
        changed = used(pool, image, now_ms, now_ms, now_ms + lasts_ms)
        assert plain.use(image, now_ms, now_ms, now_ms + lasts_ms) == (changed is not None)
        if changed is not None:
            pool, places[place] = changed, now_ms
        assert sorted(pool.templates) == sorted(plain.images)
        assert used_mb(pool) == plain.size_mb()
        assert limit_mb is None or used_mb(pool) <= limit_mb
        assert all(vm in pool.templates[used_image].users for vm, used_image in plain.users.items())


def test_a_template_is_used_again_until_the_end_of_those_for_whom_it_came() -> None:
    """Algorithm 4: a start at the very end is in time, and moves the end."""
    pool = ImagePool().brought("a", 600, 48, vm=1, end_ms=100)
    assert pool is not None
    assert [pool.is_there("a", at) for at in (47, 48, 100, 101)] == [False, True, True, False]
    longer = pool.joined("a", vm=2, end_ms=150)
    assert longer is not None
    assert longer.templates["a"].expires_ms == 150
    assert used_mb(longer.left(1).left(2).expired(150)) == 600
    assert used_mb(longer.left(1).left(2).expired(151)) == 0


def test_the_least_frequently_used_image_leaves_a_cache() -> None:
    """Three of 600 MB fit: the one that was used once goes, though it was used last."""
    pool = ImagePool(CACHE)
    for vm, (image, now_ms) in enumerate([("a", 0), ("a", 1), ("c", 2), ("c", 3), ("b", 4)]):
        pool = (used(pool, image, vm, now_ms, now_ms) or pool).left(vm)
    then = used(pool, "d", 9, 10, 20)
    assert then is not None
    assert sorted(then.templates) == ["a", "c", "d"]


def test_what_is_on_its_way_is_known() -> None:
    pool = ImagePool(CACHE).brought("a", 600, 48, vm=1, end_ms=100)
    assert pool is not None
    assert pool.on_its_way("a", 47) == pool.templates["a"]
    assert pool.on_its_way("a", 48) is None
    assert pool.on_its_way("b", 0) is None


def test_where_copies_take_the_room_a_further_vm_waits() -> None:
    pool = ImagePool(PoolRules(limit_mb=1800, copies=True))
    one = used(pool, "a", 1, 0, 10)
    assert one is not None
    two = used(one, "a", 2, 0, 10)
    assert two is not None
    assert (used_mb(one), used_mb(two)) == (1200, 1800)
    assert used(two, "a", 3, 0, 10) is None
    assert used(two.left(1), "a", 3, 0, 10) is not None
