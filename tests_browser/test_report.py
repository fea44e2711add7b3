"""The report as people use it: filtered, sorted, without scripts, on a phone."""

import numpy as np
import pytest
from PIL import Image

from meantime.prediction import Prediction, failure
from meantime.report import write_report
from meantime.report.section import CARDS

NAMES = ("cat", "dog", "<i>shark</i>")
MORE = 30  # images that are shown small


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page of more images than are shown in full: every third is a shark, and certainty falls with the number."""
    folder = tmp_path_factory.mktemp("report")
    predictions = [failure("broken.jpg", NAMES, "'broken.jpg' is truncated")]
    for number in range(CARDS + MORE):
        path = folder / f"IMG_{number}.jpg"
        Image.new("RGB", (90, 60), (4 * number, 90, 120)).save(path)
        score = 0.99 - number / 100
        shares = np.roll(np.array([score, (1 - score) / 2, (1 - score) / 2], np.float32), number % 3)
        boxes = np.array([[0, 0, 1, 1], [0, 0, 0.5, 0.5]], np.float32)
        weights = np.array([0.7, 0.3], np.float32)
        predictions.append(Prediction(str(path), NAMES, shares, shares, weights, boxes, np.zeros(2, bool)))
    write_report(folder / "report.html", predictions, method="mta", encoder="embedded")
    return folder / "report.html"


@pytest.fixture
def look(browser, report):
    """A function that opens the report; at the end nothing may have been fetched, and nothing complained."""
    contexts, noted = [], []

    def open_report(width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: noted.append(request.url))
        page.on("console", lambda message: noted.append(message.text))
        page.on("pageerror", lambda error: noted.append(str(error)))
        page.goto(report.as_uri())
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert [text for text in noted if not text.startswith(("data:", report.as_uri()))] == []


def files(page, kind):
    return page.locator(f".{kind}:not([hidden]) .file").all_text_contents()


def test_a_label_is_shown_alone_and_then_all_again(look):
    page = look()
    shark = page.get_by_role("button", name="<i>shark</i> 18")
    shark.click()
    assert page.locator("#same .count").inner_text() == "18 of 54"
    assert len(files(page, "card")) + len(files(page, "tile")) == 18
    assert not page.locator("#unreadable").is_visible()
    assert page.locator("#label").input_value() == shark.get_attribute("value")
    assert shark.get_attribute("aria-pressed") == "true"
    shark.click()
    assert page.locator("#same .count").inner_text() == "54"
    assert page.locator("#unreadable").is_visible()
    page.locator("#label").select_option("<i>shark</i>")
    assert page.locator("#same .count").inner_text() == "18 of 54"


def test_files_are_found_by_name(look):
    page = look()
    page.locator("#find").fill("img_7.")
    assert files(page, "tile") == ["IMG_7.jpg"]
    page.locator("#find").fill("BROKEN")
    assert files(page, "row") == ["broken.jpg"]
    assert not page.locator("#same").is_visible()
    page.locator("#find").fill("nowhere")
    assert page.get_by_text("No image fits.").is_visible()


def test_order_by_path_and_back(look):
    page = look()
    least = [f"IMG_{number}.jpg" for number in reversed(range(CARDS + MORE))]
    assert files(page, "card") + files(page, "tile") == least
    page.locator("#sort").select_option("by path")
    assert files(page, "tile") == [f"IMG_{number}.jpg" for number in range(MORE)]
    page.locator("#sort").select_option("least certain first")
    assert files(page, "card") + files(page, "tile") == least


def test_an_image_leads_to_its_file(look, report):
    page = look()
    with page.context.expect_page() as opened:
        page.locator(".tile").first.click()
    opened.value.wait_for_load_state()
    assert opened.value.url == (report.parent / f"IMG_{MORE - 1}.jpg").as_uri()


def test_without_scripts_everything_is_there(look):
    page = look(java_script_enabled=False)
    assert page.locator(".card:visible").count() == CARDS
    assert page.locator(".tile:visible").count() == MORE
    assert not page.locator("#bar").is_visible()
    assert page.locator(".labels button:disabled").count() == 3


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_runs_over_the_edge(look, width):
    assert look(width).evaluate("document.documentElement.scrollWidth") == width
