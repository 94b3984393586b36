"""Local training of a whole cohort: one obvious engine and three fast ones that must agree with it.

An engine is a function `train(architecture, samples, points, of_row, work, draw, out)` that fills
`out[row] = end - start` for every row. `draw` is the mini-batch draw of `batches.draw_batches`.
"""
