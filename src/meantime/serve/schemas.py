"""Requests and answers, with the examples that the OpenAPI description shows."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

Encoding = Literal["float", "base64"]
SEED_LIMIT = 2**63
# A red square of 16 x 16, for examples that work as they stand
SQUARE = (
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAGklEQVR42mM8ISfHQApgYiARjGoY1TB0NAAATx8BJMixHB8AAAAASUVORK5CYII="
)


class Strict(BaseModel):
    """A field with an unknown name is a mistake that we would rather tell."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class Options(Strict):
    """What to ask of an image; in JSON and multipart beside the image, with a raw body in the address."""

    labels: Annotated[
        list[str] | str | None,
        Field(description='Names: a list, "cat,dog", or a label set: "imagenet".', examples=[["cat", "dog"]]),
    ] = None
    method: Annotated[str, Field(description="One of GET /v1/methods.")] = "mta"
    views: Annotated[
        Annotated[int, Field(ge=1)] | Literal["auto"],
        Field(description='Views of the image; 1 is plain zero-shot, "auto" as many as it needs, up to 64.'),
    ] = 64
    seed: Annotated[int, Field(ge=0, lt=SEED_LIMIT, description="Of the random crops.")] = 0
    top: Annotated[int, Field(ge=1, description="How many of the best labels to return.")] = 5
    detail: Annotated[bool, Field(description="Also inlierness, boxes, flips and the mode's path.")] = False
    template: Annotated[str | None, Field(description="Prompt, with {} for the name.")] = None


class ClassifyRequest(Options):
    """An image and the names it may have."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"image": SQUARE, "labels": ["cat", "cup of coffee", "rocket"], "method": "mta"}]
        },
    )
    image: Annotated[str, Field(description="The file, in base64.")]


class Score(BaseModel):
    """A label and its probability."""

    label: str
    score: float


class Plain(BaseModel):
    """What plain zero-shot, the first view alone, says."""

    label: str
    score: float
    scores: list[Score]


Point = Annotated[list[float], Field(min_length=2, max_length=2)]


class ClassifyAnswer(BaseModel):
    """The best labels, by the method and by plain zero-shot; with ``detail`` also why."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "label": "cat",
                    "score": 0.93,
                    "scores": [{"label": "cat", "score": 0.93}, {"label": "rocket", "score": 0.04}],
                    "plain": {"label": "cat", "score": 0.81, "scores": [{"label": "cat", "score": 0.81}]},
                    "method": "mta",
                    "views": 64,
                    "settled": 0.999,
                    "seed": 0,
                    "model": "embedded",
                    "milliseconds": 412.5,
                }
            ]
        },
    )
    label: str
    score: float
    scores: list[Score]
    plain: Plain
    method: str
    views: Annotated[int, Field(description="How many were used.")]
    settled: Annotated[float, Field(description="How sure it is, in 0..1, that more views change nothing.")]
    seed: int
    model: str
    milliseconds: float
    inlierness: Annotated[list[float] | None, Field(description="(N), how much each view counts.")] = None
    boxes: Annotated[list[list[float]] | None, Field(description="(N, 4) left, top, right, bottom in 0..1.")] = None
    flips: Annotated[list[bool] | None, Field(description="(N), whether a view is mirrored.")] = None
    size: Annotated[list[int] | None, Field(description="Width and height of the image.")] = None
    points: Annotated[list[Point] | None, Field(description="(N, 2), the views on their two main axes.")] = None
    path: Annotated[list[Point] | None, Field(description="(L, 2), the mode's way there.")] = None


class Packed(Strict):
    """An array as base64 of its little-endian rows."""

    data: Annotated[str, Field(examples=["AACAPwAAAAA="])]
    dtype: Literal["float16", "float32"]
    shape: Annotated[list[Annotated[int, Field(ge=1, lt=2**31)]], Field(min_length=2, max_length=3, examples=[[1, 2]])]


# Of a long list of mistakes the first is told, and the form that does not fit is left at once.
Rows = Annotated[list[Annotated[list[FiniteFloat], Field(fail_fast=True)]], Field(fail_fast=True)]
Stack = Annotated[list[Rows], Field(fail_fast=True)]
Names = Annotated[
    list[str] | None, Field(description="Of the classes, in their order; then the answer has the best by name.")
]


class MtaRequest(Strict):
    """Embeddings of the views of one image, or of several, and of the classes."""

    model_config = ConfigDict(
        populate_by_name=False,
        json_schema_extra={
            "examples": [
                {
                    "views": [[0.7, 0.3, 0.1], [0.9, 0.3, 0.1], [0.8, 0.3, 0.0], [0.0, 0.1, 0.9]],
                    "classes": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
                    "names": ["cat", "dog", "rocket"],
                    "logit_scale": 10,
                }
            ]
        },
    )
    views: Annotated[
        Rows | Stack | Packed,
        Field(
            union_mode="left_to_right", description="(N, d) of one image, (B, N, d) of several; view 0 is the original."
        ),
    ]
    classes: Annotated[
        Rows | Packed | str,
        Field(union_mode="left_to_right", description="(K, d), or the id that POST /v1/classes answered."),
    ]
    names: Names = None
    top: Annotated[int, Field(ge=1, description="How many of the best names to return.")] = 5
    logit_scale: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 100.0
    lambda_: Annotated[float, Field(alias="lambda", ge=0, le=1e6, allow_inf_nan=False)] = 4.0
    lambda_y: Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)] = 0.2
    rho: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.3
    variant: Literal["official", "paper", "exact"] = "official"
    affinity: Literal["head", "vision"] = "head"
    encoding_format: Encoding = "float"


Answers = list[float] | list[list[float]] | dict[str, Any]


class MtaAnswer(BaseModel):
    """What MTA found, of several images with a first axis more; base64 packs the three arrays as in the request."""

    probabilities: Annotated[Answers, Field(description="(K).")]
    inlierness: Annotated[Answers, Field(description="(N), on the simplex.")]
    mode: Annotated[Answers, Field(description="(d), unit length.")]
    label: Annotated[int | list[int], Field(description="Index of the best class.")]
    n_iter: int | list[int]
    converged: bool | list[bool]
    scores: Annotated[
        list[Score] | list[list[Score]] | None,
        Field(description="The best names, best first, if there are names."),
    ] = None


class ClassesRequest(Strict):
    """Embeddings of classes that many requests will ask for."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"classes": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], "names": ["cat", "dog"]}]},
    )
    classes: Annotated[Rows | Packed, Field(union_mode="left_to_right", description="(K, d).")]
    names: Names = None


class ClassesAnswer(BaseModel):
    """Where they are kept, and what was understood."""

    id: Annotated[str, Field(description="For the classes of POST /v1/mta.")]
    classes: Annotated[int, Field(description="K.")]
    dim: Annotated[int, Field(description="d.")]


class ImageInput(Strict):
    """An image to embed; one of exactly the encoder's size is taken as a crop, pixel by pixel."""

    image: Annotated[str, Field(description="The file, in base64.")]


Input = str | ImageInput


class EmbedRequest(Strict):
    """Texts and images."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"input": ["a photo of a cat.", "a photo of a dog."]}]})
    input: Annotated[list[Input], Field(min_length=1)] | Input
    model: Annotated[str | None, Field(description="If given, the model that is served.")] = None
    encoding_format: Encoding = "float"
    dimensions: Annotated[int | None, Field(description="If given, those of the model: none are cut off.")] = None
    user: Annotated[str | None, Field(description="Not looked at; common clients send it.")] = None


class Embedding(BaseModel):
    """One embedding; as base64 it is that of little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Tokens are not counted: both are zero, for clients that expect them."""

    prompt_tokens: int
    total_tokens: int


class EmbedAnswer(BaseModel):
    """Embeddings in the order of the inputs, as the encoder gives them."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class PreprocessInfo(BaseModel):
    """What the encoder expects of its pixels."""

    size: int
    resize: int
    interpolation: str
    mean: list[float]
    std: list[float]
    squash: bool


class ModelInfo(BaseModel):
    """An encoder, with all that a client needs to use it as its own."""

    name: str
    identity: str
    dim: int
    size: int
    logit_scale: float
    preprocess: PreprocessInfo


class ModelId(BaseModel):
    """A model as common clients list it."""

    id: str
    object: Literal["model"]
    created: Annotated[int, Field(description="Not known: 0.")]
    owned_by: str


class Models(BaseModel):
    """The models that are served: one, told twice."""

    models: list[ModelInfo]
    object: Literal["list"]
    data: Annotated[list[ModelId], Field(description="For common clients.")]


class MethodInfo(BaseModel):
    """A method of classifying."""

    name: str
    summary: str


class Methods(BaseModel):
    """The methods by name."""

    methods: list[MethodInfo]


class Sample(BaseModel):
    """A photo to try."""

    name: str
    url: str


class Samples(BaseModel):
    """Photos to try."""

    samples: list[Sample]


class Status(BaseModel):
    """How the service is."""

    status: str


class Problem(BaseModel):
    """Which kind of refusal, and one sentence that says what to do."""

    type: str
    message: str


class Refusal(BaseModel):
    """Every answer that is not a success."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"error": {"type": "invalid_request", "message": "views is 0; expected 1…"}}]}
    )
    error: Problem
