"""No frame names a handle that has gone: late deliveries open the window of their session, not that of their link."""

from __future__ import annotations

import pytest
import trio

from rstreams.message import encode_item
from rstreams.net._proton.frame_fields import FLOW, of_session
from tests.net.engines import Engines
from tests.net.wire import Peer, attach_frame, detach_frame, flow_frame, scripted, transfer_frame

pytestmark = pytest.mark.usefixtures("autojump_clock")

WINDOW_BYTES = 64 * 1024
GONE = 0xFFFFFFFE


@pytest.mark.parametrize("settled", [True, False])
async def test_late_deliveries_open_the_window_of_the_session_and_name_no_handle(*, settled: bool) -> None:
    """The engine writes that flow for the link of a delivery that is settled, also if the link has sent its detach."""
    handles: list[int | None] = []
    over = trio.Event()

    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        while (attach := await peer.frame()).name != "attach":
            pass  # the window of the session may be told before
        await peer.send(attach_frame(attach["name"], "sender", source="a", initial_delivery_count=0))
        while not (flow := await peer.frame())["link-credit"]:
            pass
        window = flow["incoming-window"]
        assert window < 10
        await peer.send(transfer_frame(0, encode_item(b"first"), settled=True))
        number = 1
        left = window - 1
        while (frame := await peer.frame()).name != "detach":
            left = frame["incoming-window"] if frame.name == "flow" else left
        for _ in range(20):  # each batch closes the window as far as it is open
            late = range(number, number + left)
            number = late.stop
            await peer.send(*(transfer_frame(each, encode_item(bytes(20_000)), settled=settled) for each in late))
            opened = await heard(peer)
            left = opened[-1] if opened else 0
        await peer.send(detach_frame())
        await heard(peer)
        over.set()
        await peer.closes()

    async def heard(peer: Peer) -> list[int]:
        """Hear frames for a second of virtual time; return the windows in its flows."""
        windows = []
        with trio.move_on_after(1):
            while True:
                frame = await peer.frame()
                if frame.name == "flow":
                    handles.append(frame["handle"])
                    windows.append(frame["incoming-window"])
        return windows

    async with scripted(script) as connection:
        async with connection.stream("a", window_bytes=WINDOW_BYTES).open() as items:
            async for _ in items:
                break
        await over.wait()
    assert handles
    assert set(handles) == {None}


def test_a_flow_without_a_link_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its handle, and the fields behind it, are left out; all other frames pass as they are."""
    gone = flow_frame(next_incoming=7, handle=GONE, credit=3)
    engines = Engines()
    engine = engines.one.engine
    outgoing = engine._outgoing
    assert outgoing._on_frame(gone) == of_session(gone)
    assert outgoing._on_frame(flow_frame(handle=0, credit=9)) is None
    assert outgoing._on_frame(flow_frame()) is None
    told: list[bytes] = []
    monkeypatch.setattr(outgoing, "_on_frame", told.append)
    outgoing.mend_flows()
    session = engine._sessions.one_for_link({}, 100_000)
    outgoing.ask_session(session)
    while engine.output():
        pass
    assert FLOW in [frame[10] for frame in told]
    engines.free()
