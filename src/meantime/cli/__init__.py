"""The command line. One file for each command; this one puts them together."""

import sys
import warnings

import typer

from meantime.cli import (
    bench,
    classify,
    datasets,
    encode,
    evaluate,
    explain,
    export,
    fit,
    lists,
    plan,
    serve,
    store,
    views,
)
from meantime.errors import MeantimeError

app = typer.Typer(
    help="Zero-shot image classification that is better than plain CLIP, with no training.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("classify")(classify.classify)
app.command("explain")(explain.explain)
app.command("evaluate")(evaluate.evaluate)
app.command("encode")(encode.encode)
app.add_typer(store.app, name="store")
app.add_typer(datasets.app, name="datasets")
app.add_typer(views.app, name="views")
app.add_typer(bench.app, name="bench")
app.command("fit")(fit.fit)
app.command("export")(export.export)
app.command("serve")(serve.serve)
app.command("plan")(plan.plan)
app.command("models")(lists.models)
app.command("methods")(lists.methods)


def main() -> None:
    """Run the command line; errors and warnings are one sentence, not a trace."""
    warnings.showwarning = lambda message, *_, **__: print(f"meantime: {message}", file=sys.stderr)
    try:
        app()
    except MeantimeError as error:
        print(f"meantime: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has had enough
        sys.stderr.close()
        sys.exit(0)
