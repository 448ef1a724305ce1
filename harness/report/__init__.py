"""Reports: an archive's records as figures, tables and one HTML page. Reads only the archive; judges nothing.

`summary`, `judge_quality` and `learnt_judges` are the model: pure, and the same for all outputs. `terminal`, `html`,
`json`, `csv`, `markdown` and `junit` are the outputs; none imports another. Only drawing a page loads jinja2.

A column of `show` stands in `terminal/show.py`, with what its cells hold; the same column of the page stands in
`html/templates/group.html.j2`, and the field of `--json` in `json.py`.
"""
