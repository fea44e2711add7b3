import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path_factory.mktemp("cache")))
