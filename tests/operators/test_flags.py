"""An option that is True or False takes nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from rstreams import Reconnect, Stream
from rstreams.errors import ConfigError

STREAM: Any = Stream.range(3)
RECONNECT: Any = Reconnect
FLAGS: dict[str, tuple[str, Callable[..., Any]]] = {
    "combine_latest": ("delay_errors", lambda **flag: STREAM.combine_latest(STREAM, **flag)),
    "concat": ("delay_errors", lambda **flag: STREAM.concat(STREAM, **flag)),
    "concat_map": ("delay_errors", lambda **flag: STREAM.concat_map(Stream.of, **flag)),
    "flat_map": ("delay_errors", lambda **flag: STREAM.flat_map(Stream.of, **flag)),
    "map_async": ("ordered", lambda **flag: STREAM.map_async(print, **flag)),
    "map_blocking": ("ordered", lambda **flag: STREAM.map_blocking(print, **flag)),
    "merge": ("delay_errors", lambda **flag: STREAM.merge(STREAM, **flag)),
    "merge_priority": ("delay_errors", lambda **flag: STREAM.merge_priority(STREAM, **flag)),
    "merge_sorted": ("delay_errors", lambda **flag: STREAM.merge_sorted(STREAM, **flag)),
    "parallel": ("delay_errors", lambda **flag: STREAM.parallel(2, lambda part: part, **flag)),
    "switch_map": ("delay_errors", lambda **flag: STREAM.switch_map(Stream.of, **flag)),
    "take_while": ("inclusive", lambda **flag: STREAM.take_while(bool, **flag)),
}


@pytest.mark.parametrize("operator", FLAGS)
def test_a_flag_is_true_or_false(operator: str) -> None:
    option, make = FLAGS[operator]
    for value in ("yes", None, 1, ValueError):
        with pytest.raises(ConfigError) as caught:
            make(**{option: value})
        assert str(caught.value) == f"{operator}({option}={value!r}): {option} must be True or False"


def test_these_are_all_flags_of_operators() -> None:
    found = {
        name
        for name, function in inspect.getmembers(Stream, callable)
        if not name.startswith("_")
        and any(each.annotation == "bool" for each in inspect.signature(function).parameters.values())
    }
    assert found <= FLAGS.keys()


def test_the_flag_of_a_reconnect_policy_is_true_or_false() -> None:
    with pytest.raises(ConfigError, match=r"Reconnect\(at_start=3\): at_start must be True or False"):
        RECONNECT(at_start=3)
