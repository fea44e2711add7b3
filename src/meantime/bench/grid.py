"""Table 7: MTA with every lambda and lambda_y of the paper, all settings side by side."""

import math

import numpy as np

from meantime.bench.agree import as_the_papers, sampling_error
from meantime.bench.cells import Cell, Table
from meantime.bench.declare import Row, title_of
from meantime.bench.heads import UnavailableError
from meantime.bench.paper import numbers, published
from meantime.bench.passes import Search, run_pass
from meantime.bench.remarks import remarks
from meantime.bench.run import Bench
from meantime.store import Store

SPEC = numbers()["table7"]
LAMBDAS = tuple(SPEC["rows"])  # as texts, as the paper prints them
LAMBDA_YS = tuple(SPEC["columns"])
# 7 x 10 settings, and plain MeanShift: with uniform weights lambda does not matter.
SETTINGS = tuple((a, b) for a in LAMBDAS for b in LAMBDA_YS if b != "inf" or a == "0")


def table7(bench: Bench, dataset: str = "imagenet") -> Table:
    """The grid on one dataset."""
    stores: dict[int, Store] = {}
    reason = None
    found = []  # for each seed the accuracy of every setting
    try:
        stores = bench.stores(dataset, bench.encoder, n_views=bench.n_views or 64)
        n = bench.n_views or 64
        for store in stores.values():
            if n > store.n_views:
                raise UnavailableError(
                    f"the store of {dataset} has {store.n_views} views, not {n}: --views {store.n_views} takes what "
                    "it has"
                )
            head = bench.heads.of(store, Row("mta", "MTA"))["text"]
            search = Search(tuple((float(a), float(b)) for a, b in SETTINGS), "head", n, head)
            found.append(run_pass(store, {}, {"grid": search}, bench.hearing(store))[1]["grid"])
    except UnavailableError as error:
        reason, found = str(error), []
    values = np.array(found)  # (seeds, 71)
    images = min(map(len, stores.values()), default=0)
    as_published = bench.n_views in (None, 64) and all(as_the_papers(store, images) for store in stores.values())
    cells = {}
    for a in LAMBDAS:
        for b in LAMBDA_YS:
            paper = published("table7", a, b) if dataset == "imagenet" else None
            if (a, b) not in SETTINGS:
                cells[a, b] = Cell()
            elif not found:
                cells[a, b] = Cell(paper=paper, reason=reason)
            else:
                here = values[:, SETTINGS.index((a, b))]  # (seeds,)
                sampling = sampling_error([float(here.mean())], [images]) if as_published else None
                cells[a, b] = Cell(tuple(here.tolist()), paper, sampling=sampling)
    notes = [said for store in stores.values() for said in remarks(store)]
    if found and len(found) < bench.seeds:
        notes.append(f"seed {', '.join(map(str, stores))} only")
    if found and dataset == "imagenet":
        notes += bench.published_otherwise(64)
    return Table(
        "table7",
        f"Effect of lambda and lambda_y: {title_of(dataset)} ({bench.encoder})",
        {a: a for a in LAMBDAS},
        {b: "∞ (MeanShift)" if math.isinf(float(b)) else b for b in LAMBDA_YS},
        cells,
        corner="lambda \\ lambda_y",
        notes=list(dict.fromkeys(notes)),
    )
