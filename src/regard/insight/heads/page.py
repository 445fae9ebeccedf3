"""The study as one HTML file: a table and figures, without scripts or network."""

import html
from collections.abc import Iterable, Mapping

from regard.insight.heads.figures import CAPTIONS
from regard.insight.heads.statistics import LABELS, HeadStatistics
from regard.insight.heads.study import Study

STYLE = """
:root { color-scheme: light dark; --page: #faf9f6; --ink: #24231f; --muted: #65625b;
  --rule: #e5e2da; --bar: #34549f33; }
@media (prefers-color-scheme: dark) { :root { --page: #14161a; --ink: #eceae4; --muted: #a7a49c;
  --rule: #30343c; --bar: #9fb7f355; } }
body { margin: 0 auto; padding: 2rem 1rem; max-width: 64rem; background: var(--page);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.2rem; overflow-wrap: anywhere; } h2 { font-size: 1rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid var(--rule); }
th:first-child, td:first-child, td.label, th.label { text-align: left; white-space: nowrap; }
td.share { background: linear-gradient(to right, var(--bar) var(--of), transparent var(--of)); }
figure { margin: 1rem 0; } figcaption { color: var(--muted); font-size: .875rem; }
/* Figures are black on white in both themes. */
figure div { background: #fff; border-radius: .4rem; padding: .5rem; }
figure svg { display: block; max-width: 100%; height: auto; }
"""


def render(study: Study, title: str, figures: Mapping[str, str]) -> str:
    """Return the page as HTML, with figures as SVG by name."""
    findings = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in study.sentences())
    drawn = "".join(_figure(CAPTIONS[name], svg) for name, svg in figures.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{html.escape(title)} · heads</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Heads of {html.escape(title)}</h1>
<p>Evaluated on {study.rows:,} {html.escape(study.unit)}.</p>
<ul>{findings}</ul>
{drawn}
<h2>Each head</h2>
<p>Entropy in bits, distance in tokens; shares of the attention weights in percent; rise of the loss
without the head in percent.</p>
<div class="scroll"><table>{_table(study)}</table></div>
</body>
</html>
"""


def _figure(caption: str, svg: str) -> str:
    drawing = svg[svg.index("<svg") :]  # without the XML declaration, which HTML does not know
    return f"<figure><div>{drawing}</div><figcaption>{html.escape(caption)}</figcaption></figure>"


def _table(study: Study) -> str:
    judged = study.importance is not None
    names = ["head", "attends to", "entropy", "distance", *LABELS, *(["rise"] if judged else [])]
    titles = "".join(
        f"<th{_class('label' if name == 'attends to' else '')}>{name}</th>" for name in names
    )
    rows = "".join(f"<tr>{''.join(_cells(study, head))}</tr>" for head in study.heads)
    return f"<thead><tr>{titles}</tr></thead><tbody>{rows}</tbody>"


def _cells(study: Study, statistics: HeadStatistics) -> Iterable[str]:
    yield f"<td>{statistics.head}</td><td{_class('label')}>{statistics.label}</td>"
    yield f"<td>{statistics.entropy:.2f}</td>"
    yield f"<td>{'' if statistics.distance is None else f'{statistics.distance:.1f}'}</td>"
    for target in LABELS:
        share = statistics.shares.get(target)
        if share is None:
            yield "<td></td>"
        else:
            yield f'<td class="share" style="--of: {share:.0%}">{share:.0%}</td>'
    if study.importance is not None:
        rise = 100 * study.importance.measured[statistics.head] / study.importance.loss
        yield f"<td>{rise:+.2f}</td>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
