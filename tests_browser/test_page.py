"""The page as people use it: by click, by keyboard, by dropping a file, on a phone, in the dark."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import expect

PHOTOS = Path(__file__).parents[1] / "examples" / "photos"


def test_a_sample_by_click(visit):
    page = visit()
    page.choose("chelsea")
    expect(page.locator("#label")).to_have_text("tabby cat")
    expect(page.locator("#verdict")).to_have_text("plain zero-shot agrees")
    rows = page.locator("#bars tr")
    assert rows.count() == 7  # six names, and how many more there are
    ours = rows.first.locator(".ours .share").inner_text()
    assert ours == page.locator("#score").inner_text()
    width = rows.first.locator(".ours i").evaluate("bar => bar.style.width")
    assert float(width.rstrip("%")) == pytest.approx(float(ours.rstrip(" %")), abs=0.051)
    assert page.locator("#grid canvas").count() == 64
    assert page.locator("#path .dot").count() == 64
    assert page.locator("#path .mode").count() == 1
    assert page.locator("#boxes .trusted").count() == 3
    assert page.locator("#boxes .doubted").count() == 3
    expect(page.locator("#status")).to_contain_text(f"tabby cat, {ours}. 64 views")


def test_a_sample_by_keyboard(visit):
    page = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.ariaLabel") == "Sample: china":
            break
    page.keyboard.press("Enter")
    page.answered()
    expect(page.locator("#label")).to_have_text("palace")
    first = page.locator("#grid button").first
    first.focus()
    assert page.locator("#boxes .looked").count() == 1
    assert page.locator("#path .looked").count() == 1
    label = first.get_attribute("aria-label")
    assert re.match(r"(Crop \d+|The whole photo).*: trusted .* times the average", label)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    index = page.evaluate("[...document.querySelectorAll('#grid button')].indexOf(document.activeElement)")
    assert index == 17
    expect(page.locator("#about")).to_contain_text(page.evaluate("document.activeElement.ariaLabel"))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.copy") == "json"  # one stop for the whole grid
    assert page.locator("#boxes .looked").count() == 0


def test_views_are_the_crops_that_the_boxes_say(visit):
    page = visit(expected=["willReadFrequently"])  # it is this test that reads, not the page
    with page.asked() as response:
        page.choose("flower")
    answer = response.value.json()
    order = sorted(range(64), key=lambda i: -answer["inlierness"][i])
    best = answer["boxes"][order[0]]
    colours = page.evaluate(
        """([left, top, right, bottom, flip]) => {
            const mean = (canvas, x, y, w, h) => {
                const data = canvas.getContext("2d").getImageData(x, y, w, h).data;
                const sum = [0, 0, 0];
                data.forEach((value, i) => { if (i % 4 < 3) sum[i % 4] += value / (w * h); });
                return sum;
            };
            const photo = document.getElementById("photo"), { width: W, height: H } = photo;
            const crop = document.querySelector("#grid canvas"), half = crop.width / 2;
            const middle = (left + right) / 2;
            const side = flip ? [middle, right] : [left, middle]; // what stands on the left of the crop
            return [
                mean(photo, left * W, top * H, (right - left) * W, (bottom - top) * H),
                mean(crop, 0, 0, crop.width, crop.height),
                mean(photo, side[0] * W, top * H, (side[1] - side[0]) * W, (bottom - top) * H),
                mean(crop, 0, 0, half, crop.height),
            ];
        }""",
        [*best, answer["flips"][order[0]]],
    )
    assert colours[1] == pytest.approx(colours[0], abs=3)
    assert colours[3] == pytest.approx(colours[2], abs=4)


def test_drop_choose_and_paste(visit):
    page = visit()
    coffee = (PHOTOS / "coffee.jpg").read_bytes()
    page.give("drop", "my cup.jpg", coffee, "image/jpeg")
    page.answered()
    expect(page.locator("#label")).to_have_text("espresso")
    expect(page.get_by_role("img", name="Photo: my cup.jpg")).to_be_visible()
    page.locator("#file").set_input_files(PHOTOS / "flower.jpg")
    expect(page.locator("#label")).to_have_text("daisy")
    page.give("paste", "image.png", coffee, "image/png")
    expect(page.locator("#label")).to_have_text("espresso")


def test_chips(visit):
    page = visit()
    names = page.get_by_label("What might it be?")
    start = page.chips
    names.press("Backspace")
    assert page.chips == start[:-1]
    names.type("lynx")
    names.press("Enter")
    names.type("fox,")
    names.type(" lynx ")  # there already
    names.press("Enter")
    assert page.chips == [*start[:-1], "lynx", "fox"]
    page.get_by_role("button", name="Remove tiger").click()
    assert "tiger" not in page.chips
    assert page.evaluate("document.activeElement.id") == "names"
    page.evaluate(
        """() => {
            const data = new DataTransfer();
            data.setData("text", "owl, barn\\n<b>bold</b>");
            const paste = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
            document.getElementById("names").dispatchEvent(paste);
        }"""
    )
    assert page.chips[-3:] == ["owl", "barn", "<b>bold</b>"]
    with page.asked() as response:
        page.choose("chelsea")
    sent = {entry["label"] for entry in response.value.json()["scores"]}
    assert sent == set(page.chips)


def test_new_names_are_asked_at_once_and_one_is_too_few(visit):
    page = visit()
    page.choose("coffee")
    page.get_by_label("What might it be?").fill("cappuccino")
    with page.asked() as response:
        page.keyboard.press("Enter")
    assert "cappuccino" in {entry["label"] for entry in response.value.json()["scores"]}
    page.answered()
    while len(page.chips) > 1:
        page.get_by_label("What might it be?").press("Backspace")
    expect(page.get_by_role("alert")).to_contain_text("Two names at least")


def test_slider(visit):
    page = visit()
    page.choose("rocket")
    slider = page.get_by_role("slider", name="How many views?")
    assert slider.get_attribute("aria-valuetext") == "64 views"
    slider.focus()
    with page.asked() as response:
        for _ in range(3):
            page.keyboard.press("ArrowLeft")
    assert response.value.json()["views"] == 8
    expect(page.locator("#grid canvas")).to_have_count(8)
    expect(page.locator("#status")).to_contain_text("8 views")
    with page.asked():
        page.keyboard.press("Home")
    expect(page.locator("#grid canvas")).to_have_count(1)
    expect(page.locator("#label")).to_have_text("rocket")


def test_copy(visit, server):
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    page.get_by_label("What might it be?").fill("cat's cradle")
    page.keyboard.press("Enter")
    with page.asked() as response:
        page.choose("chelsea")
    copied = {}
    for kind in ("JSON", "curl", "Python"):
        page.get_by_role("button", name=f"Copy as {kind}").click()
        expect(page.locator("#copied")).to_have_text("Copied.")
        copied[kind] = page.evaluate("navigator.clipboard.readText()")
        assert copied[kind] == page.locator("#code").inner_text()
        page.evaluate("document.getElementById('copied').textContent = ''")
    answer, taken = response.value.json(), json.loads(copied["JSON"])
    assert taken.keys() == answer.keys()
    assert taken["boxes"][5] == pytest.approx(answer["boxes"][5], rel=1e-5)
    assert copied["curl"].startswith(f"curl {server.url}/v1/classify")
    assert "cat'\\''s cradle" in copied["curl"]
    compile(copied["Python"], "copied", "exec")
    assert "views=64" in copied["Python"]


def test_copied_curl_sends_a_file_of_any_name(visit, tmp_path):
    page = visit()
    name = 'a "cup", 50%;type=text \\ it\'s.jpg'
    photo = (PHOTOS / "coffee.jpg").read_bytes()
    (tmp_path / name).write_bytes(photo)
    page.give("drop", name, photo, "image/jpeg")
    page.answered()
    page.get_by_role("button", name="Copy as curl").click()
    command = page.locator("#code").inner_text()
    assert "Authorization" not in command
    run = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(run.stdout)["label"] == "espresso"


def test_nothing_moves_where_that_is_not_wanted(visit):
    spinner = "getComputedStyle(document.getElementById('status'), '::before').animationName"
    for wanted, name in (("no-preference", "turn"), ("reduce", "none")):
        page = visit(reduced_motion=wanted)
        page.evaluate("document.body.classList.add('busy')")
        assert page.evaluate(spinner) == name


def test_dark_and_light(visit):
    def background(page):
        return [int(x) for x in re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))]

    assert min(background(visit(color_scheme="light"))) > 200
    dark = visit(color_scheme="dark")
    assert max(background(dark)) < 60
    dark.choose("china")
    assert len(dark.screenshot(full_page=True)) > 50_000


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_overflows_at_any_width(visit, width):
    page = visit(width=width, height=844)
    page.choose("china")
    page.get_by_role("button", name="Copy as curl").click()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    over = """() => [...document.querySelectorAll("main *")].filter((e) => !e.closest("pre, svg, .quiet")
        && e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.outerHTML.slice(0, 80))"""
    assert page.evaluate(over) == []


@pytest.mark.parametrize("width", [320, 375, 390])
def test_a_word_is_never_broken_on_a_phone(visit, width):
    page = visit(width=width, height=844)
    page.choose("flower")
    lines = """() => [...document.querySelectorAll("#bars th")].map((e) => {
        const text = document.createRange();
        text.selectNodeContents(e);
        return [e.textContent, text.getClientRects().length];
    })"""
    found = dict(page.evaluate(lines))
    assert "sunflower" in found
    assert {name: count for name, count in found.items() if count > len(name.split())} == {}


def test_everything_has_a_name(visit):
    page = visit()
    page.choose("chelsea")
    nameless = """() => [...document.querySelectorAll("button, input, [role=img]")].filter((e) => !(e.ariaLabel
        || e.innerText?.trim() || e.labels?.length)).map((e) => e.outerHTML)"""
    assert page.evaluate(nameless) == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    expect(page.get_by_role("row", name=re.compile("tabby cat"))).to_be_visible()
