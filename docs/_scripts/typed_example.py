import regard


def french(lines: list[str]) -> list[str]:
    """Each loader returns the class of its task, so editors complete `translate`."""
    translator: regard.Translator = regard.load_translator("runs/demo")
    decoding = regard.DecodingConfig(beam=5, no_repeat_ngram=3)
    return translator.translate(lines, to="fr", decoding=decoding)


def describe(folder: str) -> str:
    """`regard.load` returns the union of all classes; isinstance narrows it."""
    predictor: regard.Predictor = regard.load(folder)
    if isinstance(predictor, regard.Classifier):
        return f"a classifier of {len(predictor.labels)} labels"
    if isinstance(predictor, regard.Translator):
        return f"a translator into {', '.join(predictor.languages)}"
    return type(predictor).__name__


def labels(texts: list[str]) -> list[str]:
    classifier = regard.load_classifier("runs/reviews")
    predictions: list[regard.Prediction] = classifier.classify(texts)
    return [prediction.label for prediction in predictions]
