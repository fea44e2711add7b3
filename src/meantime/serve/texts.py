"""The heads of a client's labels. Texts are encoded once, and forgotten when many others have been asked.

Only label sets with a name use the cache on disk: what strangers type must fill neither disk nor memory.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar, cast

import numpy as np

from meantime.encoders import Encoder
from meantime.encoders.base import Floats
from meantime.encoders.cache import cached_texts
from meantime.errors import MeantimeError
from meantime.heads import Head, TextHead, ensemble_head
from meantime.labels import LABEL_SETS, TEMPLATE, fill, templates80
from meantime.registry import Method, methods
from meantime.serve.batching import AsyncEncoder
from meantime.serve.errors import invalid
from meantime.serve.limits import check_labels, check_text
from meantime.serve.settings import Settings

TEXTS = 16_384  # embeddings kept: 25 MB of 384 dimensions
HEADS = 64  # lists of labels kept, each with its heads

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(OrderedDict[K, V], Generic[K, V]):
    """The entries used last, up to a number."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def find(self, key: K) -> V | None:
        """Return the value, and count this as a use."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def keep(self, key: K, value: V) -> None:
        """Add an entry, at the cost of the one used longest ago."""
        self[key] = value
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)


def served_methods() -> dict[str, Method]:
    """Return the methods that need no training."""
    return {name: method for name, method in methods().items() if method.training_free}


Key = tuple[tuple[str, ...], tuple[str, ...]]  # names, templates


class _Queued:
    """The encoder as the cache on disk sees it: its texts take their turn with everyone's."""

    def __init__(self, encoder: Encoder, encode: AsyncEncoder) -> None:
        self.identity, self.dim = encoder.identity, encoder.dim
        self.encode_texts = encode.wait_for_texts


class _Making:
    """A head on its way; requests that arrive together share the work, and it stops when all have left."""

    def __init__(self, task: "asyncio.Task[Head]") -> None:
        self.task = task
        self.waiting = 0
        self.left = False

    async def wait(self, to_the_end: bool) -> Head:
        self.waiting += 1
        try:
            return await asyncio.shield(self.task)
        finally:
            self.waiting -= 1
            if not (self.waiting or self.task.done() or to_the_end):
                self.left = True
                self.task.cancel()


def _is_set(names: tuple[str, ...], templates: tuple[str, ...]) -> bool:
    """Whether these are the prompts of a set with a name: few, and worth keeping."""
    return templates in ((TEMPLATE,), templates80()) and any(names == known() for known in LABEL_SETS.values())


class Texts:
    """Label names in, heads out."""

    def __init__(self, encoder: Encoder, encode: AsyncEncoder, settings: Settings) -> None:
        self.encoder = encoder
        self.encode = encode
        self.settings = settings
        self._texts: Recent[str, Floats] = Recent(TEXTS)
        self._heads: Recent[Key, Head] = Recent(HEADS)
        self._making: dict[Key, _Making] = {}

    def names(self, labels: Sequence[str] | str | None) -> tuple[str, ...]:
        """Return the names that a request asks for."""
        if labels is None:
            raise invalid('no labels were given: send "labels", a list of names')
        if isinstance(labels, str):
            if labels in LABEL_SETS:
                return tuple(LABEL_SETS[labels]())
            check_text(labels, "labels", (self.settings.max_label_length + 4) * self.settings.max_labels)
            labels = [name for name in labels.split(",") if name.strip()]
        return tuple(check_labels(list(labels), self.settings))

    async def heads(self, names: tuple[str, ...], method: Method, template: str | None) -> Mapping[str, Head]:
        """Return the heads that a method needs, and the one of plain zero-shot."""
        template = TEMPLATE if template is None else check_text(template, "template", self.settings.max_label_length)
        try:
            fill(template, "")
        except MeantimeError as error:
            raise invalid(str(error)) from None
        found: dict[str, Head] = {}
        for name in sorted({"text", *method.heads}):
            found[name] = await self._head(names, (template,) if name == "text" else templates80())
        return found

    async def _head(self, names: tuple[str, ...], templates: tuple[str, ...]) -> Head:
        key = (names, templates)
        head = self._heads.find(key)
        if head is not None:
            return head
        making = self._making.get(key)
        if making is None or making.left:
            making = self._making[key] = _Making(asyncio.ensure_future(self._make(names, templates)))
        try:
            return await making.wait(to_the_end=_is_set(names, templates))
        finally:
            if (making.left or making.task.done()) and self._making.get(key) is making:
                del self._making[key]

    async def _make(self, names: tuple[str, ...], templates: tuple[str, ...]) -> Head:
        count, most = len(names) * len(templates), self.settings.max_prompts
        if count > most:
            sentence = f"this needs {count} texts to be encoded; at most {most} are for one request"
            raise invalid(f"{sentence}: send fewer labels, or use a method without the ensemble")
        prompts = [fill(template, name) for template in templates for name in names]
        if _is_set(names, templates):
            rows = await asyncio.to_thread(cached_texts, cast(Encoder, _Queued(self.encoder, self.encode)), prompts)
        else:
            check_text(max(prompts, key=len), "a prompt", self.settings.max_text_length)
            rows = await self.embed(prompts)
        if len(templates) == 1:
            head: Head = TextHead(rows, self.encoder.logit_scale)
        else:
            head = ensemble_head(rows.reshape(len(templates), len(names), -1), self.encoder.logit_scale)
        self._heads.keep((names, templates), head)
        return head

    async def embed(self, texts: Sequence[str]) -> Floats:
        """Return the embeddings (n, d) of texts; those not seen lately are encoded, in batches with others'."""
        rows = {text: row for text in texts if (row := self._texts.find(text)) is not None}
        new = [text for text in dict.fromkeys(texts) if text not in rows]
        if new:
            for text, row in zip(new, await self.encode.texts(new), strict=True):
                rows[text] = row
                self._texts.keep(text, row)
        return np.stack([rows[text] for text in texts])
