"""`init: RUN` in a recipe: settings of tokenizer and model that it leaves out are the run's.

They are filled in when the recipe is read, with the fingerprint of the run, so that the recipe in a
run folder is complete: a recipe with a fingerprint has been filled in already.
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
        None, description="of the model in it, filled in; another model is refused"
    )


def fill_in(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recipe with the settings that it leaves out."""
    init = recipe["init"]
    init = validate(InitSpec, {"run": init} if isinstance(init, (str, Path)) else init, "init")
    if init.fingerprint is not None:
        return {**recipe, "init": init}
    folder = init.run
    try:
        run = run_folder.read(folder)
    except RunError as error:
        raise RunError(f"init: {error}") from None
    identified = init.model_copy(update={"fingerprint": run_folder.fingerprint(folder)})
    filled = {**recipe, "init": identified}
    if recipe.get("tokenizer") is None:
        filled["tokenizer"] = _tokenizer(folder, run)
    try:
        task = TaskSpec.model_validate(recipe.get("task") or {})
        filled["model"] = _model(recipe.get("model") or {}, task, folder, run)
    except ValidationError:  # validating the recipe reports it, with its key
        if filled.get("model") is None:
            filled["model"] = run.model
    return filled


def _tokenizer(folder: Path, run: Run) -> dict[str, Any]:
    return {
        "kind": "file",
        "path": str(folder),
        "sha256": hashlib.sha256(run.tokenizer.encode()).hexdigest(),
        **{role: run.details[role] for role in SPECIAL_ROLES if role in run.details},
    }


def _model(settings: Any, task: TaskSpec, folder: Path, run: Run) -> Any:
    """Return the recipe's settings, completed by those of the run's that both kinds have."""
    settings = {"kind": settings} if isinstance(settings, str) else settings
    if not isinstance(settings, Mapping):
        return settings
    theirs = validate(ModelSpec, run.model, f"init: {folder / run_folder.MANIFEST}: model")
    kind = settings.get("kind", _closest_kind(theirs, task.requires))
    common = _common(theirs, kind)
    # A named size sets these keys.
    left_out = {"retained_heads", *SIZES.get(str(settings.get("size")), ())}
    keys = [key for key in common.model_fields if key not in left_out]
    filled = {"kind": kind, **{key: plain(getattr(theirs, key)) for key in keys}, **settings}
    if retained := getattr(theirs, "retained_heads", None):
        filled.setdefault("retained_heads", _retained_heads(filled, retained))
    return filled


def _closest_kind(theirs: ModelSpec, requires: Capability) -> str:
    """Return their kind, or the one with most settings in common that has the capability."""
    if requires in theirs.capabilities:
        return theirs.kind()
    return max(kinds_supporting(requires), key=lambda kind: len(_common(theirs, kind).model_fields))


def _common(theirs: ModelSpec, kind: str) -> type[ModelSpec]:
    """Return the class of the settings that they share with a kind."""
    own = type(ModelSpec.model_validate({"kind": kind}))
    common = next(base for base in type(theirs).__mro__ if issubclass(own, base))
    assert issubclass(common, ModelSpec)
    return common


def _retained_heads(model: Mapping[str, Any], retained: Mapping[str, Any]) -> dict[str, Any]:
    """Return the heads that the run retains, by the names of this model's attention modules."""
    modules = shapes(ModelSpec.model_validate(model), 1).named_modules()
    names = {name: matching_name(name, retained) for name, m in modules if isinstance(m, MultiHead)}
    return {name: list(retained[theirs]) for name, theirs in names.items() if theirs is not None}
