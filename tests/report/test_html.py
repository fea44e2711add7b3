"""The page is complete, ordered, self-contained and harmless, whatever the predictions hold."""

import os
import pickle
import re
import tracemalloc
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from meantime.errors import MeantimeError
from meantime.images import load_image
from meantime.prediction import failure
from meantime.report import ReportWriter, write_report
from meantime.report.head import LABELS, script
from meantime.report.picture import CARD, TILE, thumbnails
from meantime.report.section import CARDS

NAMES = ("cat", "dog")
VOID = {"meta", "image", "rect", "use", "img", "input", "wbr"}


class Page(HTMLParser):
    """Walks a page: tags must balance, and nothing may be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.kinds: list[str] = []  # classes
        self.pictures: list[str] = []
        self.scripts: list[str] = []
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
                (self.links if tag in ("a", "use") else self.pictures).append(value or "")
            if name == "class":
                self.kinds.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.words += data


def write(path: Path, predictions) -> str:
    write_report(path, predictions, method="mta", encoder="embedded")
    return path.read_text(encoding="utf-8")


def test_page_is_balanced_and_loads_nothing(tmp_path, make):
    predictions = [make(), make("dog", "cat"), failure("x.jpg", NAMES, "broken"), *(make() for _ in range(CARDS))]
    text = write(tmp_path / "r.html", predictions)
    page = Page(text)
    assert page.tags.count("image") + page.tags.count("img") == len(page.pictures) == CARDS + 2
    for picture in page.pictures:
        assert picture.startswith("data:image/jpeg;base64,")
    for link in page.links:
        assert link == "photo.png" or link[1:] in page.ids
    assert "@import" not in text
    assert "url(" not in text
    assert len(page.ids) == len(set(page.ids))


def test_the_only_script_is_the_one_that_the_policy_allows(tmp_path, make):
    text = write(tmp_path / "r.html", [make()])
    assert Page(text).scripts == [script()]
    fingerprint = b64encode(sha256(script().encode()).digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{fingerprint}'" in text


def test_every_image_is_there_with_its_picture_bars_and_views(tmp_path, make):
    page = Page(write(tmp_path / "r.html", (make() for _ in range(5))))
    assert page.tags.count("article") == page.tags.count("image") == page.tags.count("table") == 5
    assert page.tags.count("use") == 5 * 16  # of 20 views the first twelve and the last four
    assert page.words.count("4 more") == 5
    assert page.tags.count("tr") == 5 * 5


def scored(make, score, best="cat", plain="cat", **fields):
    """A prediction whose best name has this score."""
    made = make(best, plain, **fields)
    shares = np.full(len(made.names), (1 - score) / (len(made.names) - 1), np.float32)
    shares[made.names.index(best)] = score
    return replace(made, probabilities=shares)


def test_the_least_certain_are_shown_in_full_and_all_others_small(tmp_path, make):
    rng = np.random.default_rng(0)
    scores = rng.permutation(np.linspace(0.3, 1.0, CARDS + 30))
    text = write(tmp_path / "r.html", (scored(make, score) for score in scores))
    page = Page(text)
    assert (page.kinds.count("card"), page.kinds.count("tile")) == (CARDS, 30)
    shown = [float(said) for said in re.findall(r'class="score">([\d.]+) %', text)]
    assert len(shown) == CARDS + 30
    assert shown == sorted(shown)
    assert f"The {CARDS} least certain come first, in full; 30 more follow small." in page.words


def test_every_section_has_images_in_full(tmp_path, make):
    predictions = [scored(make, 0.5) for _ in range(CARDS)] + [scored(make, 0.9, "dog", "cat"), make(threshold=0.9)]
    page = Page(write(tmp_path / "r.html", predictions))
    assert (page.kinds.count("card"), page.kinds.count("tile")) == (CARDS + 2, 0)
    assert "follow small" not in page.words


def test_a_small_one_says_what_changed_and_what_is_doubtful(tmp_path, make):
    changed = [scored(make, 0.5, "dog", "cat") for _ in range(CARDS)]
    doubtful = [scored(make, 0.4, threshold=0.99) for _ in range(CARDS)]
    last = [scored(make, 0.7, "shark", "teapot"), scored(make, 0.6, "rocket", "pizza", threshold=0.99)]
    words = Page(write(tmp_path / "r.html", [*changed, *doubtful, *last])).words
    assert "shark 70.0 %was teapotphoto.png" in words
    assert "rocket? 60.0 %photo.png" in words


def test_an_image_takes_little_room(tmp_path, make):
    def size(count: int) -> int:
        return len(write(tmp_path / "r.html", (make() for _ in range(count))))

    few, many = size(CARDS), size(CARDS + 100)
    assert (many - few) / 100 < 4000


def test_answers_are_counted_the_most_frequent_first(tmp_path, make):
    predictions = [make("dog", "dog"), *(make() for _ in range(3)), make("shark", "shark", threshold=0.9)]
    predictions.append(failure("x.jpg", NAMES, "broken"))
    text = write(tmp_path / "r.html", predictions)
    listed = re.search(r'<ul class="labels".*?</ul>', text, re.DOTALL).group()
    assert re.sub(r"<[^>]+>", " ", listed).split() == ["cat", "3", "dog", "1", "no", "answer", "1"]
    numbers = re.findall(r'value="(\d+)"', listed)
    assert len(set(numbers)) == 3
    assert text.count(f'<article class="card" data-label="{numbers[0]}">') == 3


def test_many_labels_are_folded(tmp_path, make):
    names = tuple(f"name{i}" for i in range(LABELS + 5))
    text = write(tmp_path / "r.html", (make(name, name, names=names) for name in names))
    assert "<summary>5 more labels</summary>" in text
    assert text.count('<button type="button" disabled') == LABELS + 5


def test_images_of_unequal_numbers_of_views(tmp_path, make):
    eight = replace(make(), inlierness=np.full(8, 0.125, np.float32))
    words = Page(write(tmp_path / "r.html", [make(), eight, failure("x.jpg", NAMES, "broken")])).words
    assert "8 to 20 views of an image, 14.0 on average" in words
    assert "of each image ·" not in words


def test_captions_tell_files_of_one_name_apart_and_lead_to_them(tmp_path, make, photo):
    predictions = []
    for folder in ("100", "101 #1%"):
        (tmp_path / "photos" / folder).mkdir(parents=True)
        path = tmp_path / "photos" / folder / "IMG_0001.png"
        path.write_bytes(photo.read_bytes())
        predictions.append(make(path=str(path)))
    (tmp_path / "reports").mkdir()
    below = Page(write(tmp_path / "r.html", predictions))
    assert "photos/100/IMG_0001.png" in below.words.split("\n")
    assert "photos/101 #1%/IMG_0001.png" in below.words.split("\n")
    assert "photos/101%20%231%25/IMG_0001.png" in below.links
    beside = Page(write(tmp_path / "reports" / "r.html", predictions))
    assert str(tmp_path / "photos" / "100" / "IMG_0001.png") in beside.words.split("\n")
    assert "../photos/100/IMG_0001.png" in beside.links


def test_links_lead_from_the_page_wherever_the_run_was_started(tmp_path, make, monkeypatch, photo):
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    assert f"../{photo.name}" in Page(write(Path("out/r.html"), [make(path=photo.name)])).links


@pytest.mark.parametrize("path", ["javascript:alert(1)", "javascript://x/%0aalert(1)", "data:text/html,x", "//host/x"])
def test_no_path_becomes_a_link_to_elsewhere(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    if "/" not in path:
        Path(path).touch()
    page = Page(write(tmp_path / "r.html", [failure(path, NAMES, "broken")]))
    assert page.links == ["#unreadable"] + [quote(path)] * ("/" not in path)


def test_only_addresses_of_the_web_are_links(tmp_path):
    paths = ["https://host/a.jpg", "s3://bucket/a.jpg"]
    page = Page(write(tmp_path / "r.html", [failure(path, NAMES, "broken") for path in paths]))
    assert page.links == ["#unreadable", "https://host/a.jpg"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a" * 40 + "/bc/d.png", "…/<wbr>bc/<wbr>d.png"),
        ("a" * 60 + ".png", "…" + "a" * 36 + ".png"),
        ("a/b.png", "a/<wbr>b.png"),
    ],
)
def test_of_a_long_path_a_small_one_shows_the_end(tmp_path, make, photo, name, shown):
    path = tmp_path / "c" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(photo.read_bytes())
    text = write(tmp_path / "c" / "r.html", [*(make() for _ in range(CARDS)), make(path=str(path))])
    assert f'title="{path}">{shown}</span>' in text


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
    made, small = thumbnails(str(path), CARD, TILE)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 6000 * 4500 * 3 / 4
    with Image.open(BytesIO(b64decode(made.data))) as shown:
        assert shown.size == (made.width, made.height) == (240, 320)
        difference = np.asarray(shown).astype(int) - np.asarray(whole)
    assert np.abs(difference).mean() < 3
    assert (small.width, small.height) == (84, 112)


def test_hostile_names_stay_text(tmp_path, make, photo):
    bad = "<script>alert('x')</script>\"&amp;--><!--"
    path = tmp_path / "a<b>&\"'.png"
    path.write_bytes(photo.read_bytes())
    names = (bad, "cat")
    predictions = [
        make(bad, "cat", str(path), names=names),
        make("cat", bad, str(path), names=names, threshold=0.9),
        failure(bad, names, f"{bad} is bad"),
        *(scored(make, 0.7, bad, "cat", path=str(path), names=names) for _ in range(CARDS)),
        *(scored(make, 0.9, "cat", bad, path=str(path), names=names) for _ in range(CARDS)),
    ]
    write_report(tmp_path / "r.html", predictions, method=bad, encoder=bad, title=bad)
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert page.scripts == [script()]
    assert page.kinds.count("tile") > CARDS // 2
    assert page.words.count(bad) >= 8
    assert page.words.count(path.name) == 2 * CARDS + 2
    assert "a%3Cb%3E%26%22%27.png" in page.links


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


def test_memory_does_not_grow_once_enough_is_shown_in_full(tmp_path, make):
    def size(report: ReportWriter) -> int:
        kept = {name: value for name, value in vars(report).items() if name != "_folder"}
        return len(pickle.dumps(kept))

    with ReportWriter(tmp_path / "r.html", method="mta", encoder="embedded") as report:
        for _ in range(CARDS + 1):
            report.add(make())
        first = size(report)
        for _ in range(2 * CARDS):  # half of them take the place of others
            report.add(scored(make, 0.7))
            report.add(make())
        assert size(report) == pytest.approx(first, rel=0.01)


@pytest.mark.parametrize("name", ["", "missing/r.html"])
def test_page_that_cannot_be_written_is_refused_before_the_work(tmp_path, name):
    with pytest.raises(MeantimeError, match="folder"):
        ReportWriter(tmp_path / name, method="mta", encoder="embedded")
