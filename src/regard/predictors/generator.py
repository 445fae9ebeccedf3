"""Generate text with a language model.

A prompt and continuation that exceed the model's context are refused. With `sliding_window`, the
last tokens of the prompt that fit are used, and the oldest tokens are dropped when the context is
full.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.decoding.beam import Hypothesis
from regard.decoding.config import Constraints, DecodingConfig, decode
from regard.decoding.end_tokens import EndTokens
from regard.decoding.greedy import ChooseToken, argmax, stream_tokens
from regard.decoding.logits_processors import LogitsProcessor
from regard.decoding.ranges import MAX_TOKENS, check_count
from regard.decoding.sampling import Sampling
from regard.decoding.scoring import Score, score
from regard.decoding.sliding_window import SlidingWindow, retained_tokens
from regard.decoding.speculative import Drafter, DraftModel, PromptLookup, speculate
from regard.engine.numerics import Ids as IdArray
from regard.engine.numerics import Scores
from regard.engine.select import EngineModel
from regard.engine.stored_model import StoredModel
from regard.errors import ConfigError, DataError
from regard.missing_modules import required_by
from regard.predictors.base import BasePredictor, named_texts
from regard.predictors.scored_tokens import ScoredToken, ScoringStepper, log_probs, scored_tokens
from regard.predictors.stream_text import incremental_decode

if TYPE_CHECKING:
    from regard.evaluation.language_model import Perplexity
    from regard.models.language_model import LanguageModel

BATCH = 16  # prompts
MAX_DRAFT = 1000  # tokens
SCORED_TOKENS = 128  # whose logits are in memory together


class TextGenerator(BasePredictor["LanguageModel"]):
    """Predictor of a language-model run.

    Args:
        model: The trained model.
        tokenizer: The tokenizer it was trained with.
        max_length: Maximum number of tokens of prompt and continuation together.
        bos: Token ids that the model expects before every text.
        bits: 32, or 8 or 4 for integer weights (default: 32).
        other_ends: Token ids that end a text, besides the tokenizer's end token.
    """

    chat_template: str | None = None  # in the language of jinja2, for `regard serve`

    def __init__(
        self,
        model: "LanguageModel | StoredModel",
        tokenizer: Tokenizer,
        max_length: int,
        bos: Sequence[int] = (),
        bits: int = 32,
        other_ends: Sequence[int] = (),
    ) -> None:
        super().__init__(model, tokenizer, max_length)
        self.bos, self.other_ends = list(bos), list(other_ends)
        self.engine_model = EngineModel(self._model, max_length, bits)

    def generate(
        self,
        prompt: str = "",
        max_tokens: int = 100,
        decoding: DecodingConfig | None = None,
        sliding_window: bool = False,
    ) -> str:
        """Return a continuation of a prompt.

        Args:
            prompt: Text to continue; may be empty.
            max_tokens: Maximum number of new tokens, 0 or more (default: 100).
            decoding: Settings of decoding (default: greedy).
            sliding_window: Drop the oldest tokens beyond the model's context (default: False).

        Returns:
            The new text, without the prompt.

        Raises:
            DataError: Prompt and continuation exceed the model's context.
            ConfigError: `max_tokens` is below 0.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> model.generate("a stitch in time", max_tokens=5)
            ' saves nine'
        """
        return self.candidates([prompt], max_tokens, decoding, sliding_window)[0][0]

    def candidates(
        self,
        prompts: Sequence[str],
        max_tokens: int = 100,
        decoding: DecodingConfig | None = None,
        sliding_window: bool = False,
    ) -> list[list[str]]:
        """Return continuations of each prompt, best first.

        Args:
            prompts: Texts to continue.
            max_tokens: Maximum number of new tokens, 0 or more (default: 100).
            decoding: Settings of decoding; `n_best` is the number of continuations (default:
                greedy).
            sliding_window: Drop the oldest tokens beyond the model's context (default: False).

        Returns:
            One to `decoding.n_best` different texts for each prompt: as many as were found.

        Raises:
            DataError: A prompt and its continuation exceed the model's context.
            ConfigError: `max_tokens` is below 0.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> decoding = regard.DecodingConfig(beam=4, n_best=2)
            >>> [len(texts) for texts in model.candidates(["a stitch", "a"], 5, decoding)]
            [2, 2]
        """
        decoding = decoding or DecodingConfig()
        prompts, _ = named_texts(prompts, "prompt")
        encoded = [self.encode(prompt, sliding_window) for prompt in prompts]
        for ids in encoded:
            self._check_context(len(ids), max_tokens, sliding_window)
        if max_tokens == 0:
            return [[""] for _ in prompts]
        return [
            list(dict.fromkeys(map(self._decoder_after(prompt), (best.ids for best in own))))
            for prompt, own in zip(prompts, self.search(encoded, max_tokens, decoding), strict=True)
        ]

    def search(
        self,
        prompts: Sequence[Sequence[int]],
        max_tokens: int = 100,
        decoding: DecodingConfig | None = None,
    ) -> list[list[Hypothesis]]:
        """Return continuations of each prompt as ids, best first.

        Args:
            prompts: Ids of prompts, at least one each.
            max_tokens: Maximum number of new tokens, 1 or more (default: 100).
            decoding: Settings of decoding; `n_best` is the number of continuations (default:
                greedy).

        Returns:
            One to `decoding.n_best` hypotheses of different texts for each prompt.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> ((best,),) = model.search([model.encode("a stitch in time")], 5)
            >>> model.tokenizer.decode(best.ids)
            'saves nine'
        """
        decoding = decoding or DecodingConfig()
        hypotheses: list[list[Hypothesis]] = [[] for _ in prompts]
        for batch in _by_length(prompts, decoding):
            decoded = self._decode([prompts[i] for i in batch], max_tokens, decoding, batch)
            for number, own in zip(batch, decoded, strict=True):
                hypotheses[number] = own
        return hypotheses

    def _decode(
        self,
        prompts: Sequence[Sequence[int]],
        max_tokens: int,
        decoding: DecodingConfig,
        sample_ids: Sequence[int],
    ) -> list[list[Hypothesis]]:
        """Prefill the length of the shortest prompt; force the rest of the longer ones."""
        model = self._stepper(max(map(len, prompts)), max_tokens, decoding.sampling)
        shortest = min(map(len, prompts))
        shared = np.array([ids[:shortest] for ids in prompts])
        rest = {row: ids[shortest:] for row, ids in enumerate(prompts) if len(ids) > shortest}
        state = model.start()
        if shortest > 1:
            state = model.prefill(shared[:, :-1], state)
        limits = [max_tokens + len(rest.get(row, ())) for row in range(len(prompts))]
        hypotheses = decode(
            model,
            state,
            shared[:, -1],
            self.tokenizer.end,
            limits,
            decoding,
            Constraints(prefixes=rest),
            sample_ids,
            shared.tolist(),
            distinct=self.tokenizer.decode,
        )
        return [
            [best._replace(ids=best.ids[len(rest.get(row, ())) :]) for best in own]
            for row, own in enumerate(hypotheses)
        ]

    def stream(
        self,
        prompt: str = "",
        max_tokens: int = 100,
        sampling: Sampling | None = None,
        sliding_window: bool = False,
    ) -> Iterator[str]:
        """Yield the continuation of a prompt as it is generated.

        Args:
            prompt: Text to continue; may be empty.
            max_tokens: Maximum number of new tokens, 0 or more (default: 100).
            sampling: Settings of sampling (default: greedy decoding).
            sliding_window: Drop the oldest tokens beyond the model's context (default: False).

        Raises:
            DataError: Prompt and continuation exceed the model's context.
            ConfigError: `max_tokens` is below 0.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> "".join(model.stream("a stitch in time", max_tokens=5))
            ' saves nine'
        """
        ids = self.encode(prompt, sliding_window)
        self._check_context(len(ids), max_tokens, sliding_window)
        model = self._stepper(len(ids), max_tokens, sampling)
        state, first = self._prefill(model, ids)
        choose, end = sampling or argmax, self.tokenizer.end
        steps = stream_tokens(model, state, first, end, [max_tokens], choose)
        yield from incremental_decode((step[0][1] for step in steps), self._decoder_after(prompt))

    def stream_rows(
        self,
        prompt: Sequence[int],
        max_tokens: int = 100,
        sampling: Sampling | None = None,
        rows: int = 1,
        top: int | None = None,
        processors: Sequence[LogitsProcessor] = (),
        stopped: Collection[int] = (),
    ) -> Generator[list[tuple[int, ScoredToken]], None, None]:
        """Yield at each step the next token of every continuation of a prompt that has not ended.

        Args:
            prompt: Ids of the prompt, at least one.
            max_tokens: Maximum number of new tokens of a row (default: 100).
            sampling: Settings of sampling (default: greedy decoding). A row gets the same tokens
                however many there are beside it.
            rows: Number of continuations, which are decoded together (default: 1).
            top: Number of the most likely tokens to add to each token; with None, tokens have no
                log-probabilities either (default: None).
            processors: Applied to the logits in order.
            stopped: Numbers of the rows that end before the next step; the caller may add some.

        Yields:
            Row and token, without the end token.

        Raises:
            DataError: Prompt and continuation exceed the model's context.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> steps = model.stream_rows(model.encode("a stitch in time"), 5, top=0)
            >>> all(token.log_prob <= 0 for step in steps for _, token in step)
            True
        """
        self._check_context(len(prompt), max_tokens)
        model, end = self.engine_model.current, self.tokenizer.end
        state, first = self._prefill(model, list(prompt))
        choose: ChooseToken = sampling or argmax
        if rows > 1:
            state, first = state.reorder(np.zeros(rows, np.int64)), first.repeat(rows)
            choose = _ends_stopped(choose, stopped, end)
        scoring = None if top is None else ScoringStepper(model, [end, *self.other_ends], top)
        steps = stream_tokens(
            self._ending(scoring or model, sampling),
            state,
            first,
            end,
            [max_tokens] * rows,
            scoring.scoring(choose) if scoring else choose,
            processors,
            [prompt] * rows if processors else None,
        )
        for step in steps:
            yield [(row, scoring.chosen[row] if scoring else ScoredToken(id_)) for row, id_ in step]

    def speculate(
        self,
        prompt: str = "",
        max_tokens: int = 100,
        draft_model: "TextGenerator | None" = None,
        sampling: Sampling | None = None,
        draft_tokens: int = 5,
        sliding_window: bool = False,
    ) -> Iterator[str]:
        """Yield the continuation of a prompt by speculative decoding.

        Greedy decoding gives the text of `stream`; sampling, the same distribution.

        Args:
            prompt: Text to continue; may be empty.
            max_tokens: Maximum number of new tokens, 0 or more (default: 100).
            draft_model: A smaller model with the same tokenizer; without one, tokens are drafted
                from repetitions in the text (prompt lookup).
            sampling: Settings of sampling (default: greedy decoding).
            draft_tokens: Maximum number of draft tokens at each step, 1 or more (default: 5).
            sliding_window: Use the last tokens of a prompt that is too long (default: False).

        Raises:
            DataError: Prompt and continuation exceed the context, or the tokenizers differ.
            ConfigError: With `sliding_window`, the continuation would exceed the context.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> "".join(model.speculate("a stitch in time", max_tokens=5))
            ' saves nine'
        """
        check_count("max_tokens", max_tokens, 0, MAX_TOKENS)
        check_count("draft_tokens", draft_tokens, 1, MAX_DRAFT)
        ids = self.encode(prompt, sliding_window)
        if sliding_window and len(ids) + max_tokens > self.max_length:
            raise ConfigError(
                f"speculative decoding cannot pass the context of {self.max_length:,} tokens: ask "
                f"for at most {self.max_length - len(ids):,} more, or decode without a draft."
            )
        self._check_context(len(ids), max_tokens)
        model = self._ending(self.engine_model.current, sampling)
        state, first = self._prefill(model, ids)
        drafter: Drafter = PromptLookup(prompt=ids[:-1])
        if draft_model is not None:
            self._check_same_tokenizer(draft_model)
            small, draft_ids = (
                draft_model.engine_model.current,
                draft_model.encode(prompt, sliding_window),
            )
            draft_model._check_context(len(draft_ids), max_tokens)
            drafter = DraftModel(small, draft_model._prefill(small, draft_ids)[0])
        end = self.tokenizer.end
        tokens = speculate(
            model, state, int(first[0]), end, max_tokens, drafter, draft_tokens, sampling
        )
        yield from incremental_decode(tokens, self._decoder_after(prompt))

    def score(self, texts: Sequence[str]) -> list[Score]:
        """Return the log-likelihood of texts, each with its end token.

        Args:
            texts: Texts that fit the model's context.

        Returns:
            The log-probabilities of each text's tokens.

        Raises:
            DataError: A text is too long.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> right, wrong = model.score(["a stitch in time", "in time a stitch"])
            >>> right.perplexity < wrong.perplexity
            True
        """
        model = self._ending(self.engine_model.current, Sampling())
        scores = []
        for text in named_texts(texts)[0]:
            ids = self.prompt_ids(text)
            if len(ids) >= self.max_length:
                raise DataError(
                    f"the text has {len(ids):,} tokens and this model takes at most "
                    f"{self.max_length:,}, the end token among them: shorten it, or evaluate it "
                    f"in windows (`regard evaluate`)."
                )
            first = np.array([ids[0]])
            scores += score(model, model.start(), first, self.tokenizer.end, [ids[1:]])
        return scores

    def score_tokens(self, ids: Sequence[int], top: int = 0) -> list[ScoredToken]:
        """Return the tokens of a text after its first, with their log-probabilities.

        Args:
            ids: Ids that fit the model's context, at least one.
            top: Number of the most likely tokens to add to each token (default: 0).

        Raises:
            DataError: There are too many ids for the model's context.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> tokens = model.score_tokens(model.encode("a stitch in time"), top=1)
            >>> all(token.top[0][1] >= token.log_prob for token in tokens)
            True
        """
        self._check_context(len(ids), 0)
        model, ends = self.engine_model.current, [self.tokenizer.end, *self.other_ends]
        state = model.start()
        tokens: list[ScoredToken] = []
        for start in range(0, len(ids) - 1, SCORED_TOKENS):
            labels = ids[start + 1 : start + 1 + SCORED_TOKENS]
            inputs = np.array([ids[start : start + len(labels)]])
            logits, state = model.extend(inputs, state)
            tokens += scored_tokens(log_probs(logits[0], ends), labels, top)
        return tokens

    @required_by("TextGenerator.perplexity")
    def perplexity(
        self, text: str, context: int | None = None, stride: int | None = None
    ) -> "Perplexity":
        """Return the perplexity of a text of any length, in overlapping windows.

        Args:
            text: A text of any length.
            context: Number of tokens of a window (default: the model's context).
            stride: Number of tokens between windows (default: that of `regard evaluate`).

        Raises:
            DataError: The text has no tokens to predict.
            ConfigError: The context or the stride does not fit the model.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> model.perplexity("a stitch in time saves nine").perplexity > 1
            True
        """
        from regard.evaluation.language_model import Piece, perplexity

        return perplexity(self, [Piece(text)], context, stride)

    def prompt_ids(self, text: str) -> list[int]:
        """Return the model's input ids for a text of any length: at least one.

        Args:
            text: A prompt; may be empty.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> len(model.prompt_ids(""))
            1
        """
        ids = [*self.bos, *self.tokenizer.encode(text)]
        return ids or [self.tokenizer.end]  # a new text begins after the end of another

    def encode(self, text: str, sliding_window: bool = False) -> list[int]:
        """Return the model's input ids for a text.

        Args:
            text: A prompt; may be empty.
            sliding_window: Return the last ids that fit instead of refusing (default: False).

        Raises:
            DataError: The text has too many tokens for the model's context.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> model.tokenizer.decode(model.encode("a stitch in time"))
            'a stitch in time'
        """
        ids = self.prompt_ids(text)
        if len(ids) <= self.max_length:
            return ids
        if not sliding_window:
            raise DataError(
                f"the text has {len(ids):,} tokens and this model takes at most "
                f"{self.max_length:,}: shorten it, or drop its beginning (--sliding-window; in "
                f"Python, sliding_window=True)."
            )
        return [*self.bos, *ids[len(ids) - self.max_length + len(self.bos) :]]

    def dropped_context(self, prompt: str, max_tokens: int) -> str:
        """Return a sentence about what a sliding window drops, or "" if nothing is dropped.

        Args:
            prompt: Text to continue.
            max_tokens: Maximum number of new tokens.

        Example:
            >>> import regard
            >>> model = regard.load_language_model("runs/proverbs")
            >>> model.dropped_context("a stitch", 5)
            ''
        """
        tokens, most = len(self.prompt_ids(prompt)), self.max_length
        truncated = (
            f"the last {most:,} of the prompt's {tokens:,} tokens are used" if tokens > most else ""
        )
        slides = (
            f"the window of {most:,} tokens slides, and each new token is predicted from at least "
            f"the last {retained_tokens(most, len(self.bos)):,}"
            if min(tokens, most) + max_tokens > most
            else ""
        )
        return "; ".join(part for part in (truncated, slides) if part)

    def _stepper(self, prompt: int, max_tokens: int, sampling: Sampling | None) -> Any:
        """Return the model, wrapped in a sliding window where the continuation would not fit."""
        model = self._ending(self.engine_model.current, sampling)
        if prompt + max_tokens <= self.max_length:
            return model
        return SlidingWindow(model, self.max_length, self.bos)

    def _ending(self, model: Any, sampling: Sampling | None) -> Any:
        """Return the model, with all end tokens merged into one where there are several."""
        if not self.other_ends:
            return model
        temperature = None if sampling is None else sampling.temperature
        return EndTokens(model, [self.tokenizer.end, *self.other_ends], temperature)

    def _prefill(self, model: Any, ids: list[int]) -> tuple[Any, IdArray]:
        """Return the state after all of the prompt but its last id, and that id."""
        *prompt, last = ids
        state = model.start()
        if prompt:
            state = model.prefill(np.array([prompt]), state)
        return state, np.array([last])

    def _check_context(self, prompt: int, max_tokens: int, sliding_window: bool = False) -> None:
        check_count("max_tokens", max_tokens, 0, MAX_TOKENS)
        if prompt + max_tokens > self.max_length and not sliding_window:
            raise DataError(
                f"the prompt has {prompt:,} tokens, {max_tokens:,} more are asked for, and this "
                f"model takes {self.max_length:,} in all: shorten the prompt, ask for fewer, or "
                f"drop the beginning (--sliding-window; in Python, sliding_window=True)."
            )

    def _decoder_after(self, prompt: str) -> Callable[[Sequence[int]], str]:
        """Return the function that decodes ids that follow a prompt."""
        return self.tokenizer.decode_after(self.tokenizer.encode(prompt))

    def _check_same_tokenizer(self, draft_model: "TextGenerator") -> None:
        if draft_model.tokenizer.fingerprint != self.tokenizer.fingerprint:
            raise DataError(
                "the draft model has another vocabulary: both models must be trained with the same "
                "tokenizer."
            )


def _ends_stopped(choose: ChooseToken, stopped: Collection[int], end: int) -> ChooseToken:
    """Return the function `choose`, changed so that it picks the end token in stopped rows."""

    def choose_or_end(logits: Scores, rows: Sequence[int], step: int) -> IdArray:
        ids = choose(logits, rows, step)
        return np.where([row in stopped for row in rows], end, ids)

    return choose_or_end


def _by_length(prompts: Sequence[Sequence[int]], decoding: DecodingConfig) -> list[list[int]]:
    """Batch prompts of similar length, and of equal length for beam search."""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    batches: list[list[int]] = []
    for number in order:
        fits = bool(batches) and len(batches[-1]) < BATCH
        if fits and (decoding.beam > 1 or decoding.return_scores):
            fits = len(prompts[batches[-1][0]]) == len(prompts[number])
        if not fits:
            batches.append([])
        batches[-1].append(number)
    return batches
