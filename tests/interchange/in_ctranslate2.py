"""Decoding by CTranslate2: python in_ctranslate2.py FOLDER TOKENS BEAM < ids."""

import json
import sys
from pathlib import Path

import ctranslate2

folder, tokens, beam = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
shared = folder / "shared_vocabulary.json"
pieces = json.loads((shared if shared.exists() else folder / "vocabulary.json").read_text())
ids = {piece: index for index, piece in enumerate(pieces)}
rows = json.loads(sys.stdin.read())
if shared.exists():
    prompts = [[pieces[token] for token in row[:-1]] for row in rows]  # it adds the end itself
    results = ctranslate2.Translator(str(folder)).translate_batch(
        prompts, beam_size=beam, max_decoding_length=tokens, max_batch_size=100
    )
    outputs = [result.hypotheses[0] for result in results]
else:
    prompts = [[pieces[token] for token in row] for row in rows]
    results = ctranslate2.Generator(str(folder)).generate_batch(
        prompts, beam_size=beam, max_length=tokens, include_prompt_in_result=False
    )
    outputs = [result.sequences[0] for result in results]
print(json.dumps([[ids[piece] for piece in row] for row in outputs]))
