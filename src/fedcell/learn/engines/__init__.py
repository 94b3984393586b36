"""Local training of a whole cohort: one obvious engine and three fast ones that must agree with it.

An engine is a function `train(job)`, or `train(job, workers)` if it has threads, that fills
`job.out[row] = end - start` for every row of a `common.Job`, and writes the running statistics after training to
`job.tail[row]`. All draw mini-batches with `batches.draw_batches`.
"""
