"""From a file of labels to a sweep that runs: what the file is, a dataset folder, a sweep file of models that fit; and
what can be named there (`look_up`)."""
