"""Languages that instructions to a translator name."""

import pytest

from regard.serving.instructions import named_target


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
