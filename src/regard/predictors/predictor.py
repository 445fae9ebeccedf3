"""The predictors of all tasks as one type."""

from regard.predictors.classifier import Classifier
from regard.predictors.embedder import Embedder
from regard.predictors.generator import TextGenerator
from regard.predictors.mask_filler import MaskFiller
from regard.predictors.span_filler import SpanFiller
from regard.predictors.summarizer import Summarizer
from regard.predictors.translator import Translator

Predictor = (
    Translator | Summarizer | TextGenerator | Classifier | MaskFiller | SpanFiller | Embedder
)
