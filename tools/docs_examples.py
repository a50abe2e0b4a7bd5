"""For `make docs`: our docstrings' `Example:` is what Google's style calls `Examples:`, which is shown as code.

Without it the site takes an example for text, and two lists side by side in it for a link.
"""

from __future__ import annotations

from typing import Any

import griffe  # comes with the part "docs" of tools/setup.sh


class ShownAsCode(griffe.Extension):  # type: ignore[misc, unused-ignore] # of no known class without griffe
    """Gives the section the name that griffe knows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - as griffe calls it
        """Rename it in the docstring of an object that has been loaded."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
