"""Forward passes of each kind of model: how it is run on a text, and which attentions it has.

A new kind of predictor is one more function here; everything that is drawn follows from its
`ForwardPass`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.data.sources.trees import ParsedText
from regard.data.tokenizers.tokenizer import END, START, Tokenizer
from regard.errors import DataError
from regard.predictors.classifier import Classifier
from regard.predictors.embedder import Embedder
from regard.predictors.generator import TextGenerator
from regard.predictors.mask_filler import MaskFiller
from regard.predictors.span_filler import SpanFiller
from regard.predictors.summarizer import Summarizer
from regard.predictors.translator import Translator


class Tokens(NamedTuple):
    """A row of tokens as text, and the index of the word that each is part of."""

    texts: tuple[str, ...]
    words: tuple[int, ...]


@dataclass(frozen=True)
class AttentionSite:
    """One attention of every block of a stack, and the tokens of its queries and keys."""

    name: str
    title: str
    blocks: str  # name of the stack in the model
    attention: str  # name of the attention in each of its blocks
    queries: Tokens
    keys: Tokens
    predicts: tuple[str, ...] = ()
    causal: bool = False
    input_index: int = 0  # which input text of the model the keys are


@dataclass(frozen=True)
class LabelOdds:
    """The label of a classifier, and its log-odds where tokens are removed."""

    name: str
    special: frozenset[int]  # positions of tokens that are not of the text
    log_odds: Callable[[Sequence[Sequence[int]]], Tensor]
    """Log-odds (N,) of the label for N rows of the text's positions that are kept."""
    can_remove: bool = True  # False for a model that needs the tree of the whole text


@dataclass(frozen=True)
class ForwardPass:
    """A model and the inputs of one forward pass."""

    model: nn.Module
    run: Callable[[], Tensor]  # returns the log-probabilities of the output tokens (N,)
    sites: tuple[AttentionSite, ...]
    output: str  # the model's output as text, if any
    decoder: str = ""  # name of the stack that predicts the next token; "" where none does
    tokenizer: Tokenizer | None = None  # of the predicted tokens
    label: LabelOdds | None = None  # of a classifier


def forward_pass(
    loaded: Any, text: str | ParsedText, to: str | None = None, output: str | None = None
) -> ForwardPass:
    """Return the forward pass of a loaded predictor on a text.

    Args:
        loaded: a predictor as returned by `regard.load`.
        text: the text, or a parsed sentence for a classifier that needs trees.
        to: the target language of a translator; by default the other one.
        output: the translation; by default that of greedy decoding.

    Raises:
        DataError: where `to` or `output` is given for another predictor.
    """
    if isinstance(loaded, Translator):
        return _for_translator(loaded, _plain(text), to, output)
    noun = type(loaded).__name__.lower()
    if to is not None:
        raise DataError(f"a {noun} has no target language: leave out 'to'.")
    if output is not None:
        raise DataError(f"a {noun} has no translation to show: leave out 'output'.")
    if isinstance(loaded, Classifier):
        return _for_classifier(loaded, text)
    functions: dict[type, Callable[[Any, str], ForwardPass]] = {
        Summarizer: _for_summarizer,
        TextGenerator: _for_generator,
        Embedder: _for_embedder,
        MaskFiller: _for_mask_filler,
        SpanFiller: _for_span_filler,
    }
    return functions[type(loaded)](loaded, _plain(text))


def _plain(text: str | ParsedText) -> str:
    """Return the text without its tree: only a classifier uses trees."""
    return text if isinstance(text, str) else text.text


def _for_translator(
    loaded: Translator, text: str, to: str | None, output: str | None
) -> ForwardPass:
    to = to or loaded.target_language(text)
    source = loaded.source_ids(text, to, "the sentence")
    if output is None:
        return _for_seq2seq(loaded, source, loaded.translate_ids([source])[0])
    return _for_seq2seq(loaded, source, loaded.target_ids(output, "the translation"))


def _for_summarizer(loaded: Summarizer, text: str) -> ForwardPass:
    source = loaded.source_ids(text, "the text")
    return _for_seq2seq(loaded, source, loaded.summarize_ids([source])[0])


def _for_span_filler(loaded: SpanFiller, text: str) -> ForwardPass:
    """Predict the spans; in the target each follows its sentinel."""
    source, target = loaded.encode(text), []
    for sentinel, (_, best) in zip(loaded.sentinels, loaded.spans(source, 1), strict=False):
        target += [sentinel, *best]
    return _for_seq2seq(loaded, source, target)


def _for_seq2seq(
    loaded: Translator | Summarizer | SpanFiller, source: Sequence[int], target: Sequence[int]
) -> ForwardPass:
    """Run an encoder-decoder with teacher forcing on its own output."""
    if loaded.model.single_sequence:
        return _for_single_sequence(loaded, source, target)
    source_tokens = _tokens(loaded.tokenizer, source)
    target_tokens = _tokens(loaded.tokenizer, target)
    queries = Tokens(
        (START, *target_tokens.texts), (0, *(word + 1 for word in target_tokens.words))
    )
    predicts = (*target_tokens.texts, END)
    inputs = (
        _row(loaded, source),
        _token_mask(loaded, source),
        _row(loaded, [loaded.tokenizer.start, *target]),
    )
    labels = [*target, loaded.tokenizer.end]
    return ForwardPass(
        loaded.model,
        lambda: _log_probs(loaded.model(*inputs)[0], labels),
        (
            AttentionSite(
                "encoder",
                "Encoder self-attention",
                "encoder.blocks",
                "attention",
                source_tokens,
                source_tokens,
            ),
            AttentionSite(
                "decoder",
                "Decoder self-attention",
                "decoder.blocks",
                "attention",
                queries,
                queries,
                predicts,
                causal=True,
                input_index=1,
            ),
            AttentionSite(
                "cross",
                "Cross-attention",
                "decoder.blocks",
                "cross",
                queries,
                source_tokens,
                predicts,
            ),
        ),
        loaded.tokenizer.decode(target),
        "decoder",
        loaded.tokenizer,
    )


def _for_single_sequence(
    loaded: Translator | Summarizer | SpanFiller, source: Sequence[int], target: Sequence[int]
) -> ForwardPass:
    """Run a decoder-only model on source and target in one sequence."""
    target_inputs = [loaded.tokenizer.start, *target]
    inputs = (_row(loaded, source), _token_mask(loaded, source), _row(loaded, target_inputs))
    labels = [*target, loaded.tokenizer.end]
    tokens = _tokens(loaded.tokenizer, [*source, *target_inputs])
    # At a source position, the prediction shown is the next source token.
    predicts = (*tokens.texts[1:], END)
    return ForwardPass(
        loaded.model,
        lambda: _log_probs(loaded.model(*inputs)[0], labels),
        (_self_attention("decoder", "decoder.blocks", tokens, predicts, causal=True),),
        loaded.tokenizer.decode(target),
        "decoder",
        loaded.tokenizer,
    )


def _for_generator(loaded: TextGenerator, text: str) -> ForwardPass:
    ids = loaded.encode(text)
    row = _row(loaded, ids)
    with torch.inference_mode():
        predicted = loaded.model(row)[0].argmax(-1).tolist()
    tokens = _tokens(loaded.tokenizer, ids)
    predicts = tuple(loaded.tokenizer.pieces(predicted))
    return ForwardPass(
        loaded.model,
        lambda: _log_probs(loaded.model(row)[0], predicted),
        (_self_attention("decoder", "decoder.blocks", tokens, predicts, causal=True),),
        "",
        "decoder",
        loaded.tokenizer,
    )


def _for_classifier(loaded: Classifier, text: str | ParsedText) -> ForwardPass:
    example = loaded.parse_line(text) if isinstance(text, str) else text
    ids = loaded.encode(example)
    inputs = loaded.model_inputs([(ids, example, "the text")])
    prediction = loaded.classify([example])[0]
    label = loaded.labels.index(prediction.label)

    def log_odds(rows: Sequence[Sequence[int]]) -> Tensor:
        kept = [([ids[position] for position in row], example, "the text") for row in rows]
        log_probs = loaded.calibrate(loaded.model(*loaded.model_inputs(kept)))
        if loaded.multi_label:
            return log_probs[:, label].double().exp().logit()
        others = [index for index, _ in enumerate(loaded.labels) if index != label]
        return log_probs[:, label] - log_probs[:, others].logsumexp(1)

    special = (
        position for position, token in enumerate(ids) if token in loaded.tokenizer.special_ids
    )
    return ForwardPass(
        loaded.model,
        lambda: loaded.calibrate(loaded.model(*inputs))[0, [label]],
        (_self_attention("encoder", "encoder.blocks", _tokens(loaded.tokenizer, ids)),),
        f"{prediction.label} ({prediction.probability:.0%})",
        label=LabelOdds(
            prediction.label, frozenset(special), log_odds, can_remove=loaded.tree_source is None
        ),
    )


def _for_mask_filler(loaded: MaskFiller, text: str) -> ForwardPass:
    """Predict the masked positions; of a text without masks, every position."""
    ids = loaded.encode(text)
    row, token_mask = _row(loaded, ids), _token_mask(loaded, ids)
    masked = [position for position, token in enumerate(ids) if token == loaded.mask]
    positions = masked or list(range(len(ids)))
    with torch.inference_mode():
        predicted = loaded.model(row, token_mask)[0].argmax(-1).tolist()
    filled = [
        predicted[position] if position in masked else token for position, token in enumerate(ids)
    ]
    labels = [filled[position] for position in positions]
    return ForwardPass(
        loaded.model,
        lambda: _log_probs(loaded.model(row, token_mask)[0, positions], labels),
        (_self_attention("encoder", "encoder.blocks", _tokens(loaded.tokenizer, ids)),),
        loaded.tokenizer.decode(filled) if masked else "",
    )


def _for_embedder(loaded: Embedder, text: str) -> ForwardPass:
    ids = loaded.encode(text)
    row, token_mask = _row(loaded, ids), _token_mask(loaded, ids)
    return ForwardPass(
        loaded.model,
        # An encoder predicts nothing: the norm of its mean vector stands for the output.
        lambda: loaded.model(row, token_mask)[0].mean(0).norm()[None],
        (_self_attention("encoder", "blocks", _tokens(loaded.tokenizer, ids)),),
        "",
    )


def _self_attention(
    name: str, blocks: str, tokens: Tokens, predicts: tuple[str, ...] = (), causal: bool = False
) -> AttentionSite:
    """Return the only self-attention of a model."""
    return AttentionSite(
        name, "Self-attention", blocks, "attention", tokens, tokens, predicts, causal
    )


def _row(loaded: Any, ids: Sequence[int]) -> Tensor:
    device = next(loaded.model.parameters()).device
    return torch.tensor([ids], dtype=torch.long, device=device)


def _token_mask(loaded: Any, ids: Sequence[int]) -> Tensor:
    return torch.ones_like(_row(loaded, ids), dtype=torch.bool)


def _log_probs(logits: Tensor, labels: Sequence[int]) -> Tensor:
    """Return the log-probability of the label at each position of logits (T, V)."""
    ids = torch.tensor(labels, device=logits.device)
    return logits.log_softmax(-1).gather(1, ids[:, None])[:, 0]


def _tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> Tokens:
    """Return tokens with the words they belong to; a special token is a word of its own."""
    words: list[int] = []
    current: list[int] = []  # the tokens of the word so far
    for token in ids:
        is_special = token in tokenizer.special_ids
        begins = not current or is_special
        if not begins:
            before, after = (tokenizer.decode(some) for some in (current, [*current, token]))
            begins = len(after.split()) > len(before.split())
        words.append((words[-1] if words else -1) + begins)
        current = [] if is_special else [token] if begins else [*current, token]
    return Tokens(tuple(tokenizer.pieces(ids)), tuple(words))
