"""Design `exact`: float32 sums that are correctly rounded, whatever the order, the losses and the workers."""
