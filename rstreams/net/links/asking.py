"""Asking the peer of a connection what it waits for: one link a question, at the peer's address `$explain`.

The attach of the link has the question in its properties. The peer sends one message with its tree, and the link is
detached. A node asks its clients in the same way, over the connection that they have opened.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import trio

from rstreams import _machine
from rstreams._checks.names import require_name
from rstreams._checks.numbers import require_count, require_seconds
from rstreams._core.beyond import HOPS, Beyond, Open, Question
from rstreams._core.sight import Asked
from rstreams.abc import Subscription
from rstreams.culprits import Culprit, WaitTree, shown
from rstreams.errors import RStreamsError
from rstreams.message import as_is, decode_message
from rstreams.net._proton import LinkEnd
from rstreams.protocol.frames import EXPLAINS, Attach, Role, Settlement
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.states import State

EXPLAIN: Final = "$explain"
"""The address at which a node, and a client, tell what they wait for."""

MOST_BYTES: Final = 256 * 1024
"""The most bytes of an answer that are read."""

MOST_OPEN: Final = 16
"""The most questions that one peer has not answered: several may ask at once, each of them in a circle."""

MOST_ENDING: Final = 32
"""The most links of questions that it has answered, and that it has not detached."""

MOST_ENDS: Final = 16
"""The most links over which one tree goes on."""


class Asking:
    """Asks one peer.

    Args:
        attach: Attaches a link on the connection.
        new_name: Returns a name for it.
        peer: Returns the name of the peer.
        own: The container id of this side.
        trusts: Whether the peer is believed when it says who told it something, as clients believe their node.
    """

    def __init__(
        self,
        attach: Callable[[LinkEnd, Attach], None],
        new_name: Callable[[], str],
        peer: Callable[[], str],
        own: str,
        *,
        trusts: bool,
    ) -> None:
        self._trusts = trusts
        self._attach = attach
        self._new_name = new_name
        self._peer = peer
        self._own = own
        self._open: dict[LinkSubscription[bytes], _OneAnswer] = {}
        self._places = trio.Semaphore(MOST_OPEN)
        self._answered_at = -math.inf

    async def ask(self, question: Question) -> WaitTree:
        """Return the peer's tree; a peer that answers nothing, or nonsense, is one part that says so."""
        began = trio.current_time()
        with trio.move_on_after(question.within_s) as waiting:
            await self._places.acquire()
        if waiting.cancelled_caught:
            return WaitTree("peer", self._peer(), f"{MOST_OPEN} questions before this one are not answered yet")
        try:
            return await self._ask(replace(question, within_s=began + question.within_s - trio.current_time()))
        finally:
            self._places.release()

    async def _ask(self, question: Question) -> WaitTree:
        self._open = {end: answer for end, answer in self._open.items() if _is_open(end)}
        if sum(not answer.came.is_set() for answer in self._open.values()) >= MOST_OPEN:
            return self._silent(f"it has not answered {MOST_OPEN} questions")
        if len(self._open) >= MOST_ENDING:
            return WaitTree("peer", self._peer(), "it does not end the links of earlier questions")
        answer = _OneAnswer()
        options = ReceivingOptions(decode=as_is, window=1, label="explain")
        end = LinkSubscription(answer, options, answer.on_error)
        frame = Attach(
            self._new_name(),
            Role.RECEIVER,
            EXPLAIN,
            None,
            Settlement.AT_MOST_ONCE,
            properties={EXPLAINS: question.as_dict()},
        )
        self._open[end] = answer
        began = trio.current_time()
        try:
            self._attach(end, frame)
            with trio.move_on_after(question.within_s):
                await answer.came.wait()
        finally:
            end.cancel()
        if answer.came.is_set():
            self._answered_at = trio.current_time()
        if answer.encoded is not None:
            return self._read(answer.encoded)
        if self._answered_at >= began and answer.error is None:
            return WaitTree("peer", self._peer(), "it has answered others, and this question not in time")
        if answer.error is not None:
            return WaitTree("peer", self._peer(), f"it tells nothing more: {shown(str(answer.error))}")
        return self._silent(f"it has not answered within {question.within_s:.3g} s")

    def _read(self, encoded: bytes) -> WaitTree:
        try:
            if len(encoded) > MOST_BYTES:
                msg = f"{len(encoded)} bytes"
                raise ValueError(msg)  # noqa: TRY301 - one way out for all nonsense
            return self._attributed(WaitTree.from_dict(decode_message(encoded).body))
        except (RStreamsError, ValueError) as error:
            return WaitTree("peer", self._peer(), f"its answer cannot be read: {shown(str(error))}")

    def _attributed(self, tree: WaitTree) -> WaitTree:
        """Return a tree of a peer whose culprits name the peer: what it says of others may be a lie."""
        if self._trusts:
            return tree
        blame, peer = tree.blame, self._peer()
        if blame is not None and blame.where != peer:
            blame = replace(blame, where=shown(f"{blame.where} through {peer}" if blame.where else peer))
        return replace(tree, blame=blame, waits_for=tuple(self._attributed(each) for each in tree.waits_for))

    def _silent(self, state: str) -> WaitTree:
        peer = self._peer()
        told = f"{peer!r:.120} is silent: {state}; it is stopped, its thread is blocked, or the network is gone"
        return WaitTree("peer", peer, state, Culprit("silent", told, peer, where=self._own))


class _OneAnswer:
    """The subscriber of one answer."""

    def __init__(self) -> None:
        self.came = trio.Event()
        self.encoded: bytes | None = None
        self.error: BaseException | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        subscription.request(1)

    def on_next(self, item: bytes) -> None:
        if self.encoded is None:
            self.encoded = item
        self.came.set()

    def on_error(self, error: BaseException) -> None:
        self.error = self.error or error
        self.came.set()

    def on_complete(self) -> None:
        self.came.set()


def _is_open(end: LinkSubscription[bytes]) -> bool:
    """Tell whether the peer may still answer on a link, or owes the answer to its detach."""
    return end.state is not State.DETACHED and not (end.ended and end.state is State.UNATTACHED)


def question_of(call: str, address: str | None, within_s: float, hops: int) -> Question:
    """Return a question with the options of a user's call.

    Errors: `ConfigError` for an option that is not allowed.
    """
    return Question(
        "" if address is None else require_name(call, "address", address),
        within_s=require_seconds(call, "within_s", within_s),
        hops=require_count(call, "hops", hops, 0, HOPS, unit=" connections"),
    )


def asked_by(question: Question, who: str) -> Asked:
    """Return a question of a peer as it goes on in this process, whose container id is `who`."""
    return Asked(who, _machine.today_utc(), question.trail)


async def go_on(tree: WaitTree, question: Question) -> WaitTree:
    """Return a tree with what the peers say where it goes on; each is asked at the same time as the others."""
    ends = [part for _, part in tree.parts() if part.end is not None]
    answers: dict[int, WaitTree] = {}

    async def ask(part: WaitTree, opened: Open, beyond: Beyond) -> None:
        answers[id(part)] = await beyond.ask(opened.end, question.passed_on(opened))

    if question.hops > 0:
        async with trio.open_nursery() as nursery:
            for part in ends[:MOST_ENDS]:
                opened: Open = part.end
                if opened.end.beyond is not None:
                    nursery.start_soon(partial(ask, part, opened, opened.end.beyond))
    return _grafted(tree, answers)


def _grafted(tree: WaitTree, answers: dict[int, WaitTree]) -> WaitTree:
    branches = tuple(_grafted(part, answers) for part in tree.waits_for)
    answer = answers.get(id(tree))
    more: tuple[Any, ...] = () if answer is None else (answer,)
    return WaitTree(tree.kind, tree.name, tree.state, tree.blame, (*branches, *more))
