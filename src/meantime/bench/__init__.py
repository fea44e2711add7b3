"""The paper's tables and figures from stores: every cell mean ± std over seeds, beside the published number.

`declare` says what each table is, `shelf` which stores there are, `passes` asks each store once for all rows,
`run` puts the tables together, `write` brings them to the terminal and to files.
"""

from meantime.bench.cells import Cell, Table
from meantime.bench.compare import Comparison, compare
from meantime.bench.declare import TABLES, Row, TableSpec
from meantime.bench.paper import published
from meantime.bench.predictions import Predictions
from meantime.bench.run import Bench
from meantime.bench.shelf import Shelf
from meantime.plugins import load_plugin

__all__ = [
    "TABLES",
    "Bench",
    "Cell",
    "Comparison",
    "Predictions",
    "Row",
    "Shelf",
    "Table",
    "TableSpec",
    "compare",
    "load_plugin",
    "published",
]
