"""The study as one HTML file: a table and figures, without scripts or network."""

import html
from collections.abc import Mapping

from regard.insight.heads.columns import Column, columns
from regard.insight.heads.figures import CAPTIONS
from regard.insight.heads.statistics import HeadStatistics
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
th small { display: block; color: var(--muted); font-weight: 400; white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; font-size: .875rem; }
dt { font-weight: 600; } dd { margin: 0; color: var(--muted); }
.warning { padding: .5rem .75rem; border-left: .25rem solid #c77700; background: #c777001f; }
/* On a phone figures keep their size, so that their text stays readable, and scroll sideways. */
@media (max-width: 40rem) {
  body { padding: 1rem .875rem; }
  figure div { overflow-x: auto; } figure svg { max-width: none; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .375rem; }
}
"""


def render(study: Study, title: str, figures: Mapping[str, str]) -> str:
    """Return the page as HTML, with figures as SVG by name."""
    findings = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in study.sentences())
    too_few = study.too_few()
    warning = f'<p class="warning">{html.escape(too_few)}</p>' if too_few else ""
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
{warning}
<ul>{findings}</ul>
{drawn}
<h2>Each head</h2>
<div class="scroll"><table>{_table(study)}</table></div>
<h2>Columns</h2>
<dl>{_legend(study)}</dl>
</body>
</html>
"""


def _figure(caption: str, svg: str) -> str:
    drawing = svg[svg.index("<svg") :]  # without the XML declaration, which HTML does not know
    return f"<figure><div>{drawing}</div><figcaption>{html.escape(caption)}</figcaption></figure>"


def _table(study: Study) -> str:
    shown = columns(study)
    titles = "".join(_title(column) for column in shown)
    rows = "".join(
        f"<tr>{''.join(_cell(column, head) for column in shown)}</tr>" for head in study.heads
    )
    return f"<thead><tr>{titles}</tr></thead><tbody>{rows}</tbody>"


def _title(column: Column) -> str:
    unit = f"<small>{html.escape(column.unit)}</small>" if column.unit else ""
    meaning = html.escape(column.meaning, quote=True)
    return f'<th title="{meaning}"{_class(column)}>{html.escape(column.title)}{unit}</th>'


def _cell(column: Column, statistics: HeadStatistics) -> str:
    text = html.escape(column.text(statistics))
    if column.is_share and text:
        return f'<td class="share" style="--of: {text}%">{text}</td>'
    return f"<td{_class(column)}>{text}</td>"


def _class(column: Column) -> str:
    return ' class="label"' if column.title == "attends to" else ""


def _legend(study: Study) -> str:
    """Return the meaning and the unit of every column."""
    items = []
    for column in columns(study):
        title = f"{column.title} ({column.unit})" if column.unit else column.title
        items.append(f"<dt>{html.escape(title)}</dt><dd>{html.escape(column.meaning)}</dd>")
    return "".join(items)
