"""Errors that wait for the end: each counts once, and several are a group."""

from __future__ import annotations

from rstreams._stages.delayed_errors import Errors, all_of, first_of, note_error


def test_one_error_stays_itself_however_often_it_comes() -> None:
    errors: Errors = {}
    error = ValueError("x")
    note_error(errors, error)
    note_error(errors, error)
    assert all_of("merge", errors) is error


def test_several_are_a_group_in_their_order() -> None:
    errors: Errors = {}
    first, second = ValueError("x"), ValueError("x")
    note_error(errors, first)
    note_error(errors, second)
    group = all_of("merge", errors)
    assert isinstance(group, BaseExceptionGroup)
    assert group.exceptions == (first, second)
    assert group.message == "merge: 2 streams failed"


def test_the_first_of_some() -> None:
    error = ValueError()
    assert first_of([None, error, KeyError()]) is error
    assert first_of([None]) is None
