"""`regard serve --ray`: the server as an application of Ray Serve, on one machine or many.

    clients ── HTTP ──▶ Ray's proxy ──▶ gateway: the application with its middleware
                                           │  the replica that has the model and the least to do
                                           ▼
                                        replicas: the models, each in its worker process

A gateway holds no model. Ray starts replicas while more requests wait than those that there are
compute together, and ends them when they rest.
"""

import asyncio
import logging.config
import os
import signal
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from starlette.types import ASGIApp

from regard.errors import ConfigError
from regard.hardware import THREADS
from regard.missing_modules import required_by
from regard.pretrained import is_pretrained
from regard.serving.connections import KEEP_ALIVE_SECONDS
from regard.serving.errors import ServingError
from regard.serving.logs import logging_config
from regard.serving.models import Models
from regard.serving.replicated_models import ReplicaLost, ReplicatedModels
from regard.serving.server import protected_application
from regard.serving.settings import ServerSettings
from regard.serving.tasks.base import task

APPLICATION, GATEWAY, REPLICA = "regard", "gateway", "replica"
GATEWAY_REQUESTS = 4096  # more wait in Ray's proxy


@dataclass(frozen=True)
class Replication:
    """Number of replicas, and of the models that each of them has.

    Args:
        least: Number of replicas that are always there.
        most: Number of replicas under load.
        models: Models that a replica keeps, those used last (default: all).
    """

    least: int = 1
    most: int = 1
    models: int | None = None

    @classmethod
    def parse(cls, text: str, models: int | None = None) -> "Replication":
        """Return the numbers of `--replicas`: 2, or 1:4.

        Raises:
            ConfigError: The text is something else.
        """
        least, _, most = text.partition(":")
        with suppress(ValueError):
            numbers = cls(int(least), int(most or least), models)
            if 1 <= numbers.least <= numbers.most:
                return numbers
        raise ConfigError(
            f"--replicas {text}: it must be a number of replicas, such as 2, or the least and the "
            f"largest number, such as 1:4."
        )


def serve_with_ray(
    settings: ServerSettings, replication: Replication, on_ready: Callable[[], None]
) -> None:
    """Serve models until SIGTERM or SIGINT; what was accepted before is answered.

    The cluster is that of the environment variable RAY_ADDRESS, or one of this machine alone.

    Args:
        settings: Of the server; limits of requests are those of each replica.
        replication: Number of replicas.
        on_ready: Called when requests are answered.

    Raises:
        MissingModuleError: Ray is not installed.
    """
    with _cluster(settings) as serve:
        serve.start(
            http_options={
                "host": settings.host,
                "port": settings.port,
                "keep_alive_timeout_s": KEEP_ALIVE_SECONDS,
            }
        )
        serve.run(application(settings, replication), name=APPLICATION, route_prefix="/")
        on_ready()
        _wait_for_signal()
        serve.delete(APPLICATION)


def application(settings: ServerSettings, replication: Replication) -> Any:
    """Return the application for `serve.run`: a gateway bound to its replicas."""
    from ray import serve

    settings = _with_whole_paths(settings)
    replicas = serve.deployment(
        Replica,
        name=REPLICA,
        max_ongoing_requests=settings.max_active,
        graceful_shutdown_timeout_s=settings.max_seconds,
        ray_actor_options={"num_cpus": int(os.environ.get(THREADS, 1))},
        autoscaling_config={
            "min_replicas": replication.least,
            "max_replicas": replication.most,
            "target_ongoing_requests": settings.max_active,
        },
    )
    of_all = replace(settings, max_active=settings.max_active * replication.most)

    def gateway() -> ASGIApp:
        return _gateway(of_all)

    return serve.deployment(
        serve.ingress(gateway)(),
        name=GATEWAY,
        max_ongoing_requests=GATEWAY_REQUESTS,
        graceful_shutdown_timeout_s=settings.max_seconds,
        ray_actor_options={"num_cpus": 0},
        logging_config={"enable_access_log": False},  # Regard writes it
    ).bind(replicas.bind(settings, replication.models))


def build(arguments: Mapping[str, Any]) -> Any:
    """Return the application for `serve deploy`: `import_path: regard.serving.ray_serve:build`.

    Args:
        arguments: Settings of the server by name, and `replicas` as in the option.
    """
    options = dict(arguments)
    replication = Replication.parse(str(options.pop("replicas", 1)))
    options["runs"] = tuple(map(Path, options["runs"]))
    return application(ServerSettings(**options), replication)


class Replica:
    """A replica: the models in their worker processes.

    Args:
        settings: Of the server.
        max_models: Number of models that it keeps (default: all).
    """

    def __init__(self, settings: ServerSettings, max_models: int | None) -> None:
        from ray import serve

        logging.config.dictConfig(logging_config(settings))
        self._models = models = Models(settings)
        self._has_started = False

        async def load(name: str) -> _LoadedModel:
            return _LoadedModel(partial(models.unload, name))

        self._load = serve.multiplexed(
            load, max_num_models_per_replica=max_models or len(settings.runs)
        )

    async def check_health(self) -> None:
        """Start the models when Ray looks for the first time."""
        if not self._has_started:
            self._has_started = True
            self._models.start()
            await self._load(self._models.list()[0].name)

    async def stream(
        self, name: str, task_name: str, arguments: dict[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield {"event": …} for each event of a request, or {"error": …}."""
        await self._load(name)  # Ray sends requests for a model to the replicas that have it
        request = task(task_name).Arguments.model_validate(arguments)
        try:
            async with aclosing(self._models.stream(name, task_name, request)) as events:
                async for event in events:
                    yield {"event": event}
        except ServingError as error:
            yield {"error": error.to_message()}


class _LoadedModel:
    """A model that a replica keeps until Ray drops it for one that is used more."""

    def __init__(self, unload: Callable[[], None]) -> None:
        self._unload = unload
        self._loop = asyncio.get_running_loop()

    def __del__(self) -> None:
        with suppress(RuntimeError):  # the replica has ended
            self._loop.call_soon_threadsafe(self._unload)


class RayReplicas:
    """The replicas of a Ray deployment.

    Args:
        handle: Handle of the deployment.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def stream(
        self, name: str, task: str, arguments: dict[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield {"event": …} for each event of a request, or {"error": …}.

        Raises:
            ReplicaLost: The replica has died.
        """
        from ray.exceptions import RayError, RayTaskError

        handle = self._handle.options(stream=True, multiplexed_model_id=name)
        answers = handle.stream.remote(name, task, arguments)
        try:
            async for answer in answers:
                yield answer
        except RayTaskError:  # a bug in Regard
            raise
        except RayError as error:
            raise ReplicaLost from error
        finally:
            answers.cancel()


def _gateway(settings: ServerSettings) -> ASGIApp:
    """Return the application of a gateway; called in its process."""
    from ray import serve

    logging.config.dictConfig(logging_config(settings))
    replicas = RayReplicas(serve.get_deployment_handle(REPLICA, APPLICATION))
    return protected_application(ReplicatedModels(settings, replicas), settings)


def _with_whole_paths(settings: ServerSettings) -> ServerSettings:
    """Return the settings for processes that run in other folders."""
    return replace(
        settings,
        runs=tuple(run if is_pretrained(run) else run.absolute() for run in settings.runs),
        keys_file=settings.keys_file and settings.keys_file.absolute(),
    )


@contextmanager
def _cluster(settings: ServerSettings) -> Iterator[Any]:
    """Connect to a cluster, or start one of this machine; yield Ray Serve."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with required_by("regard serve --ray"):
        import ray
        from ray import serve
    if "RAY_ADDRESS" in os.environ:
        ray.init(log_to_driver=not settings.quiet)
        yield serve
    else:
        # Nobody else reaches a cluster that listens to this machine only.
        ray.init(
            address="local",
            include_dashboard=False,
            log_to_driver=not settings.quiet,
            _node_ip_address="127.0.0.1",
        )
        yield serve
        serve.shutdown()
    ray.shutdown()


def _wait_for_signal() -> None:
    signaled = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: signaled.set())
    signaled.wait()
