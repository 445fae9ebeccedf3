"""Special tokens of a Hugging Face folder: which ids start, end, pad and are never generated.

As in transformers, generation_config.json takes precedence over config.json. Settings of the search
(beams, sampling, lengths, penalties) are not imported: Regard has options for them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError
from regard.interchange.config import TokenId, TokenIds, read_config

GENERATION = "generation_config.json"

Phrase = Annotated[list[TokenId], Field(min_length=1, max_length=1 << 10)]


class SpecialTokens(BaseModel):
    """Ids in generation_config.json or config.json; their other keys are ignored here."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    bos_token_id: TokenId | None = None
    eos_token_id: TokenIds | None = None
    pad_token_id: TokenId | None = None
    decoder_start_token_id: TokenId | None = None
    bad_words_ids: list[Phrase] | None = None
    suppress_tokens: list[TokenId] | None = None
    begin_suppress_tokens: list[TokenId] | None = None
    forced_bos_token_id: TokenId | None = None  # the first token of every output
    forced_eos_token_id: TokenIds | None = None  # the last token at the maximum length, no earlier
    forced_decoder_ids: list[list[int]] | None = None
    sequence_bias: Any = None
    stop_strings: Any = None

    @property
    def ends(self) -> list[int]:
        """Every token that ends a text."""
        ends = self.eos_token_id
        if ends is None:
            return []
        return list(dict.fromkeys([ends] if isinstance(ends, int) else ends))

    @property
    def suppressed(self) -> list[int]:
        """Tokens that are never generated, such as Marian's padding."""
        single = [phrase[0] for phrase in self.bad_words_ids or [] if len(phrase) == 1]
        return sorted({*single, *(self.suppress_tokens or ())})

    def check(self, vocabulary: int, where: str) -> None:
        """Refuse ids outside the vocabulary, and settings that change the output unread."""
        for key, ids in self.model_dump().items():
            for token in _flat(ids) if key.endswith(("_id", "_ids", "_tokens")) else ():
                if not 0 <= token < vocabulary:
                    raise DataError(
                        f"{where}: {key} is {token}, and the model's vocabulary has {vocabulary:,} "
                        f"tokens, from 0; correct it."
                    )
        for key in ("begin_suppress_tokens", "forced_bos_token_id", "forced_decoder_ids",
                    "sequence_bias", "stop_strings"):  # fmt: skip
            if getattr(self, key) not in (None, [], {}, ""):
                raise DataError(
                    f"{where}: {key} is {getattr(self, key)!r}, which Regard does not support; "
                    f"delete the key to import the model without it."
                )
        if longer := [phrase for phrase in self.bad_words_ids or [] if len(phrase) > 1]:
            raise DataError(
                f"{where}: bad_words_ids has {longer[0]}; Regard imports single tokens that are "
                f"never generated and no phrases: delete it, and suppress phrases when decoding."
            )


def special_tokens(
    config: Mapping[str, Any], generation: Mapping[str, Any], path: Path, vocabulary: int
) -> SpecialTokens:
    """Check and combine the contents of config.json and generation_config.json in a folder."""
    for content, name in ((config, "config.json"), (generation, GENERATION)):
        read_config(SpecialTokens, content, str(path / name)).check(vocabulary, str(path / name))
    precedent = {key: value for key, value in generation.items() if value is not None}
    return read_config(SpecialTokens, {**config, **precedent}, str(path))


def end_details(tokens: SpecialTokens, tokenizer: Tokenizer) -> dict[str, Any]:
    """Details of a run for tokens that end a text, where the tokenizer's names say otherwise."""
    if not tokens.ends or tokens.ends == [tokenizer.end]:
        return {}
    first, *others = sorted(tokens.ends, key=lambda token: token != tokenizer.end)
    details: dict[str, Any] = {} if first == tokenizer.end else {"end": first}
    return details | ({"other_ends": others} if others else {})


def _flat(ids: Any) -> list[int]:
    if isinstance(ids, (list, tuple)):
        return [token for item in ids for token in _flat(item)]
    return [ids] if type(ids) is int else []
