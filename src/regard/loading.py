"""From a run folder to something that can do its job."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from regard import run_folder
from regard.config import validate
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
from regard.predictors.classifier import Labeller
from regard.predictors.embedder import Reader
from regard.predictors.generator import Writer
from regard.predictors.mask_filler import Filler
from regard.predictors.seq2seq import Model
from regard.predictors.span_filler import SpanFiller
from regard.predictors.summarizer import Summarizer
from regard.predictors.translator import Translator
from regard.run_folder import Run

T = TypeVar("T")


def load(folder: Path | str, bits: int = 32) -> Any:
    """What is in a run folder, ready to do what it is for: `translate`, `generate`, `fill` …

    With `bits=8` a CPU decodes with whole-number weights: smaller, faster, a little less exact.
    """
    folder = Path(folder)
    if bits not in (8, 32):
        raise RunError(f"weights have 32 bits or 8, not {bits}.")
    run = read_merged(folder)
    makers: dict[str, Callable[[Run, Any, Tokenizer], Any]] = {
        "translation": partial(_translator, bits=bits),
        "summarization": partial(_summarizer, bits=bits),
        "language-model": partial(_writer, bits=bits),
        "classification": _labeller,
        "encoder": _reader,
        "masked-lm": _filler,
        "span-corruption": _span_filler,
    }
    if run.task not in makers:
        raise RunError(f"{folder}: holds a model for {run.task}, which this version does not know.")
    spec = validate(ModelSpec, run.model, f"{folder / run_folder.MANIFEST}: model")
    model = spec.build(run.vocabulary)
    set_weights(model, run.weights, str(folder / run_folder.WEIGHTS))
    return makers[run.task](run, model, Tokenizer.from_run(run))


def load_writer(folder: Path | str, bits: int = 32) -> Writer:
    """The language model in a run folder; a model for something else is refused."""
    made_by = "`regard train` for language-model, or by `regard import`"
    return _loaded(folder, bits, Writer, made_by)


def load_reader(folder: Path | str) -> Reader:
    """The encoder in a run folder; a model for something else is refused."""
    return _loaded(folder, 32, Reader, "`regard import` of an encoder")


def load_translator(folder: Path | str, bits: int = 32) -> Translator:
    """The translator in a run folder; a model for something else is refused."""
    made_by = "`regard demo`, or by `regard train` for translation"
    return _loaded(folder, bits, Translator, made_by)


def load_summarizer(folder: Path | str, bits: int = 32) -> Summarizer:
    """The summarizer in a run folder; a model for something else is refused."""
    return _loaded(folder, bits, Summarizer, "`regard train` for summarization")


def load_filler(folder: Path | str) -> Filler | SpanFiller:
    """What fills blanks in a run folder; a model for something else is refused."""
    loaded = load(folder)
    if isinstance(loaded, SpanFiller):
        return loaded
    made_by = "`regard train` for masked or span, or by `regard import`"
    return _checked(loaded, folder, Filler, made_by)


def _loaded(folder: Path | str, bits: int, wanted: type[T], made_by: str) -> T:
    return _checked(load(folder, bits), folder, wanted, made_by)


def _checked(loaded: Any, folder: Path | str, wanted: type[T], made_by: str) -> T:
    if not isinstance(loaded, wanted):
        found, name = type(loaded).__name__.lower(), wanted.__name__.lower()
        raise RunError(
            f"{folder}: holds a {found}, not a {name}; choose a run folder made by {made_by}."
        )
    return loaded


def _translator(run: Run, model: Any, tokenizer: Tokenizer, bits: int) -> Translator:
    ways = [Direction(*way.split(" → ")) for way in run.details["directions"]]
    guess = LanguageIdentifier.from_json(run.extra_files["languages.json"])
    length = run.details["max_length"]
    never = run.details.get("never", ())
    return Translator(cast("Model", model), tokenizer, guess, length, ways, bits, never)


def _summarizer(run: Run, model: Any, tokenizer: Tokenizer, bits: int) -> Summarizer:
    length, says, source = (run.details[key] for key in ("max_length", "says", "source"))
    return Summarizer(cast("Model", model), tokenizer, length, says, source, bits)


def _writer(run: Run, model: Any, tokenizer: Tokenizer, bits: int) -> Writer:
    begin = run.details.get("begin", ())
    length = run.details["max_length"]
    return Writer(cast("LanguageModel", model), tokenizer, length, begin, bits)


def _reader(run: Run, model: Any, tokenizer: Tokenizer) -> Reader:
    length = run.details["max_length"]
    pooling, normalise = run.details.get("pooling", "mean"), run.details.get("normalise", True)
    return Reader(cast("Encoder", model), tokenizer, length, pooling, normalise)


def _filler(run: Run, model: Any, tokenizer: Tokenizer) -> Filler:
    return Filler(cast("MaskedLM", model), tokenizer, run.details["max_length"])


def _span_filler(run: Run, model: Any, tokenizer: Tokenizer) -> SpanFiller:
    length, sentinels = run.details["max_length"], run.details["sentinels"]
    return SpanFiller(cast("EncoderDecoder", model), tokenizer, length, sentinels)


def _labeller(run: Run, model: Any, tokenizer: Tokenizer) -> Labeller:
    written = validate(LabelsSpec, run.details.get("written", {}), "details.written")
    sides, temperature = run.details.get("sides", 1), run.details.get("temperature", 1.0)
    labels, length = run.details["labels"], run.details["max_length"]
    trees = run.details.get("trees")
    return Labeller(model, tokenizer, labels, length, sides, written, temperature, trees)
