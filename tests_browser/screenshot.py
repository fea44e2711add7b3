"""Write docs/images/page.png, the picture of the page in the README: python tests_browser/screenshot.py"""

import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

OUT = Path(__file__).parents[1] / "docs" / "images" / "page.png"
NAMES = "temple,airplane,tree,car,rocket,flower"
WIDTH = 1200


def take(browser: Browser, url: str) -> Image.Image:
    """Return the page with an answer on it."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 800})
    page.goto(url)
    page.wait_for_selector("#samples img")
    while page.locator("#list li").count():
        page.press("#names", "Backspace")
    page.fill("#names", NAMES)
    page.press("#names", "Enter")
    page.get_by_role("button", name="Sample: china").click()
    page.wait_for_selector("#why:not([hidden])", timeout=120_000)
    page.mouse.move(5, 5)
    page.wait_for_timeout(1000)  # bars grow
    main = page.locator("main").bounding_box()
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": main["y"] + main["height"] + 26}
    return Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip))).convert("RGB")


if __name__ == "__main__":
    from conftest import ARGUMENTS, CHROMIUM, Server

    server = Server()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        picture = take(browser, server.url)
        browser.close()
    server.stop()
    # A third of the bytes, and hardly to be seen
    picture.quantize(256, kmeans=3, dither=Image.Dither.NONE).save(OUT, optimize=True)
    print(f"{OUT}: {OUT.stat().st_size / 1e3:.0f} kB")
