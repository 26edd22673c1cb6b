"""The demo's results as a page that needs no other file."""

import base64
import html
from collections.abc import Sequence as Seq
from pathlib import Path

from demo.checks import Check
from demo.configurations import BY_NAME
from demo.picture import title
from demo.report import HEAD, LEGEND, SURVIVAL, Setting, depth_rows, rows
from demo.results import Measurement

STYLE = """
body{font:16px/1.55 system-ui,sans-serif;color:#1b1f24;max-width:1080px;margin:2.5rem auto;padding:0 1.2rem}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin-top:2.2rem}p.muted,caption,footer{color:#5b6470;font-size:.88rem}
img{width:100%;height:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.92rem}
th,td{padding:.38rem .6rem;text-align:right;border-bottom:1px solid #e4e7eb}
td:nth-child(2),th:nth-child(2){text-align:left}
tr.ours{font-weight:600;background:#eef6f4}.ok{color:#1f7a6d}.bad{color:#fff;background:#b3261e;padding:.2rem .5rem}
pre{white-space:pre-wrap;word-break:break-word;background:#f7f8f9;padding:1rem;border-radius:6px;font-size:.84rem;line-height:1.7}
mark{background:#bfe3da;color:inherit;border-radius:2px}
"""


def marked_text(measurement: Measurement, index: int) -> str:
    """One prompt's text as HTML, accepted drafts marked: all tokens of a step but its last."""
    sequence = measurement.sequences[index]
    parts, at = [], 0
    for count in sequence.steps:
        accepted = html.escape("".join(sequence.pieces[at : at + count - 1]))
        parts.append(f"<mark>{accepted}</mark>" if accepted else "")
        parts.append(html.escape("".join(sequence.pieces[at + count - 1 : at + count])))
        at += count
    return "".join(parts)


def html_table(head: list[str], body: list[list[str]]) -> str:
    """A table as HTML."""
    ours = BY_NAME["suffix"].label
    cells = "".join(
        f"<tr{' class=ours' if row[1] == ours else ''}>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
        for row in body
    )
    return (
        f"<table><thead><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr></thead><tbody>{cells}</tbody></table>"
    )


def page(path: Path, picture: Path, measurements: Seq[Measurement], checks: Seq[Check], setting: Setting) -> None:
    """A page that needs no other file: the picture, the table, the checks and the texts with accepted drafts marked."""
    depths = [str(depth + 1) for depth in range(setting.num_speculative_tokens)]
    verdicts = "".join(f"<p class={'ok' if check.passed else 'bad'}>{html.escape(str(check))}</p>" for check in checks)
    texts = ""
    for each in (m for m in measurements if m.configuration == "suffix"):
        order = sorted(
            range(len(each.sequences)), key=lambda i: -len(each.sequences[i].token_ids) / len(each.sequences[i].steps)
        )
        for index in order:
            sequence = each.sequences[index]
            counts = f"{len(sequence.token_ids)} tokens in {len(sequence.steps)} passes"
            summary = html.escape(f"{sequence.prompt}, T={each.temperature:g}: {counts}")
            opened = " open" if index == order[0] else ""
            texts += f"<details{opened}><summary>{summary}</summary><pre>{marked_text(each, index)}</pre></details>"
    depth_table = html_table(["T", "run", *depths], depth_rows(measurements, len(depths)))
    image = base64.b64encode(picture.read_bytes()).decode()
    path.write_text(
        f"""<!doctype html><html lang=en><meta charset=utf-8>
<meta name=viewport content="width=device-width">
<title>specverify demo</title><style>{STYLE}</style>
<h1>{html.escape(title(measurements, checks))}</h1><p class=muted>{html.escape(str(setting))}</p>
<img alt="Tokens per second of each run, and share of drafts accepted to each depth"
src="data:image/png;base64,{image}">
<h2>Figures</h2>{html_table(HEAD, rows(measurements))}<p class=muted>{html.escape(LEGEND)}</p>
<h2>{html.escape(SURVIVAL.capitalize())}</h2>{depth_table}
<h2>Is it the same text?</h2>{verdicts}
<h2>What was accepted</h2>
<p class=muted>Marked: drafted tokens that the model confirmed. The rest it wrote itself, one token a pass.</p>{texts}
</html>
"""
    )
