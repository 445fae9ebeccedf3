"""Languages of texts, recognized by their script and their most frequent words.

Each word of a text that is frequent in a language counts for it, a word of several languages in
part for each. A language is recognized if enough words count for it, and fewer for any other one.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path

MAX_CHARACTERS = 1000  # of a text that are read
MAX_TEXTS = 2000
MIN_WORDS = 2  # frequent words of the language, by which it is recognized at all
MIN_RATE = 0.07  # of the words that must be frequent ones of the language
MIN_LEAD = 1.25  # times the rate of the next language

NAMES: Mapping[str, str] = {
    "am": "Amharic", "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan",
    "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "gu": "Gujarati", "he": "Hebrew",
    "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian",
    "it": "Italian", "ja": "Japanese", "ka": "Georgian", "km": "Khmer", "kn": "Kannada",
    "ko": "Korean", "lo": "Lao", "ml": "Malayalam", "my": "Burmese", "nl": "Dutch",
    "no": "Norwegian", "nqo": "N'Ko", "pa": "Punjabi", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "si": "Sinhala", "sk": "Slovak", "sr": "Serbian",
    "sv": "Swedish", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tr": "Turkish",
    "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip

_FREQUENT_WORDS: Mapping[str, str] = {
    "en": "the of and to in is that was it for you he she with on are this have not be they his "
    "her at we from what my but i me do don t s re m ll him who your there so if can will",
    "fr": "le la les de des du et un une est que qui dans pas pour il elle je vous nous ce sur "
    "au plus ne en avec sont à se ça mais cette tu suis j ai c d l n s qu moi a on son sa "
    "ses par",
    "de": "der die das und ist nicht ein eine ich sie es zu den mit auf von dem wir für auch "
    "sich er im hat was war du bin mir dass wie an als aus bei einen einer nach geht ihnen ihr "
    "uns haben sind kann noch nur aber wenn hier guten",
    "es": "el la los las de que y en un una es no se por con para su lo está del más me pero "
    "como al yo muy él ella qué tu te le son fue esto dónde cómo hay cuando hola gracias buenos",
    "it": "il di che e la un una è non per sono del della con le ho i mi si lo gli da più ma "
    "questo anche nel alla dei in ha tu io lei lui cosa dove come sei siamo grazie",
    "pt": "o a os as de que e do da em um uma não é se para com por eu ele ela na no mais você "
    "mas isso foi ao dos das está meu onde como muito obrigado",
    "ca": "el la els les de i que no és en un una per amb del al com més però va aquest què jo són",
    "ro": "și de la nu în este un o să a cu pe din că mai am pentru ce ea el sunt care fi au lui",
    "nl": "de het een van en is niet dat ik je op te zijn in met voor er maar hij ze wat dit "
    "aan ook heeft ben we mijn deze naar om",
    "sv": "och att det är en jag som på för med inte han den till av har du vi hon ett om var "
    "mig så",
    "da": "og at det er en jeg som på for med ikke han den til af har du vi hun et om var hvad mig",
    "no": "og å det er en jeg som på for med ikke han den til av har du vi hun et om var hva meg",
    "fi": "ja on ei että se hän en oli minä ovat mutta tämä kun mitä sinä hänen olen niin mikä "
    "tai ole",
    "pl": "i w nie na się jest to z że do jak co tego po ale za czy o mnie od ten był jestem są",
    "cs": "a je se na to že v ne jsem si s z do ale jako už by co tak jsi byl pro není jsou",
    "sk": "a je sa na to že v nie som si s z do ale ako už by čo tak bol pre aj sú",
    "hr": "i je se na da u ne su za to od sam bi što kao ali koji nije ja",
    "hu": "a az és nem hogy is egy ez van de meg csak mi én volt azt ki el már ha",
    "tr": "bir ve bu ne için o çok da de var mı ben değil mi ama sen daha gibi bana",
    "id": "yang dan di ini itu tidak dengan untuk dari pada dia saya ada ke akan adalah",
    "vi": "là của và không có tôi một được này trong cho anh người đã bạn những",
    "ru": "и в не на что я он с это как она мы его но по вы был к у ты за так из",
    "uk": "і не на що я в це як він з та вона до ми його але був у ти є від",
    "bg": "и на да не се в за е от ще по със си това той аз с като са",
    "sr": "и је у да на се не су то за он сам од би али што ја као",
    "ar": "من في على أن إلى هذا ما لا أنا كان هذه مع عن هو التي الذي",
    "fa": "و در به از که این را با است من آن برای یک تو می",
}
_LANGUAGES_OF_WORD: dict[str, list[str]] = {}
for _language, _words in _FREQUENT_WORDS.items():
    for _word in _words.split():
        _LANGUAGES_OF_WORD.setdefault(_word, []).append(_language)

# Scripts, as the first word of Unicode's names of characters, that one language has for the most.
_LANGUAGE_OF_SCRIPT: Mapping[str, str] = {
    "ARMENIAN": "hy", "BENGALI": "bn", "CJK": "zh", "DEVANAGARI": "hi", "ETHIOPIC": "am",
    "GEORGIAN": "ka", "GREEK": "el", "GUJARATI": "gu", "GURMUKHI": "pa", "HANGUL": "ko",
    "HEBREW": "he", "HIRAGANA": "ja", "KANNADA": "kn", "KATAKANA": "ja", "KHMER": "km",
    "LAO": "lo", "MALAYALAM": "ml", "MYANMAR": "my", "NKO": "nqo", "SINHALA": "si", "TAMIL": "ta",
    "TELUGU": "te", "THAI": "th",
}  # fmt: skip
_KANA = ("HIRAGANA", "KATAKANA")
_MIN_KANA = 0.1  # of the characters of a Japanese text


def recognize_language(texts: Iterable[str]) -> str | None:
    """Return the code of the language that most of the texts are in, or None if it is unclear."""
    starts = [text[:MAX_CHARACTERS] for text in islice(texts, MAX_TEXTS)]
    scripts = Counter(_script(character) for text in starts for character in text)
    del scripts[""]
    if not scripts:
        return None
    script, count = scripts.most_common(1)[0]
    if script == "CJK" and sum(scripts[kana] for kana in _KANA) > _MIN_KANA * count:
        return "ja"
    return _LANGUAGE_OF_SCRIPT.get(script) or _by_words(starts)


def language_named(name: str) -> str | None:
    """Return the code of the language in the name of a column or key; None if there is none.

    `fr`, `French`, `text_fr`, `translation.fr` and `fr-FR` all name French.
    """
    locale = re.fullmatch(r"([a-z]{2,3})[-_][A-Z]{2}", name.strip())
    part = locale[1] if locale else re.split(r"[\W_]+", name.strip())[-1]
    return _CODES.get(part.casefold())


def is_language_name(name: str) -> bool:
    """Return True for the code or the name of a language and nothing else."""
    return name.strip().casefold() in _CODES


def file_language(path: Path) -> str | None:
    """Return the code of the language that is an extension of a file's name: train.fr.gz."""
    codes = [suffix[1:].casefold() for suffix in path.suffixes if suffix[1:].casefold() in NAMES]
    return codes[-1] if codes else None


def describe_language(code: str | None) -> str:
    """Return the English name of a language, for messages."""
    return NAMES.get(code or "", code or "an unknown language")


_CODES = {code: code for code in NAMES} | {name.casefold(): code for code, name in NAMES.items()}
_CODES |= {
    "eng": "en", "fra": "fr", "fre": "fr", "deu": "de", "ger": "de", "spa": "es", "ita": "it",
    "por": "pt", "nld": "nl", "rus": "ru", "pol": "pl", "zho": "zh", "jpn": "ja", "ara": "ar",
    "tur": "tr", "français": "fr", "francais": "fr", "anglais": "en", "allemand": "de",
    "deutsch": "de", "englisch": "en", "französisch": "fr", "español": "es", "inglés": "en",
    "italiano": "it", "português": "pt",
}  # fmt: skip


def _by_words(texts: Iterable[str]) -> str | None:
    rates: defaultdict[str, float] = defaultdict(float)
    total = 0
    for text in texts:
        for word in re.findall(r"[^\W\d_]+", text.casefold()):
            total += 1
            languages = _LANGUAGES_OF_WORD.get(word, ())
            for language in languages:
                rates[language] += 1 / len(languages)
    ranked = sorted(rates.items(), key=lambda item: -item[1])
    (first, rate), (_, next_rate) = [*ranked, ("", 0.0), ("", 0.0)][:2]
    clear = rate >= max(MIN_WORDS, MIN_RATE * total) and rate > MIN_LEAD * next_rate
    return first if first and clear else None


@lru_cache(maxsize=10_000)
def _script(character: str) -> str:
    """Return the script of a letter as Unicode's names begin; empty for other characters."""
    if not character.isalpha():
        return ""
    return re.split(r"[ -]", unicodedata.name(character, ""))[0]
