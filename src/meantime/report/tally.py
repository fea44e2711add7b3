"""What a run came to, counted image by image: sections, labels, views."""

from collections import Counter

from meantime.prediction import Prediction


class Tally:
    """Counts that grow with the names, never with the images."""

    def __init__(self) -> None:
        self.images = 0
        self.labels: Counter[str | None] = Counter()  # None: the method abstained
        self._numbers: dict[str | None, int] = {}
        self.views = 0
        self.fewest = self.most = 0  # views of an image

    def add(self, prediction: Prediction) -> None:
        """Count one image."""
        self.images += 1
        if prediction.error is not None:
            return
        self.labels[prediction.label] += 1
        n = prediction.n_views
        self.fewest = n if self.views == 0 else min(self.fewest, n)
        self.most = max(self.most, n)
        self.views += n

    def number(self, label: str | None) -> int:
        """Return the number by which the page calls a label, whatever is in its name."""
        return self._numbers.setdefault(label, len(self._numbers))
