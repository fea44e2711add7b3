"""The page is complete, ordered, self-contained and harmless, whatever the predictions hold."""

import os
import pickle
import re
import tracemalloc
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from meantime.errors import MeantimeError
from meantime.images import load_image
from meantime.prediction import failure
from meantime.report import ReportWriter, write_report
from meantime.report.card import thumbnail

NAMES = ("cat", "dog")
VOID = {"meta", "image", "rect", "use"}


class Page(HTMLParser):
    """Walks a page: tags must balance, and nothing may be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), "no script"
            if name in ("src", "href", "xlink:href"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words += data


def write(path: Path, predictions) -> str:
    write_report(path, predictions, method="mta", encoder="embedded")
    return path.read_text(encoding="utf-8")


def test_page_is_balanced_and_loads_nothing(tmp_path, make):
    text = write(tmp_path / "r.html", [make(), make("dog", "cat"), failure("x.jpg", NAMES, "broken")])
    page = Page(text)
    assert page.links
    for link in page.links:
        assert link.startswith("data:image/jpeg;base64,") or link[1:] in page.ids
    assert "script" not in page.tags
    assert "@import" not in text
    assert "url(" not in text
    assert len(page.ids) == len(set(page.ids))


def test_every_image_is_there_with_its_picture_bars_and_views(tmp_path, make):
    page = Page(write(tmp_path / "r.html", (make() for _ in range(5))))
    assert page.tags.count("article") == page.tags.count("image") == page.tags.count("table") == 5
    assert page.tags.count("use") == 5 * 16  # of 20 views the first twelve and the last four
    assert page.words.count("4 more") == 5
    assert page.tags.count("tr") == 5 * 5


def test_header_counts(tmp_path, make):
    predictions = [make(), make("dog", "cat"), make(threshold=0.9), failure("x.jpg", NAMES, "broken")]
    page = Page(write(tmp_path / "r.html", predictions))
    words = re.sub(r"\s+", " ", page.words)
    for part in ("4 images", "1 changed", "1 abstained", "1 unreadable", "mta", "embedded", "20 views"):
        assert part in words
    assert "Inlierness is" in words
    assert "incomplete" not in words


def test_changed_images_come_first_and_say_how(tmp_path, make):
    predictions = [make("pizza", "pizza"), failure("x", NAMES, "broken"), make("dog", "cat")]
    words = Page(write(tmp_path / "r.html", predictions)).words
    assert words.index("changed: cat → dog") < words.index("pizza 80.0 %") < words.index("broken")


def test_plain_answer_is_always_among_the_bars(tmp_path, make):
    names = tuple(f"name{i}" for i in range(30))
    words = Page(write(tmp_path / "r.html", [make("name0", "name29", names=names)])).words
    assert words.count("name29") == 2  # in the mark and in the bars


def test_bars_are_told_apart_by_words_too(tmp_path, make):
    text = write(tmp_path / "r.html", [make("dog", "cat")])
    assert '<th scope="row">dog</th>' in text
    words = Page(text).words
    assert words.count("plain zero-shot: ") == words.count("mta: ") == 5
    assert "dogplain zero-shot: 4.0 %mta: 80.0 %" in words


def test_a_large_jpeg_is_decoded_no_larger_than_its_card_needs(tmp_path, photo):
    path = tmp_path / "large.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    with Image.open(photo) as small:
        small.resize((6000, 4500)).save(path, exif=exif)
    whole = Image.fromarray(load_image(path))
    whole.thumbnail((320, 320))
    tracemalloc.start()
    made = thumbnail(str(path))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 6000 * 4500 * 3 / 4
    with Image.open(BytesIO(b64decode(made.data))) as shown:
        assert shown.size == (made.width, made.height) == (240, 320)
        difference = np.asarray(shown).astype(int) - np.asarray(whole)
    assert np.abs(difference).mean() < 3


def test_hostile_names_stay_text(tmp_path, make, photo):
    bad = "<script>alert('x')</script>\"&amp;"
    path = tmp_path / "a<b>&\"'.png"
    path.write_bytes(photo.read_bytes())
    names = (bad, "cat")
    predictions = [
        make(bad, "cat", str(path), names=names),
        make("cat", bad, str(path), names=names, threshold=0.9),
        failure(bad, names, f"{bad} is bad"),
    ]
    write_report(tmp_path / "r.html", predictions, method=bad, encoder=bad, title=bad)
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert page.words.count(bad) >= 8
    assert path.name in page.words


def test_file_name_that_is_not_unicode(tmp_path):
    name = os.fsdecode(b"caf\xe9.jpg")
    assert "caf\\udce9.jpg" in write(tmp_path / "r.html", [failure(name, NAMES, "broken")])


def test_abstained_and_unreadable_give_their_reason(tmp_path, make):
    predictions = [make("dog", "cat", threshold=0.95), failure("x.jpg", NAMES, "it is truncated")]
    page = Page(write(tmp_path / "r.html", predictions))
    assert "less than the 95 % asked for" in page.words
    assert "it is truncated" in page.words
    assert "changed" not in page.ids


def test_picture_that_is_gone_or_never_had_a_file(tmp_path, make):
    page = Page(write(tmp_path / "r.html", [make(path=None), make(path=str(tmp_path / "gone.jpg"))]))
    assert page.tags.count("article") == 2
    assert "image" not in page.tags
    assert "does not exist" in page.words
    assert "image 1" in page.words


def test_no_predictions(tmp_path):
    assert "0 images" in Page(write(tmp_path / "r.html", [])).words


def test_views_that_count_alike_get_no_boxes(tmp_path, make):
    page = Page(write(tmp_path / "r.html", [replace(make(), inlierness=np.full(20, 0.05, np.float32))]))
    assert "rect" not in page.tags


def test_part_files_are_removed_and_an_old_page_replaced(tmp_path, make, photo):
    (tmp_path / "r.html").write_text("old")
    write(tmp_path / "r.html", [make()])
    assert sorted(p.name for p in tmp_path.iterdir()) == [photo.name, "r.html"]
    assert "old" not in Page((tmp_path / "r.html").read_text()).words


def test_old_page_stands_until_the_new_one_is_complete(tmp_path, make):
    path = tmp_path / "r.html"
    path.write_text("old")
    with ReportWriter(path, method="mta", encoder="embedded") as report:
        report.add(make())
        assert path.read_text() == "old"
    assert path.read_text() != "old"


@pytest.mark.parametrize(
    ("error", "how"), [(RuntimeError, "stopped by RuntimeError"), (KeyboardInterrupt, "interrupted")]
)
def test_a_run_that_stops_keeps_what_was_finished_and_says_so(tmp_path, make, photo, error, how):
    def predictions():
        yield make()
        raise error

    with pytest.raises(error):
        write(tmp_path / "r.html", predictions())
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert f"This report is incomplete: the run was {how}." in page.words
    assert page.tags.count("article") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == [photo.name, "r.html"]


def test_a_run_that_fails_at_once_leaves_the_old_page(tmp_path):
    (tmp_path / "r.html").write_text("old")
    with pytest.raises(RuntimeError), ReportWriter(tmp_path / "r.html", method="mta", encoder="embedded"):
        raise RuntimeError
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_writer_keeps_no_pictures(tmp_path, make):
    def size(report: ReportWriter) -> int:
        kept = {name: value for name, value in vars(report).items() if name != "_folder"}
        return len(pickle.dumps(kept))

    with ReportWriter(tmp_path / "r.html", method="mta", encoder="embedded") as report:
        report.add(make())
        first = size(report)
        for _ in range(20):
            report.add(make())
        assert size(report) == first


@pytest.mark.parametrize("name", ["", "missing/r.html"])
def test_page_that_cannot_be_written_is_refused_before_the_work(tmp_path, name):
    with pytest.raises(MeantimeError, match="folder"):
        ReportWriter(tmp_path / name, method="mta", encoder="embedded")
