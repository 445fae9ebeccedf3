"""regard serve: serve models over HTTP, to existing clients and in the browser."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli._shared.options import Int4, Int8, bits_of
from regard.cli._shared.sizes import parse_size
from regard.cli._shared.streams import echo
from regard.serving.settings import ServerSettings

if TYPE_CHECKING:
    from regard.serving.models import Models

DEFAULT = ServerSettings(runs=())


def serve(
    run: Annotated[
        list[Path],
        typer.Argument(help="Run folders of any task, or fr-en; the first is loaded at once."),
    ],
    host: Annotated[
        str, typer.Option(help="Address; a loopback address is reached from this machine only.")
    ] = DEFAULT.host,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 is any free one.")
    ] = DEFAULT.port,
    int8: Int8 = False,
    int4: Int4 = False,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory of all models, such as 2GB: above it, those that rest are unloaded, the "
            "least recently used first (default: no limit)."
        ),
    ] = None,
    max_active: Annotated[
        int, typer.Option(min=1, max=1024, help="Requests that a model computes together.")
    ] = DEFAULT.max_active,
    max_waiting: Annotated[
        int,
        typer.Option(
            min=0, help="Requests that wait for a model; more are refused with Retry-After."
        ),
    ] = DEFAULT.max_waiting,
    max_seconds: Annotated[
        float, typer.Option(min=0.1, help="Time of a request, waiting included.")
    ] = DEFAULT.max_seconds,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens that a request may generate.")
    ] = DEFAULT.max_tokens,
    max_body: Annotated[str, typer.Option(help="Size of a request.")] = "4MiB",
    keys: Annotated[
        Path | None,
        typer.Option(help="File of API keys (`regard keys add`); requests need one of them."),
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Listen beyond this machine without keys.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Host name that requests may have, beside --host; may be repeated."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            help="Origin of pages that may send requests, such as https://example.org; may be "
            "repeated.",
            metavar="ORIGIN",
        ),
    ] = None,
    rate_limit: Annotated[
        int | None,
        typer.Option(min=1, help="Requests a minute of each key, or of each address without keys."),
    ] = None,
    log_text: Annotated[
        bool, typer.Option("--log-text", help="Log the texts of requests and answers.")
    ] = False,
    json_logs: Annotated[
        bool, typer.Option("--json-logs", help="Log a JSON object a line.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log warnings and errors only.")] = False,
    ray: Annotated[
        bool,
        typer.Option("--ray", help="Serve with Ray: the cluster of RAY_ADDRESS, or a new one."),
    ] = False,
    replicas: Annotated[
        str | None,
        typer.Option(
            help="Number of replicas with --ray, or the least and the largest, such as 1:4 "
            "(default: 1)."
        ),
    ] = None,
    models_per_replica: Annotated[
        int | None,
        typer.Option(min=1, help="Models that a replica keeps with --ray (default: all)."),
    ] = None,
) -> None:
    """Serve models over HTTP: a page for people, and the protocols of OpenAI, LibreTranslate, DeepL
    and Hugging Face clients.

    Models are loaded when they are first needed, each in a process of its own. SIGTERM and Ctrl-C
    end the server once the accepted requests are answered.
    """
    _require_protection(host, keys, no_auth)
    if not ray:
        _require_ray_for(("--replicas", replicas), ("--models-per-replica", models_per_replica))
    settings = ServerSettings(
        runs=tuple(run),
        host=host,
        port=port,
        bits=bits_of(int8, int4),
        memory=None if memory is None else parse_size("--memory", memory),
        max_active=max_active,
        max_waiting=max_waiting,
        max_seconds=max_seconds,
        max_tokens=max_tokens,
        max_body=parse_size("--max-body", max_body),
        keys_file=keys,
        no_auth=no_auth,
        allowed_hosts=tuple(allow_host or ()),
        cors_origins=tuple(cors or ()),
        rate_limit=rate_limit,
        log_text=log_text,
        json_logs=json_logs,
        quiet=quiet,
    )
    if ray:
        _serve_with_ray(settings, replicas or "1", models_per_replica)
    else:
        _serve(settings)


def _require_protection(host: str, keys: Path | None, no_auth: bool) -> None:
    """Refuse to listen beyond this machine without keys, unless that is asked for."""
    from regard.errors import ConfigError
    from regard.web.addresses import is_loopback

    if is_loopback(host) or keys is not None or no_auth:
        return
    raise ConfigError(
        f"--host {host}: other machines reach this address; let --keys protect it (`regard keys` "
        f"makes them), or serve everybody with --no-auth."
    )


def _require_ray_for(*options: tuple[str, object]) -> None:
    from regard.errors import ConfigError

    for name, value in options:
        if value is not None:
            raise ConfigError(f"{name} {value}: it needs --ray; add --ray, or leave it out.")


def _serve(settings: ServerSettings) -> None:
    import logging.config

    from regard.serving.worker_process import WorkerProcess
    from regard.web.addresses import address_of, listen

    with listen(settings.host, settings.port) as listener:
        # It loads the first model while this process imports the server.
        process = WorkerProcess.start(settings.runs[0], settings)
        from regard.serving.logs import logging_config
        from regard.serving.models import Models
        from regard.serving.server import protected_application, serve

        logging.config.dictConfig(logging_config(settings))
        models = Models(settings, process)
        app = protected_application(models, settings)
        echo(f"{address_of(settings.host, listener)} serves {_names(models)}; Ctrl-C ends.")
        serve(app, models, listener)


def _serve_with_ray(settings: ServerSettings, replicas: str, models: int | None) -> None:
    from regard.serving.models import named_runs
    from regard.serving.ray_serve import Replication, serve_with_ray
    from regard.web.addresses import address_of, listen

    replication = Replication.parse(replicas, models)
    names = ", ".join(named_runs(settings.runs))
    with listen(settings.host, settings.port) as listener:  # the port is free; Ray takes it
        address, port = address_of(settings.host, listener), listener.getsockname()[1]

    def announce() -> None:
        echo(f"{address} serves {names} with Ray; Ctrl-C ends.")

    serve_with_ray(replace(settings, port=port), replication, announce)


def _names(models: "Models") -> str:
    return ", ".join(info.name for info in models.list())
