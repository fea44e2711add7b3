"""What is served, and how it is: models, methods, health, metrics."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse

from meantime.serve.errors import ApiError
from meantime.serve.openapi import refusals
from meantime.serve.schemas import Methods, Models, Status
from meantime.serve.service import Service
from meantime.serve.texts import served_methods


def router(service: Service) -> APIRouter:
    """Return the endpoints."""
    api = APIRouter()

    @api.get(
        "/v1/models", responses={200: {"model": Models}, **refusals(401)}, summary="The model", operation_id="models"
    )
    async def models() -> JSONResponse:
        encoder = service.encoder
        about: dict[str, Any] = {
            "name": service.model,
            "identity": await service.light(lambda: encoder.identity),
            "dim": encoder.dim,
            "size": encoder.preprocess.size,
            "logit_scale": encoder.logit_scale,
            "preprocess": asdict(encoder.preprocess),
        }
        entry = {"id": service.model, "object": "model", "created": 0, "owned_by": "meantime"}
        return JSONResponse({"models": [about], "object": "list", "data": [entry]})

    @api.get(
        "/v1/methods",
        responses={200: {"model": Methods}, **refusals(401)},
        summary="Methods by name",
        operation_id="methods",
    )
    async def methods() -> JSONResponse:
        return JSONResponse({"methods": [{"name": name, "summary": m.summary} for name, m in served_methods().items()]})

    @api.head("/healthz", include_in_schema=False)
    @api.get("/healthz", responses={200: {"model": Status}}, summary="Whether it runs", operation_id="healthz")
    async def healthz() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    @api.head("/readyz", include_in_schema=False)
    @api.get(
        "/readyz",
        responses={200: {"model": Status}, **refusals(503)},
        summary="Whether it can answer",
        operation_id="readyz",
    )
    async def readyz(request: Request) -> JSONResponse:
        if request.app.state.broken:
            raise ApiError(503, "the model could not be loaded; the service's log has the details")
        if not service.ready:
            raise ApiError(503, "the model is being loaded", {"Retry-After": "1"})
        return JSONResponse({"status": "ready"})

    @api.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses=refusals(401),
        summary="Counters for Prometheus",
        operation_id="metrics",
    )
    async def metrics() -> PlainTextResponse:
        batcher, gate = service.pipeline.batcher, service.gate
        gauges = {
            "meantime_requests_inside": ("gauge", "Requests in work or waiting.", gate.inside),
            "meantime_body_bytes": ("gauge", "Bytes of their bodies.", gate.bytes),
            "meantime_items_waiting": ("gauge", "Views and texts that wait for the encoder.", batcher.waiting),
            "meantime_views_held": ("gauge", "Views in memory as pixels.", service.pixels.used),
            "meantime_classes_kept": ("gauge", "Lists of classes in memory.", len(service.kept)),
            "meantime_classes_kept_bytes": ("gauge", "Bytes of these.", service.kept.bytes),
            "meantime_encoder_calls_total": ("counter", "Batches that the encoder has done.", batcher.calls),
            "meantime_views_encoded_total": ("counter", "Views encoded.", batcher.encoded["images"]),
            "meantime_texts_encoded_total": ("counter", "Texts encoded.", batcher.encoded["texts"]),
        }
        return PlainTextResponse(service.metrics.text(gauges), media_type="text/plain; version=0.0.4")

    return api
