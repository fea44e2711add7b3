"""The description of the API: bodies that the endpoints read themselves, refusals, examples."""

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from meantime.serve.schemas import ClassesRequest, ClassifyRequest, EmbedRequest, MtaRequest, Options, Refusal

PLACE = "#/components/schemas/{model}"
BINARY = {"type": "string", "format": "binary"}
SENTENCES = {
    400: "The body cannot be read.",
    401: "The token is missing or wrong.",
    404: "There is no such thing.",
    408: "The body came too slowly.",
    413: "The body or the image is too large.",
    415: "The body is of a kind that is not taken.",
    422: "The request is well formed but cannot be used.",
    503: "The service is busy or not ready; Retry-After says when to ask again.",
}
RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the refusals that an endpoint may give."""
    return {
        s: {"model": Refusal, "description": SENTENCES[s]} | ({"headers": RETRY} if s == 503 else {}) for s in statuses
    }


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """Return the description of a JSON body."""
    return {"required": True, "content": {"application/json": {"schema": {"$ref": PLACE.format(model=model.__name__)}}}}


def _option_schemas() -> dict[str, Any]:
    """Return the options as texts can hold them, in an address or a form."""
    fields: dict[str, Any] = Options.model_json_schema()["properties"]
    fields["labels"] |= {"type": "array", "items": {"type": "string"}}
    fields["labels"].pop("anyOf")
    fields["template"] |= {"type": "string"}
    fields["template"].pop("anyOf")
    for field in fields.values():
        if field.get("default", 0) is None:
            del field["default"]
    return fields


OPTION_PARAMETERS = [
    {"name": name, "in": "query", "required": False, "description": schema.pop("description"), "schema": schema}
    for name, schema in _option_schemas().items()
]
CLASSIFY_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": PLACE.format(model="ClassifyRequest")}},
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {"image": BINARY, **_option_schemas()},
                "required": ["image", "labels"],
                "additionalProperties": False,
            }
        },
        "image/*": {"schema": BINARY},
    },
}


def describe(app: FastAPI) -> None:
    """Add the models of bodies to the description, which FastAPI makes when first asked."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            description = make()
            bodies = [(m, "validation") for m in (ClassifyRequest, MtaRequest, ClassesRequest, EmbedRequest)]
            _, definitions = models_json_schema(bodies, ref_template=PLACE)  # type: ignore[arg-type]
            description["components"]["schemas"] |= definitions["$defs"]
        return app.openapi_schema or description

    app.openapi = openapi  # type: ignore[method-assign]
