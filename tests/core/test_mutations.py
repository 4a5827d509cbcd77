"""The faults that `make test-mutations` plants: each finds its place in the code, and its tests exist."""

import mutations
import pytest


def test_there_are_many_and_each_has_a_name() -> None:
    names = [fault.name for fault in mutations.faults()]
    assert len(set(names)) == len(names) >= 37


@pytest.mark.parametrize("fault", mutations.faults(), ids=lambda fault: fault.name)
def test_a_planted_fault_finds_its_place_and_its_tests(fault: mutations.Fault) -> None:
    code = (mutations.ROOT / "src" / "electra" / fault.file).read_text(encoding="utf-8")
    assert code.count(fault.old) == 1
    compile(code.replace(fault.old, fault.new), fault.file, "exec")
    for test in fault.tests:
        file, _, name = test.partition("::")
        if file.startswith("tests/"):
            text = (mutations.ROOT / file).read_text(encoding="utf-8")
            assert not name or f"def {name.partition('[')[0]}(" in text, test
