"""Real data that lies beside the project, where it does; the project stands without it."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared" / "data"
PHOTOS = SHARED / "photos"
COCO = SHARED / "clip-b16-coco" / "views.npz"


def needs(path: Path) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not path.exists(), reason=f"needs the shared data {path.parent.name}/{path.name}")
