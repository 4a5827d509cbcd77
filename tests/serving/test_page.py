"""The page in a real browser: every part works, by keyboard too, and text is never markup."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("selenium", reason="needs selenium")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

HOSTILE = "<img src=x onerror=fail()> chef \U0001f469 \u202eate"


@pytest.fixture
def page(browser: Any, address: str) -> Any:
    browser.get(address)
    wait(browser, lambda: shown(browser, "#near-found li"))
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
    box = page.find_element(By.ID, "live-text")
    box.clear()
    box.send_keys("the chef ate")
    wait(page, lambda: texts(page, "#live-marks span") == ["the", "chef", "ate"])
    wait(page, lambda: texts(page, "#live-worst")[0].startswith("Highest: "))
    strengths = {mark.value_of_css_property("background-color") for mark in shown(page, "#live-marks span")}
    assert len(strengths) == 3, "each by its own probability"
    size = "const {width, height} = arguments[0].getBoundingClientRect(); return [width, height]"
    over, under = (page.execute_script(size, layer) for layer in shown(page, ".mirror .layer"))
    assert over == under


def test_text_is_never_markup(page: Any) -> None:
    write(page, "#live-text", HOSTILE)
    wait(page, lambda: {"chef", "\U0001f469"} <= set(texts(page, "#live-marks span")))
    assert texts(page, "#live-marks") == [HOSTILE + "\n"], "offsets count code points, not UTF-16 units"
    for field in ("near-query", "near-texts", "draw-text"):
        write(page, f"#{field}", HOSTILE)
    page.find_element(By.CSS_SELECTOR, "#near button").click()
    wait(page, lambda: any("<img" in text for text in texts(page, "#near-found li")))
    page.find_element(By.CSS_SELECTOR, "#draw button").click()
    wait(page, lambda: texts(page, "#draw-told")[0].startswith("Draw 2"))
    assert not shown(page, "main img")


def test_another_draw_shows_other_replacements(page: Any) -> None:
    wait(page, lambda: texts(page, "#draw-told")[0].startswith("Draw 1"))
    button = page.find_element(By.CSS_SELECTOR, "#draw button")
    tables = set()
    for number in range(2, 7):
        button.click()
        wait(page, lambda: texts(page, "#draw-told")[0].startswith(f"Draw {number}"))  # noqa: B023
        tables.add(texts(page, "#draw-rows")[0])
    assert len(tables) > 1, "another seed, another draw"
    assert len(texts(page, "#draw-rows td")) == 5 * len(texts(page, "#draw-rows tr")) > 0


def test_the_game_can_be_played_by_keyboard(page: Any) -> None:
    wait(page, lambda: shown(page, "#game-words button"))
    words = shown(page, "#game-words button")
    page.execute_script("arguments[0].focus()", words[0])
    page.switch_to.active_element.send_keys(Keys.SPACE)
    assert words[0].get_attribute("aria-pressed") == "true"
    for _ in words:
        page.switch_to.active_element.send_keys(Keys.TAB)
    assert page.switch_to.active_element.get_attribute("id") == "game-reveal"
    page.switch_to.active_element.send_keys(Keys.ENTER)
    wait(page, lambda: "replaced. You:" in texts(page, "#game-told")[0])
    assert texts(page, "#game-score")[0].startswith("After 1 round: you")
    assert page.switch_to.active_element.get_attribute("id") == "game-next"
    page.switch_to.active_element.send_keys(Keys.ENTER)
    wait(page, lambda: texts(page, "#game-told") == [""])


def test_an_identical_sentence_is_the_nearest(page: Any) -> None:
    write(page, "#near-texts", "a new meal .\nthe old chef ate\n\ncats like that")
    write(page, "#near-query", "the old chef ate")
    page.find_element(By.ID, "near-query").send_keys(Keys.ENTER)
    wait(page, lambda: len(texts(page, "#near-found li")) == 3)
    assert texts(page, "#near-found li")[0] == "1.000the old chef ate"


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_nothing_is_wider_than_a_narrow_screen(browser: Any, address: str, path: str) -> None:
    phone = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        browser.get(address + path)
        if path == "/":
            wait(browser, lambda: texts(browser, "#near-found li"))
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
