"""Tables of event counts: `Samples`, the names of events, and the areas they belong to."""
