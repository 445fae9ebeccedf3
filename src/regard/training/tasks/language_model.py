"""Language modeling: windows of running text, cross-entropy of every next token.

A row is cut from the text at any position, so it may hold several documents, each with its end
token. Tokens attend to other documents of the row, or, with the document mask, only to their own:
then each document is read as if it were alone, after the end token of the one before it.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.data.batches.base import Batches
from regard.data.batches.text import AnyTextBatch, DocumentMaskedBatch, eval_windows, text_batches
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
from regard.training.tasks.bound import BatchTask

if TYPE_CHECKING:
    from regard.training.recipe import Recipe


class LanguageModeling(BatchTask[AnyTextBatch]):
    """Language modeling on the data of one recipe."""

    def __init__(self, recipe: "Recipe", prepared: Prepared) -> None:
        end = prepared.tokenizer.end
        self._boundary = end if cast("Spec", recipe.task).document_mask else None
        self._context = recipe.model.max_length
        super().__init__(recipe, prepared)

    def loss(self, model: nn.Module, batch: AnyTextBatch) -> Tensor:
        language_model = cast("LanguageModel", model)
        states, labels = _states(language_model, batch), batch.ids[:, 1:]
        smoothing = self.recipe.training.label_smoothing
        return lm_head_loss(language_model, states, labels, batch.token_mask[:, 1:], smoothing)

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        return self._scores(model, self.prepared.dev, world.device)

    def predictor(self, model: nn.Module) -> TextGenerator:
        language_model = cast("LanguageModel", model)
        return TextGenerator(language_model, self.prepared.tokenizer, self._context, self._bos)

    def final_evaluation(self, model: nn.Module, report: Reporter) -> TaskResult:
        split, store = self.prepared.final_split
        generator = self.predictor(model)
        pieces = _texts(store, self.prepared.tokenizer.end)
        with report.bar(f"Scoring on {split}", store.tokens[0], "tokens") as advance:
            scores = perplexity(generator, pieces, progress=advance)
        return TaskResult(
            predictor=generator,
            title="A language model",
            card=_card(scores, split),
            details={
                "max_length": self._context,
                "bos": self._bos,
                "scores": scores.to_plain(),
                "scored_on": split,
            },
            summary=f"{split}: loss {scores.loss:.4f}, perplexity {scores.perplexity:,.2f}, "
            f"next token right {scores.accuracy:.1%}, bits per character "
            f"{scores.bits_per_character:.4f}.",
        )

    @property
    def _bos(self) -> list[int]:
        """Tokens that generation starts with: with the document mask, the end of a document."""
        return [] if self._boundary is None else [self._boundary]

    def _batches(self, store: Store, budget: int, seed: int) -> Batches[Any, AnyTextBatch]:
        return text_batches(store, self._context, budget, seed, self._boundary)

    @torch.no_grad()
    def _scores(self, model: nn.Module, store: Store, device: torch.device) -> dict[str, float]:
        """Return loss without smoothing, perplexity and accuracy of the next token."""
        nats, right, tokens = 0.0, 0, 0
        budget, pad_id = self.recipe.training.batch_tokens, self.prepared.tokenizer.pad
        language_model = cast("LanguageModel", model)
        for window in eval_windows(store, self._context, budget, pad_id, self._boundary):
            batch = window.to(device)
            token_mask = batch.token_mask[:, 1:]
            logits = language_model.output(_states(language_model, batch)[token_mask])
            labels = batch.ids[:, 1:][token_mask]
            nats += float(nn.functional.cross_entropy(logits, labels, reduction="sum"))
            right += int((logits.argmax(-1) == labels).sum())
            tokens += batch.num_targets
        return TokenCounts(nats, right, tokens).scores()


def _states(model: LanguageModel, batch: AnyTextBatch) -> Tensor:
    documents = batch.documents[:, :-1] if isinstance(batch, DocumentMaskedBatch) else None
    return model.states(batch.ids[:, :-1], documents, batch.token_mask[:, 1:])


def _texts(store: Store, end: int) -> Iterator[Piece]:
    """Yield the texts of a split, each with whether its document ends with it."""
    for row, text in enumerate(store.texts(0)):
        yield Piece(text, ends=bool(store.row(row)[0][-1:] == end))


def _card(scores: Perplexity, split: str) -> str:
    return f"""On {split}: {scores.counted}.

| loss per token | perplexity | next tokens right | bits per character | bits per byte |
|---|---|---|---|---|
| {scores.loss:.4f} | {scores.perplexity:,.2f} | {scores.accuracy:.1%} \
| {scores.bits_per_character:.4f} | {scores.bits_per_byte:.4f} |

| perplexity of a word | of a word or a line's end |
|---|---|
| {scores.word_perplexity:,.2f} | {scores.word_or_line_perplexity:,.2f} |

Context of {scores.context:,} tokens, stride of {scores.stride:,}; the figures are explained in
docs/how-to/language-models.md.

    regard generate THIS-FOLDER --prompt "…" --temperature 0.8
    regard evaluate THIS-FOLDER your-text.txt
"""


class Spec(TaskSpec):
    """task: {kind: language-model, document_mask: true}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {"documents": "document_mask"}

    record_type: ClassVar[RecordType] = "text"
    requires: ClassVar[Capability] = "causal-lm"
    default_model: ClassVar[str] = "language-model"
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

    def bind(self, recipe: "Recipe", prepared: Prepared) -> LanguageModeling:
        return LanguageModeling(recipe, prepared)
