"""Decoding by CTranslate2: python in_ctranslate2.py FOLDER TOKENS BEAM < ids."""

import json
import sys
from pathlib import Path

import ctranslate2

folder, tokens, beam = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
shared = folder / "shared_vocabulary.json"
pieces = json.loads((shared if shared.exists() else folder / "vocabulary.json").read_text())
ids = {piece: place for place, piece in enumerate(pieces)}
rows = json.loads(sys.stdin.read())
if shared.exists():
    given = [[pieces[each] for each in row[:-1]] for row in rows]  # it adds the end itself
    found = ctranslate2.Translator(str(folder)).translate_batch(
        given, beam_size=beam, max_decoding_length=tokens, max_batch_size=100
    )
    said = [each.hypotheses[0] for each in found]
else:
    given = [[pieces[each] for each in row] for row in rows]
    found = ctranslate2.Generator(str(folder)).generate_batch(
        given, beam_size=beam, max_length=tokens, include_prompt_in_result=False
    )
    said = [each.sequences[0] for each in found]
print(json.dumps([[ids[piece] for piece in row] for row in said]))
