"""Tasks of Hugging Face's inference API: their parameters, and their answers.

A parameter that would change an answer and cannot is refused, not ignored.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from regard.serving.api._translators import known_language
from regard.serving.errors import BadRequest
from regard.serving.models import ModelInfo
from regard.serving.tasks import classify, embed, fill, generate, summarize, translate, zero_shot
from regard.serving.tasks.base import MAX_BEAM

DEFAULT_NEW_TOKENS = 100  # as text-generation-inference


class TextPair(BaseModel):
    """Two texts that are classified together."""

    text: str
    text_pair: str


# One input, or several, each of which has an answer of its own.
Inputs = str | TextPair | list[str] | list[tuple[str, str]]
Result = dict[str, Any]


class Parameters(BaseModel, extra="forbid"):
    """Parameters of a task."""

    task: ClassVar[str]  # of `regard.serving.tasks`

    def arguments(self, info: ModelInfo, inputs: Inputs) -> BaseModel:
        """Return the arguments of the task.

        Raises:
            BadRequest: The model or the task does not take them.
        """
        raise NotImplementedError

    def answer(self, inputs: Inputs, result: Result) -> Any:
        """Return the answer of the API for the result of the task."""
        raise NotImplementedError


class SearchSettings(BaseModel, extra="forbid"):
    """Settings of decoding, by the names that transformers has for them."""

    num_beams: int | None = Field(None, ge=1, le=MAX_BEAM)


class SummarySettings(SearchSettings):
    """Settings of decoding, and the length of the summary."""

    max_new_tokens: int | None = Field(None, ge=1)


class TranslationParameters(Parameters):
    """Languages, and settings of decoding; long texts are split, never truncated."""

    task = "translate"

    src_lang: str | None = None
    tgt_lang: str | None = None
    generate_parameters: SearchSettings = SearchSettings()
    truncation: Literal["do_not_truncate"] | None = None
    clean_up_tokenization_spaces: bool | None = None  # there are none

    def arguments(self, info: ModelInfo, inputs: Inputs) -> BaseModel:
        return translate.Arguments(
            texts=_texts(inputs),
            source=_language(info, "src_lang", self.src_lang),
            to=_language(info, "tgt_lang", self.tgt_lang),
            beam=self.generate_parameters.num_beams,
        )

    def answer(self, inputs: Inputs, result: Result) -> Any:
        return [{"translation_text": own["text"]} for own in result["translations"]]


class SummarizationParameters(Parameters):
    """Settings of decoding; a text that is too long is refused, unless the model truncates it."""

    task = "summarize"

    generate_parameters: SummarySettings = SummarySettings()
    truncation: Literal["do_not_truncate"] | None = None
    clean_up_tokenization_spaces: bool | None = None  # there are none

    def arguments(self, info: ModelInfo, inputs: Inputs) -> BaseModel:
        settings = self.generate_parameters
        return summarize.Arguments(
            texts=_texts(inputs), max_tokens=settings.max_new_tokens, beam=settings.num_beams or 1
        )

    def answer(self, inputs: Inputs, result: Result) -> Any:
        return [{"summary_text": own["text"]} for own in result["summaries"]]


class GenerationParameters(Parameters):
    """Settings of the generation of text."""

    task = "generate"

    best_of: int | None = Field(None, ge=1)
    details: bool = False
    do_sample: bool = False
    frequency_penalty: float = 0.0
    max_new_tokens: int = Field(DEFAULT_NEW_TOKENS, ge=0)
    repetition_penalty: float = Field(1.0, gt=0)
    return_full_text: bool = False
    seed: int | None = None
    stop: list[str] = []
    temperature: float | None = Field(None, gt=0)
    top_k: int | None = Field(None, ge=1)
    top_p: float | None = Field(None, gt=0, le=1)
    # Clients that name all parameters leave these out so.
    decoder_input_details: Literal[False] = False
    watermark: Literal[False] = False

    def arguments(self, info: ModelInfo, inputs: Inputs) -> generate.Arguments:
        samples = self.do_sample or self.top_k is not None or self.top_p is not None
        return generate.Arguments(
            prompts=list(_texts(inputs)),
            max_tokens=self.max_new_tokens,
            temperature=1.0 if samples and self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=self.top_k or 0,
            seed=self.seed,
            best_of=self.best_of,
            stop=self.stop,
            logprobs=0 if self.details else None,
            repetition_penalty=self.repetition_penalty,
            frequency_penalty=self.frequency_penalty,
        )

    def answer(self, inputs: Inputs, result: Result) -> Any:
        prompts = _texts(inputs)
        return [self._generated(prompts[own["prompt"]], own) for own in result["choices"]]

    def generated_text(self, prompt: str, choice: Result) -> str:
        """Return the text of a continuation, after its prompt if that is asked for."""
        text: str = choice["text"]
        return prompt + text if self.return_full_text else text

    def finish(self, choice: Result) -> dict[str, Any]:
        """Return why and after how many tokens a text ended, and the seed."""
        stopped = "stop_sequence" if self.stop else "eos_token"
        return {
            "finish_reason": "length" if choice["finish_reason"] == "length" else stopped,
            "generated_tokens": len(choice["ids"]),
            "seed": self.seed,
        }

    def _generated(self, prompt: str, choice: Result) -> dict[str, Any]:
        answer: dict[str, Any] = {"generated_text": self.generated_text(prompt, choice)}
        if self.details:
            tokens = [token(own, own["text"]) for own in choice["tokens"] or []]
            answer["details"] = self.finish(choice) | {"prefill": [], "tokens": tokens}
        return answer


class FillParameters(Parameters):
    """Number of candidates."""

    task = "fill"

    top_k: int = Field(5, ge=1, le=fill.MAX_TOP)

    def arguments(self, info: ModelInfo, inputs: Inputs) -> BaseModel:
        return fill.Arguments(texts=_texts(inputs), top=self.top_k)

    def answer(self, inputs: Inputs, result: Result) -> Any:
        """Return the candidates for the blank of a text; of several blanks, those for each."""
        answers = [[list(map(_candidate, blank)) for blank in blanks] for blanks in result["fills"]]
        return _one_or_all(inputs, [own[0] if len(own) == 1 else own for own in answers])


class ClassificationParameters(Parameters):
    """Number of labels, and the function that makes probabilities of the model's outputs."""

    task = "classify"

    top_k: int | None = Field(None, ge=1)
    function_to_apply: Literal["sigmoid", "softmax"] | None = None

    def arguments(self, info: ModelInfo, inputs: Inputs) -> BaseModel:
        texts: Sequence[Any] = [inputs] if isinstance(inputs, str | TextPair) else inputs
        pairs = [(own.text, own.text_pair) if isinstance(own, TextPair) else own for own in texts]
        return classify.Arguments(texts=pairs)

    def answer(self, inputs: Inputs, result: Result) -> Any:
        own = "sigmoid" if result["multi_label"] else "softmax"
        if self.function_to_apply not in (own, None):
            raise BadRequest(
                f"function_to_apply: this model was trained with {own}; leave it out.",
                "function_to_apply",
            )
        return [_labels(labels)[: self.top_k] for labels in result["predictions"]]


class ZeroShotParameters(Parameters):
    """Labels to choose from."""

    task = "zero_shot"

    candidate_labels: list[str] = Field(min_length=2, max_length=zero_shot.MAX_LABELS)
    hypothesis_template: str = zero_shot.DEFAULT_TEMPLATE
    multi_label: bool = False

    def arguments(self, info: ModelInfo, inputs: Inputs) -> BaseModel:
        return zero_shot.Arguments(
            texts=_texts(inputs),
            labels=self.candidate_labels,
            template=self.hypothesis_template,
            multi_label=self.multi_label,
        )

    def answer(self, inputs: Inputs, result: Result) -> Any:
        return _one_or_all(inputs, [_labels(labels) for labels in result["predictions"]])


class EmbeddingParameters(Parameters):
    """Format of the vectors; a text that is too long is refused, not truncated."""

    task = "embed"

    normalize: bool | None = None
    truncate: Literal[False] = False
    encoding_format: Literal["float"] = "float"

    def arguments(self, info: ModelInfo, inputs: Inputs) -> BaseModel:
        return embed.Arguments(texts=_texts(inputs), normalize=self.normalize)

    def answer(self, inputs: Inputs, result: Result) -> Any:
        return result["vectors"]


# The first that a model does is the one that it is for.
TASKS: dict[str, type[Parameters]] = {
    "translation": TranslationParameters,
    "summarization": SummarizationParameters,
    "text-generation": GenerationParameters,
    "fill-mask": FillParameters,
    "text-classification": ClassificationParameters,
    "zero-shot-classification": ZeroShotParameters,
    "feature-extraction": EmbeddingParameters,
}


def tasks_of(info: ModelInfo) -> list[str]:
    """Return the tasks of the API that a model does."""
    return [name for name, parameters in TASKS.items() if parameters.task in info.tasks]


def token(own: Result, text: str) -> dict[str, Any]:
    """Return a token as text-generation-inference describes it."""
    return {"id": own["id"], "text": text, "logprob": own["log_prob"], "special": False}


def _texts(inputs: Inputs) -> list[str]:
    """Return texts; refuse pairs."""
    texts = [text for text in _listed(inputs) if isinstance(text, str)]
    if len(texts) != len(_listed(inputs)):
        raise BadRequest("inputs: give a text, or a list of texts.", "inputs")
    return texts


def _listed(inputs: Inputs) -> Sequence[Any]:
    return inputs if isinstance(inputs, list) else [inputs]


def _one_or_all(inputs: Inputs, answers: Sequence[Any]) -> Any:
    """Return the answer of a text, or the answers of a list of texts."""
    return answers if isinstance(inputs, list) else answers[0]


def _language(info: ModelInfo, field: str, code: str | None) -> str | None:
    """Return the language of a code, as the model names it."""
    if code is None:
        return None
    languages = sorted({language for direction in info.directions for language in direction})
    if (known := known_language(code, languages)) is None:
        raise BadRequest(f"{field}: this model knows {' and '.join(languages)} only.", field)
    return known


def _candidate(own: Result) -> dict[str, Any]:
    return {
        "score": own["probability"],
        "token": own["token"],
        "token_str": own["text"],
        "sequence": own["sequence"],
    }


def _labels(labels: Sequence[Result]) -> list[dict[str, Any]]:
    return [{"label": own["label"], "score": own["probability"]} for own in labels]
