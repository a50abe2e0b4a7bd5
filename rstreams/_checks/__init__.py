"""The checks of options, all in one place and with the same texts; `refusals` defines the texts."""
