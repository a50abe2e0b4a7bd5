"""The dates of the certificates that a TLS context was made of: which have expired, or soon will.

The ssl module tells no dates of a context's own certificate: `get_ca_certs` leaves out those that are no authority's,
and `getpeercert` needs a handshake in which the dates are good already. A package that reads certificates would be a
new dependency for two dates. Therefore this module finds them itself, in a file that OpenSSL has accepted before: they
are at a fixed place, behind at most four elements that are passed over by their lengths (RFC 5280 section 4.1).
"""

from __future__ import annotations

import base64
import os
import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

SOON: Final = timedelta(days=14)
"""How long before its end a certificate is worth a warning."""

_IN_PEM: Final = re.compile(rb"-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----([A-Za-z0-9+/=\s]+)-----END \1-----")
_VERSION, _UTC_TIME = 0xA0, 0x17
_OF_THIS_CENTURY: Final = "50"
"""Two digits of a year that are less than these are of the years from 2000 (RFC 5280 section 4.1.2.5.1)."""


@dataclass(frozen=True, slots=True)
class CertificateDates:
    """From when until when a certificate is valid.

    Attributes:
        option: The option that named its file.
        place: The option with the file and, if it has several certificates, the place in it.
        begin: The first moment.
        end: The last moment.
    """

    option: str
    place: str
    begin: datetime
    end: datetime

    def trouble(self, now: datetime, soon: timedelta = timedelta()) -> str:
        """Return what is wrong with the dates now, or will be `soon`; "" for nothing."""
        if now < self.begin:
            return f"{self.place} is not valid before {_shown(self.begin)}"
        if now > self.end:
            return f"{self.place} has expired, at {_shown(self.end)}"
        return f"{self.place} expires soon, at {_shown(self.end)}" if self.end - now < soon else ""


_known: Final[WeakKeyDictionary[ssl.SSLContext, list[CertificateDates]]] = WeakKeyDictionary()


def remember_dates(context: ssl.SSLContext, option: str, file: str | os.PathLike[str]) -> None:
    """Remember the dates of the certificates in a file that a context has read; such as cannot be read are left out."""
    try:
        text = Path(file).read_bytes()
    except OSError:  # it has been removed since
        return
    found = [match[2] for match in _IN_PEM.finditer(text)]
    for number, encoded in enumerate(found, 1):
        where = f", certificate {number} of {len(found)} in it," if len(found) > 1 else ""
        try:
            begin, end = _dates(base64.b64decode(encoded))
        except (ValueError, IndexError):
            continue
        place = f"{option}={os.fspath(file)!r}{where}"
        _known.setdefault(context, []).append(CertificateDates(option, place, begin, end))


def warnings_about(context: ssl.SSLContext, now: datetime) -> list[str]:
    """Return a text for each certificate of a context that is not valid now, or will not be soon."""
    return [text for each in _known.get(context, ()) if (text := each.trouble(now, SOON))]


def out_of_date(context: ssl.SSLContext, option: str, now: datetime) -> str:
    """Return a text about the first certificate of an option that is not valid now; "" if there is none."""
    texts = (each.trouble(now) for each in _known.get(context, ()) if each.option == option)
    return next(filter(None, texts), "")


def _dates(certificate: bytes) -> tuple[datetime, datetime]:
    """Return the dates in a certificate.

    Errors: `ValueError` or `IndexError` for bytes that are not a certificate.
    """
    _, at, _ = _element(certificate, 0)
    _, at, _ = _element(certificate, at)  # the part that is signed
    if certificate[at] == _VERSION:
        _, _, at = _element(certificate, at)
    for _ in ("the serial number", "the algorithm", "the issuer"):
        _, _, at = _element(certificate, at)
    _, at, _ = _element(certificate, at)  # the validity
    begin, at = _time(certificate, at)
    end, _ = _time(certificate, at)
    return begin, end


def _element(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag of an element in DER, where its content begins, and where it ends."""
    length, begin = data[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, begin = int.from_bytes(data[begin : begin + size]), begin + size
    return data[at], begin, begin + length


def _time(data: bytes, at: int) -> tuple[datetime, int]:
    """Return a moment, and where it ends."""
    tag, begin, end = _element(data, at)
    text = data[begin:end].decode("ascii")
    if tag == _UTC_TIME:
        text = ("20" if text[:2] < _OF_THIS_CENTURY else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC), end


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
