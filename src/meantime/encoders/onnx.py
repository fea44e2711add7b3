"""Encoders that are a directory: image.onnx, text.onnx, tokenizer.json and config.json, run by ONNX Runtime.

`meantime export` writes such directories, and the embedded encoder is one.
"""

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

from meantime.cores import available_cores
from meantime.encoders.base import Floats, Pixels, check_pixels, check_texts
from meantime.errors import MeantimeError
from meantime.preprocess import Preprocess

FORMAT = 1  # of config.json
FILES = ("config.json", "image.onnx", "text.onnx", "tokenizer.json")
# Measured on the embedded encoder: a picture costs the same in batches of 1 to 32 and no less in 64. Small ones
# keep memory low and the cores in step.
IMAGE_BATCH = 2
TEXT_BATCH = 32
Batch = tuple[Any, dict[str, Any]]  # the rows of the output that it fills, and the inputs


class OnnxEncoder:
    """An encoder read from a directory; each tower is loaded when it is first asked.

    Batches run side by side, each on one thread: the threads of one batch would wait for each other after every
    layer, and the more the cores are shared with those that decode and crop, the longer. ``threads``: of each tower;
    None is one for each core that this process may use.
    """

    def __init__(self, directory: str | Path, *, name: str | None = None, threads: int | None = None) -> None:
        self.directory = Path(directory)
        self.name = name if name is not None else f"onnx:{directory}"
        self.threads = threads or available_cores()
        if not self.directory.is_dir():
            raise MeantimeError(f"no encoder directory at {str(directory)!r}; expected one with {', '.join(FILES)}")
        missing = [file for file in FILES if not (self.directory / file).is_file()]
        if missing:
            raise MeantimeError(
                f"the encoder directory {str(directory)!r} lacks {', '.join(missing)}; "
                f"expected {', '.join(FILES)}, as `meantime export` writes them"
            )
        self._sessions: dict[tuple[str, int], ort.InferenceSession] = {}
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="onnx")
        self._read_config()

    def _read_config(self) -> None:
        path = self.directory / "config.json"
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            version = config["format"]
            if version != FORMAT:
                raise MeantimeError(
                    f"{path} is of format {version!r}; this version of Meantime reads format {FORMAT}. "
                    "Export the encoder again, or upgrade Meantime"
                )
            self.description = str(config["description"])
            self.weights = config.get("weights")  # how they are stored, where `meantime export` said it
            self.dim = int(config["dim"])
            self.logit_scale = float(config["logit_scale"])
            fields = config["preprocess"]
            self.preprocess = Preprocess(
                size=int(fields["size"]),
                resize=int(fields["resize"]),
                interpolation=fields["interpolation"],
                mean=tuple(fields["mean"]),
                std=tuple(fields["std"]),
                squash=bool(fields.get("squash", False)),
            )
            bias = config.get("logit_bias")
            self.logit_bias = None if bias is None else float(bias)  # of models trained with a sigmoid
            self._pixels = str(config["image"]["pixels"])
            text = config["text"]
            self._ids, self._mask = str(text["ids"]), text["mask"]
            self._context, self._padding = int(text["context_length"]), text["padding"]
            self._pad_id = int(text["pad_id"])
            if self._padding not in ("longest", "max_length"):
                raise ValueError(f"padding {self._padding!r} is neither 'longest' nor 'max_length'")
        except MeantimeError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            problem = f"no field {error}" if isinstance(error, KeyError) else error
            raise MeantimeError(f"{path} is not the configuration of an encoder: {problem}") from error

    @cached_property
    def identity(self) -> str:
        """Kind and content, neither place nor name: the same files elsewhere are the same encoder."""
        digest = hashlib.sha256()
        # A large model keeps its weights in files beside the graph, hence every *.onnx*.
        for path in [*sorted(self.directory.glob("*.onnx*")), self.directory / "tokenizer.json"]:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        # Of the configuration, only what embeddings depend on: a new logit scale spoils no cache.
        text = (self._context, self._padding, self._pad_id, self._mask)
        digest.update(json.dumps([asdict(self.preprocess), text], sort_keys=True).encode())
        return f"onnx-{digest.hexdigest()[:16]}"

    def encode_images(self, pixels: Pixels) -> Floats:
        """(n, S, S, 3) uint8 RGB -> (n, d); the graph normalises the pixels itself."""
        pixels = check_pixels(pixels, self.preprocess.size)
        size = min(IMAGE_BATCH, max(1, -(-len(pixels) // self.threads)))
        rows = [slice(i, i + size) for i in range(0, len(pixels), size)]
        return self._run_all("image.onnx", len(pixels), [(part, {self._pixels: pixels[part]}) for part in rows])

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """K prompts -> (K, d), cut at the context length of the model."""
        texts = check_texts(texts)
        encodings = self._tokenizer.encode_batch(texts)
        ids = [encoding.ids for encoding in encodings]
        # Neighbours in length share a batch, so that little of it is padding.
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        batches: list[Batch] = []
        for start in range(0, len(order), TEXT_BATCH):
            batch = order[start : start + TEXT_BATCH]
            width = self._context if self._padding == "max_length" else len(ids[batch[-1]])
            tokens = np.full((len(batch), width), self._pad_id, np.int64)
            mask = np.zeros((len(batch), width), np.int64)
            for row, i in enumerate(batch):
                tokens[row, : len(ids[i])] = ids[i]
                mask[row, : len(ids[i])] = 1
            inputs = {self._ids: tokens} if self._mask is None else {self._ids: tokens, self._mask: mask}
            batches.append((batch, inputs))
        return self._run_all("text.onnx", len(texts), batches)

    def _run_all(self, file: str, n: int, batches: list[Batch]) -> Floats:
        """Run batches side by side; fewer than there are threads run one by one on all of them."""
        out = np.empty((n, self.dim), np.float32)
        alone = len(batches) < self.threads
        session = self._session(file, self.threads if alone else 1)

        def run(batch: Batch) -> None:
            rows, inputs = batch
            out[rows] = self._run(session, inputs)

        if alone or self.threads == 1:
            for batch in batches:
                run(batch)
        else:
            list(self._pool.map(run, batches))
        return out

    def _run(self, session: ort.InferenceSession, inputs: dict[str, Any]) -> Floats:
        try:
            (result,) = session.run(None, inputs)
        except Exception as error:  # ONNX Runtime's exceptions share no base class of their own
            shapes = {name: value.shape for name, value in inputs.items()}
            expected = {node.name: node.shape for node in session.get_inputs()}
            raise MeantimeError(
                f"an ONNX model in {str(self.directory)!r} refused {shapes}; it expects {expected}: {error}"
            ) from error
        rows = len(next(iter(inputs.values())))
        if result.shape != (rows, self.dim):
            raise MeantimeError(
                f"an ONNX model in {str(self.directory)!r} gave an output of shape {result.shape}; "
                f"expected {(rows, self.dim)}: config.json does not fit it"
            )
        embeddings: Floats = result
        return embeddings

    def _session(self, file: str, threads: int) -> ort.InferenceSession:
        """The tower on so many threads; made when it is first asked for."""
        with self._lock:
            if (file, threads) not in self._sessions:
                self._sessions[file, threads] = self._load(file, threads)
            return self._sessions[file, threads]

    def _load(self, file: str, threads: int) -> ort.InferenceSession:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = threads
        # Threads that wait for the next layer or batch would take the cores from those that crop.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # int8 weights stand behind DequantizeLinear nodes, which ONNX Runtime leaves alone by default
        # (it hopes for integer kernels) and then evaluates in every run, at twice the time. Told that
        # there are no such kernels to hope for, it folds them to float32 once, here.
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        path = self.directory / file
        try:
            return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's exceptions share no base class of their own
            raise MeantimeError(f"{path} is not a model that ONNX Runtime can load: {error}") from error

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        path = self.directory / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises bare Exception
            raise MeantimeError(f"{path} is not a tokenizer: {error}") from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(self._context)
        return tokenizer
