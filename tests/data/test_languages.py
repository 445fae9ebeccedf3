"""Languages: recognized by words and scripts, and by their names."""

from pathlib import Path

import pytest

from regard.data.languages import file_language, language_named, recognize_language

TEXTS = {
    "en": "The animal did not cross the street because it was too tired.",
    "fr": "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "de": "Das Tier hat die Straße nicht überquert, weil es zu müde war.",
    "es": "El animal no cruzó la calle porque estaba muy cansado, y eso es todo lo que se sabe.",
    "it": "L'animale non ha attraversato la strada perché era troppo stanco, e questo è tutto.",
    "pt": "O animal não atravessou a rua porque ele estava muito cansado, e isso é tudo.",
    "nl": "Het dier is de straat niet overgestoken omdat het te moe was, en dat is alles.",
    "sv": "Djuret gick inte över gatan för att det var för trött, och det är allt som jag vet.",
    "pl": "Zwierzę nie przeszło przez ulicę, bo było zbyt zmęczone, i to jest wszystko, co wiem.",
    "ru": "Животное не перешло улицу, потому что оно очень устало, и это всё, что я знаю.",
    "uk": "Тварина не перейшла вулицю, бо вона була дуже втомлена, і це все, що я знаю.",
    "el": "Το ζώο δεν διέσχισε τον δρόμο επειδή ήταν πολύ κουρασμένο.",
    "ja": "その動物は疲れすぎていたので、通りを渡りませんでした。",
    "zh": "这只动物没有过马路，因为它太累了。",
    "ko": "그 동물은 너무 피곤해서 길을 건너지 않았다.",
    "ar": "لم يعبر الحيوان الشارع لأنه كان متعبا من هذا، ولا أن ما في هذا.",
}


@pytest.mark.parametrize("code", TEXTS)
def test_recognized(code: str) -> None:
    assert recognize_language([TEXTS[code]]) == code


@pytest.mark.parametrize("text", ["", "1 2 3", "der", "qwx zrt plk", "Paris London Berlin"])
def test_unclear(text: str) -> None:
    assert recognize_language([text]) is None


@pytest.mark.parametrize("name", ["fr", "FR", "French", "text_fr", "translation.fr", "fr-FR"])
def test_names(name: str) -> None:
    assert language_named(name) == "fr"


def test_other_names() -> None:
    assert language_named("my_text") is None
    assert file_language(Path("train.fr.gz")) == "fr"
    assert file_language(Path("train.txt")) is None
