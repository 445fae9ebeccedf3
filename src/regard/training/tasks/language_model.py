"""Language modelling: running text in windows, cross-entropy over every next word.

A row is cut from the text wherever it happens to fall, so it may hold several documents, each with
its end behind it. Words look across the borders, or not: then each document is read as if it were
alone, and the end of the one before it is what it begins with.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.data.batches.text import AnyTextBatch, DocumentMaskedBatch, eval_windows, text_batches
from regard.data.sampling.sampler import DataCursor
from regard.data.sources.base import RecordType
from regard.data.store.prepare import Prepared
from regard.data.store.store import Store
from regard.errors import ConfigError
from regard.evaluation.base import Metric
from regard.evaluation.language_model import Perplexity, Piece, perplexity
from regard.evaluation.tokens import TokenCounts, TokenMetric
from regard.models.base import Capability, ModelSpec
from regard.models.language_model import LanguageModel
from regard.models.transformer import TransformerSpec
from regard.predictors.generator import TextGenerator
from regard.training.distributed.world import World
from regard.training.loss import lm_head_loss
from regard.training.reporting.progress import Reporter
from regard.training.tasks.base import TaskResult, TaskSpec

if TYPE_CHECKING:
    from regard.training.recipe import Recipe


class LanguageModelling:
    def __init__(self, recipe: "Recipe", prepared: Prepared) -> None:
        self.recipe, self.prepared = recipe, prepared
        self.metric = recipe.task.metric(recipe)
        spec, end = recipe.training, prepared.tokenizer.end
        self._border = end if cast("Spec", recipe.task).document_mask else None
        self._training = text_batches(
            prepared.train, self._context, spec.batch_tokens, spec.seed, self._border
        )

    def model(self) -> ModelSpec:
        return self.recipe.model.for_capability(self.recipe.task.requires)

    def batches(self, position: DataCursor) -> Iterator[tuple[AnyTextBatch, DataCursor]]:
        return self._training.iter_from(position)

    def loss(self, model: nn.Module, batch: AnyTextBatch) -> Tensor:
        writing = cast("LanguageModel", model)
        words = batch.ids[:, 1:]
        smoothing = self.recipe.training.label_smoothing
        return lm_head_loss(
            writing, _states(writing, batch), words, batch.token_mask[:, 1:], smoothing
        )

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        return self._judge(model, self.prepared.dev, world.device)

    def predictor(self, model: nn.Module) -> TextGenerator:
        writing = cast("LanguageModel", model)
        return TextGenerator(writing, self.prepared.tokenizer, self._context, self._begin)

    def final_evaluation(self, model: nn.Module, report: Reporter) -> TaskResult:
        part, store = self.prepared.final_split
        writer = self.predictor(model)
        pieces = _texts(store, self.prepared.tokenizer.end)
        with report.bar(f"Scoring on {part}", store.tokens[0], "tokens") as advance:
            scores = perplexity(writer, pieces, progress=advance)
        return TaskResult(
            predictor=writer,
            title="A language model",
            card=_card(scores, part),
            details={
                "max_length": self._context,
                "bos": self._begin,
                "scores": scores.to_plain(),
                "scored_on": part,
            },
        )

    @property
    def _context(self) -> int:
        return self.recipe.model.max_length

    @property
    def _begin(self) -> list[int]:
        """Where documents are apart, each is read behind the end of another."""
        return [] if self._border is None else [self._border]

    @torch.no_grad()
    def _judge(self, model: nn.Module, store: Store, device: torch.device) -> dict[str, float]:
        """Loss without smoothing, and how often the likeliest next word is the right one."""
        total, right, tokens = 0.0, 0, 0
        budget, pad_id = self.recipe.training.batch_tokens, self.prepared.tokenizer.pad
        writing = cast("LanguageModel", model)
        for batch in eval_windows(store, self._context, budget, pad_id, self._border):
            here = batch.to(device)
            token_mask = here.token_mask[:, 1:]
            logits, words = (
                writing.output(_states(writing, here)[token_mask]),
                here.ids[:, 1:][token_mask],
            )
            total += float(nn.functional.cross_entropy(logits, words, reduction="sum"))
            right += int((logits.argmax(-1) == words).sum())
            tokens += batch.num_targets
        return TokenCounts(total, right, tokens).scores()


def _states(model: LanguageModel, batch: AnyTextBatch) -> Tensor:
    documents = batch.documents[:, :-1] if isinstance(batch, DocumentMaskedBatch) else None
    return model.states(batch.ids[:, :-1], documents, batch.token_mask[:, 1:])


def _texts(store: Store, end: int) -> Iterator[Piece]:
    """The texts of a part, each with whether its document ends with it."""
    for row, text in enumerate(store.texts(0)):
        yield Piece(text, ends=bool(store.row(row)[0][-1:] == end))


def _card(scores: Perplexity, part: str) -> str:
    return f"""On {part}: {scores.counted}.

| loss per token | perplexity | next tokens right | bits per character | bits per byte |
|---|---|---|---|---|
| {scores.loss:.4f} | {scores.perplexity:,.2f} | {scores.accuracy:.1%} \
| {scores.bits_per_character:.4f} | {scores.bits_per_byte:.4f} |

| perplexity of a word | of a word or a line's end |
|---|---|
| {scores.word_perplexity:,.2f} | {scores.word_or_line_perplexity:,.2f} |

Context of {scores.context:,} tokens, stride of {scores.stride:,}; what the figures mean is told in
docs/how-to/language-models.md.

    regard generate THIS-FOLDER --prompt "…" --temperature 0.8
    regard evaluate THIS-FOLDER your-text.txt
"""


class Spec(TaskSpec):
    """task: {kind: language-model, document_mask: true}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {"documents": "document_mask"}

    record_type: ClassVar[RecordType] = "text"
    requires: ClassVar[Capability] = "causal-lm"
    metric_types: ClassVar[tuple[type[Metric], ...]] = (TokenMetric,)
    default_metric: ClassVar[str] = "loss"

    document_mask: bool = Field(
        False, description="let tokens attend only to tokens of their own document"
    )

    def check(self, model: ModelSpec, record_type: RecordType, metric: str | None) -> None:
        super().check(model, record_type, metric)
        if self.document_mask and isinstance(model, TransformerSpec):
            try:
                model.attention.require(frozenset({"documents"}), "task.document_mask: true")
            except ConfigError as error:
                raise ValueError(str(error)) from None

    def bind(self, recipe: "Recipe", prepared: Prepared) -> LanguageModelling:
        return LanguageModelling(recipe, prepared)
