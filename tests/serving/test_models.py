"""Models by name: queues, crashes, memory and reloads, with real workers."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regard.errors import ConfigError
from regard.run_folder import path_of
from regard.serving import served_model
from regard.serving.errors import NotFound, NotSupported, TimedOut, TooManyRequests, Unavailable
from regard.serving.models import Models, named_runs
from regard.serving.settings import ServerSettings
from regard.serving.tasks import detect, translate
from regard.serving.tasks.classify import Arguments as Classify

from .conftest import EN, write_translator

LONG = " ".join(["Le chat dort sur la chaise, et le chien court dans le jardin."] * 150)
SHORT = translate.Arguments(texts=["Le chat dort."], to="en", beam=1)
SLOW = translate.Arguments(texts=[LONG], to="en")
FR_EN = Path("fr-en")


@asynccontextmanager
async def served(*runs: Path, **settings: Any) -> AsyncIterator[Models]:
    models = Models(ServerSettings(runs, **settings))
    models.start()
    try:
        async with asyncio.timeout(60):
            yield models
    finally:
        await models.end()


async def text_of(models: Models, name: str = "fr-en") -> str:
    result = await models.run(name, "translate", SHORT)
    text: str = result["translations"][0]["text"]
    return text


async def score_of(models: Models, name: str) -> float:
    result = await models.run(name, "translate", SHORT.model_copy(update={"beam": 2}))
    score: float = result["translations"][0]["score"]
    return score


def pid_of(models: Models, name: str) -> int:
    client = models._find(name).computing.client
    assert client is not None
    return client.pid


async def until(is_true: Any, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not is_true():
            await asyncio.sleep(0.02)


def test_a_pretrained_model_has_both_of_its_names(runs) -> None:
    named = named_runs([FR_EN, runs["lm"]])
    assert list(named) == ["fr-en", "lm", "en-fr"]
    assert named["fr-en"].folder == named["en-fr"].folder
    assert (named["fr-en"].target, named["en-fr"].target, named["lm"].target) == ("en", "fr", None)


def test_names_are_unique(runs, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="another model is named lm"):
        named_runs([runs["lm"], tmp_path / "lm"])


def test_models_are_described_without_being_loaded(runs) -> None:
    models = Models(ServerSettings((runs["classifier"], FR_EN)))
    classifier, french, english = models.list()
    assert classifier.labels == ("negative", "positive")
    assert "classify" in classifier.tasks
    assert set(french.directions) == {("fr", "en"), ("en", "fr")}
    assert (french.target, english.target) == ("en", "fr")
    assert models.for_task("translate").name == "fr-en"
    assert models.for_task("translate", "gpt-4").name == "fr-en"
    assert models.for_task("classify", "classifier").max_length == 200
    with pytest.raises(NotSupported, match="does not do the task translate"):
        models.for_task("translate", "classifier")
    with pytest.raises(NotFound, match="no model"):
        models.for_task("fill")
    with pytest.raises(NotFound, match="classifier, fr-en, en-fr"):
        models.get("nothing")


def test_names_choose_the_target_language_and_requests_may() -> None:
    async def scenario() -> None:
        plain = translate.Arguments(texts=["Le chat dort."], beam=1)
        async with served(FR_EN) as models:
            targets = [
                (await models.run(name, "translate", arguments))["translations"][0]["to"]
                for name, arguments in (
                    ("fr-en", plain),
                    ("en-fr", plain),
                    ("en-fr", plain.model_copy(update={"to": "en"})),
                    ("fr-en", plain.model_copy(update={"texts": [EN], "source": "en"})),
                )
            ]
            assert targets == ["en", "fr", "en", "fr"]
            assert models.is_ready
            assert len(models.workers()) == 1

    asyncio.run(scenario())


def test_the_queue_is_bounded_and_canceled_requests_leave_it() -> None:
    async def scenario() -> None:
        async with served(FR_EN, max_active=1, max_waiting=1) as models:
            await text_of(models)
            slow = [asyncio.create_task(models.run("fr-en", "translate", SLOW)) for _ in range(2)]
            await asyncio.sleep(0.1)
            with pytest.raises(TooManyRequests) as refused:
                await text_of(models)
            assert refused.value.retry_after is not None
            assert refused.value.retry_after >= 1
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
            start = time.monotonic()
            assert await text_of(models) == "The cat is sleeping."
            assert time.monotonic() - start < 2

    asyncio.run(scenario())


def test_requests_end_when_their_time_is_over() -> None:
    async def scenario() -> None:
        async with served(FR_EN, max_seconds=5.0) as models:
            await text_of(models)
            served_model = models._find("fr-en")
            served_model._settings = replace(served_model._settings, max_seconds=0.1)
            with pytest.raises(TimedOut):
                await models.run("fr-en", "translate", SLOW)
            assert models.workers()["fr-en"]["waiting"] == 0

    asyncio.run(scenario())


def test_a_crash_fails_the_requests_of_its_model_only(tmp_path: Path) -> None:
    run = write_translator(tmp_path / "other")

    async def scenario() -> None:
        async with served(FR_EN, run) as models:
            await asyncio.gather(text_of(models), text_of(models, "other"))
            before = await text_of(models, "other")
            pending = [asyncio.create_task(models.run("fr-en", "translate", SLOW))] * 4
            others = [asyncio.create_task(text_of(models, "other")) for _ in range(20)]
            await asyncio.sleep(0.1)
            os.kill(pid_of(models, "fr-en"), signal.SIGSEGV)
            for result in await asyncio.gather(*pending, return_exceptions=True):
                assert isinstance(result, Unavailable)
                assert result.retry_after == 1
            assert await asyncio.gather(*others) == [before] * 20
            assert await text_of(models) == "The cat is sleeping."
            assert models.workers()["fr-en"]["restarts"] == 1

    asyncio.run(scenario())


def test_a_model_that_cannot_be_loaded_says_why_and_is_tried_again(tmp_path: Path) -> None:
    run = write_translator(tmp_path / "run")
    weights = path_of(run, "model.safetensors")
    content = weights.read_bytes()
    weights.write_bytes(content[:-4] + b"abcd")

    async def scenario() -> None:
        async with served(FR_EN, run) as models:
            with pytest.raises(Unavailable, match="checksum"):
                await text_of(models, "run")
            start = time.monotonic()
            with pytest.raises(Unavailable, match="checksum") as again:
                await text_of(models, "run")
            assert time.monotonic() - start < 0.1  # no worker was started
            assert again.value.retry_after is not None
            weights.write_bytes(content)
            await asyncio.sleep(again.value.retry_after)
            assert isinstance(await text_of(models, "run"), str)
            assert models.is_ready

    asyncio.run(scenario())


def test_least_recently_used_models_are_unloaded(runs: Mapping[str, Path]) -> None:
    async def scenario() -> None:
        async with served(FR_EN, runs["classifier"], memory=1) as models:
            await text_of(models)
            first = models._find("fr-en").computing
            assert first.client is not None
            await models.run("classifier", "classify", Classify(texts=[EN]))
            await until(lambda: first.client is None)
            await until(lambda: first.memory == 0)
            assert models._find("classifier").computing.client is not None
            assert await text_of(models) == "The cat is sleeping."

    asyncio.run(scenario())


def test_a_replaced_run_is_loaded_beside_the_earlier_one(tmp_path: Path) -> None:
    run = write_translator(tmp_path / "run", seed=1)
    newer = write_translator(tmp_path / "newer", seed=2)

    async def scenario() -> None:
        async with served(run) as models:
            before = await score_of(models, "run")
            earlier = pid_of(models, "run")
            slow = asyncio.create_task(models.run("run", "translate", SLOW))
            await asyncio.sleep(1.1)  # between looks at the folder
            shutil.copytree(newer, run, dirs_exist_ok=True)
            assert await score_of(models, "run") == before  # and the new one is being loaded
            await until(lambda: pid_of(models, "run") != earlier)
            assert await score_of(models, "run") != before
            assert len((await slow)["translations"]) == 1
            await until(lambda: not Path(f"/proc/{earlier}").exists())

    asyncio.run(scenario())


def test_a_damaged_new_model_changes_nothing(tmp_path: Path) -> None:
    run = write_translator(tmp_path / "run")
    manifest = run / "model.json"

    async def scenario() -> None:
        async with served(run) as models:
            before, pid = await text_of(models, "run"), pid_of(models, "run")
            await asyncio.sleep(1.1)
            manifest.write_text(manifest.read_text().replace('"vocabulary": ', '"vocabulary": 9'))
            for _ in range(5):
                assert await text_of(models, "run") == before
                await asyncio.sleep(0.2)
            assert pid_of(models, "run") == pid

    asyncio.run(scenario())


def test_draining_refuses_new_requests_and_awaits_the_others() -> None:
    async def scenario() -> None:
        async with served(FR_EN) as models:
            await text_of(models)
            accepted = asyncio.create_task(models.run("fr-en", "translate", SLOW))
            await asyncio.sleep(0.1)
            draining = asyncio.create_task(models.drain())
            await asyncio.sleep(0.05)
            assert not models.is_ready
            with pytest.raises(Unavailable):
                await models.run("fr-en", "detect", detect.Arguments(texts=[EN]))
            await draining
            assert accepted.done()
            assert accepted.result()["translations"][0]["finished"]

    asyncio.run(scenario())


def test_hooks_observe_a_model_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with served(FR_EN) as models:
            aligned = SHORT.model_copy(update={"alignment": True, "segments": True})
            (translation,) = (await models.run("fr-en", "translate", aligned))["translations"]
            assert translation["text"] == await text_of(models)
            assert translation["alignment"]["target_words"] == translation["text"].split()
            model = models._find("fr-en")
            assert model.observing.client is not None
            assert model.observing.client.pid != pid_of(models, "fr-en")
            monkeypatch.setattr(served_model, "OBSERVER_SECONDS", 0.0)
            await until(lambda: model.observing.client is None)
            assert await text_of(models) == "The cat is sleeping."

    asyncio.run(scenario())
