"""Languages of texts, as a translator tells them apart."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from regard.predictors.translator import Translator

# Confidence in a language that the model does not know: its script or frequent words are clear.
OTHER_LANGUAGE = 90.0
SURE = 99.99  # at least, of a language that a text is certainly in


class DetectedLanguage(NamedTuple):
    """A language and the confidence that a text is in it."""

    language: str
    confidence: float  # 0 to 100


def detect_languages(translator: "Translator", text: str) -> list[DetectedLanguage]:
    """Return the languages that a text may be in, most probable first.

    They are the source languages of the translator; before them another language, if the text is
    clearly in it.
    """
    from regard.data.languages import recognize_language

    identifier = translator.language_identifier
    probabilities = identifier.probabilities(translator.tokenizer.encode(text))
    recognized = recognize_language([text])
    is_other = recognized is not None and recognized not in probabilities
    rest = 100.0 - OTHER_LANGUAGE if is_other else 100.0
    detected = [
        DetectedLanguage(language, round(rest * probability, 2))
        for language, probability in probabilities.items()
    ]
    detected.sort(key=lambda own: -own.confidence)
    if recognized is not None and is_other:
        detected.insert(0, DetectedLanguage(recognized, OTHER_LANGUAGE))
    return detected
