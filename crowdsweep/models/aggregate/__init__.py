"""Models of annotations alone: they label the items that have answers, and no others. They read no features."""
