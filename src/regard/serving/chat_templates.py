"""Chats as prompts: the template of a language model, rendered and encoded.

The special tokens that a template writes become special tokens. The same characters in a message
stay characters, so that a message cannot end its turn and begin another.
"""

import atexit
import json
import re
import secrets
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from threading import Lock
from typing import Any

from tokenizers import Tokenizer as Backend

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError

Message = dict[str, str]  # role and content


class ChatTemplate:
    """The chat template of a language model.

    Args:
        template: Its text, in the language of jinja2.
        tokenizer: The model's tokenizer.
    """

    def __init__(self, template: str, tokenizer: Tokenizer) -> None:
        self._template, self._tokenizer = template, tokenizer
        pieces = tokenizer.vocabulary()
        self._special = {"bos_token": pieces[tokenizer.start], "eos_token": pieces[tokenizer.end]}
        names = sorted((pieces[token] for token in tokenizer.special_ids), key=len, reverse=True)
        self._special_names = re.compile("|".join(map(re.escape, names)))
        self._mark = f"\ue000{secrets.randbits(64)}\ue000"  # around special names in messages
        self._marked = re.compile(f"{self._mark}(.*?){self._mark}", re.DOTALL)

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Return the prompt for the answer to some messages, as ids.

        Raises:
            DataError: The template refuses the messages, or takes too much time or memory.
        """
        marked = [
            {**message, "content": self._mark_names(message["content"])} for message in messages
        ]
        text = renderer.render(
            self._template, {"messages": marked, "add_generation_prompt": True, **self._special}
        )
        ids: list[int] = []
        for number, part in enumerate(self._marked.split(text)):
            if number % 2:
                ids += self._tokenizer.encode(part)
            else:
                ids += self._backend.encode(
                    part.replace(self._mark, ""), add_special_tokens=False
                ).ids
        if not ids:
            raise DataError("the chat template gives no text for these messages.")
        return ids

    def _mark_names(self, content: str) -> str:
        return self._special_names.sub(lambda name: f"{self._mark}{name[0]}{self._mark}", content)

    @cached_property
    def _backend(self) -> Backend:
        """The tokenizer with special tokens recognized in texts."""
        return Backend.from_str(self._tokenizer.to_json())


class Renderer:
    """The process of template_renderer.py, started when it is needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = Lock()

    def render(self, template: str, variables: dict[str, Any]) -> str:
        """Return the text of a template.

        Raises:
            DataError: The template refuses the variables, or takes too much time or memory.
        """
        with self._lock:
            line = self._exchange(json.dumps({"template": template, "variables": variables}))
        if not line:
            raise DataError("the chat template takes too much time or memory: correct it.")
        answer: dict[str, str] = json.loads(line)
        if "error" in answer:
            raise DataError(f"the chat template refuses these messages ({answer['error']}).")
        return answer["text"]

    def _exchange(self, line: str) -> str:
        """Send a line and return the answer, or "" if the process has ended instead."""
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._process = _start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer = ""
        with suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            self.end()
        return answer

    def end(self) -> None:
        """End the process; the next template starts another one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _start() -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "regard.serving.template_renderer"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        start_new_session=True,  # Ctrl-C in the terminal is for the server
    )


renderer = Renderer()
atexit.register(renderer.end)
