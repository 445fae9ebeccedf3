"""Options of earlier versions, refused with their new names."""

from collections.abc import Mapping, Sequence

from regard.errors import ConfigError

_DECODING = {
    "--no-repeat": "--no-repeat-ngram",
    "--forbid": "--suppress-phrase",
    "--tokens": "--max-tokens",
}
_OVERWRITE = {"--fresh": "--overwrite"}

RENAMED: Mapping[str, Mapping[str, str]] = {
    "demo": _OVERWRITE,
    "train": _OVERWRITE,
    "lab": _OVERWRITE,
    "translate": {
        **_DECODING,
        "--quick": "--early-stopping",
        "--groups": "--beam-groups",
        "--force": "--require-phrase",
        "--keep": "--keep-placeholders",
    },
    "summarize": {**_DECODING, "--whole": "--whole-file"},
    "generate": {
        "--no-repeat": "--no-repeat-ngram",
        "--tokens": "--max-tokens",
        "--draft": "--draft-model",
        "--lookup": "--prompt-lookup",
        "--window": "--sliding-window",
    },
    "look": {"--beside": "--compare", "--film": "--history"},
    "heads": {"--lines": "--max-lines"},
    "score": {"--words": "--per-token"},
    "evaluate": {"--lowercased": "--lowercase"},
}


def refuse_renamed(arguments: Sequence[str]) -> None:
    """Refuse an option of an earlier version with one sentence that names the new one.

    Args:
        arguments: The command and its arguments, as in `sys.argv[1:]`.
    """
    command, *options = arguments or [""]
    renamed = RENAMED.get(command, {})
    for option in options:
        if option == "--":
            return
        name = option.partition("=")[0]
        if name in renamed:
            raise ConfigError(f"{command}: {name} was renamed to {renamed[name]}.")
