"""Write docs/images/serve.png: the page of `regard serve` with a translation (needs Chromium).

python docs/_scripts/serve_screenshot.py
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

PICTURE = Path(__file__).parents[1] / "images" / "serve.png"
TEXT = "Hier, nous avons mangé du poisson avec nos amis à Paris.\nLe chat dort sur le canapé."
WORD = "fish"
SIZE = (1200, 760)
SECONDS = 60.0  # until a text is translated and aligned


def main() -> None:
    with _server() as address, _browser() as browser:
        browser.get(address)
        wait = WebDriverWait(browser, SECONDS)
        wait.until(lambda _: browser.find_element(By.ID, "translate").is_displayed())
        browser.find_element(By.ID, "source").send_keys(TEXT)
        browser.find_element(By.CSS_SELECTOR, "#alternatives summary").click()
        wait.until(lambda _: browser.find_elements(By.CSS_SELECTOR, "#target .word"))
        words = browser.find_elements(By.CSS_SELECTOR, "#target .word")
        pointed = next(word for word in words if word.text == WORD)
        ActionChains(browser).move_to_element(pointed).pause(1).perform()
        browser.save_screenshot(str(PICTURE))
    print(PICTURE)


@contextmanager
def _server() -> Iterator[str]:
    """Serve fr-en; yield the address of the page."""
    command = [sys.executable, "-m", "regard", "serve", "fr-en", "--port", "0", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            match = re.match(r"(http://\S+) serves", server.stdout.readline())
            yield match[1] if match else sys.exit("the server did not start.")
        finally:
            server.terminate()


@contextmanager
def _browser() -> Iterator[webdriver.Chrome]:
    binary = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("no Chromium.")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    size = {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield browser
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
