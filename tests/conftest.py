"""What all tests share: one thread per process, no network, and the way to real data where it is at hand."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import offline
import pytest

from electra.foundation import display, extensions

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by torch when it is first imported
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # what is no folder may be a name on the hub
offline.block_network()
pytest.register_assert_rewrite("contracts.probes", "contracts.tasks")
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background, and by children
display.SILENCE = 3600.0  # what a command says while it works does not depend on the machine's speed


# Contract tests that train: one case of a kind is fast, the others are slow.
ONE_OF_A_KIND = {
    "test_learns_one_batch_by_heart": ("-electra]",),
    "test_a_fine_tuned_model_reproduces_its_predictions": tuple(
        f"[{task}]" for task in ("classification", "pair", "regression", "tagging", "qa")
    ),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        kept = ONE_OF_A_KIND.get(item.name.partition("[")[0], ())
        if kept and "[" in item.name and not item.name.endswith(kept):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    """A test that reaches for another machine fails, even where a library swallows the error."""
    offline.attempts.clear()
    yield
    assert not offline.attempts


@pytest.fixture(autouse=True)
def no_trusted_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that one test names as code are not trusted in the next."""
    monkeypatch.setattr(extensions, "trusted", [*extensions.trusted])


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are written without figures, which take longer to draw than most tests train."""
    monkeypatch.setattr("electra.pages.figures.missing", lambda: "written without figures")


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """shared_data("corpora/x.jsonl.zst"): a real file from $ELECTRA_TEST_DATA, or from ../shared/data; skips
    when it is absent.
    """
    beside = Path(__file__).parents[2] / "shared" / "data"
    root = Path(os.environ.get("ELECTRA_TEST_DATA") or beside)

    def find(name: str) -> Path:
        if not (root / name).exists():
            pytest.skip(f"needs {name} (set ELECTRA_TEST_DATA to the folder that holds it)")
        return root / name

    return find


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium, where it and its driver are installed."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no browser here (Debian: apt-get install chromium chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    profile: Path = tmp_path_factory.mktemp("profile")
    for flag in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--disable-dev-shm-usage", "--window-size=1000,900", f"--user-data-dir={profile}",
    ):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    started.set_page_load_timeout(30)
    yield started
    started.quit()
