"""Load run folders as predictors: a translator, a classifier, a language model …"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from regard import run_folder
from regard.config import validate
from regard.data.batches.spans import sentinel
from regard.data.config import Direction
from regard.data.sources.labels import LabelsSpec
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import RunError
from regard.merged_run import read_merged
from regard.models.base import ModelSpec
from regard.models.encoder import Encoder
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.language_model import LanguageModel
from regard.models.masked_lm import MaskedLM
from regard.models.weights import set_weights
from regard.predictors.classifier import Classifier
from regard.predictors.embedder import Embedder
from regard.predictors.generator import TextGenerator
from regard.predictors.mask_filler import MaskFiller
from regard.predictors.seq2seq import Model
from regard.predictors.span_filler import SpanFiller
from regard.predictors.summarizer import Summarizer
from regard.predictors.translator import Translator
from regard.run_folder import Run

T = TypeVar("T")

Predictor = (
    Translator | Summarizer | TextGenerator | Classifier | MaskFiller | SpanFiller | Embedder
)


def load(folder: Path | str, bits: int = 32) -> Predictor:
    """Load a run folder of any task.

    The class of the result depends on the run's task. `load_translator` and its siblings load one
    task, so that editors and type checkers know the class.

    Args:
        folder: The run folder.
        bits: 32, or 8 for int8 weights on a CPU: smaller, faster, slightly less exact (default:
            32).

    Returns:
        The model with its tokenizer: a `Translator`, `Summarizer`, `TextGenerator`, `Classifier`,
        `MaskFiller`, `SpanFiller` or `Embedder`.

    Raises:
        RunError: The folder holds no run, a damaged one, or one of an unknown task.
        ConfigError: The model does not support int8 weights.

    Example:
        >>> import regard
        >>> type(regard.load("runs/demo")).__name__
        'Translator'
    """
    folder = Path(folder)
    if bits not in (8, 32):
        raise RunError(f"weights have 32 bits or 8, not {bits}.")
    run = read_merged(folder)
    builders: dict[str, Callable[[Run, Any, Tokenizer], Predictor]] = {
        "translation": partial(_translator, bits=bits),
        "summarization": partial(_summarizer, bits=bits),
        "language-model": partial(_text_generator, bits=bits),
        "classification": _classifier,
        "encoder": _embedder,
        "masked-lm": _mask_filler,
        "span-corruption": _span_filler,
    }
    if run.task not in builders:
        raise RunError(f"{folder}: holds a model for {run.task}, which this version does not know.")
    spec = validate(ModelSpec, run.model, f"{folder / run_folder.MANIFEST}: model")
    model = spec.build(run.vocabulary)
    set_weights(model, run.weights, str(run_folder.path_of(folder, run_folder.WEIGHTS)))
    where = str(folder / run_folder.MANIFEST)
    tokenizer = Tokenizer.from_run(run, where)
    tokenizer.check_fits(run.vocabulary, where, _special_tokens(run))
    return builders[run.task](run, model, tokenizer)


def load_translator(folder: Path | str, bits: int = 32) -> Translator:
    """Load a translation run.

    Args:
        folder: The run folder.
        bits: 32, or 8 for int8 weights on a CPU: smaller, faster, slightly less exact (default:
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
    return _load(folder, bits, Translator)


def load_summarizer(folder: Path | str, bits: int = 32) -> Summarizer:
    """Load a summarization run.

    Args:
        folder: The run folder.
        bits: 32, or 8 for int8 weights on a CPU: smaller, faster, slightly less exact (default:
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
    return _load(folder, bits, Summarizer)


def load_language_model(folder: Path | str, bits: int = 32) -> TextGenerator:
    """Load a language-model run.

    Args:
        folder: The run folder.
        bits: 32, or 8 for int8 weights on a CPU: smaller, faster, slightly less exact (default:
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
    return _load(folder, bits, TextGenerator)


def load_classifier(folder: Path | str) -> Classifier:
    """Load a classification run.

    Args:
        folder: The run folder.

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
    return _load(folder, 32, Classifier)


def load_mask_filler(folder: Path | str) -> MaskFiller:
    """Load a masked-lm run.

    Args:
        folder: The run folder.

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
    return _load(folder, 32, MaskFiller)


def load_span_filler(folder: Path | str) -> SpanFiller:
    """Load a span-corruption run.

    Args:
        folder: The run folder.

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
    return _load(folder, 32, SpanFiller)


def load_embedder(folder: Path | str) -> Embedder:
    """Load an imported encoder.

    Args:
        folder: The run folder.

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
    return _load(folder, 32, Embedder)


def load_filler(folder: Path | str) -> MaskFiller | SpanFiller:
    """Load a masked-lm or span-corruption run; refuse a run of another task."""
    predictor = load(folder)
    if isinstance(predictor, SpanFiller):
        return predictor
    return _checked(folder, predictor, MaskFiller)


# Noun for each predictor, and the command that makes its run folders, for error messages.
_NOUNS: dict[type[Any], tuple[str, str]] = {
    Translator: ("a translator", "`regard demo`, or by `regard train` for translation"),
    Summarizer: ("a summarizer", "`regard train` for summarization"),
    TextGenerator: (
        "a language model",
        "`regard train` for language-model, or by `regard import`",
    ),
    Classifier: ("a classifier", "`regard train` for classification"),
    MaskFiller: (
        "a masked language model",
        "`regard train` for masked-lm, or by `regard import`",
    ),
    SpanFiller: ("a span-corruption model", "`regard train` for span-corruption"),
    Embedder: ("an encoder", "`regard import` of an encoder"),
}


def noun_of(predictor: Predictor) -> str:
    """Return the noun for a predictor, with its article: "a translator"."""
    return _NOUNS[type(predictor)][0]


def _load(folder: Path | str, bits: int, expected: type[T]) -> T:
    return _checked(folder, load(folder, bits), expected)


def _checked(folder: Path | str, predictor: Predictor, expected: type[T]) -> T:
    if not isinstance(predictor, expected):
        noun, made_by = _NOUNS[expected]
        raise RunError(
            f"{folder}: holds {noun_of(predictor)}, not {noun}; choose a run folder made by "
            f"{made_by}."
        )
    return predictor


def _special_tokens(run: Run) -> list[str]:
    """Return the names of the special tokens that the predictor of a run needs."""
    if run.task == "masked-lm":
        return ["mask"]
    if run.task == "span-corruption":
        return [sentinel(number) for number in range(run.details["sentinels"])]
    if run.task == "translation":
        targets = {direction.target for direction in _directions(run)}
        return sorted(targets) if len(targets) > 1 else []  # tags select the target language
    return []


def _directions(run: Run) -> list[Direction]:
    return [Direction(*direction.split(" → ")) for direction in run.details["directions"]]


def _translator(run: Run, model: Any, tokenizer: Tokenizer, bits: int) -> Translator:
    return Translator(
        cast("Model", model),
        tokenizer,
        LanguageIdentifier.from_json(run.extra_files["languages.json"]),
        run.details["max_length"],
        _directions(run),
        bits,
        run.details.get("suppressed_tokens", ()),
    )


def _summarizer(run: Run, model: Any, tokenizer: Tokenizer, bits: int) -> Summarizer:
    return Summarizer(
        cast("Model", model),
        tokenizer,
        run.details["max_length"],
        run.details["max_summary_tokens"],
        run.details["truncate_source"],
        bits,
    )


def _text_generator(run: Run, model: Any, tokenizer: Tokenizer, bits: int) -> TextGenerator:
    bos, max_length = run.details.get("bos", ()), run.details["max_length"]
    other_ends = run.details.get("other_ends", ())
    return TextGenerator(cast("LanguageModel", model), tokenizer, max_length, bos, bits, other_ends)


def _embedder(run: Run, model: Any, tokenizer: Tokenizer) -> Embedder:
    max_length = run.details["max_length"]
    pooling, normalize = run.details.get("pooling", "mean"), run.details.get("normalize", True)
    return Embedder(cast("Encoder", model), tokenizer, max_length, pooling, normalize)


def _mask_filler(run: Run, model: Any, tokenizer: Tokenizer) -> MaskFiller:
    return MaskFiller(cast("MaskedLM", model), tokenizer, run.details["max_length"])


def _span_filler(run: Run, model: Any, tokenizer: Tokenizer) -> SpanFiller:
    max_length, sentinels = run.details["max_length"], run.details["sentinels"]
    return SpanFiller(cast("EncoderDecoder", model), tokenizer, max_length, sentinels)


def _classifier(run: Run, model: Any, tokenizer: Tokenizer) -> Classifier:
    label_format = run.details.get("label_format", {})
    return Classifier(
        model,
        tokenizer,
        run.details["labels"],
        run.details["max_length"],
        run.details.get("num_texts", 1),
        validate(LabelsSpec, label_format, "details.label_format"),
        run.details.get("temperature", 1.0),
        run.details.get("tree_source"),
    )
