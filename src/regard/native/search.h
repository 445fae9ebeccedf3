// Greedy decoding and beam search, whole: no time is spent outside between two steps.

#pragma once

#include "forward.h"

namespace regard {

void decode_greedily(const Stack &s, const Greedy &g, Buffers &b, int threads);
void search_beam(const Stack &s, const Beam &beam, Buffers &b, int threads);

}  // namespace regard
