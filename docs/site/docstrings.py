"""Docstrings say `name: what it is`, a line each: a list, to Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe


class ParametersAsLists(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            marked = re.sub(r"^(\w+(?:, \w+)*): ", r"- `\1`: ", obj.docstring.value, flags=re.M)
            obj.docstring.value = re.sub(r"(?<!\n)\n(- `)", r"\n\1", marked)
