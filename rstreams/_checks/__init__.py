"""The checks of options, in one place and in the same words; `refusals` says how they are written."""
