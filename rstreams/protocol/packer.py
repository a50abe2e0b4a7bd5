"""The sender's side of packed deliveries: how items are packed, and what is kept of a pack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rstreams._core.claims import Claims
from rstreams.abc import Hold
from rstreams.message import encode_item
from rstreams.protocol.outgoing_holds import cut_off
from rstreams.protocol.packing import FRAME_PACK_BYTES, MAX_PACK_BYTES, encode_bodies, encode_pack, most_pack_bytes


class SentPack(NamedTuple):
    """The items of a packed delivery, in their order.

    Attributes:
        claims: The claims on them.
        items: The encoded items, if they may have to be sent again.
        numbers: The number of each item.
    """

    claims: Claims
    items: Sequence[bytes]
    numbers: Sequence[int]


class Packer:
    """Divides held items into packs.

    Attributes:
        most_items: The most items in a pack.
        most_bytes: The most bytes of a pack; a larger item is sent by itself.
    """

    __slots__ = ("_call_after", "_expired", "_keeps", "_linger_s", "_lingering", "most_bytes", "most_items")

    def __init__(self, linger_s: float, *, keeps: bool) -> None:
        """Make packs of one item, until a larger number is agreed on.

        Args:
            linger_s: The longest time that a pack may wait for more items, in seconds.
            keeps: Whether the items of a pack may have to be sent again.
        """
        self.most_items = 1
        self.most_bytes = MAX_PACK_BYTES
        self._linger_s = linger_s
        self._keeps = keeps
        self._lingering = False  # a pack waits for more items
        self._expired = False  # it has waited long enough

    def reset(self) -> None:
        """Start again on another link."""
        self._lingering = self._expired = False

    def expire(self) -> None:
        """Send the pack that waits: it has waited long enough."""
        self._lingering = False
        self._expired = True

    def divide(self, held: list[bytes], count: int, credit: int) -> list[list[bytes]]:
        """Divide the first `count` of `held` into packs, at most `credit` of them."""
        packs: list[list[bytes]] = []
        start = 0
        while start < count and len(packs) < credit:
            items = held[start : min(start + self.most_items, count)]
            if len(items) > 1:
                items = self._fitting(items)
            packs.append(items)
            start += len(items)
        return packs

    def _fitting(self, items: list[bytes]) -> list[bytes]:
        """Return the first of the items, as many as make a pack: those that fit a frame, if they are half of all."""
        size, one_frame = most_pack_bytes(items), min(FRAME_PACK_BYTES, self.most_bytes)
        if size <= one_frame:
            return items
        fewer = items[: len(items) * one_frame // size]
        if 2 * len(fewer) >= len(items) and most_pack_bytes(fewer) <= one_frame:
            return fewer
        while len(items) > 1 and most_pack_bytes(items) > self.most_bytes:
            items = items[: len(items) // 2]
        return items

    def waits(
        self, pack: Sequence[bytes], call_after: Callable[[float, Callable[[], None]], None], go_on: Callable[[], None]
    ) -> bool:
        """Tell whether a pack with nothing after it should wait for more items.

        Args:
            pack: The items of the pack.
            call_after: Calls a function after some seconds.
            go_on: Called when it has waited long enough.
        """
        if not self._linger_s or len(pack) >= self.most_items:
            return False
        if self._expired:
            self._expired = False
            return False
        if not self._lingering:
            self._lingering = True

            def expire() -> None:
                self.expire()
                go_on()

            call_after(self._linger_s, expire)
        return True

    def pack(
        self, packs: Sequence[list[bytes]], claims: list[Claims], numbers: Sequence[int], *, are_bodies: bool
    ) -> tuple[list[bytes], list[Hold | SentPack]]:
        """Return the message of each pack, and what is kept for it; a single item is an ordinary message with its hold.

        Args:
            packs: The items of each.
            claims: The claims on all their items, in runs.
            numbers: The numbers of all their items.
            are_bodies: Whether the items are not encoded yet: each is the body of its message.
        """
        encode = encode_bodies if are_bodies else encode_pack
        messages: list[bytes] = []
        kept: list[Hold | SentPack] = []
        at = 0
        for items in packs:
            size = len(items)
            if size == 1:
                messages.append(encode_item(items[0]) if are_bodies else items[0])
                kept.append(next(cut_off(claims, 1).each()))
            else:
                messages.append(encode(items))
                kept.append(SentPack(cut_off(claims, size), items if self._keeps else (), numbers[at : at + size]))
            at += size
        return messages, kept
