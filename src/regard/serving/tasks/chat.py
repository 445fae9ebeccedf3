"""Answer chats: a language model by its chat template, a translator by translating.

A translator translates the last message of the user. The system messages may name the language to
translate to. Settings of sampling do not apply: a translation is the most likely one.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from regard.serving.errors import BadRequest
from regard.serving.tasks import generate
from regard.serving.tasks.base import TaskContext
from regard.serving.tasks.generate import Choice, Result

if TYPE_CHECKING:
    from regard.predictors.generator import TextGenerator
    from regard.predictors.translator import Translator
    from regard.serving.chat_templates import ChatTemplate

PREDICTORS = ("TextGenerator", "Translator")


class Message(BaseModel, extra="forbid"):
    """A message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


class Arguments(generate.Settings):
    """Messages, and the settings of the answer."""

    messages: list[Message] = Field(min_length=1)
    to: str | None = None  # target language of a translator, where no message names one


def run(
    predictor: "TextGenerator | Translator", arguments: Arguments, context: TaskContext
) -> Result:
    """Answer a chat; events are those of `generate`."""
    from regard.predictors.translator import Translator

    if isinstance(predictor, Translator):
        return _translate(predictor, arguments, context)
    ids = _template(predictor).encode([message.model_dump() for message in arguments.messages])
    settings = arguments.model_dump(exclude={"messages", "to"})
    prompt = generate.Arguments(prompts=[ids], **settings)
    return generate.run(predictor, prompt, context, param="messages")


@lru_cache(1)  # a process has one model
def _template(generator: "TextGenerator") -> "ChatTemplate":
    from regard.serving.chat_templates import ChatTemplate

    if generator.chat_template is None:
        raise BadRequest(
            "this model has no chat template: add chat_template.jinja to its run folder, or use "
            "completions.",
            "model",
        )
    return ChatTemplate(generator.chat_template, generator.tokenizer)


def _translate(translator: "Translator", arguments: Arguments, context: TaskContext) -> Result:
    """Translate the last message of the user; further choices are the next best translations."""
    from regard.serving.tasks import translate

    if arguments.logprobs is not None:
        raise BadRequest("a translator has no log-probabilities of tokens.", "logprobs")
    if arguments.n > translate.MAX_ALTERNATIVES:
        raise BadRequest(f"n: a translator has at most {translate.MAX_ALTERNATIVES} choices.", "n")
    text, target = _text_and_target(translator, arguments.messages)
    answers = [_Answer(index, translator, arguments, context) for index in range(arguments.n)]
    request = translate.Arguments(
        texts=[text],
        to=target or arguments.to,
        alternatives=arguments.n - 1,
        stream=arguments.stream and arguments.n == 1,
    )
    events = _TranslationEvents(context, answers[0])
    (translation,) = translate.run(translator, request, events).translations
    if not request.stream:
        answers = answers[: 1 + len(translation.alternatives)]
        for answer, text in zip(
            answers, [translation.text, *translation.alternatives], strict=True
        ):
            answer.add(text)
    choices = [answer.choice(translation.finished) for answer in answers]
    return Result(
        choices=choices,
        prompt_tokens=translation.input_tokens,
        completion_tokens=sum(len(choice.ids) for choice in choices),
    )


class _Answer:
    """A translation up to its first stop string and its maximum number of tokens."""

    def __init__(
        self, index: int, translator: "Translator", arguments: Arguments, context: TaskContext
    ) -> None:
        from regard.predictors.stop_strings import StopStrings

        self._index, self._tokenizer, self._context = index, translator.tokenizer, context
        self._max_tokens, self._is_streamed = arguments.max_tokens, arguments.stream
        self._stops = StopStrings(arguments.stop)
        self._text = ""
        self._is_too_long = False

    def add(self, piece: str) -> None:
        """Append a piece of the translation, and send what is certain."""
        if not (self._stops.reached or self._is_too_long):
            self._release(self._stops.push(piece))

    def choice(self, finished: bool) -> Choice:
        """Return the whole answer; `finished` is False if the model's length limit ended it."""
        if not self._is_too_long:
            self._release(self._stops.flush())
        is_complete = self._stops.reached or (finished and not self._is_too_long)
        reason: Literal["stop", "length"] = "stop" if is_complete else "length"
        self._emit("", finish_reason=reason)
        ids = self._tokenizer.encode(self._text)
        return Choice(prompt=0, index=self._index, text=self._text, finish_reason=reason, ids=ids)

    def _release(self, piece: str) -> None:
        text = self._text + piece
        if self._max_tokens is not None:
            ids = self._tokenizer.encode(text)
            self._is_too_long = len(ids) > self._max_tokens
            text = self._tokenizer.decode(ids[: self._max_tokens]) if self._is_too_long else text
        new, self._text = text[len(self._text) :], text
        if new:
            self._emit(new)

    def _emit(self, text: str, **end: str) -> None:
        if self._is_streamed:
            self._context.emit({"choice": self._index, "text": text, "tokens": [], **end})


class _TranslationEvents(TaskContext):
    """The context of a chat for the translation of its text: events are added to the answer."""

    def __init__(self, context: TaskContext, answer: _Answer) -> None:
        super().__init__()
        self._chat, self._answer = context, answer

    def emit(self, event: dict[str, Any]) -> None:
        self._answer.add(event["text"])

    def check(self) -> None:
        self._chat.check()


def _text_and_target(
    translator: "Translator", messages: Sequence[Message]
) -> tuple[str, str | None]:
    """Return the text to translate, and the language that its instructions name, if they do."""
    from regard.serving.instructions import named_target, split_instruction

    text = next((own.content for own in reversed(messages) if own.role == "user"), None)
    if text is None:
        raise BadRequest("there is no message of the user to translate.", "messages")
    codes = {code for own in translator.directions for code in (own.source, own.target)}
    instruction = "\n".join(own.content for own in messages if own.role == "system")
    target = named_target(instruction, codes)
    if target is None:
        instruction, text = split_instruction(text, codes)
        target = named_target(instruction, codes)
    _check_target(translator, target)
    return text, target


def _check_target(translator: "Translator", target: str | None) -> None:
    """Refuse a language that the model does not translate to."""
    from regard.data.languages import describe_language

    if target is not None and target not in translator.languages:
        languages = " and ".join(map(describe_language, translator.languages))
        raise BadRequest(
            f"the messages ask for {describe_language(target)}, and this model translates to "
            f"{languages} only.",
            "messages",
        )
