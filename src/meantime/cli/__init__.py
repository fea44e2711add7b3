"""The command line. One file for each command; this one puts them together."""

import io
import signal
import sys
import warnings
from typing import Annotated

import typer

from meantime import __version__
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
    predict,
    serve,
    store,
    views,
)
from meantime.cli import options as o
from meantime.errors import MeantimeError
from meantime.plugins import load_plugin

app = typer.Typer(
    help="Zero-shot image classification that is better than plain CLIP, with no training.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("classify")(classify.classify)
app.command("predict")(predict.predict)
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


def _say_version(asked: bool) -> None:
    if asked:
        print(f"meantime {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    plugin: o.PluginsOption = None,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit", is_eager=True, callback=_say_version)
    ] = False,
) -> None:
    context.obj = tuple(name for file in plugin or [] for name in load_plugin(file))  # `bench` has rows for them


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; errors and warnings are one sentence, not a trace."""
    warnings.showwarning = lambda message, *_, **__: print(f"meantime: {message}", file=sys.stderr)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be valid Unicode
    # Batch systems and `timeout` end a run by SIGTERM: like Ctrl-C it closes files and keeps what is done.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        app()
    except MeantimeError as error:
        print(f"meantime: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has had enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # a full disk, a folder without rights
        place = "" if error.filename is None else f": {error.filename}"
        print(f"meantime: {error.strerror or error}{place}", file=sys.stderr)
        sys.exit(2)
    finally:
        signal.signal(signal.SIGTERM, before)
