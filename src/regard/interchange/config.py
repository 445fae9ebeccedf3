"""config.json of a Hugging Face folder, typed: one description for each family.

A key of config.json is one of these:

    read       a field: it has a type and bounds, and the imported model follows it
    fixed      a field with one value (Literal): Regard computes this and refuses another value
    harmless   changes training, output formats or records, but no logits
    unknown    refused unless it is null, false or empty, because it may change the logits

The default of a field is that of transformers, which leaves some keys out of the file.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from regard.errors import DataError

Size = Annotated[int, Field(gt=0, le=1 << 24)]
Layers = Annotated[int, Field(gt=0, le=1 << 12)]
Rate = Annotated[float, Field(ge=0, lt=1)]  # of dropout
Epsilon = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
TokenId = Annotated[int, Field(ge=0, lt=1 << 31)]
TokenIds = TokenId | Annotated[list[TokenId], Field(min_length=1, max_length=1 << 10)]
Empty = Annotated[dict[str, Any], Field(max_length=0)] | Annotated[list[Any], Field(max_length=0)]
Off = Literal[False] | Empty | None  # absent, or a form of nothing

# Keys that change no logits, by reason.
HARMLESS: Mapping[str, tuple[str, ...]] = {
    "records of origin and format": (
        "_name_or_path", "name_or_path", "architectures", "transformers_version", "torch_dtype",
        "dtype", "model_type", "_commit_hash", "tokenizer_class", "finetuning_task",
        "unsloth_version", "is_llama_config", "transformers.js_config", "save_step", "_num_labels",
    ),
    "formats of the output": (
        "output_attentions", "output_hidden_states", "output_past", "return_dict", "use_cache",
        "tie_last_hidden_states", "is_encoder_decoder", "torchscript",
    ),
    "training": (
        "initializer_range", "initializer_factor", "init_std", "gradient_checkpointing",
        "attention_dropout", "activation_dropout", "classifier_dropout", "classif_dropout",
        "encoder_layerdrop", "decoder_layerdrop", "problem_type",
    ),
    "memory and speed: the same numbers in other steps": (
        "chunk_size_feed_forward", "use_bfloat16", "pretraining_tp", "_attn_implementation",
        "attn_implementation", "_attn_implementation_autoset",
    ),
    "heads of other tasks": ("id2label", "label2id", "num_labels", "task_specific_params"),
    "settings of generation, which Regard has options for": (
        "max_length", "min_length", "max_new_tokens", "do_sample", "early_stopping", "num_beams",
        "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p",
        "repetition_penalty", "length_penalty", "no_repeat_ngram_size", "output_scores",
        "encoder_no_repeat_ngram_size", "num_return_sequences", "return_dict_in_generate",
        "remove_invalid_values", "exponential_decay_length_penalty", "prefix",
    ),
    "ids that the tokenizer has by name": ("sep_token_id", "cls_token_id", "mask_token_id"),
    "read in generation.py": (
        "bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "forced_bos_token_id",
        "forced_eos_token_id", "forced_decoder_ids",
    ),
}  # fmt: skip


class HuggingFaceConfig(BaseModel):
    """Keys that all families share. A subclass adds those of one family.

    `aliases` maps other spellings of a key, which transformers reads too, to the field's name;
    `harmless` adds keys to HARMLESS, by reason.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", protected_namespaces=())

    aliases: ClassVar[Mapping[str, str]] = {}
    harmless: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    vocab_size: Size | None = None
    bos_token_id: TokenId | None = None
    eos_token_id: TokenIds | None = None
    pad_token_id: TokenId | None = None
    decoder_start_token_id: TokenId | None = None

    # Fixed: another value is another computation.
    is_decoder: Literal[False] | None = False  # a causal mask in an encoder
    add_cross_attention: Literal[False] | None = False
    cross_attention_hidden_size: None = None
    tie_encoder_decoder: Literal[False] | None = False
    pruned_heads: Off = None
    per_layer_config: Off = None
    quantization_config: Off = None
    auto_map: Off = None  # code in the folder, which would replace the model's
    sliding_window: Off = None

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, content: Any) -> Any:
        """Rename aliases, drop harmless keys and unknown keys that are off."""
        if not isinstance(content, Mapping):
            return content
        kept: dict[str, Any] = {}
        harmless = {key for keys in {**HARMLESS, **cls.harmless}.values() for key in keys}
        for key, value in content.items():
            name = cls.aliases.get(key, key)
            if name in kept and kept[name] != value:
                raise ValueError(f"{key} is {value!r} and {name} {kept[name]!r}")
            if name in cls.model_fields:
                kept[name] = value
            elif key not in harmless and not _is_off(value):
                kept[key] = value
        return kept


C = TypeVar("C", bound=BaseModel)


def read_config(kind: type[C], content: Mapping[str, Any], source: str) -> C:
    """Validate the content of a JSON file.

    Args:
        kind: the description of the file.
        content: the JSON object.
        source: the file, for the error message.

    Raises:
        DataError: a key has a wrong type, a value that Regard does not support, or is unknown.
    """
    try:
        return kind.model_validate(dict(content))
    except ValidationError as error:
        raise DataError(f"{source}: {_explain(error)}") from None


def _is_off(value: Any) -> bool:
    return value is None or value is False or value in ("", [], {})


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    # A union reports each of its members; the part after the key names one of them.
    key = str(first["loc"][0]) if first["loc"] else ""
    value, kind = first["input"], first["type"]
    shown = _shown(value)
    if kind == "missing" or (value is None and len(first["loc"]) == 1):
        return f"{key} is missing."
    if kind == "extra_forbidden":
        return (
            f"{key} is {shown}, and Regard does not know this key, so the model may compute "
            f"something else; delete the key if transformers' own model does not read it."
        )
    if kind in ("literal_error", "none_required"):
        allowed = first.get("ctx", {}).get("expected", "null")
        return f"{key} is {shown}, which Regard does not support (supported: {allowed})."
    message = first["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if not key:
        return f"{message}."
    return f"{key} is {shown}: {message}."


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:80] + " …"
