"""Settings of a server, made from the options of `regard serve`."""

from dataclasses import dataclass
from pathlib import Path

MAX_BODY = 2**22  # bytes


@dataclass(frozen=True)
class ServerSettings:
    """Models, address and limits of a server."""

    runs: tuple[Path, ...]  # run folders, or names of pretrained models; the first is loaded first
    host: str = "127.0.0.1"
    port: int = 8000  # 0 is any free one
    bits: int = 32  # of the weights: 32, 8 or 4

    # Limits of all models and of each model.
    memory: int | None = None  # bytes of all workers, above which models that rest are unloaded
    max_active: int = 64  # requests that a model computes at the same time
    max_waiting: int = 256  # requests that wait for one of those to end
    max_seconds: float = 120.0  # from the acceptance of a request to its end
    max_tokens: int = 4096  # that a request may generate
    max_body: int = MAX_BODY  # bytes of a request

    # Who may send requests, and how many.
    keys_file: Path | None = None  # hashes of API keys; None: no key is needed
    no_auth: bool = False  # listen beyond loopback without keys
    allowed_hosts: tuple[str, ...] = ()  # besides those that the address implies
    cors_origins: tuple[str, ...] = ()  # of pages that may send requests from a browser
    rate_limit: int | None = None  # requests a minute of one key, or of one address without keys

    # Logs.
    log_text: bool = False  # with the text of users
    json_logs: bool = False  # a JSON object a line
    quiet: bool = False  # warnings and errors only
