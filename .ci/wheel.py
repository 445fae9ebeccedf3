"""Build the source distribution and two wheels into dist/, and try the wheels (make wheel).

On Linux auditwheel gives the wheel the tag of the oldest system that it runs on. The wheel is then
installed into an environment of its own, without a compiler on the path, and used: it trains a
tiny translator, translates with it and draws its attention. That of `regard-runtime`, the same
package without torch, translates, and says what the other commands need.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from runtime_wheel import runtime_wheel

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
RECIPE = """
data: {train: {kind: grammar, train_size: 400, dev_size: 50}}
model: {kind: encoder-decoder, size: tiny, max_length: 64}
training: {steps: 5, batch_tokens: 512}
"""


def build() -> Path:
    """Return the wheel, built from the source distribution."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    (wheel,) = DIST.glob("*.whl")
    if sys.platform == "linux":
        tools = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", DIST, wheel, env=tools)
        wheel.unlink()
        (wheel,) = DIST.glob("*manylinux*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> tuple[Path, dict[str, str]]:
    """Install the wheel into an environment of its own; return its commands and its variables."""
    run(sys.executable, "-m", "venv", folder / "venv")
    command = folder / "venv" / "bin"
    options = ("-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    environment = {"PATH": str(command), "HOME": str(folder)}
    run(command / "python", "-m", "pip", "install", *options, wheel, env=environment)
    return command, environment


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel and use it, in a folder without the sources."""
    command, environment = install(wheel, folder)
    (folder / "recipe.yaml").write_text(RECIPE)
    for line in (
        "regard --version",
        "regard doctor",
        "regard train recipe.yaml --run tiny",
        "regard look tiny The-cat-sleeps. -o page.html",
    ):
        run(command / line.split()[0], *line.split()[1:], cwd=folder, env=environment)
    code = "from regard.native.library import library; assert library() is not None"
    run(command / "python", "-c", code, cwd=folder, env=environment)


def try_runtime(wheel: Path, folder: Path) -> None:
    """Install the wheel without torch, translate, and train in vain."""
    command, environment = install(wheel, folder)
    (folder / "recipe.yaml").write_text(RECIPE)
    for arguments in (["doctor"], ["data", "list"], ["translate", "fr-en", "Le chat dort."]):
        run(command / "regard", *arguments, cwd=folder, env=environment)
    for arguments in (["train", "recipe.yaml"], ["look", "fr-en", "Le chat dort."], ["lab"]):
        call = [command / "regard", *arguments]
        done = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True)
        sentence = (
            f"regard: regard {arguments[0]} needs torch, which is not installed: "
            f"pip install 'regard-runtime[full]'.\n"
        )
        assert (done.returncode, done.stderr) == (1, sentence), done


def run(*command: object, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    print("$", *command, flush=True)
    subprocess.run(list(map(str, command)), cwd=cwd, env=env or dict(os.environ), check=True)


if __name__ == "__main__":
    built = build()
    for trial, wheel in ((try_runtime, runtime_wheel(built)), (try_wheel, built)):
        with tempfile.TemporaryDirectory() as temporary:
            trial(wheel, Path(temporary))
    print(*sorted(path.name for path in DIST.iterdir()), sep="\n")
