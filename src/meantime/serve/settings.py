"""What a service allows. Every limit answers with a 4xx or 503 of one sentence; none grows with what is sent."""

from dataclasses import dataclass, field
from pathlib import Path

MIB = 2**20


@dataclass(frozen=True)
class Settings:
    """The model, who may ask, and how much one request may ask for."""

    model: str = "embedded"
    device: str = "auto"
    precision: str | None = None
    token: str | None = field(default=None, repr=False)  # without it, everyone who can connect may ask
    origins: tuple[str, ...] = ()  # other sites whose pages may ask (CORS); none by default
    static: Path = Path(__file__).parent / "static"  # the page

    max_body: int = 16 * MIB  # bytes of one request
    max_pixels: int = 40_000_000  # of one image: 120 MB once decoded
    max_frames: int = 100  # of an animation, of which the first is taken
    max_views: int = 256
    max_labels: int = 1000
    max_label_length: int = 200  # of a label or a template
    max_prompts: int = 4000  # new texts that one request may have encoded: 50 labels of an 80-prompt method
    max_inputs: int = 256  # texts and images of one /v1/embed
    max_text_length: int = 4000  # of one text of /v1/embed
    max_dim: int = 8192  # d of /v1/mta
    max_classes: int = 20_000  # K of /v1/mta
    max_images: int = 256  # B of /v1/mta
    max_scores: int = 2**20  # B x K: what it answers, some 20 MB of text
    max_predictions: int = 2**24  # B x N x K: what it computes, 256 images of 64 views and 1000 classes
    max_kept: int = 64  # lists of classes in memory for /v1/mta
    max_kept_bytes: int = 128 * MIB  # all of these together

    queue: int = 128  # requests in work and waiting; beyond it 503 with Retry-After
    max_waiting_bytes: int = 512 * MIB  # bodies of all of these together
    max_connections: int = 512
    threads: int | None = None  # that decode and crop; chosen from the machine by default
    body_seconds: float = 30.0  # for a client to send its body
    header_seconds: float = 10.0  # for a client to send its headers, or to take an answer
    keep_alive_seconds: int = 15
    stop_seconds: int = 60  # for what was accepted to finish once asked to stop
