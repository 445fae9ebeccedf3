"""Instructions to a translator: the languages that they name, and the text after them."""

import pytest

from regard.serving.instructions import named_target, split_instruction


@pytest.mark.parametrize(
    ("instruction", "language"),
    [
        ("Translate to French.", "fr"),
        ("Translate the text into English, please.", "en"),
        ("Traduis en anglais", "en"),
        ("Traduis en français", "fr"),
        ("Traduisez du français vers l'anglais.", "en"),
        ("Translate from French to English", "en"),
        ("Translate to English from French", "en"),
        ("Translate the following French text to English.", "en"),
        ("English – French", "fr"),
        ("Übersetze auf Englisch", "en"),
        ("Translate to German. Keep names in English.", "de"),
        ("Traduis en espagnol", "es"),
        ("French", "fr"),
        ("fr", "fr"),
        ("FR", "fr"),
        ("fr-en", "en"),
        ("Translate to fr, please", "fr"),
        ("Target language: en", "en"),
        ("Traduis en fr", "fr"),
        ("You translate from French.", None),
        ("You are a helpful assistant.", None),
        ("Tu es un assistant en ligne.", None),
        ("", None),
    ],
)
def test_language_to_translate_to(instruction: str, language: str | None) -> None:
    assert named_target(instruction, {"fr", "en"}) == language


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        ("Translate from French to English, keep punctuation as input:", "Le chat dort."),
        ("Please translate the following text to English:", "Un\n\ndeux."),
        ("Traduisez en anglais :", ""),
        ("", "Translate to English: this is an instruction."),
        ("", "Translate:\n\nNo language is named."),
        ("", "He translated it into French:\n\nLe chat dort."),
        ("", "Le chat dort.\n\nTraduis en anglais :"),
    ],
)
def test_instruction_before_a_text(instruction: str, text: str) -> None:
    message = f"{instruction}\n\n{text}" if instruction else text
    assert split_instruction(message, {"fr", "en"}) == (instruction, text)
