"""regard generate: continue a text."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli._shared.options import Int4, Int8, NoRepeatNgram, bits_of
from regard.cli._shared.streams import echo


def generate(
    run: Annotated[Path, typer.Argument(help="Run folder of a language model.")],
    prompt: Annotated[str, typer.Option(help="Text to continue.")] = "",
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum number of new tokens.")] = 100,
    temperature: Annotated[
        float, typer.Option(min=0, help="Sampling temperature; 0 is greedy decoding.")
    ] = 0.0,
    top_k: Annotated[
        int, typer.Option(min=0, help="Sample from the k most likely tokens; 0: all.")
    ] = 0,
    top_p: Annotated[
        float,
        typer.Option(
            help="Sample from the smallest set of tokens with total probability p (nucleus)."
        ),
    ] = 1.0,
    min_p: Annotated[
        float, typer.Option(help="Drop tokens less likely than p times the most likely one.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of sampling.")] = 0,
    beam: Annotated[
        int, typer.Option(min=1, help="Beam width; 1 is greedy decoding or sampling.")
    ] = 1,
    repetition_penalty: Annotated[
        float, typer.Option(help="Divide the scores of generated tokens by this; 1: off.")
    ] = 1.0,
    no_repeat_ngram: NoRepeatNgram = 0,
    draft_model: Annotated[
        Path | None,
        typer.Option(help="Run folder of a smaller model for speculative decoding."),
    ] = None,
    prompt_lookup: Annotated[
        bool,
        typer.Option(
            "--prompt-lookup", help="Speculative decoding with tokens repeated from the text."
        ),
    ] = False,
    sliding_window: Annotated[
        bool,
        typer.Option(
            "--sliding-window", help="Drop the oldest tokens beyond the model's context length."
        ),
    ] = False,
    int8: Int8 = False,
    int4: Int4 = False,
) -> None:
    """Continue a prompt; tokens are printed as they are generated."""
    from regard.decoding.config import DecodingConfig
    from regard.decoding.sampling import Sampling
    from regard.errors import ConfigError
    from regard.loading import load_language_model

    searching = beam > 1 or repetition_penalty != 1 or no_repeat_ngram > 0
    if temperature == 0 and (top_k != 0 or top_p != 1 or min_p != 0):
        raise ConfigError(
            "--top-k, --top-p and --min-p need sampling: give a --temperature above 0."
        )
    if searching and (draft_model is not None or prompt_lookup):
        raise ConfigError(
            "--draft-model and --prompt-lookup need greedy decoding or sampling: leave out --beam, "
            "--repetition-penalty and --no-repeat-ngram."
        )
    sampling = Sampling(temperature, top_k, top_p, min_p, seed) if temperature != 0 else None
    search = DecodingConfig(
        beam=beam,
        sampling=sampling,
        repetition_penalty=repetition_penalty,
        no_repeat_ngram=no_repeat_ngram,
    )
    bits = bits_of(int8, int4)
    writer = load_language_model(run, bits)
    if sliding_window and (sentence := writer.dropped_context(prompt, max_tokens)):
        echo(f"regard: {sentence}.", err=True)
    if draft_model is not None or prompt_lookup:
        guesser = None if draft_model is None else load_language_model(draft_model, bits)
        words = writer.speculate(
            prompt, max_tokens, guesser, sampling, sliding_window=sliding_window
        )
    elif searching:
        words = iter([writer.generate(prompt, max_tokens, search, sliding_window)])
    else:
        words = writer.stream(prompt, max_tokens, sampling, sliding_window)
    first = next(words, "")  # what is refused is refused before anything is written
    sys.stdout.write(prompt + first)
    for word in words:
        sys.stdout.write(word)
        sys.stdout.flush()
    sys.stdout.write("\n")
