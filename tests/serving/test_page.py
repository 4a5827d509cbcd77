"""The page in a real browser: every part works, by keyboard too, and text is never markup."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="needs selenium")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from serving.conftest import running

from electra.serving.models import open_models

HOSTILE = "<img src=x onerror=fail()> chef \U0001f469 \u202eate"


@pytest.fixture
def page(browser: Any, address: str) -> Any:
    browser.get(address)
    wait(browser, lambda: shown(browser, "#marks span"))
    yield browser
    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert not errors, errors  # a violation of the policy is one


def wait(browser: Any, condition: Any) -> None:
    WebDriverWait(browser, 10, poll_frequency=0.05).until(lambda _: condition())


def shown(browser: Any, selector: str) -> list[Any]:
    found: list[Any] = browser.find_elements(By.CSS_SELECTOR, selector)
    return found


def texts(browser: Any, selector: str) -> list[str]:
    """The texts of all such elements, at one moment: the page may be drawing."""
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
    found: list[str] = browser.execute_script(script, selector)
    return found


def write(browser: Any, selector: str, text: str) -> None:
    """As typing it would: the driver's own keys know no characters beyond the first plane."""
    script = "const box = document.querySelector(arguments[0]); box.value = arguments[1];"
    browser.execute_script(f"{script} box.dispatchEvent(new Event('input'))", selector, text)


def test_words_are_coloured_while_typing(page: Any) -> None:
    box = page.find_element(By.ID, "text")
    box.clear()
    box.send_keys("the chef ate")
    wait(page, lambda: texts(page, "#marks span") == ["the", "chef", "ate"])
    wait(page, lambda: texts(page, "#marked li b")[0] in {"the", "chef", "ate"})
    strengths = {mark.value_of_css_property("background-color") for mark in shown(page, "#marks span")}
    assert len(strengths) == 3, "each by its own probability"
    size = "const {width, height} = arguments[0].getBoundingClientRect(); return [width, height]"
    over, under = (page.execute_script(size, layer) for layer in shown(page, ".mirror .layer"))
    assert over == under


def test_text_is_never_markup(page: Any) -> None:
    write(page, "#text", HOSTILE)
    wait(page, lambda: {"chef", "\U0001f469"} <= set(texts(page, "#marks span")))
    assert texts(page, "#marks") == [HOSTILE + "\n"], "offsets count code points, not UTF-16 units"
    assert not shown(page, "main img")


def test_nothing_is_wider_than_a_narrow_screen(browser: Any, address: str) -> None:
    phone = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        browser.get(address)
        wait(browser, lambda: shown(browser, "#marks span"))
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_fine_tuned_model_predicts(browser: Any, served: list[Any], tmp_path: Any) -> None:
    tuned = Path(__file__).parents[1] / "fixtures" / "old-finetuning"
    [predictor] = open_models([str(tuned)])
    with running([replace(served[0], name="a"), predictor]) as (address, _):
        browser.get(address)
        wait(browser, lambda: shown(browser, "#marks span"))
        Select(browser.find_element(By.ID, "model")).select_by_visible_text(predictor.name)
        browser.find_element(By.ID, "input").send_keys("a fine film", Keys.ENTER)
        wait(browser, lambda: shown(browser, "#found li"))
        assert texts(browser, "#found li span")[0] >= texts(browser, "#found li span")[1]
        assert not browser.find_element(By.ID, "detect").is_displayed()
