"""`init: RUN` in a recipe: what the recipe does not say of tokeniser and model is as in that run.

It is filled in when the recipe is read, so that the recipe kept in a run folder is whole, and
with it the fingerprint of the run: a recipe that has one is whole already.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from regard import run_folder
from regard.attention.multi_head import MultiHead
from regard.config import Spec, plain, validate
from regard.data.tokenizers.tokenizer import SPECIAL_ROLES
from regard.errors import RunError
from regard.models.base import Capability, ModelSpec
from regard.models.transfer.names import matching_name
from regard.models.transfer.transplant import shapes
from regard.models.transformer import SIZES
from regard.run_folder import Run
from regard.training.tasks.base import TaskSpec, kinds_supporting


class InitSpec(Spec):
    """init: runs/minilm"""

    run: Path = Field(..., description="a run folder, trained or imported")
    fingerprint: str | None = Field(
        None, description="of the model in it, filled in; another model is then refused"
    )


def fill_in(given: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe, with all that it does not say."""
    init = given["init"]
    init = validate(InitSpec, {"run": init} if isinstance(init, (str, Path)) else init, "init")
    if init.fingerprint is not None:
        return {**given, "init": init}
    folder = init.run
    try:
        run = run_folder.read(folder)
    except RunError as error:
        raise RunError(f"init: {error}") from None
    known = init.model_copy(update={"fingerprint": run_folder.fingerprint(folder)})
    filled = {**given, "init": known}
    if given.get("tokenizer") is None:
        filled["tokenizer"] = _tokenizer(folder, run)
    try:
        task = TaskSpec.model_validate(given.get("task") or {})
        filled["model"] = _model(given.get("model") or {}, task, folder, run)
    except ValidationError:
        pass  # the recipe will be validated too, and that says where the mistake is
    return filled


def _tokenizer(folder: Path, run: Run) -> dict[str, Any]:
    return {
        "kind": "file",
        "path": str(folder / run_folder.TOKENIZER),
        "sha256": hashlib.sha256(run.tokenizer.encode()).hexdigest(),
        **{role: run.details[role] for role in SPECIAL_ROLES if role in run.details},
    }


def _model(given: Any, task: TaskSpec, folder: Path, run: Run) -> Any:
    """The keys that are given, and of the run's those that both kinds have."""
    given = {"kind": given} if isinstance(given, str) else given
    if not isinstance(given, Mapping):
        return given
    theirs = validate(ModelSpec, run.model, f"init: {folder / run_folder.MANIFEST}: model")
    kind = given.get("kind", _closest_kind(theirs, task.requires))
    common = _common(theirs, kind)
    # A named size speaks for the keys that it sets.
    left_out = {"retained_heads", *SIZES.get(str(given.get("size")), ())}
    keys = [key for key in common.model_fields if key not in left_out]
    filled = {"kind": kind, **{key: plain(getattr(theirs, key)) for key in keys}, **given}
    if kept := getattr(theirs, "retained_heads", None):
        filled.setdefault("retained_heads", _retained_heads(filled, kept))
    return filled


def _closest_kind(theirs: ModelSpec, requires: Capability) -> str:
    """The kind that they are, or of those that can do this the one that has most in common."""
    if requires in theirs.capabilities:
        return theirs.kind()
    return max(kinds_supporting(requires), key=lambda kind: len(_common(theirs, kind).model_fields))


def _common(theirs: ModelSpec, kind: str) -> type[ModelSpec]:
    """The settings that they share with a kind."""
    own = type(ModelSpec.model_validate({"kind": kind}))
    common = next(each for each in type(theirs).__mro__ if issubclass(own, each))
    assert issubclass(common, ModelSpec)
    return common


def _retained_heads(model: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Heads that the run does without, by the names of the attentions in this model."""
    modules = shapes(ModelSpec.model_validate(model), 1).named_modules()
    found = {name: matching_name(name, kept) for name, m in modules if isinstance(m, MultiHead)}
    return {name: list(kept[theirs]) for name, theirs in found.items() if theirs is not None}
