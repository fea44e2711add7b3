"""The two towers of a PyTorch encoder as ONNX graphs: pixels in, token ids in, embeddings out."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from typing import Any

from meantime.encoders.torch_towers import TorchEncoder
from meantime.errors import MeantimeError
from meantime.export.weights import LIMIT
from meantime.extras import optional

# Opset 18 and IR 9 are read by the oldest onnxruntime that Meantime supports.
OPSET, IR = 18, 9
# A batch for tracing: of 1 the exporter would conclude that it is always 1.
EXAMPLE = 2


def image_graph(encoder: TorchEncoder) -> Any:
    """uint8 ``pixels`` (n, S, S, 3) -> (n, d), normalisation included."""
    torch = optional("torch", "export", "export")
    size = encoder.preprocess.size
    pixels = torch.zeros((EXAMPLE, size, size, 3), dtype=torch.uint8)
    forward = lambda pixels: encoder.image_tower(encoder.normalise(pixels))  # noqa: E731
    return _trace(encoder, forward, {"pixels": pixels}, {"pixels": {0: torch.export.Dim.DYNAMIC}})


def text_graph(encoder: TorchEncoder, *, masked: bool) -> Any:
    """int64 ``input_ids`` and perhaps ``attention_mask`` (n, length) -> (n, d)."""
    torch = optional("torch", "export", "export")
    dynamic = {0: torch.export.Dim.DYNAMIC}
    length = encoder.texts.context_length
    if encoder.texts.padding == "longest":
        dynamic[1] = torch.export.Dim.DYNAMIC
        length = max(2, length // 2)
    ids, mask = encoder.texts.tokenize(["a photo of a cat."] * EXAMPLE)
    tokens = torch.nn.functional.pad(torch.from_numpy(ids), (0, length))[:, :length]
    inputs = {"input_ids": tokens}
    if masked:
        inputs["attention_mask"] = torch.nn.functional.pad(torch.from_numpy(mask), (0, length))[:, :length]
        return _trace(encoder, encoder.text_tower, inputs, dict.fromkeys(inputs, dynamic))
    return _trace(encoder, lambda ids: encoder.text_tower(ids, None), inputs, {"input_ids": dynamic})


def _trace(encoder: TorchEncoder, forward: Any, inputs: dict[str, Any], dynamic: dict[str, Any]) -> Any:
    """The checked ModelProto."""
    torch = optional("torch", "export", "export")
    onnx = optional("onnx", "export", "export")
    optional("onnxscript", "export", "export")

    class Tower(torch.nn.Module):  # type: ignore[misc, name-defined]
        """The exporter takes a module whose parameters are its own."""

        def __init__(self) -> None:
            super().__init__()
            self.model = encoder.model

        def forward(self, *tensors: Any) -> Any:
            return forward(*tensors)

    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                Tower().eval(),
                tuple(inputs.values()),
                dynamo=True,
                opset_version=OPSET,
                input_names=list(inputs),
                output_names=["embeddings"],
                dynamic_shapes=(tuple(dynamic.values()),),
                verbose=False,
            )
    except Exception as error:  # the exporter's errors share no base
        reason = " ".join(str(error).split())[:300]
        raise MeantimeError(f"PyTorch cannot export {encoder.name!r} to ONNX: {reason}") from error
    model = program.model_proto
    model.ir_version = min(model.ir_version, IR)
    # Notes of the exporter, among them the places of source files: megabytes that nobody reads.
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    del model.metadata_props[:]
    if model.ByteSize() < LIMIT:
        onnx.checker.check_model(model)
    return model


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter talks about its own versions and passes; only its failure is news."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
