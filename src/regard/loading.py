"""Load run folders as predictors: a translator, a classifier, a language model …"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard import run_folder
from regard.config import validate
from regard.data.direction import Direction
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.engine.library import library
from regard.engine.plan import UnsupportedError
from regard.engine.plan_of_settings import check_shapes, plan_of_settings
from regard.engine.select import BITS
from regard.engine.stored_model import StoredModel
from regard.errors import RunError
from regard.hardware import trim_memory
from regard.missing_modules import install_command
from regard.pretrained import target_language
from regard.run_details import (
    ClassificationDetails,
    Details,
    SpanCorruptionDetails,
    SummarizationDetails,
    TranslationDetails,
    details_of,
)
from regard.run_folder import Run
from regard.tensor_files import MappedTensors, map_tensors, require_finite

if TYPE_CHECKING:
    from torch import nn

    from regard.models.base import ModelSpec
    from regard.predictors.classifier import Classifier
    from regard.predictors.embedder import Embedder
    from regard.predictors.generator import TextGenerator
    from regard.predictors.mask_filler import MaskFiller
    from regard.predictors.predictor import Predictor
    from regard.predictors.span_filler import SpanFiller
    from regard.predictors.summarizer import Summarizer
    from regard.predictors.translator import Translator

T = TypeVar("T")

LANGUAGES = "languages.json"

# Capability that a model must have, by task; an encoder is a kind of its own.
CAPABILITIES = {
    "translation": "seq2seq",
    "summarization": "seq2seq",
    "span-corruption": "seq2seq",
    "language-model": "causal-lm",
    "masked-lm": "masked-lm",
    "classification": "sequence-classification",
}

# Kind of the models that the engine computes without torch, by task.
ENGINE_KINDS = {
    "translation": "encoder-decoder",
    "summarization": "encoder-decoder",
    "span-corruption": "encoder-decoder",
    "language-model": "language-model",
    "masked-lm": "masked-lm",
    "classification": "classifier",
    "encoder": "encoder",
}


def load(folder: Path | str, bits: int = 32) -> "Predictor":
    """Load a run folder of any task.

    The class of the result depends on the run's task. `load_translator` and its siblings load one
    task, so that editors and type checkers know the class.

    Args:
        folder: The run folder.
        bits: 32, or 8 or 4 for integer weights on a CPU: smaller, faster, less exact (default:
            32).

    Returns:
        The model with its tokenizer: a `Translator`, `Summarizer`, `TextGenerator`, `Classifier`,
        `MaskFiller`, `SpanFiller` or `Embedder`.

    Raises:
        RunError: The folder holds no run, a damaged one, or one of an unknown task.
        ConfigError: The model does not support integer weights.

    Example:
        >>> import regard
        >>> type(regard.load("runs/demo")).__name__
        'Translator'
    """
    folder = Path(folder)
    if bits not in BITS:
        raise RunError(f"weights have 32 bits, 8 or 4, not {bits}.")
    try:
        run, model_of = _read_stored(folder)
    except UnsupportedError as reason:
        run, model_of = _read_with_torch(folder, str(reason))
    where = str(folder / run_folder.MANIFEST)
    details = details_of(run, where)
    tokenizer = Tokenizer.from_run(run, where)
    tokenizer.check_fits(run.vocabulary, where, _special_tokens(details, run.task))
    predictor = _predictor(run, details, model_of(), tokenizer, where, bits)
    predictor.tokens_per_word = details.tokens_per_word
    predictor.file_format = details.file_format
    predictor.fix_encoding = details.fix_encoding
    trim_memory()  # the text of the tokenizer is no longer needed
    return predictor


def load_translator(folder: Path | str, bits: int = 32) -> "Translator":
    """Load a translation run.

    Args:
        folder: The run folder.
        bits: 32, or 8 or 4 for integer weights on a CPU: smaller, faster, less exact (default:
            32).

    Returns:
        The model with its tokenizer.

    Raises:
        RunError: The folder holds no run, a damaged one, or a run of another task.

    Example:
        >>> import regard
        >>> translator = regard.load_translator("runs/demo")
        >>> translator.translate(["The cat sleeps."], to="fr")
        ['Le chat dort.']
    """
    from regard.predictors.translator import Translator

    return _load(folder, bits, Translator)


def load_summarizer(folder: Path | str, bits: int = 32) -> "Summarizer":
    """Load a summarization run.

    Args:
        folder: The run folder.
        bits: 32, or 8 or 4 for integer weights on a CPU: smaller, faster, less exact (default:
            32).

    Returns:
        The model with its tokenizer.

    Raises:
        RunError: The folder holds no run, a damaged one, or a run of another task.

    Example:
        >>> import regard
        >>> summarizer = regard.load_summarizer("runs/summaries")
        >>> len(summarizer.summarize(["the cat sits on the mat"]))
        1
    """
    from regard.predictors.summarizer import Summarizer

    return _load(folder, bits, Summarizer)


def load_language_model(folder: Path | str, bits: int = 32) -> "TextGenerator":
    """Load a language-model run.

    Args:
        folder: The run folder.
        bits: 32, or 8 or 4 for integer weights on a CPU: smaller, faster, less exact (default:
            32).

    Returns:
        The model with its tokenizer.

    Raises:
        RunError: The folder holds no run, a damaged one, or a run of another task.

    Example:
        >>> import regard
        >>> model = regard.load_language_model("runs/proverbs")
        >>> model.generate("a stitch in time", max_tokens=5)
        ' saves nine'
    """
    from regard.predictors.generator import TextGenerator

    return _load(folder, bits, TextGenerator)


def load_classifier(folder: Path | str, bits: int = 32) -> "Classifier":
    """Load a classification run.

    Args:
        folder: The run folder.
        bits: 32, or 8 or 4 for integer weights on a CPU: smaller, faster, less exact (default:
            32).

    Returns:
        The model with its tokenizer.

    Raises:
        RunError: The folder holds no run, a damaged one, or a run of another task.

    Example:
        >>> import regard
        >>> classifier = regard.load_classifier("runs/reviews")
        >>> classifier.classify(["a good film"])[0].label
        'positive'
    """
    from regard.predictors.classifier import Classifier

    return _load(folder, bits, Classifier)


def load_mask_filler(folder: Path | str, bits: int = 32) -> "MaskFiller":
    """Load a masked-lm run.

    Args:
        folder: The run folder.
        bits: 32, or 8 or 4 for integer weights on a CPU: smaller, faster, less exact (default:
            32).

    Returns:
        The model with its tokenizer.

    Raises:
        RunError: The folder holds no run, a damaged one, or a run of another task.

    Example:
        >>> import regard
        >>> filler = regard.load_mask_filler("runs/masked")
        >>> filler.fill("the cat ___ on the mat", top=1)[0][0].text
        'sits'
    """
    from regard.predictors.mask_filler import MaskFiller

    return _load(folder, bits, MaskFiller)


def load_span_filler(folder: Path | str, bits: int = 32) -> "SpanFiller":
    """Load a span-corruption run.

    Args:
        folder: The run folder.
        bits: 32, or 8 or 4 for integer weights on a CPU: smaller, faster, less exact (default:
            32).

    Returns:
        The model with its tokenizer.

    Raises:
        RunError: The folder holds no run, a damaged one, or a run of another task.

    Example:
        >>> import regard
        >>> filler = regard.load_span_filler("runs/spans")
        >>> len(filler.fill("the cat ___ the mat"))
        1
    """
    from regard.predictors.span_filler import SpanFiller

    return _load(folder, bits, SpanFiller)


def load_embedder(folder: Path | str, bits: int = 32) -> "Embedder":
    """Load an imported encoder.

    Args:
        folder: The run folder.
        bits: 32, or 8 or 4 for integer weights on a CPU: smaller, faster, less exact (default:
            32).

    Returns:
        The model with its tokenizer.

    Raises:
        RunError: The folder holds no run, a damaged one, or a run of another task.

    Example:
        >>> import regard
        >>> embedder = regard.load_embedder("runs/encoder")
        >>> tuple(embedder.embed(["the cat sits"]).shape)
        (1, 32)
    """
    from regard.predictors.embedder import Embedder

    return _load(folder, bits, Embedder)


def load_filler(folder: Path | str, bits: int = 32) -> "MaskFiller | SpanFiller":
    """Load a masked-lm or span-corruption run; refuse a run of another task."""
    from regard.predictors.mask_filler import MaskFiller
    from regard.predictors.span_filler import SpanFiller

    predictor = load(folder, bits)
    if isinstance(predictor, SpanFiller):
        return predictor
    return _checked(folder, predictor, MaskFiller)


# Noun for each predictor, and the command that makes its run folders, for error messages.
_NOUNS: dict[str, tuple[str, str]] = {
    "Translator": ("a translator", "`regard demo`, or by `regard train` for translation"),
    "Summarizer": ("a summarizer", "`regard train` for summarization"),
    "TextGenerator": (
        "a language model",
        "`regard train` for language-model, or by `regard import`",
    ),
    "Classifier": ("a classifier", "`regard train` for classification"),
    "MaskFiller": (
        "a masked language model",
        "`regard train` for masked-lm, or by `regard import`",
    ),
    "SpanFiller": ("a span-corruption model", "`regard train` for span-corruption"),
    "Embedder": ("an encoder", "`regard import` of an encoder"),
}


def noun_of(predictor: "Predictor") -> str:
    """Return the noun for a predictor, with its article: "a translator"."""
    return _NOUNS[type(predictor).__name__][0]


def _load(folder: Path | str, bits: int, expected: type[T]) -> T:
    return _checked(folder, load(folder, bits), expected)


def _checked(folder: Path | str, predictor: "Predictor", expected: type[T]) -> T:
    if not isinstance(predictor, expected):
        noun, made_by = _NOUNS[expected.__name__]
        raise RunError(
            f"{folder}: holds {noun_of(predictor)}, not {noun}; choose a run folder made by "
            f"{made_by}."
        )
    return predictor


def _read_stored(folder: Path) -> "tuple[Run, Callable[[], StoredModel | nn.Module]]":
    """Read a run that the engine computes, without torch; return it and a function for its model.

    Raises:
        UnsupportedError: The engine cannot, or the run must be checked or upgraded with torch.
        RunError: The run is damaged.
    """
    if library() is None:
        raise UnsupportedError("the engine was not compiled, or cannot run on this processor")
    description, where = run_folder.describe(folder), str(folder / run_folder.MANIFEST)
    if "adapter" in description.details:
        raise UnsupportedError("it is an adapter, which `regard merge` would merge")
    if ENGINE_KINDS.get(description.task) != description.model.get("kind"):
        raise UnsupportedError("its model is not of a kind that the engine computes for its task")
    plan_of_settings(description.model, description.vocabulary)  # before the weights are read
    run = run_folder.read_unverified(folder, map_tensors)
    plan, weights = plan_of_settings(run.model, run.vocabulary), run.weights
    if not isinstance(weights, MappedTensors):
        raise UnsupportedError("it is of format 1")
    check_shapes(plan, weights.shapes)
    details = details_of(run, where)
    if details.max_length > run.model["max_length"]:
        raise UnsupportedError("texts longer than the model takes")
    if isinstance(details, ClassificationDetails):
        _check_labels(details, run.model["classes"], where)
        if details.tree_source is not None:
            raise UnsupportedError("texts with dependency trees")
    file = str(run_folder.path_of(folder, run_folder.WEIGHTS))

    def verified() -> StoredModel:
        run.verify()
        require_finite(weights, file)
        return StoredModel(plan, weights, lambda: _module(run, _spec(run, where), file))

    return run, verified


def _read_with_torch(folder: Path, reason: str) -> "tuple[Run, Callable[[], nn.Module]]":
    """Read a run that torch computes; return it and a function that builds its module."""
    try:
        from regard.merged_run import read_merged
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        advice = install_command("torch")
        raise RunError(f"{folder}: this run needs torch ({reason}): {advice}.") from None
    run = read_merged(folder)
    spec = _spec(run, str(folder / run_folder.MANIFEST))
    return run, lambda: _module(run, spec, str(run_folder.path_of(folder, run_folder.WEIGHTS)))


def _spec(run: Run, where: str) -> "ModelSpec":
    """Return the model's spec, which must fit the details."""
    from regard.models.base import ModelSpec

    details = details_of(run, where)
    spec = validate(ModelSpec, run.model, f"{where}: model")
    _check_model(run, details, spec, where)
    return spec


def _module(run: Run, spec: "ModelSpec", weights_file: str) -> "nn.Module":
    """Build the torch module of a run."""
    import torch

    from regard.models.weights import build_with_weights

    weights = {
        name: tensor if isinstance(tensor, torch.Tensor) else torch.from_numpy(tensor.copy())
        for name, tensor in run.weights.items()
    }
    return build_with_weights(spec, run.vocabulary, weights, weights_file)


def _check_model(run: Run, details: Details, spec: "ModelSpec", where: str) -> None:
    """Refuse details that do not belong to the model."""
    capability = CAPABILITIES.get(run.task)
    chosen = getattr(spec, "capability", None)  # of kinds that have several, as the baselines
    known = spec.capabilities if chosen is None else {chosen}
    if capability not in known if capability else spec.kind() != run.task:
        raise RunError(
            f"{where}: task: a model of kind {spec.kind()} is not one for {run.task}; the file is "
            f"damaged or was changed by hand: restore it."
        )
    if details.max_length > spec.max_length:
        raise RunError(
            f"{where}: details.max_length: {details.max_length:,} tokens are more than the "
            f"{spec.max_length:,} of the model (model.max_length); restore the file."
        )
    if isinstance(details, ClassificationDetails):
        _check_labels(details, getattr(spec, "classes", len(details.labels)), where)
        _check_trees(details, spec, where)


def _check_labels(details: ClassificationDetails, classes: int, where: str) -> None:
    if len(details.labels) != classes:
        raise RunError(
            f"{where}: details.labels: there are {len(details.labels):,} labels and the model has "
            f"{classes:,} outputs (model.classes); restore the file."
        )


def _check_trees(details: ClassificationDetails, spec: "ModelSpec", where: str) -> None:
    if spec.needs_trees and details.tree_source is None:
        raise RunError(
            f"{where}: details.tree_source: is missing, and a model with positions of kind syntax "
            f"needs it; restore the file."
        )


def _special_tokens(details: Details, task: str) -> list[str]:
    """Return the names of the special tokens that the predictor of a run needs."""
    if task == "masked-lm":
        return ["mask"]
    if isinstance(details, SpanCorruptionDetails):
        from regard.data.batches.spans import sentinel

        return [sentinel(number) for number in range(details.sentinels)]
    if isinstance(details, TranslationDetails):
        targets = {direction.target for direction in _directions(details)}
        return sorted(targets) if len(targets) > 1 else []  # tags select the target language
    return []


def _directions(details: TranslationDetails) -> list[Direction]:
    return [Direction(*direction.split(" → ")) for direction in details.directions]


def _predictor(
    run: Run, details: Any, model: Any, tokenizer: Tokenizer, where: str, bits: int
) -> "Predictor":
    if run.task == "translation":
        return _translator(run, details, model, tokenizer, where, bits)
    if run.task == "summarization":
        return _summarizer(details, model, tokenizer, bits)
    if run.task == "language-model":
        from regard.predictors.generator import TextGenerator

        generator = TextGenerator(
            model, tokenizer, details.max_length, details.bos, bits, details.other_ends
        )
        generator.chat_template = _chat_template(run, where)
        return generator
    if run.task == "classification":
        return _classifier(details, model, tokenizer, where, bits)
    if run.task == "encoder":
        from regard.predictors.embedder import Embedder

        return Embedder(
            model, tokenizer, details.max_length, details.pooling, details.normalize, bits
        )
    if run.task == "masked-lm":
        from regard.predictors.mask_filler import MaskFiller

        return MaskFiller(model, tokenizer, details.max_length, bits)
    from regard.predictors.span_filler import SpanFiller

    return SpanFiller(model, tokenizer, details.max_length, details.sentinels, bits)


def _chat_template(run: Run, where: str) -> str | None:
    """Return the chat template that somebody put into the run folder, or that the run has."""
    path = Path(where).with_name(run_folder.CHAT_TEMPLATE)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return run.extra_files.get(run_folder.CHAT_TEMPLATE)
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path}: cannot be read as text ({error}); correct or delete it.") from None


def _translator(
    run: Run, details: TranslationDetails, model: Any, tokenizer: Tokenizer, where: str, bits: int
) -> "Translator":
    from regard.predictors.source_text import SourceHandling
    from regard.predictors.translator import Translator

    if LANGUAGES not in run.extra_files:
        raise RunError(f"{where}: sha256: a translator needs {LANGUAGES}; restore the file.")
    path = Path(where).with_name(LANGUAGES)
    identifier = LanguageIdentifier.from_json(run.extra_files[LANGUAGES], str(path))
    directions = _directions(details)
    sources = {direction.source for direction in directions}
    if missing := sorted(sources - identifier.counts.keys()):
        raise RunError(
            f"{path}: has no counts for '{missing[0]}', which the run translates from; restore "
            f"the file."
        )
    translator = Translator(
        model,
        tokenizer,
        identifier,
        details.max_length,
        directions,
        bits,
        details.suppressed_tokens,
        SourceHandling(details.split_sentences, details.lowercase_capitals, details.restore_lost),
        details.beam,
    )
    translator.default_target = target_language(path.parent)
    return translator


def _summarizer(
    details: SummarizationDetails, model: Any, tokenizer: Tokenizer, bits: int
) -> "Summarizer":
    from regard.predictors.summarizer import Summarizer

    return Summarizer(
        model,
        tokenizer,
        details.max_length,
        details.max_summary_tokens,
        details.truncate_source,
        bits,
    )


def _classifier(
    details: ClassificationDetails, model: Any, tokenizer: Tokenizer, where: str, bits: int
) -> "Classifier":
    from regard.data.sources.labels import LabelsSpec
    from regard.predictors.classifier import Classifier

    return Classifier(
        model,
        tokenizer,
        details.labels,
        details.max_length,
        details.num_texts,
        validate(LabelsSpec, details.label_format, f"{where}: details.label_format"),
        details.temperature,
        details.tree_source,
        details.truncate,
        bits,
    )
