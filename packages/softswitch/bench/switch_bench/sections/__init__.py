"""The bench's sections: each measures one thing and gives lines of the table."""
