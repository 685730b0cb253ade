"""The results of `hotline.answer`, `curve`, `miss_ratio` and `study`, as notebooks show them.

Each has `plot()`, which returns a figure, and `_repr_html_()`, with the tables and sentences of the command.
"""
