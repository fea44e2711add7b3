"""An embeddings API that misbehaves as it is told: each request takes the next step of a script."""

import base64
import io
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from PIL import Image

DIM, SIZE = 3, 8
FACTS = {"dim": DIM, "size": SIZE, "logit_scale": 20.0}


def embed(item):
    """Three numbers of a text or of a picture, plain to compute by hand."""
    if isinstance(item, str):
        return [float(len(item)), float(item.count("a")), 1.0]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(item["image"]))).convert("RGB"), np.float64)
    return pixels.mean(axis=(0, 1)).tolist()


def answer(items):
    return {"data": [{"object": "embedding", "index": i, "embedding": embed(x)} for i, x in enumerate(items)]}


class ScriptedApi:
    """A server in a thread. A step is a status, (status, headers, body), a function of the inputs, or "hang up"."""

    def __init__(self, *script, models=None, then="ok"):
        self.script = list(script)
        self.then = then  # the step when the script is over
        self.models = models
        self.requests = []  # (headers, body) of each POST
        self.paths = []  # where each was sent
        self.served = []  # inputs that got an embedding
        self.connections = 0
        self.at_once = self.most_at_once = 0
        self.gather = 0  # nobody is answered before so many have asked
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def _handler(api):  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                api.connections += 1
                super().setup()

            def log_message(self, *_):
                pass

            def do_GET(self):
                found = api.models is not None and self.path == "/v1/models"
                self.reply(200 if found else 404, {}, api.models if found else {"detail": "Not Found"})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with api._lock:
                    api.requests.append((dict(self.headers), body))
                    api.paths.append(self.path)
                    step = api.script.pop(0) if api.script else api.then
                    api.at_once += 1
                    api.most_at_once = max(api.most_at_once, api.at_once)
                deadline = time.monotonic() + 20
                while len(api.requests) < api.gather and time.monotonic() < deadline:
                    time.sleep(0.005)
                with api._lock:
                    api.at_once -= 1
                if step == "hang up":
                    self.close_connection = True
                elif step == "cut":  # half an answer
                    self.send_response(200)
                    self.send_header("Content-Length", "1000")
                    self.end_headers()
                    self.wfile.write(b'{"data": [')
                    self.close_connection = True
                elif step == "sleep":
                    time.sleep(1.5)
                    self.close_connection = True
                elif isinstance(step, int):
                    self.reply(step, {}, {"error": {"type": "x", "message": "no luck today"}})
                elif isinstance(step, tuple):
                    self.reply(*step)
                else:
                    inputs = body["input"]
                    given = answer(inputs) if step == "ok" else step(inputs)
                    if step == "ok":
                        with api._lock:
                            api.served += [json.dumps(item) for item in inputs]
                    self.reply(200, {}, given)

            def reply(self, status, headers, body):
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        return Handler
