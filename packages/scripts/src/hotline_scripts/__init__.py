"""Training scripts of users: workers that call `hotline.Worker`, and what serves them."""
