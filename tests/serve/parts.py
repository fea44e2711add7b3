"""What the tests of the service share."""

import base64
import io
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

from PIL import Image
from toy import ToyEncoder

from meantime.serve import Settings, create_app
from meantime.serve.server import server


class SlowEncoder(ToyEncoder):
    """The toy encoder, which waits before each batch of images until it is let."""

    def __init__(self):
        super().__init__()
        self.may = threading.Event()
        self.entered = threading.Event()
        self.may.set()

    def encode_images(self, pixels):
        self.entered.set()
        assert self.may.wait(30)
        return super().encode_images(pixels)


def png(array, kind="PNG"):
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind)
    return file.getvalue()


def text64(data):
    return base64.b64encode(data).decode()


def packed(x, dtype="float32"):
    """An array as /v1/mta takes it."""
    return {"data": text64(x.astype(dtype).tobytes()), "dtype": dtype, "shape": list(x.shape)}


@contextmanager
def running(encoder=None, log_level="warning", **settings):
    """A real server in a thread of this process: its address, its service, and the server itself."""
    chosen = Settings(**settings)
    app = create_app(chosen, encoder or SlowEncoder())
    own = server(app, chosen, "127.0.0.1", 0, log_level)
    thread = threading.Thread(target=own.run)
    thread.start()
    while not (own.started and app.state.service.ready):
        assert thread.is_alive()
        time.sleep(0.005)
    host, port = own.servers[0].sockets[0].getsockname()
    try:
        yield SimpleNamespace(url=f"http://{host}:{port}", port=port, service=app.state.service, server=own)
    finally:
        own.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
