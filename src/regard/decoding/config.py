"""All settings of decoding, and `decode`, which picks the algorithm for them."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from regard.decoding.beam import Hypothesis, Select, beam_search, top_candidates
from regard.decoding.diverse_beam import DiverseBeam
from regard.decoding.greedy import ChooseToken, argmax, stream_tokens
from regard.decoding.lexical_constraints import RequirePhrases, require_fit
from regard.decoding.logits_processors import (
    ForcePrefix,
    LogitsProcessor,
    NoRepeatNgram,
    RepetitionPenalty,
    SuppressPhrases,
)
from regard.decoding.ranges import MAX_BEAM, check_count, check_number, check_switch
from regard.decoding.sampling import Sampling
from regard.decoding.stepper import HasFusedGreedy, S, Stepper
from regard.engine.numerics import Ids as IdArray
from regard.engine.numerics import Scores
from regard.errors import ConfigError

Ids = Sequence[int]


@dataclass(frozen=True)
class DecodingConfig:
    """Settings of decoding: greedy by default; invalid combinations raise ConfigError.

    Args:
        beam: Beam width, from 1 to 1,000; 5 is usual and better than 1, which is greedy decoding
            (default: 1).
        n_best: Number of different outputs, best first; at most `beam` (default: 1).
        length_penalty: α of log p / length^α, from 0 to 10; larger values favor longer outputs
            (default: 1.0).
        early_stopping: End a beam search after `beam` finished hypotheses, as most engines do,
            and not only when no better one can follow (default: False).
        beam_groups: Number of groups of diverse beam search, which divides `beam`; 1 is plain beam
            search (default: 1).
        diversity: Cost, from 0 to 1,000,000, of a token that an earlier group chose at the same
            step (default: 0.5).
        sampling: Sample instead of searching for the most likely output.
        return_scores: Compute scores even for greedy decoding, which needs none (default: False).
        repetition_penalty: Divides the scores of generated tokens, from 1 (off) to 1,000
            (default: 1.0).
        no_repeat_ngram: Allow no n-gram of this size twice; 0 is off (default: 0).
        suppress_phrases: Phrases, as ids, that the output must not contain.

    Raises:
        ConfigError: A setting is out of range, or two settings exclude each other.

    Example:
        >>> import regard
        >>> translator = regard.load_translator("runs/demo")
        >>> decoding = regard.DecodingConfig(beam=5, length_penalty=0.6, no_repeat_ngram=3)
        >>> translator.translate(["The cat sleeps."], to="fr", decoding=decoding)
        ['Le chat dort.']
    """

    beam: int = 1
    n_best: int = 1
    length_penalty: float = 1.0
    early_stopping: bool = False
    beam_groups: int = 1
    diversity: float = 0.5
    sampling: Sampling | None = None
    return_scores: bool = False
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    suppress_phrases: Sequence[Ids] = ()

    def __post_init__(self) -> None:
        check_count("n_best", self.n_best, 1, MAX_BEAM)
        check_count("beam", self.beam, 1, MAX_BEAM)
        check_number("length_penalty", self.length_penalty, 0, 10)
        check_switch("early_stopping", self.early_stopping)
        check_count("beam_groups", self.beam_groups, 1, MAX_BEAM)
        check_number("diversity", self.diversity, 0, 1e6)
        check_switch("return_scores", self.return_scores)
        check_number("repetition_penalty", self.repetition_penalty, 1, 1000)
        check_count("no_repeat_ngram", self.no_repeat_ngram, 0)
        if not isinstance(self.sampling, Sampling | None):
            raise ConfigError(f"sampling is {self.sampling!r}; it must be a Sampling or None.")
        if self.n_best > self.beam:
            raise ConfigError(
                f"a beam of {self.beam} cannot give the {self.n_best} best sentences: "
                f"widen the beam to {self.n_best}."
            )
        if self.beam % self.beam_groups:
            raise ConfigError(
                f"a beam of {self.beam} cannot be divided into {self.beam_groups} groups: choose "
                f"a width that is a multiple of beam_groups."
            )
        self._check_sampling()
        self.processors()  # refuses invalid phrases before decoding begins

    def _check_sampling(self) -> None:
        if self.sampling is None:
            return
        if self.beam > 1:
            raise ConfigError(
                "sampling and beam search exclude each other: sample with a beam of 1."
            )
        if self.return_scores:
            raise ConfigError(
                "sampling and return_scores exclude each other: a sample is not ranked; leave out "
                "return_scores, and score the text afterwards."
            )

    def processors(self, end: int | None = None) -> list[LogitsProcessor]:
        """Return the logits processors of these settings, which apply to all rows.

        Args:
            end: Id of the end token, which `no_repeat_ngram` always allows (default: none).

        Example:
            >>> import regard
            >>> regard.DecodingConfig(no_repeat_ngram=3).processors()
            [NoRepeatNgram(size=3)]
        """
        processors: list[LogitsProcessor] = []
        if self.repetition_penalty != 1:
            processors.append(RepetitionPenalty(self.repetition_penalty))
        if self.no_repeat_ngram:
            processors.append(NoRepeatNgram(self.no_repeat_ngram, end))
        if len(self.suppress_phrases):
            processors.append(SuppressPhrases(self.suppress_phrases))
        return processors


@dataclass(frozen=True)
class Constraints:
    """Ids that the outputs of single rows must begin with or contain, by row number."""

    prefixes: Mapping[int, Ids] = field(default_factory=dict)
    phrases: Mapping[int, Sequence[Ids]] = field(default_factory=dict)
    continuations: Mapping[int, IdArray] = field(default_factory=dict)  # not to follow a phrase

    def check(self, limits: Sequence[int], config: DecodingConfig) -> None:
        """Refuse constraints that exceed the limit of their row, or that the settings exclude."""
        for row in {*self.prefixes, *self.phrases}:
            prefix, phrases = self.prefixes.get(row, ()), self.phrases.get(row, ())
            require_fit(limits[row], prefix, phrases, f"row {row}", "shorten it")
        if self.phrases:
            check_phrase_settings(config)


def can_place_phrases(config: DecodingConfig) -> bool:
    """Return whether these settings of decoding can place required phrases."""
    return config.sampling is None and config.beam_groups == 1


def check_phrase_settings(config: DecodingConfig) -> None:
    """Refuse settings of decoding that cannot place required phrases."""
    for name, is_set in (
        ("sampling", config.sampling is not None),
        ("beam_groups", config.beam_groups > 1),
    ):
        if is_set:
            raise ConfigError(
                f"{name} and required phrases exclude each other: required phrases need plain "
                f"beam search; leave out one of the two."
            )


def decode(
    model: Stepper[S],
    state: S,
    first: IdArray,
    end: int,
    limits: Sequence[int],
    config: DecodingConfig,
    constraints: Constraints | None = None,
    sample_ids: Sequence[int] | None = None,
    prompts: Sequence[Ids] | None = None,
    distinct: Callable[[list[int]], Hashable] = tuple,
) -> list[list[Hypothesis]]:
    """Generate the outputs of each row, best first, with the algorithm that the config names.

    Every row has at least one output, none longer than its limit. One that the limit ended although
    the model would continue is marked as not finished; greedy decoding and sampling take one step
    more to know.

    Args:
        model: The model to decode.
        state: Its state before `first`.
        first: The last id of each row's prompt, or the start token (B,).
        end: Id of the end token.
        limits: Maximum number of new ids in each row, those of its constraints included.
        config: Settings of decoding.
        constraints: Prefixes and phrases that single rows must contain.
        sample_ids: Number of each row for random draws, so that a row's output does not depend on
            its batch.
        prompts: Ids of each row that processors see before the generated ones.
        distinct: Function of ids; of outputs with the same result only the best is returned
            (default: the ids themselves).

    Raises:
        ConfigError: The constraints do not fit the settings.
        DataError: The constraints of a row do not fit its limit.
    """
    constraints = constraints or Constraints()
    constraints.check(limits, config)
    processors = _processors(config, constraints, prompts, end)
    if config.beam == 1 and not config.return_scores and not constraints.phrases:
        is_greedy = config.sampling is None and not processors
        one_more = [limit + 1 for limit in limits]
        if isinstance(model, HasFusedGreedy) and is_greedy and limits:
            generated = model.greedy(first, state, end, one_more)
        else:
            generated = [[] for _ in limits]
            choose = _sampler(config, constraints, sample_ids) if config.sampling else argmax
            steps = stream_tokens(model, state, first, end, one_more, choose, processors, prompts)
            for tokens in steps:
                for row, token in tokens:
                    generated[row].append(token)
        return [
            [Hypothesis(ids[:limit], float("nan"), len(ids) <= limit)]
            for ids, limit in zip(generated, limits, strict=True)
        ]
    return beam_search(
        model,
        state,
        first,
        end,
        limits,
        config.beam,
        config.length_penalty,
        processors,
        _select(config, constraints, end),
        prompts,
        n_best=config.n_best,
        early_stopping=config.early_stopping,
        distinct=distinct,
    )


def _sampler(
    config: DecodingConfig, constraints: Constraints, sample_ids: Sequence[int] | None
) -> ChooseToken:
    """Sample by the row's number and the number of tokens that it sampled before."""

    def choose(logits: Scores, rows: Sequence[int], step: int) -> IdArray:
        assert config.sampling is not None
        steps = [max(step - len(constraints.prefixes.get(row, ())), 0) for row in rows]
        samples = [sample_ids[row] if sample_ids else row for row in rows]
        return config.sampling(logits, samples, steps)

    return choose


def _processors(
    config: DecodingConfig, constraints: Constraints, prompts: Sequence[Ids] | None, end: int
) -> list[LogitsProcessor]:
    processors = config.processors(end)
    if constraints.prefixes:
        prompt_lengths = {row: len(ids) for row, ids in enumerate(prompts or [])}
        processors.append(ForcePrefix(constraints.prefixes, prompt_lengths))
    return processors


def _select(config: DecodingConfig, constraints: Constraints, end: int) -> Select:
    if constraints.phrases:
        prefix_lengths = {row: len(ids) for row, ids in constraints.prefixes.items()}
        return RequirePhrases(constraints.phrases, end, prefix_lengths, constraints.continuations)
    if config.beam_groups > 1:
        return DiverseBeam(config.beam_groups, config.diversity)
    return top_candidates
