"""The tokenizer of an exported model: it adds the special tokens of the model's inputs itself.

translator, summarizer      <fr> text </s>       the tag, if there are several targets, is typed
language model              <s> text             where texts of the model begin with a token
masked-lm                   <s> text </s>
classifier                  <s> text </s>        <s> first </s> second </s>
"""

import json
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing

from regard.data.tokenizers.tokenizer import Tokenizer, special_piece
from regard.run_folder import Run


def tokenizer_json(run: Run) -> bytes:
    """Return tokenizer.json of an exported model."""
    tokenizer = Tokenizer.from_json(run.tokenizer)
    backend = Backend.from_str(run.tokenizer)
    ids = {role: run.details.get(role, getattr(tokenizer, role)) for role in ("start", "end")}
    start, end = (backend.id_to_token(token) for token in ids.values())
    if run.task == "language-model":
        ids = {"start": (run.details.get("bos") or [None])[0]}
        start, end = ("" if ids["start"] is None else backend.id_to_token(ids["start"])), ""
    elif run.task not in ("masked-lm", "classification"):
        start = ""
    pieces = dict(zip((start, end), ids.values(), strict=False))
    single = [piece for piece in (start, "$A", end) if piece]
    if len(single) > 1:
        backend.post_processor = TemplateProcessing(
            single=single,
            pair=[*single, "$B:1", *([f"{end}:1"] if end else [])],
            special_tokens=[(piece, token) for piece, token in pieces.items() if piece],
        )
    return _without_spaces_after_tags(json.loads(backend.to_str()), run)


def _without_spaces_after_tags(content: dict[str, Any], run: Run) -> bytes:
    """Let the tag of a target language take the spaces after it: "<fr> text" is "<fr>text"."""
    targets = [direction.rpartition(" ")[2] for direction in run.details.get("directions", ())]
    tags = set(map(special_piece, targets))
    for piece in content["added_tokens"]:
        piece["rstrip"] = piece["rstrip"] or piece["content"] in tags
    return json.dumps(content, ensure_ascii=False).encode()
