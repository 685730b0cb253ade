"""Results that notebooks show: of `hotline.answer`, `curve`, `miss_ratio` and `study`.

Each has `plot()`, a figure, and `_repr_html_()`, tables with the sentences of the verb.
"""
