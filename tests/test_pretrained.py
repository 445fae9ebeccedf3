"""The French ↔ English model that comes with Regard, by name, and what it does with odd text."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

import regard
from regard.errors import RunError
from regard.pretrained import FOLDER, MODELS, is_pretrained, located, output_folder

COFFEE = "Je voudrais un café, s'il vous plaît."
DATA = Path(os.environ.get("REGARD_DATA", "")) / "tatoeba-fr-en" / "test.tsv.gz"


def run(*arguments: object, cwd: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command as a person would, in a folder of their own."""
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def french():
    return regard.load_translator("fr-en")


@pytest.fixture(scope="module")
def english():
    return regard.load_translator("en-fr")


def test_everyday_sentences_in_both_directions(french, english) -> None:
    coffee, thanks = french.translate([COFFEE, "Merci beaucoup."])
    assert coffee in ("I'd like a coffee, please.", "I would like a coffee, please.")
    assert thanks.startswith("Thank")
    assert english.translate(["I lost my keys."]) == ["J'ai perdu mes clés."]


@pytest.mark.skipif(
    not DATA.is_file() and not os.environ.get("CI"), reason="the data set tatoeba-fr-en is not here"
)
@pytest.mark.parametrize(("name", "source", "floor"), [("fr-en", 0, 56.0), ("en-fr", 1, 47.0)])
def test_quality_on_a_part_of_the_test_set(name: str, source: int, floor: float) -> None:
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines][::8]
    outputs = regard.load_translator(name).translate([row[source] for row in rows])
    bleu = sacrebleu.corpus_bleu(outputs, [[row[1 - source] for row in rows]])
    assert bleu.score > floor


def test_greetings_and_phrases(french, english) -> None:
    phrases = {
        "Bonsoir.": "Good evening.",
        "Au revoir !": "Goodbye!",
        "Je ne comprends pas.": "I don't understand.",
        "Où est la gare ?": "Where is the station?",
        "Comment ça va ?": "How are you?",
        "Je m'appelle Claire.": "My name is Claire.",
    }
    assert french.translate(list(phrases)) == list(phrases.values())
    assert french.translate(["Bonjour."])[0] in ("Hello.", "Good morning.")
    assert english.translate(["Hello!"])[0] in ("Bonjour !", "Salut !")
    assert english.translate(["Thank you very much."]) == ["Merci beaucoup."]


def test_dates_and_prices(french, english) -> None:
    meeting, debt = french.translate(["La réunion est le 12 mars 2024.", "Je vous dois 50 $."])
    assert meeting.endswith(("12 March 2024.", "March 12, 2024."))
    assert debt == "I owe you $50."
    meeting, cars = english.translate(["The meeting is on May 9, 2031.", "We sold 1,200 cars."])
    assert "le 9 mai 2031" in meeting
    assert "1200 voitures" in cars.replace("1 200", "1200")


def test_text_file_and_standard_input(tmp_path: Path) -> None:
    (tmp_path / "fr.txt").write_text(f"{COFFEE}\n\n{COFFEE}\n")
    as_text = run("translate", "fr-en", COFFEE, "", COFFEE, cwd=tmp_path).stdout
    assert as_text == run("translate", "fr-en", "fr.txt", cwd=tmp_path).stdout
    assert as_text == run("translate", "fr-en", cwd=tmp_path, text=f"{COFFEE}\n\n{COFFEE}").stdout
    first, empty, last = as_text.splitlines()
    assert "coffee" in first
    assert (empty, last) == ("", first)


@pytest.mark.parametrize(
    ("line", "copies"),
    [
        ("Il habite à Ouagadougou depuis 1987.", ["Ouagadougou", "1987"]),
        ("Madame Kowalczyk est arrivée hier.", ["Kowalczyk"]),
        ("Regarde https://example.org/a?b=1 ce soir.", ["https://example.org/a?b=1"]),
        ("Merci 🎉 beaucoup ! À demain 😀", ["🎉", "😀"]),
        ("Mon numéro est le 06 12 34 56 78.", ["06", "12", "34", "56", "78"]),
        ("Écris à marie.dupont@example.fr demain.", ["marie.dupont@example.fr"]),
        ("你好, dit-il.", ["你好"]),
    ],
)
def test_names_numbers_links_and_emoji_survive(french, line: str, copies: list[str]) -> None:
    (translation,) = french.translate([line])
    assert [copy for copy in copies if copy not in translation] == []


def test_text_without_words_stays(french) -> None:
    lines = ["", "🎉🎉", "12:30", "https://example.org", "你好", "---"]
    assert french.translate(lines) == lines


def test_sentences_of_a_line_are_translated_one_by_one(french) -> None:
    sentences = ["Il pleut.", "Je reste à la maison.", "Et toi ?"]
    assert french.translate([" ".join(sentences)]) == [" ".join(french.translate(sentences))]


def test_capitals_and_missing_accents_degrade_gently(french) -> None:
    assert french.translate(["OÙ EST MA VALISE ?"]) == [
        french.translate(["Où est ma valise ?"])[0].upper()
    ]
    (translation,) = french.translate(["je voudrais un cafe s'il vous plait"])
    assert "coffee" in translation


def test_another_language_is_flagged(tmp_path: Path) -> None:
    done = run("translate", "fr-en", "Where is the nearest railway station?", cwd=tmp_path)
    assert "looks like English, not French" in done.stderr


def test_evaluate_takes_the_sources_from_the_column_of_their_language(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("Il pleut.\tIt's raining.\n" * 4)
    for name in MODELS:
        done = run("evaluate", name, "pairs.tsv", "--json", cwd=tmp_path)
        assert json.loads(done.stdout)["chrf"] > 40, name


def test_pages_and_exports_are_not_written_into_the_package(tmp_path: Path) -> None:
    before = sorted(FOLDER.rglob("*"))
    run("look", "fr-en", COFFEE, cwd=tmp_path)
    run("export", "en-fr", "--to", "ctranslate2", cwd=tmp_path)
    (tmp_path / "pairs.tsv").write_text("Merci.\tThanks.\nIl pleut.\tIt's raining.\n" * 4)
    run("heads", "fr-en", "pairs.tsv", cwd=tmp_path)
    assert (tmp_path / "runs/fr-en/attention.html").is_file()
    assert (tmp_path / "runs/fr-en/heads").is_dir()
    assert (tmp_path / "runs/en-fr/ctranslate2/model.bin").is_file()
    assert sorted(FOLDER.rglob("*")) == before


@pytest.mark.parametrize("adapter", ["", "adapter: {kind: lora, rank: 2}"])
def test_training_starts_from_it(tmp_path: Path, adapter: str) -> None:
    """The new run works from any folder: an adapter finds its base by name."""
    (tmp_path / "train.tsv").write_text("Merci.\tThanks.\nIl neige.\tIt's snowing.\n")
    (tmp_path / "dev.tsv").write_text("Il pleut.\tIt's raining.\n")
    (tmp_path / "tuned.yaml").write_text(
        f"""
init: fr-en
data:
  train: {{kind: tsv, path: train.tsv, languages: [fr, en]}}
  dev: {{kind: tsv, path: dev.tsv, languages: [fr, en]}}
{adapter}
training: {{steps: 2, optimizer: {{kind: adamw, learning_rate: 1.0e-6}}}}
"""
    )
    run("train", "tuned.yaml", cwd=tmp_path)
    (tmp_path / "elsewhere").mkdir()
    done = run("translate", "../runs/tuned", "Merci beaucoup.", cwd=tmp_path / "elsewhere")
    assert done.stdout.startswith("Thank")


def test_a_run_folder_of_that_name_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = Path("fr-en")
    assert is_pretrained(name)
    name.mkdir()
    assert is_pretrained(name)  # an empty folder is no run
    (name / "model.json").write_text("{}")
    assert not is_pretrained(name)
    assert located(name) == output_folder(name) == name
    with pytest.raises(RunError, match=r"fr-en/model\.json"):
        regard.load("fr-en")


def test_the_model_is_small_and_its_card_names_every_data_set() -> None:
    folder = located(Path("fr-en"))
    assert sum(file.stat().st_size for file in folder.iterdir()) < 12e6
    card = (folder / "README.md").read_text("utf-8")
    recipes = sorted((Path(__file__).parent.parent / "recipes").glob("fr-en*.yaml"))
    assert len(recipes) == 6
    train = "".join(recipe.read_text("utf-8").partition("  dev:")[0] for recipe in recipes)
    names = {part.split(",")[0].split("}")[0] for part in train.split("name: ")[1:]}
    assert [name for name in sorted(names) if name not in card] == []
