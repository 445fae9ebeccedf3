"""Decoding by CTranslate2: answers requests of peer.py."""

import json
from pathlib import Path

import ctranslate2
from peer import Ids, answer_requests


def decode(folder: str, rows: list[Ids], tokens: int, beam: int) -> list[Ids]:
    shared = Path(folder) / "shared_vocabulary.json"
    vocabulary = shared if shared.exists() else Path(folder) / "vocabulary.json"
    pieces = json.loads(vocabulary.read_text())
    ids = {piece: index for index, piece in enumerate(pieces)}
    if shared.exists():
        prompts = [[pieces[token] for token in row[:-1]] for row in rows]  # it adds the end itself
        results = ctranslate2.Translator(folder).translate_batch(
            prompts, beam_size=beam, max_decoding_length=tokens, max_batch_size=100
        )
        outputs = [result.hypotheses[0] for result in results]
    else:
        prompts = [[pieces[token] for token in row] for row in rows]
        results = ctranslate2.Generator(folder).generate_batch(
            prompts, beam_size=beam, max_length=tokens, include_prompt_in_result=False
        )
        outputs = [result.sequences[0] for result in results]
    return [[ids[piece] for piece in row] for row in outputs]


answer_requests(decode)
