"""Descriptions of served models, read from their run folders without the weights."""

from dataclasses import dataclass
from pathlib import Path

from regard import run_folder
from regard.pretrained import located
from regard.run_details import ClassificationDetails, TranslationDetails, details_of
from regard.serving.tasks.base import tasks_of

# Classes of predictors, by the task of a run folder.
PREDICTORS = {
    "translation": "Translator",
    "summarization": "Summarizer",
    "language-model": "TextGenerator",
    "masked-lm": "MaskFiller",
    "span-corruption": "SpanFiller",
    "classification": "Classifier",
    "encoder": "Embedder",
}


@dataclass(frozen=True)
class ModelInfo:
    """Description of a served model."""

    name: str  # of the folder, or fr-en or en-fr
    task: str  # of the run folder: "translation", "language-model" …
    tasks: tuple[str, ...]  # of requests: "translate", "detect" …
    directions: tuple[tuple[str, str], ...] = ()  # source and target languages of a translator
    target: str | None = None  # language that the name chooses where a request names none
    labels: tuple[str, ...] = ()  # of a classifier
    max_length: int = 0  # tokens
    created: int = 0  # seconds since 1970
    has_chat_template: bool = False


def read_model_info(run: Path, name: str) -> ModelInfo:
    """Return the description of a run.

    Args:
        run: The run folder.
        name: Name of the model.

    Raises:
        RunError: The folder holds no run, a damaged one, or one of an unknown task.
    """
    path = located(run) / run_folder.MANIFEST
    manifest = run_folder.describe(run)
    details = details_of(manifest, str(path))
    directions = details.directions if isinstance(details, TranslationDetails) else ()
    return ModelInfo(
        name=name,
        task=manifest.task,
        tasks=tasks_of(PREDICTORS[manifest.task]),
        directions=tuple(_direction(text) for text in directions),
        labels=tuple(details.labels) if isinstance(details, ClassificationDetails) else (),
        max_length=details.max_length,
        created=int(path.stat().st_mtime),
        has_chat_template=_has_chat_template(path, manifest),
    )


def _has_chat_template(path: Path, manifest: run_folder.Manifest) -> bool:
    """Return whether the run has a template, or somebody put one into its folder."""
    name = run_folder.CHAT_TEMPLATE
    return name in manifest.sha256 or path.with_name(name).is_file()


def _direction(text: str) -> tuple[str, str]:
    source, _, target = text.partition(" → ")
    return source, target
