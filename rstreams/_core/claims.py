"""Claims: who still has an item of a source, and what becomes of it.

`rstreams.abc` shows these classes to users. A claim on one item is a `Hold`. `Claims` are those on some *places* of a
source. A place is what the source calls an item, such as a delivery handle, an offset, or a message. A place has one
outcome. The source is told by `Settles.settle`, once for a run of places with the same outcome.

    the source      what has an outcome: the end of a link, a queue, a partition of a group, a sender's receipt
    the places      one for each item that came, in the order in which they came
    the epoch       a number of the source, for instance how often its link had been lost when the items came

If several stages have the same item, each has claims of its own (`Claims.hold`). The worst outcome wins: failed, then
released, then done. The source is told when the last of them has ended.

Claims can be made *loose*. The source may then settle places as done by itself when it has no room for further items. A
stage that gathers items without a limit makes its claims loose. The window of a link then limits how many are held, and
a full window never stops the stream. A link settles its oldest loose places first. Claims that cannot be made loose
stay as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, repeat
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

Ending: TypeAlias = BaseException | Literal["done", "released"]
"""How the claim on a place ends: processed, given back unprocessed, or failed with an error."""

DONE: Final = "done"
"""An item has been processed (accepted)."""

RELEASED: Final = "released"
"""An item is given back unprocessed (released)."""


@runtime_checkable
class Hold(Protocol):
    """A claim on one item: the item is not settled before every hold on it has ended.

    Each hold is ended once, by one of the three calls; further calls do nothing. If several stages hold the same item,
    the worst outcome wins: failed, then released, then done.

    A source that limits the number of held items gives holds with two more members, which stages look for: `loosen()`
    allows it to settle the item as done when it needs the room, and `gone` tells that it has. A stage that gathers
    items without a limit (`to_list`, `reduce`) calls `loosen`, and never blocks such a source for ever.

    Context: any task of the run that the subscription belongs to; never blocks, never raises.
    Spec: AMQP 1.0 section 3.4 (delivery state): accepted, modified with delivery-failed, released.
    """

    def done(self) -> None:
        """Say that the item has been processed (accepted)."""
        ...

    def fail(self, error: BaseException) -> None:
        """Say that processing the item failed (modified, delivery-failed)."""
        ...

    def release(self) -> None:
        """Give the item back unprocessed (released): another consumer may have it."""
        ...


class Settles(ABC):
    """What settles the places of claims; the base of every source of items with an outcome."""

    __slots__ = ()

    @abstractmethod
    def settle(self, epoch: int, places: Sequence[Any], how: Ending) -> None:
        """Settle places, each of which had no outcome before.

        Args:
            epoch: The epoch of their claims.
            places: At least one.
            how: The outcome of each.
        """

    def loosen(self, claims: Claims) -> None:  # noqa: B027 - most have no need of room
        """Note that these places may be settled as done to make room, by `claims.cut(n).done()`."""

    def has_taken(self, places: Sequence[Any]) -> bool:  # noqa: ARG002 - for those that ask further
        """Return whether others have settled all of these places, which are still claimed here."""
        return False


class Claims:
    """The claims on some places of a source; see the text of this module. They are a hold on all of them.

    Args:
        source: Gets the outcomes.
        epoch: Goes to the source with each outcome.
        places: The places; not to be changed.
    """

    __slots__ = ("_begin", "_places", "epoch", "source")

    def __init__(self, source: Settles, epoch: int, places: Sequence[Any]) -> None:
        self.source = source
        self.epoch = epoch
        self._places = places
        self._begin = 0  # how many of them have ended, or were cut off

    def __len__(self) -> int:
        """Return how many places have a claim that has not ended."""
        return len(self._places) - self._begin

    def __repr__(self) -> str:
        """Return how many they are."""
        return "NO_HOLD" if self is NO_HOLD else f"<claims on {len(self)} of {self.source!r:.80}>"

    @property
    def places(self) -> Sequence[Any]:
        """The places that they still are on."""
        return self._places[self._begin :] if self._begin else self._places

    def done(self) -> None:
        """Say that the items have been processed."""
        self.end(DONE)

    def fail(self, error: BaseException) -> None:
        """Say that processing the items failed."""
        self.end(error)

    def release(self) -> None:
        """Give the items back unprocessed."""
        self.end(RELEASED)

    def end(self, how: Ending) -> None:
        """End the claims on all places."""
        places, begin = self._places, self._begin
        if begin:
            places, self._begin = places[begin:], 0
        if len(places):
            self._places = ()
            self.source.settle(self.epoch, places, how)

    def end_some(self, most: int, how: Ending) -> int:
        """End the claims on the oldest places, `most` at most; return on how many."""
        places = self._take(most)
        if len(places):
            self.source.settle(self.epoch, places, how)
        return len(places)

    def cut(self, most: int) -> Claims:
        """Cut off the claims on the oldest places, `most` at most, and return them."""
        return Claims(self.source, self.epoch, self._take(most))

    def _take(self, most: int) -> Sequence[Any]:
        places, begin = self._places, self._begin
        size, end = len(places), begin + most
        if end >= size:
            self._places, self._begin = (), 0
            return places[begin:] if begin else places
        if 2 * end > size:  # places may keep their items: claims that end little by little must let go of some
            self._places, self._begin = places[end:], 0
        else:
            self._begin = end
        return places[begin:end]

    def grow(self, places: list[Any], place: object) -> bool:
        """Claim one more place, behind the others; return False, and claim nothing, if they are not in `places` now.

        `places` is a list of the caller, which these claims were made with. They leave it when some of them end.
        """
        if self._places is not places:
            return False
        places.append(place)
        return True

    def each(self) -> Iterator[Hold]:
        """Take the claims apart: return a hold for each place; this object has none of them any more."""
        places, begin = self._places, self._begin
        self._places, self._begin = (), 0
        if self.source is EACH_HOLD:
            return iter(places[begin:])
        if self.source is NOTHING:
            return repeat(NO_HOLD, len(places) - begin)
        return (Claims(self.source, self.epoch, (place,)) for place in islice(places, begin, None))

    def hold(self) -> Hold:
        """Return further claims on the same places: they are settled when both have ended, with the worse outcome."""
        source, places, begin = self.source, self._places, self._begin
        if source is NOTHING or len(places) == begin:
            return NO_HOLD
        if type(source) is not _Keepers:
            source = _Keepers(Claims(source, self.epoch, places[begin:] if begin else places))
            self.source, self.epoch, self._places, self._begin = source, _FIRM, _ONE, 0
        return source.add()

    def end_for_all(self, how: Ending) -> None:
        """End these claims, and those of everyone who has further claims on the same places."""
        source = self.source
        if type(source) is _Keepers:
            self._places = ()
            source.claims.end(how)
        else:
            self.end(how)

    def loosen(self) -> None:
        """Allow the source to settle the items as done when it needs the room; it cannot be taken back."""
        if len(self):
            self.source.loosen(self)

    @property
    def gone(self) -> bool:
        """Whether the items have been settled, perhaps by the source itself; the end of the claims has no effect."""
        return not len(self) or self.source.has_taken(self.places)


_FIRM: Final = 0
_LOOSE: Final = 1
"""The epochs of a keeper."""

_ONE: Final = (0,)


class _Keepers(Settles):
    """Several claims on the same places; each of the keepers has claims on one place here.

    Attributes:
        claims: The claims that they share.
    """

    __slots__ = ("_count", "_firm", "_worst", "claims")

    def __init__(self, claims: Claims) -> None:
        """Have one keeper of `claims`."""
        self.claims = claims
        self._count = 1
        self._firm = 1  # keepers that are not loose
        self._worst: Ending = DONE

    def add(self) -> Claims:
        """Return the claims of another keeper."""
        self._count += 1
        self._firm += 1
        return Claims(self, _FIRM, _ONE)

    def settle(self, epoch: int, places: Sequence[Any], how: Ending) -> None:  # noqa: ARG002 - it is one
        """Count one keeper less; the last one settles the places."""
        if how is not DONE and (self._worst is DONE or (self._worst is RELEASED and how is not RELEASED)):
            self._worst = how
        self._count -= 1
        self._firm -= epoch == _FIRM
        if not self._count:
            self.claims.end(self._worst)
        elif not self._firm:
            self.claims.loosen()

    def loosen(self, claims: Claims) -> None:
        """Count a keeper as loose; when all are, the places are."""
        if claims.epoch == _FIRM:
            claims.epoch = _LOOSE
            self._firm -= 1
            if not self._firm:
                self.claims.loosen()

    def has_taken(self, places: Sequence[Any]) -> bool:  # noqa: ARG002 - there is one
        """Return whether the source has settled the places itself."""
        return self.claims.gone


class EachHold(Settles):
    """The source of claims whose places are holds."""

    __slots__ = ()

    def settle(self, epoch: int, places: Sequence[Hold], how: Ending) -> None:  # noqa: ARG002 - there are none
        """End each hold."""
        for hold in places:
            end(hold, how)

    def loosen(self, claims: Claims) -> None:
        """Make each hold loose, if it allows that."""
        for hold in claims.places:
            loosen(hold)

    def has_taken(self, places: Sequence[Hold]) -> bool:
        """Return whether all are gone."""
        return all(map(is_gone, places))


class _Nothing(Settles):
    """The source of items that need no outcome."""

    __slots__ = ()

    def settle(self, epoch: int, places: Sequence[Any], how: Ending) -> None:
        """Do nothing."""


EACH_HOLD: Final[Settles] = EachHold()
NOTHING: Final[Settles] = _Nothing()

NO_HOLD: Final = Claims(NOTHING, 0, ())
"""The hold on an item that needs no acknowledgement."""


def no_claims(n: int) -> Claims:
    """Return claims on `n` places that need no outcome."""
    return Claims(NOTHING, 0, range(n))


def claims_on(*holds: Hold) -> Claims:
    """Return one claim on the items behind these holds, which ends them all; NO_HOLD if none needs an outcome."""
    if len(holds) == 1 and type(holds[0]) is Claims:
        return holds[0]
    held = tuple(hold for hold in holds if hold is not NO_HOLD)
    return Claims(EACH_HOLD, 0, held) if held else NO_HOLD


def end(hold: Hold, how: Ending) -> None:
    """End a hold."""
    if how is DONE:
        hold.done()
    elif how is RELEASED:
        hold.release()
    else:
        assert isinstance(how, BaseException), "there is no other"
        hold.fail(how)


def loosen(hold: Hold) -> None:
    """Allow the source to settle the item of `hold` as done when it needs the room, if the hold knows that."""
    make_loose: Callable[[], None] | None = getattr(hold, "loosen", None)
    if make_loose is not None:
        make_loose()


def is_gone(hold: Hold) -> bool:
    """Return whether the source has settled the item of a loose hold itself; the end of the hold then has no effect."""
    gone: bool = getattr(hold, "gone", False)
    return gone
