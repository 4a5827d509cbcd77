"""The base class of contract tests: a subclass names its subjects, and every test runs for each of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from electra.foundation.extensions import trust


class Contract:
    """Runs the tests of a subclass for each name or path in the attribute that `subject` names."""

    subject: ClassVar[str]
    """The attribute of a subclass that holds the name or path of what is tested, or several of them."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Gives the tests their argument `name`, and marks the files as trusted."""
        if "name" in metafunc.fixturenames:
            subjects: str | Path | Sequence[str | Path] = getattr(self, self.subject)
            names = [str(name) for name in ([subjects] if isinstance(subjects, str | Path) else subjects)]
            trust(*names)
            metafunc.parametrize("name", names, ids=[Path(name).stem for name in names])
