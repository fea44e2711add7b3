"""What the page says when something is wrong."""

import io
import json
from contextlib import suppress

import pytest
from PIL import Image
from playwright.sync_api import Error, expect


def test_a_server_that_stops_and_comes_back(visit, serve):
    own = serve()
    page = visit(own.url, expected=["ERR_CONNECTION_REFUSED"])
    page.choose("coffee")
    own.stop()
    page.get_by_label("What might it be?").fill("latte")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached. Is it still running?")
    page.get_by_role("button", name="Sample: china").click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be")
    own.start()
    with page.asked():
        page.get_by_role("button", name="Try again").click()
    page.answered()
    expect(page.get_by_role("alert")).to_be_hidden()


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_when_it_said(visit, status):
    page = visit(expected=[str(status)])
    refusals = [
        {"status": status, "headers": {"Retry-After": "2"}, "json": {"error": {"type": "x", "message": "busy"}}}
    ]
    page.route("**/v1/classify", lambda route: route.fulfill(**refusals.pop()) if refusals else route.continue_())
    page.evaluate(
        """() => {
            window.changes = 0; // of what is read out at once
            const watch = { childList: true, characterData: true, subtree: true };
            new MutationObserver(() => window.changes++).observe(document.querySelector("[role=alert]"), watch);
        }"""
    )
    page.get_by_role("button", name="Sample: flower").click()
    expect(page.locator("#trouble")).to_contain_text("The server is busy. Trying again in 2 s")
    before = page.evaluate("window.changes")
    expect(page.locator("#trouble")).to_contain_text("Trying again in 1 s")
    assert page.evaluate("window.changes") == before
    expect(page.get_by_role("alert")).to_have_text("The server is busy.")
    page.answered()
    expect(page.locator("#label")).to_have_text("daisy")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_file_that_is_no_picture(visit):
    page = visit()
    for _ in range(2):  # also after one that was
        page.give("drop", "notes.jpg", b"PK\x03\x04 not a picture at all", "image/jpeg")
        expect(page.get_by_role("alert")).to_contain_text("notes.jpg is not a picture that can be read")
        for gone in ("#stage", "#answer", "#why", "#again"):
            expect(page.locator(gone)).to_be_hidden()
        expect(page.get_by_text("Drop a photo here")).to_be_visible()
        page.choose("china")
        expect(page.get_by_role("alert")).to_be_hidden()
        expect(page.locator("#stage")).to_be_visible()


def test_an_answer_to_an_earlier_question_is_not_offered(visit):
    page = visit(expected=["422"])
    page.choose("china")
    copy = page.get_by_role("button", name="Copy as JSON")
    expect(copy).to_be_visible()
    page.route("**/v1/classify", lambda route: route.fulfill(status=422, json={"error": {"message": "no"}}))
    page.get_by_label("What might it be?").fill("pagoda")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("No.")
    expect(page.locator("#answer")).to_be_visible()
    expect(copy).to_be_hidden()


def test_a_picture_that_is_too_large_for_the_server(visit, serve):
    own = serve("--max-body", "0.02")
    page = visit(own.url, expected=["413"])
    page.get_by_role("button", name="Sample: china").click()
    expect(page.get_by_role("alert")).to_contain_text("too large for this server: the body is larger than")


def test_a_failure_inside_the_server(visit):
    page = visit(expected=["500"])
    page.route("**/v1/classify", lambda route: route.fulfill(status=500, body="no JSON"))
    page.get_by_role("button", name="Sample: china").click()
    expect(page.get_by_role("alert")).to_contain_text("The server has failed (500).")


def test_a_server_with_a_token(visit, serve):
    own = serve("--token-env", "PAGE_TOKEN", PAGE_TOKEN="open sesame")
    page = visit(own.url, expected=["401"])
    expect(page.get_by_role("alert")).to_contain_text("wants a token")
    page.get_by_label("This server asks for its token").fill("open sesame")
    page.get_by_role("button", name="Use it").click()
    page.wait_for_selector("#samples img")
    page.choose("rocket")
    expect(page.locator("#label")).to_have_text("rocket")
    assert page.locator("#gate").is_hidden()
    page.get_by_role("button", name="Copy as curl").click()
    curl = page.locator("#code").inner_text()
    assert '-H "Authorization: Bearer $TOKEN"' in curl
    assert "sesame" not in curl


def test_only_the_last_of_several_questions_is_answered(visit):
    page = visit()
    page.choose("chelsea")
    held = []
    page.route("**/v1/classify", lambda route: held.append(route) if not held else route.continue_())
    page.get_by_role("button", name="Sample: china").click()
    page.wait_for_selector("body.busy")
    page.choose("coffee")
    expect(page.locator("#label")).to_have_text("espresso")
    old = {"label": "late", "score": 1, "scores": [], "plain": {"label": "late", "score": 1, "scores": []}}
    with suppress(Error):  # the page may have hung up, which is as good
        held[0].fulfill(body=json.dumps(old))
    page.wait_for_timeout(200)
    expect(page.locator("#label")).to_have_text("espresso")


def test_a_portrait_turned_by_exif_keeps_its_boxes_on_the_photo(visit):
    picture = Image.effect_noise((300, 900), 60).convert("RGB")
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees: 900 x 300
    file = io.BytesIO()
    picture.save(file, "JPEG", exif=exif)
    page = visit()
    with page.asked() as response:
        page.give("drop", "turned.jpg", file.getvalue(), "image/jpeg")
    page.answered()
    assert response.value.json()["size"] == [900, 300]
    assert page.evaluate("[document.getElementById('photo').width, document.getElementById('photo').height]") == [
        900,
        300,
    ]
    canvas, boxes = (page.locator(place).bounding_box() for place in ("#photo", "#boxes"))
    assert canvas == pytest.approx(boxes, abs=1)
