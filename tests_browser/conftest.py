"""A real browser (Debian's chromium) on the real service, in a process of its own."""

import base64
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import urllib3
from playwright.sync_api import expect, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


expect.set_options(timeout=60_000)


class Server:
    """`meantime serve` on a free port; it can be stopped and started again."""

    def __init__(self, *options, **environment):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.options = options
        self.environment = environment
        self.start()

    def start(self):
        command = [sys.executable, "-c", "from meantime.cli import main; main()", "serve", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, "--log-level", "warning", *self.options], env=os.environ | self.environment
        )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                if urllib3.request("GET", f"{self.url}/readyz", retries=False).status == 200:
                    return
            except urllib3.exceptions.HTTPError:
                pass
            assert self.process.poll() is None, "the server ended while it was starting"
            time.sleep(0.1)
        raise AssertionError("the server was not ready within two minutes")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


class Visit:
    """The page, and what people do with it."""

    def __init__(self, page, url):
        self.page = page
        self.url = url

    def __getattr__(self, name):
        return getattr(self.page, name)

    def choose(self, name):
        """Click on a sample and wait for its answer."""
        self.page.get_by_role("button", name=f"Sample: {name}").click()
        self.answered()

    def answered(self):
        self.page.wait_for_selector("#why:not([hidden])")
        self.page.wait_for_selector("body:not(.busy)")

    def asked(self):
        """A context that waits for the request to classify that happens inside."""
        return self.page.expect_response(lambda response: response.url.endswith("/v1/classify"))

    @property
    def chips(self):
        return self.page.locator("#list li span").all_text_contents()

    def give(self, how, name, data, kind):
        """Drop or paste a file, as a browser does it."""
        self.page.evaluate(
            """([how, name, data, kind]) => {
                const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
                const transfer = new DataTransfer();
                transfer.items.add(new File([bytes], name, { type: kind }));
                const options = { dataTransfer: transfer, clipboardData: transfer, bubbles: true, cancelable: true };
                const events = how === "drop"
                    ? ["dragenter", "dragover", "drop"].map((type) => new DragEvent(type, options))
                    : [new ClipboardEvent("paste", options)];
                for (const event of events) document.getElementById("drop").dispatchEvent(event);
            }""",
            [how, name, base64.b64encode(data).decode(), kind],
        )


@pytest.fixture(scope="session")
def server():
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def serve():
    """A function that starts another server, with options of its own."""
    started = []

    def start(*options, **environment):
        started.append(Server(*options, **environment))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, server):
    """A function that opens the page and returns it; at the end nothing may have gone elsewhere or complained."""
    contexts, requests, complaints = [], [], []

    def open_page(url=server.url, *, width=1280, height=800, expected=(), **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("request", lambda request: requests.append((url, request.url)))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: _note(message, expected, complaints))
        page.goto(url)
        page.wait_for_selector("#samples img, #gate:not([hidden])")
        return Visit(page, url)

    yield open_page
    for context in contexts:
        context.close()
    assert [url for origin, url in requests if not url.startswith((f"{origin}/", "blob:", "data:"))] == []
    assert complaints == []


def _note(message, expected, complaints):
    if message.type in ("error", "warning") and not any(text in message.text for text in expected):
        complaints.append(message.text)
