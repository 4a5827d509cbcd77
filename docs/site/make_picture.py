"""Takes the picture of the demo page: run `electra serve tiny-en`, then `python docs/site/make_picture.py`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.support.wait import WebDriverWait

PICTURE = Path(__file__).parents[1] / "pictures" / "demo.png"


def main(address: str) -> None:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,900"):
        options.add_argument(flag)
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    try:
        light = {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", light)
        browser.get(address)
        WebDriverWait(browser, 30).until(
            lambda page: page.execute_script("return document.querySelectorAll('#marks span').length > 0")
        )
        end = browser.execute_script("return document.querySelector('#detect').getBoundingClientRect().bottom")
        size = {"width": 1000, "height": int(end) + 16, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        PICTURE.parent.mkdir(exist_ok=True)
        browser.save_screenshot(str(PICTURE))
    finally:
        browser.quit()


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["http://127.0.0.1:8000/"]))
