"""Reports: an archive's records as figures, tables and one HTML page. Reads only the archive; judges nothing.

`summary` and `judge_quality` are the model: pure, and the same for all outputs. `terminal`, `html`, `json`, `markdown`
and `comparison_csv` are the outputs; none imports another. Only drawing a page loads jinja2.
"""
