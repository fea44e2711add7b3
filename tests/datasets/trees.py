"""Miniature trees in the layouts in which the paper's datasets are published."""

import json

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082"
)


def image(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(PNG)


def text(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def class_folders(folder, classes, images=2, extension="JPEG"):
    for name in classes:
        for i in range(images):
            image(folder / name / f"{name}_{i}.{extension}")


def coop(base, file, images, rows):
    """CoOp's split file with the rows (path, label, name) as test, and one more image of each class for training."""
    for path, _, _ in rows:
        image(base / images / path)
    names = dict.fromkeys((label, name) for _, label, name in rows)
    train = [[f"train_{label}.jpg", label, name] for label, name in names]
    text(base / file, json.dumps({"train": train, "val": [], "test": [list(row) for row in rows]}))
