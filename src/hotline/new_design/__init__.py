"""Templates of the files that `hotline new` writes."""
