"""The AMQP 1.0 type system: Python values to bytes and back (specification part 1).

An encoded value is a constructor, mostly one byte, and the bytes behind it. The constructor's upper four bits give the
number of these bytes (1.2, figure "Format Code"). Therefore any value can be skipped without knowing its type:

    0x00 descriptor, then the value described       0xA_ 0xB_  a length in 1 or 4 bytes, then as many bytes
    0x4_ ... 0x9_  0, 1, 2, 4, 8, 16 bytes          0xC_ 0xD_ 0xE_ 0xF_  the same, with an item count first

Types for which Python has none of its own are in `types.py`: `int` is a long, and `Int` an int.
"""

from rstreams._codec.decode import decode_value
from rstreams._codec.encode import encode_symbols, encode_value
from rstreams._codec.types import MAX_DEPTH, Described, Symbol

__all__ = ["MAX_DEPTH", "Described", "Symbol", "decode_value", "encode_symbols", "encode_value"]
