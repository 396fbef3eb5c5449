"""Who is told when the place of a sampler jumps: a loaded state, or another epoch."""

from collections.abc import Hashable
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet


class Follower(Hashable, Protocol):
    """Something that depends on the place of a sampler."""

    def follow(self) -> None:
        """The place has changed, and not by `step`."""


_FOLLOWERS: WeakKeyDictionary[Hashable, WeakSet[Follower]] = WeakKeyDictionary()
"""By sampler. Kept here, so that a sampler can be copied and pickled without them."""


def add_follower(sampler: Hashable, follower: Follower) -> None:
    """From now on it is told, as long as it exists."""
    _FOLLOWERS.setdefault(sampler, WeakSet()).add(follower)


def tell_followers(sampler: Hashable) -> None:
    """The place of this sampler has changed."""
    for follower in list(_FOLLOWERS.get(sampler, ())):
        follower.follow()
