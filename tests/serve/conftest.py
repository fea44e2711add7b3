"""A service with the toy encoder, in this process."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for parts.py and hostile.py: test folders are no packages

import pytest
from parts import SlowEncoder, png
from starlette.testclient import TestClient
from toy import picture

from meantime.serve import Settings, create_app


@pytest.fixture
def serve():
    """A client of a service with these settings; it stops with the test."""
    clients = []

    def start(encoder=None, **settings):
        app = create_app(Settings(**settings), encoder or SlowEncoder())
        client = TestClient(app, raise_server_exceptions=False)
        client.service = app.state.service
        client.__enter__()
        clients.append(client)
        while client.get("/readyz").status_code != 200:
            pass
        return client

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(serve):
    return serve()


@pytest.fixture
def red():
    """A PNG of a red picture, as bytes."""
    return png(picture("red"))
