"""Encoders behind an embeddings API, ours (`meantime serve`) or someone else's.

load_encoder("http://localhost:8000")                         # a Meantime server tells the rest itself
load_encoder("https://host/v1/embeddings#clip-v2",            # any API of the common shape that embeds
             dim=512, size=224, logit_scale=100.0)            # texts and images: here its model clip-v2
load_encoder("https://host/v1/embeddings?dim=512&size=224&logit_scale=100#clip-v2")  # the same, for the shell

Inputs go out in batches, a few at a time. Each answer is on disk before the next is asked for, so that
a run that dies half-way goes on where it was and no embedding is paid for twice.
"""

import base64
import hashlib
import io
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

import numpy as np
from PIL import Image

from meantime.encoders.base import Floats, Pixels, check_pixels, check_texts
from meantime.encoders.http_cache import VectorCache
from meantime.encoders.http_client import Client, NothingThereError, TooLargeError
from meantime.errors import MeantimeError
from meantime.preprocess import Preprocess

KEY = "MEANTIME_API_KEY"
FACTS = ("dim", "size", "logit_scale")


class HttpEncoder:
    """An encoder whose towers stand elsewhere.

    Parameters
    ----------
    url
        ``http://HOST:PORT`` of a Meantime server, or the whole address of an API: ``https://HOST/v1/embeddings``.
        ``#NAME`` at the end says which of its models, if it has several.
    dim, size, logit_scale
        What an API that is not ours does not tell: the length of its embeddings, the side in pixels of the crops
        that it is sent, and the factor that makes its cosines logits (100 for most of CLIP's kind). They may also stand
        in the address, ``?dim=512&size=224&logit_scale=100``, before which these arguments count.
    key_env
        The environment variable that holds the API key, sent as ``Authorization: Bearer``.
    batch, in_flight
        Inputs of one request; requests at a time.
    timeout, retries
        Seconds to wait for an answer; how often to try again where the server is busy or gone.
    cache
        Whether answers are kept on disk (``api.sqlite`` in the cache directory).
    """

    def __init__(
        self,
        url: str,
        *,
        dim: int | None = None,
        size: int | None = None,
        logit_scale: float | None = None,
        key_env: str = KEY,
        batch: int = 16,
        in_flight: int = 4,
        timeout: float = 60.0,
        retries: int = 6,
        cache: bool = True,
    ) -> None:
        if batch < 1 or in_flight < 1:
            raise MeantimeError(f"batch and in_flight must be at least 1, but they are {batch} and {in_flight}")
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise MeantimeError(f"{url!r} is no address ({error}); expected http://HOST:PORT") from None
        parts, written = _apart(parts)
        path, model = parts.path.rstrip("/") or "/v1/embed", parts.fragment or None
        self._endpoint = urlunsplit(parts._replace(path=path, fragment=""))
        self._client = Client(url, key_env=key_env, timeout=timeout, retries=retries, connections=in_flight)
        query = "&".join(f"{name}={text}" for name, text in written.items())  # the rest of it may hold a secret
        self.name = urlunsplit(parts._replace(query=query))
        self.batch = batch
        self.in_flight = in_flight

        passed = {"dim": dim, "size": size, "logit_scale": logit_scale}
        given = written | {name: value for name, value in passed.items() if value is not None}
        told = {} if len(given) == len(FACTS) else self._told(parts.path, model)
        facts = told | given
        missing = [name for name in FACTS if facts.get(name) is None]
        if missing:
            raise MeantimeError(
                f"{self.name} does not tell {', '.join(missing)} of its model; pass "
                + ", ".join(f"{name}=…" for name in missing)
                + f", or write them into the address: {_example(missing)}"
            )
        self._ours = "identity" in told  # then it also speaks base64, a quarter of the bytes
        self._model = model or told.get("name")
        try:
            side = _whole("size", facts["size"])
            self.dim, self.logit_scale = _whole("dim", facts["dim"]), _positive("logit_scale", facts["logit_scale"])
            self.preprocess = Preprocess(**({"size": side, "resize": side} | _geometry(told.get("preprocess"))))
        except (TypeError, ValueError, OverflowError) as error:
            raise MeantimeError(f"{self.name} is described in a way that cannot be used: {error}") from None
        # What embeddings depend on: of our own server the encoder behind it, wherever it stands. Never that encoder's
        # identity itself: what a server answers must not get into the caches of an encoder that runs here.
        own = f"{self._endpoint}\n{self._model}\n{self.dim}\n{self.preprocess.size}"
        self.identity = f"http-{told.get('identity') or hashlib.sha256(own.encode()).hexdigest()[:16]}"
        self._cache = VectorCache(self.identity, self.dim) if cache else None

    def encode_images(self, pixels: Pixels) -> Floats:
        """(n, S, S, 3) uint8 RGB -> (n, d). Crops travel as PNG, so that not a level is lost."""
        pixels = np.ascontiguousarray(check_pixels(pixels, self.preprocess.size))
        return self._embed(b"image", [row.tobytes() for row in pixels], self._image)

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """K prompts -> (K, d)."""
        return self._embed(b"text", [text.encode() for text in check_texts(texts)], bytes.decode)

    def _embed(self, kind: bytes, payloads: list[bytes], to_input: Callable[[bytes], Any]) -> Floats:
        """Look up what is known, ask for the rest once each, keep every answer."""
        keys = [hashlib.sha256(kind + b"\0" + payload).digest() for payload in payloads]
        inputs = dict(zip(keys, payloads, strict=True))
        rows = self._cache.read(inputs) if self._cache else {}
        wanted = [key for key in inputs if key not in rows]

        def ask(part: list[bytes]) -> None:
            try:
                answer = self._ask([to_input(inputs[key]) for key in part])
            except TooLargeError:
                if len(part) == 1:
                    raise
                ask(part[: len(part) // 2])
                ask(part[len(part) // 2 :])
                return
            new = dict(zip(part, answer, strict=True))
            if self._cache:
                self._cache.write(new)
            rows.update(new)

        failures: list[Exception] = []

        def work(part: list[bytes]) -> None:
            if not failures:  # what was sent is awaited and kept; what was not is not sent any more
                try:
                    ask(part)
                except Exception as error:
                    failures.append(error)

        pool = ThreadPoolExecutor(self.in_flight, thread_name_prefix="embeddings")
        try:
            list(pool.map(work, [wanted[i : i + self.batch] for i in range(0, len(wanted), self.batch)]))
        finally:
            pool.shutdown(cancel_futures=True)
        if failures:
            raise self._told_with_progress(failures[0], sum(key in rows for key in wanted), len(wanted))
        return np.stack([rows[key] for key in keys]) if keys else np.empty((0, self.dim), np.float32)

    def _told_with_progress(self, error: Exception, done: int, asked: int) -> Exception:
        if not isinstance(error, MeantimeError) or not self._cache:
            return error
        return MeantimeError(f"{error} ({done} of {asked} embeddings are kept; run again to go on)")

    def _ask(self, inputs: list[Any]) -> Floats:
        """One request: inputs -> (n, d)."""
        body: dict[str, Any] = {"input": inputs}
        if self._model is not None:
            body["model"] = self._model
        if self._ours:
            body["encoding_format"] = "base64"
        answer = self._client.post(self._endpoint, body)
        try:
            data = sorted(answer["data"], key=lambda item: item["index"])
            vectors = [_vector(item["embedding"]) for item in data]
            order = [item["index"] for item in data]
        except (KeyError, TypeError, ValueError):
            raise MeantimeError(
                f'{self.name} answered in another shape than {{"data": [{{"index": 0, "embedding": […]}}, …]}}: '
                "is it an embeddings API?"
            ) from None
        if order != list(range(len(inputs))):
            raise MeantimeError(f"{self.name} answered {len(order)} embeddings to {len(inputs)} inputs")
        for vector in vectors:
            if vector.shape != (self.dim,):
                raise MeantimeError(
                    f"{self.name} answered an embedding of shape {vector.shape}; expected dim = {self.dim} numbers"
                )
        rows = np.stack(vectors)
        if not np.isfinite(rows).all():
            raise MeantimeError(f"{self.name} answered an embedding that contains NaN or infinity")
        if not rows.any(axis=1).all():
            place = int(rows.any(axis=1).argmin())
            raise MeantimeError(
                f"{self.name} answered an embedding of nothing but zeros (to input {place + 1} of {len(rows)}): "
                "it has no direction, and is not kept"
            )
        return rows

    def _told(self, path: str, model: str | None) -> dict[str, Any]:
        """What the server says of its model, beside the embeddings: /v1/embed -> /v1/models."""
        parts = urlsplit(self._endpoint)
        try:
            answer = self._client.get(urlunsplit(parts._replace(path=parts.path.rpartition("/")[0] + "/models")))
        except NothingThereError:
            if path.strip("/"):  # the whole address of an API, of which few tell anything
                return {}
            raise
        models = answer.get("models", answer.get("data")) if isinstance(answer, dict) else None
        if not isinstance(models, list) or not all(isinstance(entry, dict) for entry in models):
            raise MeantimeError(f"{self.name} does not list its models; pass dim=…, size=… and logit_scale=…")
        names = [str(entry.get("name", entry.get("id"))) for entry in models]
        if model is None and len(models) != 1:
            raise MeantimeError(
                f"{self.name} has {len(models)} models ({', '.join(names[:9])}); add #NAME to the address"
            )
        if model is not None and model not in names:
            raise MeantimeError(f"{self.name} has no model {model!r}; it has {', '.join(names[:9])}")
        place = 0 if model is None else names.index(model)
        return {**models[place], "name": names[place]}

    @staticmethod
    def _image(payload: bytes) -> dict[str, str]:
        side = round((len(payload) // 3) ** 0.5)
        file = io.BytesIO()
        Image.frombytes("RGB", (side, side), payload).save(file, "PNG", compress_level=1)
        return {"image": base64.b64encode(file.getvalue()).decode()}


def _vector(embedding: list[float] | str) -> Floats:
    """Numbers, or base64 of little-endian float32, as APIs commonly have it."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4").astype(np.float32)
    return np.array(embedding, np.float32)


def _apart(parts: SplitResult) -> tuple[SplitResult, dict[str, str]]:
    """The address as the server is asked, and the facts that its query held."""
    fields = [field for field in parts.query.split("&") if field]
    facts = dict(field.partition("=")[::2] for field in fields if field.partition("=")[0] in FACTS)
    rest = [field for field in fields if field.partition("=")[0] not in FACTS]
    return parts._replace(query="&".join(rest)), facts


def _example(missing: Sequence[str]) -> str:
    values = {"dim": 512, "size": 224, "logit_scale": 100}
    return "…/embeddings?" + "&".join(f"{name}={values[name]}" for name in missing)


def _positive(name: str, value: Any) -> float:
    number = float(value)
    if not (number > 0 and math.isfinite(number)):
        raise ValueError(f"{name} is {value}; expected a number above 0")
    return number


def _whole(name: str, value: Any) -> int:
    number = _positive(name, value)
    if number != int(number):
        raise ValueError(f"{name} is {value}; expected a whole number")
    return int(number)


def _geometry(told: Any) -> dict[str, Any]:
    """Those fields of a `Preprocess` that a server told."""
    fields = dict(told or {})
    known = {name: fields[name] for name in ("size", "resize", "interpolation", "squash") if name in fields}
    return known | {name: tuple(fields[name]) for name in ("mean", "std") if name in fields}
