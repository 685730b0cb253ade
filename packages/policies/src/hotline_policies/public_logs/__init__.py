"""The tables of the policies' page that are made from public logs."""
