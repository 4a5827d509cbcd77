"""What the batteries share: a class names what is tested, and every test runs for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from electra.foundation.extensions import trust


class Contract:
    subject: ClassVar[str]
    """The attribute of a subclass that holds the name or path, or several, of what is tested."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "name" in metafunc.fixturenames:
            given: str | Path | Sequence[str | Path] = getattr(self, self.subject)
            names = [str(one) for one in ([given] if isinstance(given, str | Path) else given)]
            trust(*names)
            metafunc.parametrize("name", names, ids=[Path(name).stem for name in names])
