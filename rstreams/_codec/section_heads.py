"""The beginnings of a message's sections, which tell their sizes before all of the message has come."""

from __future__ import annotations

from typing import Final

from rstreams._codec.sections_in_python import DATA, FOOTER, HEADER, SEQUENCE, VALUE

EMPTY_BODY: Final = b"\x00\x53\x75\xa0\x00"
"""A Data section without a byte, in the place of a body that is not at hand."""

_LIST0: Final = 0x45
_WIDTHS: Final = {0xA0: 1, 0xB0: 4, 0xC0: 1, 0xC1: 1, 0xD0: 4, 0xD1: 4}
"""The number of bytes that give the size of binaries, lists and maps."""


def section_at(buffer: bytes | bytearray | memoryview, at: int) -> tuple[int, int, int] | None:
    """Return a section's code, the start of its content and the content's length; None if these have not come yet.

    Errors: `ValueError` for bytes that are not a section. The length of a sequence or a value is 0.
    """
    small = buffer[at : at + 2] != b"\x00\x80"
    begin = at + (3 if small else 10)
    if len(buffer) <= begin:
        return None
    code = int.from_bytes(buffer[at + 2 : begin], "big")
    if buffer[at] != 0 or buffer[at + 1] not in (0x53, 0x80) or not HEADER <= code <= FOOTER:
        msg = "a section of a message was expected, but the bytes are not one"
        raise ValueError(msg)
    if code in (SEQUENCE, VALUE):
        return code, begin, 0
    form = buffer[begin]
    if form == _LIST0 and code != DATA:
        return code, begin + 1, 0
    width = _WIDTHS.get(form)
    if width is None or (code == DATA) is not (form in (0xA0, 0xB0)):
        msg = f"a section of a message cannot be of the type 0x{form:02x}"
        raise ValueError(msg)
    start = begin + 1 + width
    if len(buffer) < start:
        return None
    return code, start, int.from_bytes(buffer[begin + 1 : start], "big")


def body_at(message: bytes | memoryview) -> tuple[int, int, int] | None:
    """Return where the first Data section begins, where its content begins, and the content's length.

    Args:
        message: The message, or as much of its beginning as has come.

    Returns:
        None if the section has not begun yet, or if the body is of another kind, or for bytes that are no message.
    """
    at = before = 0
    try:
        while (found := section_at(message, at)) is not None and before < found[0] <= DATA:
            code, start, size = found
            if code == DATA:
                return at, start, size
            at, before = start + size, code
    except ValueError:
        pass
    return None
